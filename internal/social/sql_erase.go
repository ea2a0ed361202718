package social

import (
	"context"
	"database/sql"

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

// blockBatch returns up to n blocks by a user and of a user.
func blockBatch(ctx context.Context, q sqldb.Querier, user accounts.ID, n int) ([]edge, error) {
	rows, err := q.QueryContext(ctx, "SELECT user_id, blocked_id FROM blocks WHERE user_id = ? UNION ALL "+
		"SELECT user_id, blocked_id FROM blocks WHERE blocked_id = ? LIMIT ?", user, user, n)
	return sqldb.Collect(rows, err, func(rows *sql.Rows) (e edge, err error) {
		err = rows.Scan(&e.user, &e.other)
		return e, err
	})
}

func deleteBlocks(ctx context.Context, tx *sqldb.Tx, blocks []edge) error {
	var args []any
	for _, b := range blocks {
		args = append(args, b.user, b.other)
	}
	_, err := tx.ExecContext(ctx, "DELETE FROM blocks WHERE "+sqldb.AnyOf("(user_id = ? AND blocked_id = ?)", len(blocks)), args...)
	return err
}

// deleteList deletes the row of a user's own lists.
func deleteList(ctx context.Context, tx *sqldb.Tx, user accounts.ID) error {
	_, err := tx.ExecContext(ctx, "DELETE FROM friend_lists WHERE user_id = ?", user)
	return err
}
