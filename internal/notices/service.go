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

// People returns profiles of users. *accounts.Service implements it.
type People interface {
	// Profiles returns the profiles of users who exist or existed.
	Profiles(ctx context.Context, ids []accounts.ID) (accounts.Profiles, error)
	// ProfilesOrNone is like Profiles, for events of committed changes. It returns nil if the profiles cannot be read.
	ProfilesOrNone(ctx context.Context, ids ...accounts.ID) accounts.Profiles
}

// Config has the dependencies and settings of the domain.
type Config struct {
	DB     *sqldb.DB
	Bus    *events.Bus // receives the events after the commit
	People People
	Log    *slog.Logger

	// EnqueuePushes enqueues pushes for added notices, in the transaction that stores them. It may be nil.
	EnqueuePushes func(ctx context.Context, tx *sqldb.Tx, added []Notice) error

	Settings
}

// Service has the operations of the domain. It is safe for concurrent use.
type Service struct {
	db            *sqldb.DB
	bus           *events.Bus
	people        People
	enqueuePushes func(ctx context.Context, tx *sqldb.Tx, added []Notice) error
	cfg           Settings
	log           *slog.Logger
}

// New returns a Service. Its error joins all faults of the settings.
func New(cfg Config) (*Service, error) {
	config.Defaults(&cfg.Settings)
	if err := cfg.Settings.Validate(); err != nil {
		return nil, fmt.Errorf("notices: %w", err)
	}
	return &Service{db: cfg.DB, bus: cfg.Bus, people: cfg.People, enqueuePushes: cfg.EnqueuePushes, cfg: cfg.Settings, log: cfg.Log}, nil
}

// Record stores notices in the transaction of their cause, and publishes them after the commit. It skips a notice if
// the user already has one from the same source. It locks the users' lists until tx ends, so call it after all other
// locks.
func (s *Service) Record(ctx context.Context, tx *sqldb.Tx, list ...Entry) (err error) {
	defer errs.Wrap(&err, "notices.Record")
	added, err := insert(ctx, tx, list)
	if err != nil {
		return err
	}
	return s.publishStored(ctx, tx, added)
}

// publishStored enqueues pushes for notices that tx has stored, and publishes the notices after the commit.
func (s *Service) publishStored(ctx context.Context, tx *sqldb.Tx, added []Notice) error {
	if len(added) == 0 {
		return nil
	}
	if s.enqueuePushes != nil {
		if err := s.enqueuePushes(ctx, tx, added); err != nil {
			return err
		}
	}
	tx.AfterCommit(func() { s.publishNew(ctx, added) })
	return nil
}

// SourceKey identifies a notice by its user and source.
type SourceKey struct {
	User   accounts.ID
	Source string
}

// Withdraw deletes notices in the transaction that ends their cause.
func (s *Service) Withdraw(ctx context.Context, tx *sqldb.Tx, list ...SourceKey) (err error) {
	defer errs.Wrap(&err, "notices.Withdraw")
	users, err := deleteBySource(ctx, tx, list)
	if err != nil || len(users) == 0 {
		return err
	}
	all, err := selectCounts(ctx, tx, users...)
	at := tx.Now()
	tx.AfterCommit(func() { s.publishCounts(at, all) })
	return err
}

// List returns at most limit notices of a user, newest first, starting after the cursor.
func (s *Service) List(ctx context.Context, user accounts.ID, cursor string, limit int) (_ []Notice, next string, _ Counts, err error) {
	defer errs.Wrap(&err, "notices.List %s", user)
	below, err := parseCursor(cursor)
	if err != nil {
		return nil, "", Counts{}, err
	}
	all, err := selectCounts(ctx, s.db, user) // before the list, so that notices added meanwhile have a number above c.Newest
	if err != nil {
		return nil, "", Counts{}, asKind(err)
	}
	c := all[user]
	list, err := selectPage(ctx, s.db, user, below, limit+1)
	if err != nil {
		return nil, "", Counts{}, asKind(err)
	}
	if len(list) > limit {
		list = list[:limit]
		next = fmt.Sprint(list[limit-1].Seq)
	}
	for i := range list {
		if list[i].Seq <= c.ReadUpTo && list[i].Read == 0 {
			list[i].Read = list[i].At
		}
	}
	return list, next, c, nil
}

// Counts returns the unread counts of a user.
func (s *Service) Counts(ctx context.Context, user accounts.ID) (_ Counts, err error) {
	defer errs.Wrap(&err, "notices.Counts %s", user)
	all, err := selectCounts(ctx, s.db, user)
	return all[user], asKind(err)
}

// Mark marks all notices up to a number as read. The mark never moves back, and never beyond the newest notice.
func (s *Service) Mark(ctx context.Context, user accounts.ID, upTo int64) (_ Counts, err error) {
	defer errs.Wrap(&err, "notices.Mark %s", user)
	return s.change(ctx, user, func(ctx context.Context, tx *sqldb.Tx) (bool, error) { return updateMark(ctx, tx, user, upTo) })
}

// Read marks one notice as read. It is idempotent.
func (s *Service) Read(ctx context.Context, user accounts.ID, seq int64) (_ Counts, err error) {
	defer errs.Wrap(&err, "notices.Read %s", user)
	return s.change(ctx, user, func(ctx context.Context, tx *sqldb.Tx) (bool, error) { return markRead(ctx, tx, user, seq) })
}

// change runs fn in a transaction, and publishes the unread counts to the user's devices if fn changed something.
func (s *Service) change(ctx context.Context, user accounts.ID,
	fn func(ctx context.Context, tx *sqldb.Tx) (changed bool, err error)) (c Counts, err error) {
	err = inTx(ctx, s.db, func(ctx context.Context, tx *sqldb.Tx) error {
		changed, err := fn(ctx, tx)
		if err != nil {
			return err
		}
		all, err := selectCounts(ctx, tx, user)
		if c = all[user]; err == nil && changed {
			at := tx.Now()
			tx.AfterCommit(func() { s.publishCounts(at, all) })
		}
		return err
	})
	return c, asKind(err)
}

// Erase deletes the notices of a user without an account. It is complete when it returns no error, and may be repeated.
func (s *Service) Erase(ctx context.Context, user accounts.ID) (err error) {
	defer errs.Wrap(&err, "notices.Erase %s", user)
	return asKind(erase(ctx, s.db, user))
}

// prune deletes old and expired notices.
func (s *Service) prune(ctx context.Context) (err error) {
	defer errs.Wrap(&err, "notices.prune")
	now := s.db.Now()
	return asKind(deleteOld(ctx, s.db, now.Add(-s.cfg.Keep), now))
}

// SeqKey identifies a notice by its user and number.
type SeqKey struct {
	User accounts.ID
	Seq  int64
}

// Pending returns those of up to 500 notices that are listed and unread, with their data in the language of the user.
func (s *Service) Pending(ctx context.Context, keys []SeqKey) (_ map[SeqKey]Notice, err error) {
	defer errs.Wrap(&err, "notices.Pending")
	found, err := selectPending(ctx, s.db, keys)
	if err != nil {
		return nil, asKind(err)
	}
	if err := s.fillAnnouncements(ctx, found); err != nil {
		return nil, asKind(err)
	}
	all := make(map[SeqKey]Notice, len(found))
	for _, n := range found {
		all[SeqKey{n.User, n.Seq}] = n
	}
	return all, nil
}
