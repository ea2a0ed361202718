package accounts

import (
	"context"
	"database/sql"
	"time"

	"github.com/uptrace/bun"

	"github.com/stoa-dev/stoa/internal/accounts/trail"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// erasure is the column users.erased: 0 for an account that is not deleted, when
// it will be erased, and that with a minus once it is. So the index finds what is
// due without passing over all that were erased before.
type erasure time.Time

// Scan implements sql.Scanner.
func (e *erasure) Scan(src any) error {
	var n sql.NullInt64
	if err := n.Scan(src); err != nil {
		return err
	}
	return (*millis)(e).Scan(max(n.Int64, -n.Int64))
}

// anonymizedEmail is what stands where the address was: no address has no @ in it.
const anonymizedEmail = "deleted:"

// lockLiving is lockUser for what only the owner of an account that is not deleted
// may do. The devices of others are logged out; what comes late gets ErrNoUser.
func lockLiving(ctx context.Context, tx *sqldb.Tx, id ID) (User, error) {
	u, err := lockUser(ctx, tx, id)
	if err == nil && u.Deleted() {
		err = ErrNoUser
	}
	return u, err
}

// updateErased says when an account is erased; 0 takes that back.
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

// selectDue returns up to n accounts that are to be erased, the longest due first.
func selectDue(ctx context.Context, q sqldb.Querier, now time.Time, n int) ([]ID, error) {
	return sqldb.Column[ID](q.QueryContext(ctx, "SELECT id FROM users WHERE erased > 0 AND erased <= ? ORDER BY erased LIMIT ?", now.UnixMilli(), n))
}

// selectErased returns those of up to inOne ids that are erased.
func selectErased(ctx context.Context, q sqldb.Querier, ids []ID) ([]ID, error) {
	return sqldb.Column[ID](q.QueryContext(ctx, "SELECT id FROM users WHERE id IN (?) AND erased < 0", bun.List(ids)))
}

// anonymize leaves nothing of an account but its id and its dates, if it is due, and
// reports whether it did. The zone stays until the domains have counted by it.
func anonymize(ctx context.Context, tx *sqldb.Tx, id ID) (bool, error) {
	return sqldb.AffectedOne(tx.ExecContext(ctx, `UPDATE users SET email = '', email_key = ?, name = '', bio = '', avatar = '', password_hash = NULL,
		find_by_id = 0, find_by_email = 0, requests = 0, on_boards = 0, presence = 0, banned_until = 0, ban_reason = '', lang = '', external_id = NULL, erased = -erased
		WHERE id = ? AND erased > 0 AND erased <= ?`, anonymizedEmail+id.String(), id, tx.Now().UnixMilli()))
}

func (e Erasure) enqueue(ctx context.Context, tx *sqldb.Tx, due time.Time) error {
	return tx.EnqueueJSON(ctx, sqldb.Message{Topic: TopicErased, Key: e.User.String(), Due: due, NoDedup: true}, e)
}

// eraseLate has the domains look once more for what they hold of a user, after
// they have counted by the user's zone for the last time.
func eraseLate(ctx context.Context, db *sqldb.DB, user ID) error {
	return db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := forgetZone(ctx, tx, user); err != nil {
			return err
		}
		return Erasure{User: user, Late: true}.enqueue(ctx, tx, tx.Now().Add(lateAfter))
	})
}

// eraseTrail removes what was written of a user since.
func eraseTrail(ctx context.Context, db *sqldb.DB, user ID) error {
	return db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return trail.Erase(ctx, tx, user.String()) })
}

// forgetZone removes what anonymize has left for the domains.
func forgetZone(ctx context.Context, tx *sqldb.Tx, id ID) error {
	_, err := tx.ExecContext(ctx, "UPDATE users SET zone = 'UTC', zone_next = '', zone_from = 0 WHERE id = ? AND erased < 0", id)
	return err
}

// deleteRest removes what other tables of this domain hold of an account, but for codes, and
// mails that wait or were given up.
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
