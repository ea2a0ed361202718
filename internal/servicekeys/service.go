package servicekeys

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// Service checks keys. It is safe for concurrent use.
type Service struct {
	db     *sqldb.DB
	people *accounts.Service
	log    *slog.Logger

	load func(context.Context) ([]Key, error) // all keys, from SQL

	turn   chan struct{} // capacity 1; held while SQL is read, so that many callers cause one statement
	keys   map[ID]Key    // replaced as a whole, never modified
	loaded time.Time     // time of keys
	readAt time.Time     // time of the last read of SQL
	fault  error         // error of the last read

	used sync.Map // ID: true, since the last flush
}

const (
	// maxAge is how long a revoked key stays valid.
	maxAge = time.Second
	// minAge limits the reads of SQL for unknown keys. A new key is valid after that time.
	minAge = 100 * time.Millisecond
	// loadTime bounds one read of SQL.
	loadTime = 5 * time.Second
)

// New returns the service for the keys in db.
func New(db *sqldb.DB, people *accounts.Service, log *slog.Logger) *Service {
	return &Service{db: db, people: people, log: log, turn: make(chan struct{}, 1),
		load: func(ctx context.Context) ([]Key, error) { return selectKeys(ctx, db) }}
}

// Authenticate returns the caller of a key, or ErrKey or ErrStore.
func (s *Service) Authenticate(ctx context.Context, token string) (_ *Caller, err error) {
	id, err := parse(token)
	if err != nil {
		return nil, err
	}
	k, found, err := s.find(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case !found || !k.good(hashOf(token), s.db.Now()):
		return nil, ErrKey
	}
	s.used.Store(id, true)
	return &Caller{Key: k, people: s.people}, nil
}

// find returns a key from the cache of this node. A caller that has waited for another read of SQL uses its result, so
// that all waiting callers share one statement while SQL is slow or unavailable.
func (s *Service) find(ctx context.Context, id ID) (k Key, found bool, err error) {
	started := time.Now()
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return Key{}, false, ctx.Err()
	}
	defer func() { <-s.turn }()
	k, found = s.keys[id]
	switch {
	case found && time.Since(s.loaded) < maxAge:
		return k, found, nil
	case time.Since(s.readAt) < minAge || !s.readAt.Before(started):
		return k, found, s.fault
	}
	loading := context.WithoutCancel(ctx)
	within, cancel := context.WithTimeout(loading, loadTime)
	defer cancel()
	s.readAt = time.Now()
	all, err := s.load(within)
	if s.fault = sqldb.AsKindWithin(loading, err, ErrStore); err != nil {
		return Key{}, false, s.fault
	}
	s.keys, s.loaded = make(map[ID]Key, len(all)), s.readAt
	for _, k := range all {
		s.keys[k.ID] = k
	}
	k, found = s.keys[id]
	return k, found, nil
}

// flush stores the last uses of keys.
func (s *Service) flush(ctx context.Context) (err error) {
	defer errs.Wrap(&err, "servicekeys.flush")
	var list []ID
	s.used.Range(func(id, _ any) bool {
		s.used.Delete(id)
		list = append(list, id.(ID))
		return true
	})
	if len(list) == 0 {
		return nil
	}
	return asKind(updateUsed(ctx, s.db, list))
}
