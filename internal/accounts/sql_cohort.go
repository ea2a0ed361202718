package accounts

import (
	"context"
	"database/sql"
	"time"

	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// Registered is a user with the time of registration, in Unix milliseconds.
type Registered struct {
	User    ID
	Created int64
}

// RegisteredBetween returns up to n users who registered at or after from and before until, in order of registration,
// after the user after. It includes deleted and erased accounts.
func RegisteredBetween(ctx context.Context, q sqldb.Querier, from, until time.Time, after Registered, n int) ([]Registered, error) {
	if after.User.IsZero() {
		after.Created = from.UnixMilli() // every id is larger than the zero id
	}
	rows, err := q.QueryContext(ctx, "SELECT id, created FROM users WHERE (created > ? OR created = ? AND id > ?) AND created >= ? AND "+
		"created < ? ORDER BY created, id LIMIT ?",
		after.Created, after.Created, after.User, after.Created, until.UnixMilli(), n)
	return sqldb.Collect(rows, err, func(rows *sql.Rows) (r Registered, err error) {
		err = rows.Scan(&r.User, &r.Created)
		return r, err
	})
}
