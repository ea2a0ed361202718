package accounts

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/cache"
)

// Events of a user that invalidate cache entries. Each change is committed inside [aggregate.Caches.Change] with the
// targets of its event.
var (
	AvatarChanged   = cache.NewEvent[ID]("avatar changed")
	InfoChanged     = cache.NewEvent[ID]("basic info changed") // name, zone
	EmailChanged    = cache.NewEvent[ID]("e-mail changed")
	PasswordChanged = cache.NewEvent[ID]("password changed")
	AccountDeleted  = cache.NewEvent[ID]("account deleted") // also restored or erased
	AccountBanned   = cache.NewEvent[ID]("account banned")  // also unbanned
)

// Users is the cache of accounts, in this process and in Redis, loaded from SQL.
type Users struct {
	db    *sqldb.DB
	cache *cache.Cache[ID, User]
}

// NewUsers returns the users in db.
//
// Changes proceed while Redis is unavailable ([cache.Proceed]), so that users can still change their names. If only
// this node has lost Redis, other nodes may return the old name until the pending drop is done, or at most until the
// TTL ends. No rule depends on it.
func NewUsers(db *sqldb.DB, rt *cache.Runtime, p cache.Policy) *Users {
	p.Unfenced = cache.Proceed
	u := &Users{db: db}
	u.cache = cache.New(rt, userKeys, p, cache.Source[ID, User]{
		Load: func(ctx context.Context, id ID) (User, error) {
			found, err := selectUser(ctx, db, id)
			if errors.Is(err, ErrNoUser) {
				err = cache.ErrNotFound
			}
			return found, err
		},
		LoadMany: func(ctx context.Context, ids []ID) (map[ID]User, error) { return selectUsers(ctx, db, ids) },
	})
	for _, e := range []cache.Event[ID]{AvatarChanged, InfoChanged, EmailChanged, PasswordChanged, AccountDeleted, AccountBanned} {
		cache.Drops(rt, e, u.cache)
	}
	return u
}

// commit runs fn in a transaction inside [aggregate.Caches.Change], for the cache entries that it changes.
func (s *Service) commit(ctx context.Context, fn func(ctx context.Context, tx *sqldb.Tx) error, targets ...cache.Target) error {
	return loadError(ctx, s.caches.Change(ctx, targets, fn))
}

// get returns a user, or ErrNoUser.
func (u *Users) get(ctx context.Context, id ID) (User, error) {
	found, err := u.cache.Get(ctx, id)
	if errors.Is(err, cache.ErrNotFound) {
		err = ErrNoUser
	}
	return found, loadError(ctx, err)
}

// getMany returns the existing users of ids, with one round trip to Redis per 500 ids.
func (u *Users) getMany(ctx context.Context, ids []ID) (map[ID]User, error) {
	all := make(map[ID]User, len(ids))
	for chunk := range slices.Chunk(ids, idsPerStatement) {
		found, err := u.cache.GetMany(ctx, chunk)
		if err != nil {
			return nil, loadError(ctx, err)
		}
		for id, user := range found {
			all[id] = user
		}
	}
	return all, nil
}

// loadError is asKind for errors from a cache.
func loadError(ctx context.Context, err error) error { return sqldb.AsKindWithin(ctx, err, ErrStore) }

// Warm loads the n most recently active users into this process and Redis, and returns their number. It calls progress,
// unless nil, after each page.
func (u *Users) Warm(ctx context.Context, n int, progress func(done, total int)) (_ int, err error) {
	defer errs.Wrap(&err, "accounts.Warm")
	ids, err := recentlyActive(ctx, u.db, n)
	if err != nil {
		return 0, err
	}
	slices.Reverse(ids) // the most active users stay if not all fit
	w := cache.Warming{}
	if progress != nil {
		w.Progress = func(done int) { progress(done, len(ids)) }
	}
	if err := u.cache.Warm(ctx, slices.Values(ids), w); err != nil {
		return 0, fmt.Errorf("%d users: %w", len(ids), err)
	}
	return len(ids), nil
}
