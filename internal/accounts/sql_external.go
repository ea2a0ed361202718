package accounts

import (
	"context"
	"database/sql"

	"github.com/uptrace/bun"

	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// externalEmail replaces the address. It has no @, so it equals no address.
const externalEmail = "external:"

// selectExternal returns the accounts of up to idsPerStatement external users.
func selectExternal(ctx context.Context, q sqldb.Querier, external []string, lock string) (map[string]User, error) {
	found := make(map[string]User, len(external))
	rows, err := q.QueryContext(ctx, "SELECT external_id, "+userColumns+" FROM users WHERE external_id IN (?)"+lock, bun.List(external))
	return found, sqldb.Each(rows, err, func(rows *sql.Rows) error {
		var id string
		var u User
		err := rows.Scan(append([]any{&id}, u.columns()...)...)
		found[id] = u
		return err
	})
}

// insertExternal creates accounts for external users, by their ids.
func insertExternal(ctx context.Context, tx *sqldb.Tx, external []string, users map[string]User) error {
	args := make([]any, 0, 13*len(external))
	for _, id := range external {
		u := users[id]
		args = append(args, u.ID, id, "", externalEmail+u.ID.String(), u.Name, u.Bio, u.Clock.Zone, u.Clock.Next, u.Clock.From, u.FindByID,
			u.Requests, u.OnBoards, u.Presence, u.Created.UnixMilli())
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO users (id, external_id, email, email_key, name, bio, zone, zone_next, zone_from, "+
		"find_by_id, requests, on_boards, presence, created) VALUES "+sqldb.Tuples(14, len(external)), args...)
	return err
}

// selectExternalID returns the external id of a user, or "".
func selectExternalID(ctx context.Context, q sqldb.Querier, user ID) (id string, err error) {
	err = q.QueryRowContext(ctx, "SELECT COALESCE(external_id, '') FROM users WHERE id = ?", user).Scan(&id)
	return id, sqldb.Missing(err, ErrNoUser)
}
