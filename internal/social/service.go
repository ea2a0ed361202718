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
	"github.com/stoa-dev/stoa/lib/cache/collection"
)

// People is what this domain asks accounts for; *accounts.Service is one.
type People interface {
	// Profiles returns how those of ids look to others that exist or existed.
	Profiles(ctx context.Context, ids []accounts.ID) (accounts.Profiles, error)
	// ProfilesOrNone is Profiles for what tells of a change that is made: none, where they cannot be read.
	ProfilesOrNone(ctx context.Context, ids ...accounts.ID) accounts.Profiles
	// Audiences returns who sees whether users are on line.
	Audiences(ctx context.Context, ids []accounts.ID) (map[accounts.ID]accounts.Audience, error)
	// CardOwner returns whose card has that token. accounts.ErrNoCard.
	CardOwner(ctx context.Context, token string) (accounts.ID, error)
}

// Config has what the domain stands on.
type Config struct {
	DB     *sqldb.DB
	Caches *cache.Runtime
	Cache  cache.Policy // of relations; Unfenced is this domain's to choose
	Bus    *events.Bus  // gets the events, after the commit
	People People
	Hooks  *webhooks.Service // asked before a request for friendship, and told of it and of friendships; nil: nobody is
	// Streaks returns users' current streaks, for lists of friends; those of deleted users
	// are left out. Nil: lists have none.
	Streaks func(ctx context.Context, users []accounts.ID) (map[accounts.ID]int, error)
	Log     *slog.Logger
	// Notices has what users are told of requests. Nil: they are told by events alone.
	Notices *notices.Service

	Settings
}

// Service is the social domain as the rest of the program sees it. It is safe for
// concurrent use.
type Service struct {
	db      *sqldb.DB
	caches  *aggregate.Caches
	rel     relations
	bus     *events.Bus
	people  People
	notices *notices.Service
	hooks   *webhooks.Service
	streaks func(ctx context.Context, users []accounts.ID) (map[accounts.ID]int, error)
	cfg     Settings
	log     *slog.Logger
}

// New returns the domain on those parts. The error has all faults of the settings.
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

// A friendRow is one user's row about a friend, as a changeSet left it.
type friendRow struct {
	user accounts.ID
	Friend
	added bool // they were no friends before
}

// An edge is a user's relation to another, directed.
type edge struct{ user, other accounts.ID }

// A changeSet is what one transaction has changed. What follows the commit, the copies
// in Redis and the events, is derived from it.
type changeSet struct {
	at        time.Time
	opened    []Request
	closed    []Request
	written   []friendRow
	removed   []edge
	blocked   []edge
	unblocked []edge
	unread    map[accounts.ID]int  // of users whose number may have changed
	lists     map[accounts.ID]list // of users who get an event, with the versions of this change
}

// change runs fn in a transaction that fills in d, brings the copies up to date that
// may be concerned, and publishes d's events. What fn reads under the locks of
// [lockLists] cannot change before the commit.
func (s *Service) change(ctx context.Context, d *changeSet, targets []cache.Target, fn func(ctx context.Context, tx *sqldb.Tx) error) error {
	err := s.caches.Change(ctx, targets, func(ctx context.Context, tx *sqldb.Tx) error {
		*d = changeSet{at: tx.Now()} // a transaction may be run again
		if err := fn(ctx, tx); err != nil {
			return err
		}
		if err := d.version(ctx, tx); err != nil {
			return err
		}
		if err := s.tellHooks(ctx, tx, d); err != nil {
			return err
		}
		return s.record(ctx, tx, d)
	})
	if err != nil {
		return asKind(ctx, err)
	}
	if d.empty() {
		// It repeats a change, perhaps one of a node that died before it had told Redis. A drop that Redis
		// does not take is retried.
		_ = s.caches.Drop(ctx, targets...)
		return nil
	}
	s.publish(ctx, d)
	return nil
}

// version counts the changes of blocks and of unread requests, and reads the versions that d's events have. The lists of
// users who get an event are locked.
func (d *changeSet) version(ctx context.Context, tx *sqldb.Tx) error {
	counted := map[accounts.ID]bool{}
	for _, e := range slices.Concat(d.blocked, d.unblocked) {
		counted[e.user] = true
	}
	for u := range d.unread {
		counted[u] = true
	}
	if len(counted) > 0 {
		if err := countNews(ctx, tx, slices.SortedFunc(maps.Keys(counted), accounts.ID.Compare)); err != nil {
			return err
		}
	}
	users := slices.Collect(maps.Keys(counted))
	for _, f := range d.written {
		users = append(users, f.user)
	}
	for _, e := range d.removed {
		users = append(users, e.user)
	}
	if len(users) == 0 {
		return nil
	}
	var err error
	d.lists, err = selectLists(ctx, tx, users)
	return err
}

// count notes in d how many unread requests users have.
func (d *changeSet) count(ctx context.Context, tx *sqldb.Tx, users ...accounts.ID) error {
	n, err := unread(ctx, tx, users...)
	d.unread = make(map[accounts.ID]int, len(users))
	for _, u := range users {
		d.unread[u] = n[u]
	}
	return err
}

// close ends a request that waits.
func (d *changeSet) close(ctx context.Context, tx *sqldb.Tx, r Request, state State) (Request, error) {
	r.State = state
	d.closed = append(d.closed, r)
	return r, closeRequests(ctx, tx, state, r.ID)
}

// IsFriend reports whether other is in user's list, as of a moment ago. It is one
// command to Redis, as are the three after it.
func (s *Service) IsFriend(ctx context.Context, user, other accounts.ID) (_ bool, err error) {
	defer errs.Wrap(&err, "social.IsFriend %s", user)
	ok, err := s.rel.friends.Has(ctx, user, other)
	return ok, asKind(ctx, err)
}

// AreFriends returns which of others are in user's list.
func (s *Service) AreFriends(ctx context.Context, user accounts.ID, others []accounts.ID) (_ map[accounts.ID]bool, err error) {
	defer errs.Wrap(&err, "social.AreFriends %s", user)
	found, err := s.rel.friends.HasMany(ctx, user, others)
	return found, asKind(ctx, err)
}

// FriendIDs returns all friends in a user's list, as of a moment ago, in no order.
func (s *Service) FriendIDs(ctx context.Context, user accounts.ID) (_ []accounts.ID, err error) {
	defer errs.Wrap(&err, "social.FriendIDs %s", user)
	all, err := s.rel.friends.All(ctx, user)
	return slices.Collect(maps.Keys(all)), asKind(ctx, err)
}

// IsBlocked reports whether the user by blocks the user who.
func (s *Service) IsBlocked(ctx context.Context, by, who accounts.ID) (_ bool, err error) {
	defer errs.Wrap(&err, "social.IsBlocked %s", by)
	ok, err := s.rel.blocks.Has(ctx, by, who)
	return ok, asKind(ctx, err)
}

// Blocked returns those of whom that the user by blocks.
func (s *Service) Blocked(ctx context.Context, by accounts.ID, whom []accounts.ID) (_ map[accounts.ID]bool, err error) {
	defer errs.Wrap(&err, "social.Blocked %s", by)
	found, err := s.rel.blocks.HasMany(ctx, by, whom)
	return found, asKind(ctx, err)
}

// BlockedIDs returns all whom a user blocks, as of a moment ago, in no order.
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

// Apart returns those of others who block the user, or whom the user blocks. It is one
// statement of SQL: whom a copy in Redis does not know yet would be shown.
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

// MaxRelations is for how many users [Service.Relations] answers at once.
const MaxRelations = 100

// Relations returns how user stands to each of others, in the time of one command
// to Redis. ErrTooMany.
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

// probes is the share of the reads of [Service.Between] that ask Redis while it does not answer, one in as many.
const probes = 16

// Between returns the relations of two users to each other, in one round trip to Redis. While Redis does not answer
// it is one statement.
func (s *Service) Between(ctx context.Context, a, b accounts.ID) (ofA, ofB Relation, err error) {
	defer errs.Wrap(&err, "social.Between %s", a)
	if s.caches.Health().Open > 0 && rand.N(probes) != 0 {
		ofA, ofB, err = selectBetween(ctx, s.db, a, b)
		return ofA, ofB, asKind(ctx, err)
	}
	friendA, friendB := s.rel.friends.Ask(a, b), s.rel.friends.Ask(b, a)
	blockedA, blockedB := s.rel.blocks.Ask(a, b), s.rel.blocks.Ask(b, a)
	if err := collection.Ask(ctx, friendA, friendB, blockedA, blockedB); err != nil {
		return ofA, ofB, asKind(ctx, err)
	}
	return Relation{friendA.Yes(), blockedA.Yes()}, Relation{friendB.Yes(), blockedB.Yes()}, nil
}

// page cuts a list that was read one row too long, and returns the cursor of the rest.
func page[T any](rows []T, n int, at func(T) place) (_ []T, next string) {
	if len(rows) <= n {
		return rows, ""
	}
	rows = slices.Clip(rows[:n])
	return rows, at(rows[n-1]).cursor()
}
