package notices

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/config"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// People is what this domain asks accounts for; *accounts.Service is one.
type People interface {
	// Profiles returns how those of ids look to others that exist or existed.
	Profiles(ctx context.Context, ids []accounts.ID) (accounts.Profiles, error)
	// ProfilesOrNone is Profiles for what tells of a change that is made: none, where they cannot be read.
	ProfilesOrNone(ctx context.Context, ids ...accounts.ID) accounts.Profiles
}

// Config has what the domain stands on.
type Config struct {
	DB     *sqldb.DB
	Bus    *events.Bus // gets the events, after the commit
	People People
	Log    *slog.Logger

	// Pushes is told of new notices within their transaction. Nil: nobody is.
	Pushes func(ctx context.Context, tx *sqldb.Tx, fresh []Notice) error

	Settings
}

// Service is the domain as the rest of the program sees it. It is safe for concurrent use.
type Service struct {
	db     *sqldb.DB
	bus    *events.Bus
	people People
	pushes func(ctx context.Context, tx *sqldb.Tx, fresh []Notice) error
	cfg    Settings
	log    *slog.Logger
}

// New returns the domain on those parts. The error has all faults of the settings.
func New(cfg Config) (*Service, error) {
	config.Defaults(&cfg.Settings)
	if err := cfg.Settings.Validate(); err != nil {
		return nil, fmt.Errorf("notices: %w", err)
	}
	return &Service{db: cfg.DB, bus: cfg.Bus, people: cfg.People, pushes: cfg.Pushes, cfg: cfg.Settings, log: cfg.Log}, nil
}

// Record writes notices in the transaction of what they tell, and publishes them when it is committed. One of a
// source that its user was told of already is left out. It locks the users' lists until tx ends, so it comes
// last in a transaction that takes other locks.
func (s *Service) Record(ctx context.Context, tx *sqldb.Tx, list ...Entry) (err error) {
	defer errs.Wrap(&err, "notices.Record")
	fresh, err := insert(ctx, tx, list)
	if err != nil {
		return err
	}
	return s.told(ctx, tx, fresh)
}

// told hands on notices that were written in tx.
func (s *Service) told(ctx context.Context, tx *sqldb.Tx, fresh []Notice) error {
	if len(fresh) == 0 {
		return nil
	}
	if s.pushes != nil {
		if err := s.pushes(ctx, tx, fresh); err != nil {
			return err
		}
	}
	tx.AfterCommit(func() { s.publishNew(ctx, fresh) })
	return nil
}

// Told names what a user was told: a source.
type Told struct {
	User   accounts.ID
	Source string
}

// Withdraw takes notices back, in the transaction by which what they tell is over.
func (s *Service) Withdraw(ctx context.Context, tx *sqldb.Tx, list ...Told) (err error) {
	defer errs.Wrap(&err, "notices.Withdraw")
	users, err := deleteTold(ctx, tx, list)
	if err != nil || len(users) == 0 {
		return err
	}
	all, err := count(ctx, tx, users...)
	at := tx.Now()
	tx.AfterCommit(func() { s.publishCounts(at, all) })
	return err
}

// List returns at most limit notices of a user, newest first, from behind the cursor on. ErrCursor.
func (s *Service) List(ctx context.Context, user accounts.ID, cursor string, limit int) (_ []Notice, next string, _ Counts, err error) {
	defer errs.Wrap(&err, "notices.List %s", user)
	below, err := parseCursor(cursor)
	if err != nil {
		return nil, "", Counts{}, err
	}
	all, err := count(ctx, s.db, user) // first: what comes meanwhile has a number above its newest
	if err != nil {
		return nil, "", Counts{}, asKind(err)
	}
	c := all[user]
	list, err := page(ctx, s.db, user, below, limit+1)
	if err != nil {
		return nil, "", Counts{}, asKind(err)
	}
	if len(list) > limit {
		list = list[:limit]
		next = fmt.Sprint(list[limit-1].Seq)
	}
	for i := range list {
		if list[i].Seq <= c.Seen && list[i].Read == 0 {
			list[i].Read = list[i].At
		}
	}
	return list, next, c, nil
}

// Counts returns how many notices a user has not read.
func (s *Service) Counts(ctx context.Context, user accounts.ID) (_ Counts, err error) {
	defer errs.Wrap(&err, "notices.Counts %s", user)
	all, err := count(ctx, s.db, user)
	return all[user], asKind(err)
}

// Mark says that all notices up to a number are read; the mark only goes forward, and not beyond the newest.
func (s *Service) Mark(ctx context.Context, user accounts.ID, upTo int64) (_ Counts, err error) {
	defer errs.Wrap(&err, "notices.Mark %s", user)
	return s.change(ctx, user, func(ctx context.Context, tx *sqldb.Tx) (bool, error) { return mark(ctx, tx, user, upTo) })
}

// Read says that one notice is read; saying it again changes nothing. ErrNotice.
func (s *Service) Read(ctx context.Context, user accounts.ID, seq int64) (_ Counts, err error) {
	defer errs.Wrap(&err, "notices.Read %s", user)
	return s.change(ctx, user, func(ctx context.Context, tx *sqldb.Tx) (bool, error) { return readOne(ctx, tx, user, seq) })
}

// change runs fn in a transaction, and tells the user's devices what is unread after it if fn has
// changed something.
func (s *Service) change(ctx context.Context, user accounts.ID, fn func(ctx context.Context, tx *sqldb.Tx) (changed bool, err error)) (c Counts, err error) {
	err = inTx(ctx, s.db, func(ctx context.Context, tx *sqldb.Tx) error {
		changed, err := fn(ctx, tx)
		if err != nil {
			return err
		}
		all, err := count(ctx, tx, user)
		if c = all[user]; err == nil && changed {
			at := tx.Now()
			tx.AfterCommit(func() { s.publishCounts(at, all) })
		}
		return err
	})
	return c, asKind(err)
}

// Erase removes the notices of a user who has no account any more. It may be repeated; until it
// has returned without an error something may be left.
func (s *Service) Erase(ctx context.Context, user accounts.ID) (err error) {
	defer errs.Wrap(&err, "notices.Erase %s", user)
	return asKind(erase(ctx, s.db, user))
}

// prune removes notices that are old or have expired.
func (s *Service) prune(ctx context.Context) (err error) {
	defer errs.Wrap(&err, "notices.prune")
	now := s.db.Now()
	return asKind(deleteOld(ctx, s.db, now.Add(-s.cfg.Keep), now))
}

// Place is a notice's: a user and its number there.
type Place struct {
	User accounts.ID
	Seq  int64
}

// Pending returns those of up to 500 notices that are listed and unread, each with its data in the language that its user reads.
func (s *Service) Pending(ctx context.Context, places []Place) (_ map[Place]Notice, err error) {
	defer errs.Wrap(&err, "notices.Pending")
	found, err := pending(ctx, s.db, places)
	if err != nil {
		return nil, asKind(err)
	}
	if err := s.word(ctx, found); err != nil {
		return nil, asKind(err)
	}
	all := make(map[Place]Notice, len(found))
	for _, n := range found {
		all[Place{n.User, n.Seq}] = n
	}
	return all, nil
}
