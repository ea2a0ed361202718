package accounts

import (
	"context"
	"database/sql"
	"time"

	"github.com/uptrace/bun"

	"github.com/stoa-dev/stoa/internal/accounts/trail"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// erasure is the column users.erased: 0 for an account that is not deleted, the time of the erasure, and its negative
// after the erasure. So the index finds due accounts without scanning erased ones.
type erasure time.Time

// Scan implements sql.Scanner.
func (e *erasure) Scan(src any) error {
	var n sql.NullInt64
	if err := n.Scan(src); err != nil {
		return err
	}
	return (*millis)(e).Scan(max(n.Int64, -n.Int64))
}

// anonymizedEmail replaces the address. It has no @, so it equals no address.
const anonymizedEmail = "deleted:"

// lockLiving is lockUser that returns ErrNoUser for a deleted account, whose devices are logged out: only late requests
// reach it.
func lockLiving(ctx context.Context, tx *sqldb.Tx, id ID) (User, error) {
	u, err := lockUser(ctx, tx, id)
	if err == nil && u.Deleted() {
		err = ErrNoUser
	}
	return u, err
}

// updateErased sets the time of the erasure; 0 cancels it.
func updateErased(ctx context.Context, tx *sqldb.Tx, id ID, at time.Time) error {
	_, err := tx.ExecContext(ctx, "UPDATE users SET erased = ? WHERE id = ? AND erased >= 0", sqldb.MillisOrZero(at), id)
	return err
}

func updateBan(ctx context.Context, tx *sqldb.Tx, id ID, until time.Time, reason string) error {
	_, err := tx.ExecContext(ctx, "UPDATE users SET banned_until = ?, ban_reason = ? WHERE id = ?", sqldb.MillisOrZero(until), reason, id)
	return err
}

func selectBanReason(ctx context.Context, q sqldb.Querier, id ID) (reason string, err error) {
	err = q.QueryRowContext(ctx, "SELECT ban_reason FROM users WHERE id = ?", id).Scan(&reason)
	return reason, err
}

// selectDue returns up to n accounts to erase, longest due first.
func selectDue(ctx context.Context, q sqldb.Querier, now time.Time, n int) ([]ID, error) {
	return sqldb.Column[ID](q.QueryContext(ctx, "SELECT id FROM users WHERE erased > 0 AND erased <= ? ORDER BY erased LIMIT ?",
		now.UnixMilli(), n))
}

// selectErased returns the erased accounts of up to idsPerStatement ids.
func selectErased(ctx context.Context, q sqldb.Querier, ids []ID) ([]ID, error) {
	return sqldb.Column[ID](q.QueryContext(ctx, "SELECT id FROM users WHERE id IN (?) AND erased < 0", bun.List(ids)))
}

// anonymize removes everything of a due account except its id and its dates, and reports whether it did. The zone stays
// until the domains have used it for their last counts.
func anonymize(ctx context.Context, tx *sqldb.Tx, id ID) (bool, error) {
	return sqldb.AffectedOne(tx.ExecContext(ctx, `UPDATE users SET email = '', email_key = ?, name = '', bio = '', avatar = '', password_hash = NULL,
		find_by_id = 0, find_by_email = 0, requests = 0, on_boards = 0, presence = 0, banned_until = 0, ban_reason = '', lang = '', external_id = NULL, erased = -erased
		WHERE id = ? AND erased > 0 AND erased <= ?`, anonymizedEmail+id.String(), id, tx.Now().UnixMilli()))
}

func (e Erasure) enqueue(ctx context.Context, tx *sqldb.Tx, due time.Time) error {
	return tx.EnqueueJSON(ctx, sqldb.Message{Topic: TopicErased, Key: e.User.String(), Due: due, NoDedup: true}, e)
}

// eraseLate makes the domains erase data of a user once more, after they have used the zone for the last time.
func eraseLate(ctx context.Context, db *sqldb.DB, user ID) error {
	return db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := forgetZone(ctx, tx, user); err != nil {
			return err
		}
		return Erasure{User: user, Late: true}.enqueue(ctx, tx, tx.Now().Add(lateAfter))
	})
}

// eraseTrail deletes the events that were written since.
func eraseTrail(ctx context.Context, db *sqldb.DB, user ID) error {
	return db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return trail.Erase(ctx, tx, user.String()) })
}

// forgetZone removes the zone that anonymize left for the domains.
func forgetZone(ctx context.Context, tx *sqldb.Tx, id ID) error {
	_, err := tx.ExecContext(ctx, "UPDATE users SET zone = 'UTC', zone_next = '', zone_from = 0 WHERE id = ? AND erased < 0", id)
	return err
}

// deleteRest deletes what other tables of this domain store of an account, except codes and mails in the outbox.
func deleteRest(ctx context.Context, tx *sqldb.Tx, id ID) error {
	for _, q := range []struct {
		text string
		args []any
	}{
		{"DELETE FROM avatars WHERE user_id = ?", []any{id}},
		{"DELETE FROM email_undos WHERE user_id = ?", []any{id}},
		{"DELETE FROM outbox WHERE topic = ? AND msg_key = ?", []any{TopicNotice, id}},
	} {
		if _, err := tx.ExecContext(ctx, q.text, q.args...); err != nil {
			return err
		}
	}
	return trail.Erase(ctx, tx, id.String())
}
