package accounts

import (
	"context"
	"errors"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts/emails"
	"github.com/stoa-dev/stoa/internal/base/errs"
)

// Errors about other users.
var (
	ErrUserNotFound = errs.New(errs.NotFound, "user.not_found", "The user does not exist or cannot be found.")
	ErrSearch       = errs.New(errs.Invalid, "user.search_either", "Search either by id or by email.")
)

// Profile is an account as other users see it.
type Profile struct {
	ID      ID
	Name    string // empty if the account is deleted
	Bio     string
	Avatar  string // id of the picture; empty means none
	Deleted bool
}

// profile returns what other users see of u at that time. For a deleted or banned account it contains only the id.
func (u User) profile(now time.Time) Profile {
	if u.Deleted() || u.BannedAt(now) {
		return Profile{ID: u.ID, Deleted: true}
	}
	return Profile{ID: u.ID, Name: u.Name, Bio: u.Bio, Avatar: u.Avatar}
}

// Wire returns p in the format of the API.
func (p Profile) Wire() api.Profile {
	return api.Profile{ID: p.ID.String(), Name: p.Name, Bio: p.Bio, Avatar: p.Avatar, Deleted: p.Deleted}
}

// Profiles are the profiles of some users; nil means that they could not be read.
type Profiles map[ID]Profile

// Wire returns the profile of a user in the format of the API.
func (p Profiles) Wire(user ID) api.Profile {
	if found, ok := p[user]; ok {
		return found.Wire()
	}
	return api.Profile{ID: user.String(), Deleted: p != nil} // erased, unless the profiles could not be read
}

// Profiles returns the profiles of the users that exist or existed, as of a moment ago (see User). A banned user looks
// like a deleted one. It costs one round trip to Redis per 500 ids.
func (s *Service) Profiles(ctx context.Context, ids []ID) (_ Profiles, err error) {
	defer errs.Wrap(&err, "accounts.Profiles")
	users, err := s.users.getMany(ctx, ids)
	if err != nil {
		return nil, err
	}
	m, now := make(Profiles, len(users)), s.db.Now()
	for id, u := range users {
		m[id] = u.profile(now)
	}
	return m, nil
}

// ProfilesOrNone is Profiles for the events and the response of a completed change, which must not fail because names
// are missing.
func (s *Service) ProfilesOrNone(ctx context.Context, ids ...ID) Profiles {
	found, err := s.Profiles(ctx, ids)
	if err != nil {
		s.log.Warn("accounts: profiles not read, sending without names", "err", err)
	}
	return found
}

// Profile returns what other users see of a user, as of a moment ago (see User). It returns ErrUserNotFound also for a
// banned user.
func (s *Service) Profile(ctx context.Context, id ID) (_ Profile, err error) {
	defer errs.Wrap(&err, "accounts.Profile %s", id)
	u, err := s.users.get(ctx, id)
	now := s.db.Now()
	if errors.Is(err, ErrNoUser) || err == nil && u.BannedAt(now) {
		return Profile{}, ErrUserNotFound
	}
	return u.profile(now), err
}

// FindByID returns the profile of the user with that id, if the user allows it. It returns ErrUserNotFound also for
// deleted and banned users. It reads SQL, so that a change of the setting applies at once.
func (s *Service) FindByID(ctx context.Context, id ID) (_ Profile, err error) {
	defer errs.Wrap(&err, "accounts.FindByID")
	u, err := selectUser(ctx, s.db, id)
	return s.found(u, u.FindByID, err)
}

// FindByEmail is FindByID by address.
func (s *Service) FindByEmail(ctx context.Context, email string) (_ Profile, err error) {
	defer errs.Wrap(&err, "accounts.FindByEmail")
	e, err := emails.Parse(email)
	if err != nil {
		return Profile{}, emails.ErrInvalid.On("query.email", "is not an e-mail address")
	}
	u, err := selectUserByEmail(ctx, s.db, e.Given)
	return s.found(u, u.FindByEmail, err)
}

func (s *Service) found(u User, allowed bool, err error) (Profile, error) {
	if err != nil && !errors.Is(err, ErrNoUser) {
		return Profile{}, asKind(err)
	}
	now := s.db.Now()
	if err != nil || !allowed || u.Deleted() || u.BannedAt(now) {
		return Profile{}, ErrUserNotFound
	}
	return u.profile(now), nil
}
