package accounts

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts/trail"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// ErrExternalID reports text that is not an external id.
var ErrExternalID = errs.New(errs.Invalid, "account.external_id_invalid",
	"An external id has 1 to 128 printable characters and no spaces.")

// An External is a user of an app with its own accounts. Their account has no address and no password, because the
// app's own backend authenticates the user.
type External struct {
	ID   string // the app's id of the user; it never changes
	Name string
	Bio  string
	Zone string // empty: UTC
}

// Provided is the account of an external user.
type Provided struct {
	User
	External string
	New      bool // this call created it
}

// MaxProvided is the largest number of accounts per [Service.Provide].
const MaxProvided = idsPerStatement

// provideTries is the number of retries when other requests create some of the same users.
const provideTries = 5

// Provide creates accounts for external users without one, and returns the accounts of all users in the order of list.
// Existing accounts do not change.
func (s *Service) Provide(ctx context.Context, list []External) (_ []Provided, err error) {
	defer errs.Wrap(&err, "accounts.Provide")
	users := make(map[string]User, len(list))
	keys := make([]string, len(list))
	for i, e := range list {
		if e, err = e.clean(); err != nil {
			return nil, err
		}
		if keys[i] = e.ID; !users[e.ID].ID.IsZero() {
			continue // duplicate in the list: the first one counts
		}
		users[e.ID] = User{ID: ids.New[User](), Name: e.Name, Bio: e.Bio, Clock: civil.Clock{Zone: e.Zone}, FindByID: true, Requests: true,
			OnBoards: true, Presence: ToFriends}
	}
	unique := slices.Compact(slices.Sorted(slices.Values(keys)))
	var found map[string]User
	open := func(lock string) error {
		return asKind(s.caches.Change(ctx, nil, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			if found, err = selectExternal(ctx, tx, unique, lock); err != nil || len(found) == len(unique) {
				return err
			}
			return s.openExternal(ctx, tx, slices.DeleteFunc(slices.Clone(unique), func(id string) bool { return !found[id].ID.IsZero() }), users)
		}))
	}
	// Other requests may create some of them at the same time, one after the other: each retry finds at least one more.
	err = open("")
	for tries := 1; tries < provideTries && sqldb.IsDuplicate(err); tries++ {
		err = open(s.db.Dialect().ForUpdate())
	}
	if err != nil {
		return nil, err
	}
	out := make([]Provided, len(list))
	for i, id := range keys {
		u, ok := found[id]
		if !ok {
			u = users[id]
		}
		out[i] = Provided{User: u, External: id, New: !ok}
	}
	return out, nil
}

// openExternal creates accounts for external users without one.
func (s *Service) openExternal(ctx context.Context, tx *sqldb.Tx, fresh []string, users map[string]User) error {
	events := make([]trail.Event, len(fresh))
	payloads := make([]any, len(fresh))
	for i, id := range fresh {
		u := users[id]
		u.Created = tx.Now()
		users[id] = u
		events[i] = trail.Event{User: u.ID.String(), Kind: trail.Registered}
		payloads[i] = hookUser(id, u)
	}
	if err := insertExternal(ctx, tx, fresh, users); err != nil {
		return err
	}
	tx.AfterCommit(func() { s.metrics.events.WithLabelValues(string(trail.Registered)).Add(float64(len(fresh))) })
	if err := trail.Write(ctx, tx, events...); err != nil {
		return err
	}
	return s.hooks.Enqueue(ctx, tx, api.HookUserRegistered, "users", payloads...)
}

func (s *Service) enqueueRegistered(ctx context.Context, tx *sqldb.Tx, e External, u User) error {
	return s.hooks.Enqueue(ctx, tx, api.HookUserRegistered, "users", hookUser(e.ID, u))
}

func hookUser(external string, u User) api.HookUser {
	return api.HookUser{ID: u.ID.String(), ExternalID: external, Name: u.Name, Email: u.Email}
}

func (e External) clean() (External, error) {
	if !isExternalID(e.ID) {
		return e, ErrExternalID
	}
	var err error
	if e.Name, err = cleanName(e.Name); err != nil {
		return e, err
	}
	if e.Bio, err = cleanBio(e.Bio); err != nil {
		return e, err
	}
	if e.Zone == "" {
		e.Zone = "UTC"
	}
	return e, checkZone(e.Zone)
}

func isExternalID(s string) bool {
	return s != "" && utf8.ValidString(s) && utf8.RuneCountInString(s) <= 128 && !strings.ContainsFunc(s, func(r rune) bool {
		return unprintable(r) || r == ' '
	})
}

// ExternalUser returns the account of an external user, or ErrNoUser.
func (s *Service) ExternalUser(ctx context.Context, id string) (_ User, err error) {
	defer errs.Wrap(&err, "accounts.ExternalUser")
	found, err := selectExternal(ctx, s.db, []string{id}, "")
	u, ok := found[id]
	if err == nil && !ok {
		err = ErrNoUser
	}
	return u, asKind(err)
}

// ExternalID returns the external id of a user, or "" if there is none.
func (s *Service) ExternalID(ctx context.Context, user ID) (_ string, err error) {
	defer errs.Wrap(&err, "accounts.ExternalID %s", user)
	id, err := selectExternalID(ctx, s.db, user)
	return id, asKind(err)
}

// SignIn opens a session for a user whom the app's own backend has authenticated. Like any log-in it cancels a
// deletion.
func (s *Service) SignIn(ctx context.Context, user ID, l Login) (t Tokens, err error) {
	defer errs.Wrap(&err, "accounts.SignIn %s", user)
	if l.Device, err = cleanDevice(l.Device); err != nil {
		return Tokens{}, err
	}
	return s.openSessionAs(ctx, user, l, func(ctx context.Context, tx *sqldb.Tx) (User, error) { return lockAccount(ctx, tx, user) })
}

// Acting returns the caller for operations that the app's own backend runs as a user. reads reports whether the
// operation only reads, which is allowed for a banned user, too.
func (s *Service) Acting(ctx context.Context, user ID, reads bool) (_ Caller, err error) {
	defer errs.Wrap(&err, "accounts.Acting %s", user)
	u, err := s.users.get(ctx, user)
	switch {
	case err != nil:
		return Caller{}, err
	case u.Deleted():
		return Caller{}, ErrNoUser
	case u.BannedAt(s.db.Now()) && !reads:
		return Caller{}, ErrBanned
	}
	return Caller{User: user, Clock: u.Clock, Expires: s.db.Now().Add(time.Minute)}, nil
}

// DeleteFor is [Service.Delete] by the app's own backend, with a grace that may be zero. A deleted account is erased at
// the earlier of both times.
func (s *Service) DeleteFor(ctx context.Context, user ID, grace time.Duration) (erased time.Time, err error) {
	defer errs.Wrap(&err, "accounts.DeleteFor %s", user)
	fresh := false
	err = s.endAll(ctx, user, DeviceID{}, func(ctx context.Context, tx *sqldb.Tx) error {
		u, err := lockAccount(ctx, tx, user)
		if err == nil {
			erased, fresh, err = deleteFor(ctx, tx, u, grace)
		}
		return err
	}, AccountDeleted.Of(s.caches.Runtime, user)...)
	if err == nil && fresh {
		s.noticed(user, s.db.Now(), api.NoticeDeletion, DeviceID{})
	}
	return erased, err
}

// Grace returns how long a deleted account can be restored.
func (s *Service) Grace() time.Duration { return s.cfg.Grace }

// KickAll logs out all devices of a user, for the app's own backend.
func (s *Service) KickAll(ctx context.Context, user ID) (err error) {
	defer errs.Wrap(&err, "accounts.KickAll %s", user)
	return s.endAll(ctx, user, DeviceID{}, func(ctx context.Context, tx *sqldb.Tx) error {
		if _, err := lockAccount(ctx, tx, user); err != nil { // data that is written for an erased account would never be erased
			return err
		}
		return writeOperators(ctx, tx, user, DeviceID{}, trail.OperatorKicked)
	})
}

// externalName is the prefix of an external id as the name of a user, see [Service.Resolve].
const externalName = "external:"

// Resolve returns the user that the app's own backend names: by id, or by "external:" and an external id. It returns
// ErrNoUser if there is none.
func (s *Service) Resolve(ctx context.Context, name string) (ID, error) {
	found, err := s.ResolveAll(ctx, []string{name})
	if err != nil {
		return ID{}, err
	}
	return found[0], nil
}

// ResolveAll is [Service.Resolve] for several names, in their order.
func (s *Service) ResolveAll(ctx context.Context, names []string) (_ []ID, err error) {
	defer errs.Wrap(&err, "accounts.ResolveAll")
	var external []string
	for _, name := range names {
		if id, ok := strings.CutPrefix(name, externalName); ok {
			external = append(external, id)
		}
	}
	users := map[string]User{}
	for chunk := range slices.Chunk(external, idsPerStatement) {
		found, err := selectExternal(ctx, s.db, chunk, "")
		if err != nil {
			return nil, asKind(err)
		}
		maps.Copy(users, found)
	}
	all := make([]ID, len(names))
	for i, name := range names {
		if id, ok := strings.CutPrefix(name, externalName); ok {
			all[i] = users[id].ID
		} else {
			all[i], _ = ids.Parse[User](name) // an invalid id matches no user
		}
		if all[i].IsZero() {
			return nil, ErrNoUser
		}
	}
	return all, nil
}
