package accounts

import (
	"cmp"
	"context"
	"slices"

	"github.com/stoa-dev/stoa/internal/accounts/emails"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// NewUser checks the data of a new account, as Register does, and assigns an id.
func NewUser(email, name, zone string) (u User, err error) {
	e, err := emails.Parse(email)
	if err != nil {
		return User{}, err
	}
	u = User{ID: ids.New[User](), Email: e.Given, Clock: civil.Clock{Zone: cmp.Or(zone, "UTC")}, FindByID: true, Requests: true,
		OnBoards: true, Presence: ToFriends}
	if u.Name, err = cleanName(name); err != nil {
		return User{}, err
	}
	return u, checkZone(u.Clock.Zone)
}

// InsertUsers creates accounts without a password, whose owners log in by code. The users must come from [NewUser]. It
// returns ErrEmailTaken.
func InsertUsers(ctx context.Context, tx *sqldb.Tx, users []User) error {
	for chunk := range slices.Chunk(users, idsPerStatement) {
		args := make([]any, 0, 8*len(chunk))
		for _, u := range chunk {
			args = append(args, u.ID, u.Email, emails.Key(u.Email), u.Name, u.Clock.Zone, u.Clock.Next, u.Clock.From, tx.Now().UnixMilli())
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO users (id, email, email_key, name, zone, zone_next, zone_from, created) VALUES "+
			sqldb.Tuples(8, len(chunk)), args...)
		if sqldb.IsDuplicate(err) {
			return ErrEmailTaken
		}
		if err != nil {
			return err
		}
	}
	return nil
}
