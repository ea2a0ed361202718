package social

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/aggregate"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/config"
	"github.com/stoa-dev/stoa/internal/notices"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/webhooks"
	"github.com/stoa-dev/stoa/lib/cache"
)

// Config has the parts that the domain needs.
type Config struct {
	DB     *sqldb.DB
	Caches *cache.Runtime
	Cache  cache.Policy // of relations; this domain sets Unfenced
	Bus    *events.Bus  // receives the events, after the commit
	People *accounts.Service
	Hooks  *webhooks.Service // hooks of friend requests and friendships; nil: none
	// Streaks returns users' current streaks, for lists of friends. It omits deleted users. Nil: lists have no streaks.
	Streaks func(ctx context.Context, users []accounts.ID) (map[accounts.ID]int, error)
	Log     *slog.Logger
	// Notices stores the notices about requests. Nil: users get events only.
	Notices *notices.Service

	Settings
}

// Service is the social domain for the rest of the program. It is safe for concurrent use.
type Service struct {
	db      *sqldb.DB
	caches  *aggregate.Caches
	rel     relations
	bus     *events.Bus
	people  *accounts.Service
	notices *notices.Service
	hooks   *webhooks.Service
	streaks func(ctx context.Context, users []accounts.ID) (map[accounts.ID]int, error)
	cfg     Settings
	log     *slog.Logger
}

// New returns the domain with the parts in cfg. The error has all faults of the settings.
func New(cfg Config) (*Service, error) {
	config.Defaults(&cfg.Settings)
	if err := cfg.Settings.Validate(); err != nil {
		return nil, fmt.Errorf("social: %w", err)
	}
	return &Service{
		db:      cfg.DB,
		caches:  aggregate.New(cfg.DB, cfg.Caches),
		rel:     newRelations(cfg.DB, cfg.Caches, cfg.Cache),
		bus:     cfg.Bus,
		streaks: cfg.Streaks,
		people:  cfg.People,
		notices: cfg.Notices,
		hooks:   cfg.Hooks,
		cfg:     cfg.Settings,
		log:     cfg.Log,
	}, nil
}

// A friendRow is one user's row about a friend, after a changeSet.
type friendRow struct {
	user accounts.ID
	Friend
	added bool // they were not friends before
}

// An edge is a directed relation of a user to another.
type edge struct{ user, other accounts.ID }

// A changeSet has the changes of one transaction. Cache updates and events after the commit are computed from it.
type changeSet struct {
	at        time.Time
	opened    []Request
	closed    []Request
	written   []friendRow
	removed   []edge
	blocked   []edge
	unblocked []edge
	unread    map[accounts.ID]int  // users whose unread count may have changed
	lists     map[accounts.ID]list // locked lists of the users who get an event, with this change
	edited    map[accounts.ID]bool // lists to store
}

// change runs fn in a transaction that fills in d, updates the cached collections in targets, and publishes d's events.
// Data that fn reads under the locks of [lockLists] cannot change before the commit.
func (s *Service) change(ctx context.Context, d *changeSet, targets []cache.Target,
	fn func(ctx context.Context, tx *sqldb.Tx) error) error {
	err := s.caches.Change(ctx, targets, func(ctx context.Context, tx *sqldb.Tx) error {
		*d = changeSet{at: tx.Now()} // a transaction may run again
		if err := fn(ctx, tx); err != nil {
			return err
		}
		if err := d.saveLists(ctx, tx); err != nil {
			return err
		}
		if err := s.enqueueHooks(ctx, tx, d); err != nil {
			return err
		}
		return s.record(ctx, tx, d)
	})
	if err != nil {
		return asKind(ctx, err)
	}
	if d.empty() {
		// It may repeat a change of a node that died before it updated Redis. A drop that fails is retried.
		_ = s.caches.Drop(ctx, targets...)
		return nil
	}
	s.publish(ctx, d)
	return nil
}

// lock locks the lists of users, see lockLists. A change calls it once.
func (d *changeSet) lock(ctx context.Context, tx *sqldb.Tx, users ...accounts.ID) (err error) {
	d.lists, err = lockLists(ctx, tx, users...)
	return err
}

// edit changes a locked list. It panics if the list is not locked, because the list would then be stored without its
// older values.
func (d *changeSet) edit(user accounts.ID, change func(l *list)) {
	l, locked := d.lists[user]
	if !locked {
		panic("social: the list of " + user.String() + " is not locked")
	}
	change(&l)
	d.lists[user] = l
	if d.edited == nil {
		d.edited = map[accounts.ID]bool{}
	}
	d.edited[user] = true
}

// nextVersions gives the lists of users their next versions.
func (d *changeSet) nextVersions(users ...accounts.ID) {
	for _, u := range users {
		d.edit(u, func(l *list) { l.version++ })
	}
}

// saveLists counts the changes of blocks and of unread requests, and stores the edited lists with one statement.
func (d *changeSet) saveLists(ctx context.Context, tx *sqldb.Tx) error {
	counted := map[accounts.ID]bool{}
	for _, e := range slices.Concat(d.blocked, d.unblocked) {
		counted[e.user] = true
	}
	for u := range d.unread {
		counted[u] = true
	}
	for u := range counted {
		d.edit(u, func(l *list) { l.news++ })
	}
	if len(d.edited) == 0 {
		return nil
	}
	edited := make(map[accounts.ID]list, len(d.edited))
	for u := range d.edited {
		edited[u] = d.lists[u]
	}
	return saveLists(ctx, tx, edited)
}

// countUnread stores the unread counts of users in d.
func (d *changeSet) countUnread(ctx context.Context, tx *sqldb.Tx, users ...accounts.ID) error {
	n, err := unread(ctx, tx, users...)
	d.unread = make(map[accounts.ID]int, len(users))
	for _, u := range users {
		d.unread[u] = n[u]
	}
	return err
}

// close ends a pending request.
func (d *changeSet) close(ctx context.Context, tx *sqldb.Tx, r Request, state State) (Request, error) {
	r.State = state
	d.closed = append(d.closed, r)
	return r, closeRequests(ctx, tx, state, r.ID)
}

// IsFriend reports whether other is in user's list, from a cache. It is one command to Redis, like the next three
// methods.
func (s *Service) IsFriend(ctx context.Context, user, other accounts.ID) (_ bool, err error) {
	defer errs.Wrap(&err, "social.IsFriend %s", user)
	ok, err := s.rel.friends.Has(ctx, user, other)
	return ok, asKind(ctx, err)
}

// AreFriends returns the users in others who are in user's list.
func (s *Service) AreFriends(ctx context.Context, user accounts.ID, others []accounts.ID) (_ map[accounts.ID]bool, err error) {
	defer errs.Wrap(&err, "social.AreFriends %s", user)
	found, err := s.rel.friends.HasMany(ctx, user, others)
	return found, asKind(ctx, err)
}

// FriendIDs returns all friends in a user's list, from a cache, in no order.
func (s *Service) FriendIDs(ctx context.Context, user accounts.ID) (_ []accounts.ID, err error) {
	defer errs.Wrap(&err, "social.FriendIDs %s", user)
	all, err := s.rel.friends.All(ctx, user)
	return slices.Collect(maps.Keys(all)), asKind(ctx, err)
}

// IsBlocked reports whether the user by blocks other.
func (s *Service) IsBlocked(ctx context.Context, by, other accounts.ID) (_ bool, err error) {
	defer errs.Wrap(&err, "social.IsBlocked %s", by)
	ok, err := s.rel.blocks.Has(ctx, by, other)
	return ok, asKind(ctx, err)
}

// Blocked returns the users in others whom the user by blocks.
func (s *Service) Blocked(ctx context.Context, by accounts.ID, others []accounts.ID) (_ map[accounts.ID]bool, err error) {
	defer errs.Wrap(&err, "social.Blocked %s", by)
	found, err := s.rel.blocks.HasMany(ctx, by, others)
	return found, asKind(ctx, err)
}

// BlockedIDs returns all users whom a user blocks, from a cache, in no order.
func (s *Service) BlockedIDs(ctx context.Context, by accounts.ID) (all []accounts.ID, err error) {
	defer errs.Wrap(&err, "social.BlockedIDs %s", by)
	for cursor := ""; ; {
		page, next, err := s.rel.blocks.Members(ctx, by, cursor, 500)
		if err != nil {
			return nil, asKind(ctx, err)
		}
		all = append(all, page...)
		if cursor = next; cursor == "" {
			return all, nil
		}
	}
}

// Apart returns the users in others who block the user, or whom the user blocks. It is one statement of SQL, because a
// stale cache would show a user who was just blocked.
func (s *Service) Apart(ctx context.Context, user accounts.ID, others []accounts.ID) (_ map[accounts.ID]bool, err error) {
	defer errs.Wrap(&err, "social.Apart %s", user)
	if len(others) == 0 {
		return nil, nil
	}
	found, err := selectApart(ctx, s.db, user, others)
	apart := make(map[accounts.ID]bool, len(found))
	for _, other := range found {
		apart[other] = true
	}
	return apart, asKind(ctx, err)
}

// MaxRelations is the largest number of users for one call of [Service.Relations].
const MaxRelations = 100

// Relations returns the user's relation to each of others, in the time of one command to Redis. It returns ErrTooMany
// for more than [MaxRelations] users.
func (s *Service) Relations(ctx context.Context, user accounts.ID, others []accounts.ID) (_ []Relation, err error) {
	if len(others) > MaxRelations {
		return nil, ErrTooMany
	}
	var friends map[accounts.ID]bool
	friendsDone := make(chan error, 1)
	go func() {
		var err error
		friends, err = s.AreFriends(ctx, user, others)
		friendsDone <- err
	}()
	blocked, err := s.Blocked(ctx, user, others)
	if friendsErr := <-friendsDone; friendsErr != nil {
		err = friendsErr
	}
	if err != nil {
		return nil, err
	}
	out := make([]Relation, len(others))
	for i, o := range others {
		out[i] = Relation{friends[o], blocked[o]}
	}
	return out, nil
}

// While Redis is unavailable, one of this many calls of [Service.Between] tries it.
const probes = 16

// Between returns the relations of two users to each other, mostly from the memory of this node. While Redis is
// unavailable it uses one SQL statement.
func (s *Service) Between(ctx context.Context, a, b accounts.ID) (ofA, ofB Relation, err error) {
	defer errs.Wrap(&err, "social.Between %s", a)
	if s.caches.Health().Open > 0 && rand.N(probes) != 0 {
		ofA, ofB, err = selectBetween(ctx, s.db, a, b)
		return ofA, ofB, asKind(ctx, err)
	}
	k := relationOf(a, b)
	found, err := s.rel.pairs.Get(ctx, k)
	if k.A != a {
		found.Low, found.High = found.High, found.Low
	}
	return found.Low, found.High, asKind(ctx, err)
}
