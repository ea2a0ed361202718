package social

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// friendBatch returns up to n users in a user's list, including former friends.
func friendBatch(ctx context.Context, q sqldb.Querier, user accounts.ID, n int) ([]accounts.ID, error) {
	return sqldb.Column[accounts.ID](q.QueryContext(ctx, "SELECT friend_id FROM friends WHERE user_id = ? LIMIT ?", user, n))
}

// friendsOf returns the users in others who have a user in their lists.
func friendsOf(ctx context.Context, tx *sqldb.Tx, user accounts.ID, others []accounts.ID) ([]accounts.ID, error) {
	return sqldb.Column[accounts.ID](tx.QueryContext(ctx, "SELECT user_id FROM friends WHERE user_id IN (?) AND friend_id = ? AND gone = 0",
		bun.List(others), user))
}

// deleteFriends deletes rows of a user's own list.
func deleteFriends(ctx context.Context, tx *sqldb.Tx, user accounts.ID, others []accounts.ID) error {
	_, err := tx.ExecContext(ctx, "DELETE FROM friends WHERE user_id = ? AND friend_id IN (?)", user, bun.List(others))
	return err
}

// requestBatch returns up to n requests from or to a user, in any state.
func requestBatch(ctx context.Context, q sqldb.Querier, user accounts.ID, n int) ([]Request, error) {
	sent, err := scanRequests(q.QueryContext(ctx, "SELECT "+requestColumns+" FROM friend_requests WHERE from_id = ? LIMIT ?", user, n))
	if err != nil || len(sent) == n {
		return sent, err
	}
	got, err := scanRequests(q.QueryContext(ctx, "SELECT "+requestColumns+" FROM friend_requests WHERE to_id = ? LIMIT ?", user, n-len(sent)))
	return append(sent, got...), err
}

func deleteRequests(ctx context.Context, tx *sqldb.Tx, ids []RequestID) error {
	_, err := tx.ExecContext(ctx, "DELETE FROM friend_requests WHERE id IN (?)", bun.List(ids))
	return err
}

// blockerBatch returns up to n users who block a user.
func blockerBatch(ctx context.Context, q sqldb.Querier, user accounts.ID, n int) ([]accounts.ID, error) {
	return sqldb.Column[accounts.ID](q.QueryContext(ctx, "SELECT user_id FROM blocks WHERE blocked_id = ? LIMIT ?", user, n))
}

func deleteBlocksOf(ctx context.Context, tx *sqldb.Tx, user accounts.ID, blockers []accounts.ID) error {
	_, err := tx.ExecContext(ctx, "DELETE FROM blocks WHERE blocked_id = ? AND user_id IN (?)", user, bun.List(blockers))
	return err
}

// deleteOwnRows deletes the data of the user alone: their blocks and their list.
func deleteOwnRows(ctx context.Context, tx *sqldb.Tx, user accounts.ID) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM blocks WHERE user_id = ?", user); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "DELETE FROM friend_lists WHERE user_id = ?", user)
	return err
}
