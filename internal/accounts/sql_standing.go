package accounts

import (
	"context"
	"database/sql"

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
		all[u.ID] = Standing{Deleted: u.Deleted(), Requests: u.Requests, Banned: u.BannedAt(q.Now()), Presence: u.Presence}
		return err
	})
}
