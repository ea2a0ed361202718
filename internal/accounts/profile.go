package accounts

import (
	"context"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/foundation/errs"
)

// Profile is an account as others see it.
type Profile struct {
	ID      ID
	Name    string // empty when the account is deleted
	Bio     string
	Avatar  string // the picture's id; none when empty
	Deleted bool
}

// Profile returns what others see of u. Of a deleted account only its id is left.
func (u User) Profile() Profile {
	if u.Deleted() {
		return Profile{ID: u.ID, Deleted: true}
	}
	return Profile{ID: u.ID, Name: u.Name, Bio: u.Bio, Avatar: u.Avatar}
}

// Wire returns p as the API shows it.
func (p Profile) Wire() api.Profile {
	return api.Profile{ID: p.ID.String(), Name: p.Name, Bio: p.Bio, Avatar: p.Avatar, Deleted: p.Deleted}
}

// Profiles returns the profiles of those users that exist or existed, as of a
// moment ago (see User): one round trip to Redis for each 500.
func (s *Service) Profiles(ctx context.Context, ids []ID) (_ map[ID]Profile, err error) {
	defer errs.Wrap(&err, "accounts.Profiles")
	users, err := s.users.many(ctx, ids)
	if err != nil {
		return nil, err
	}
	m := make(map[ID]Profile, len(users))
	for id, u := range users {
		m[id] = u.Profile()
	}
	return m, nil
}
