package accounts

import (
	"context"
	"database/sql"
	"time"

	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// Standing is the state of an account for rules between users.
type Standing struct {
	Deleted  bool // other users see a deleted user
	Requests bool // other users may send friend requests
	Banned   bool
	Presence Audience
}

// IsInactive reports whether the user cannot log in, because the account is deleted or banned.
func (s Standing) IsInactive() bool { return s.Deleted || s.Banned }

// Standings returns the state of up to 500 users that exist or existed. It reads SQL in the caller's transaction, so
// that rules may depend on it.
func Standings(ctx context.Context, q sqldb.Querier, users ...ID) (map[ID]Standing, error) {
	all := make(map[ID]Standing, len(users))
	return all, eachUser(ctx, q, "id, erased, requests, banned_until, presence", users, func(rows *sql.Rows) error {
		var u User
		err := rows.Scan(&u.ID, (*millis)(&u.Erased), &u.Requests, (*millis)(&u.Banned), &u.Presence)
		all[u.ID] = u.standing(q.Now())
		return err
	})
}

func (u User) standing(now time.Time) Standing {
	return Standing{Deleted: u.Deleted(), Requests: u.Requests, Banned: u.BannedAt(now), Presence: u.Presence}
}

// StandingColumns are the columns of a [StandingRow], for a query that joins users as u. A left join is possible.
const StandingColumns = "u.id IS NOT NULL, u.erased, COALESCE(u.requests, 0), u.banned_until, COALESCE(u.presence, 0)"

// StandingRow scans [StandingColumns]. A domain that reads its own rows with the standing needs one statement for both.
type StandingRow struct {
	known bool
	user  User
}

// Columns returns the destinations for Scan.
func (r *StandingRow) Columns() []any {
	return []any{&r.known, (*millis)(&r.user.Erased), &r.user.Requests, (*millis)(&r.user.Banned), &r.user.Presence}
}

// Standing returns the state of the account, and whether the user exists or existed.
func (r *StandingRow) Standing(now time.Time) (_ Standing, known bool) {
	return r.user.standing(now), r.known
}
