package drops

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoa-dev/stoa/internal/background/queue"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
)

// Topic is the outbox's topic for drops that Redis did not take, and for those
// that an operator asks a server for; the payload is a [Drop].
const Topic = "cache.drop"

// Drop is what caches are to forget.
type Drop struct {
	ID string `json:"id,omitempty"` // tells it from a later one of the same keys

	Keys   []string `json:"keys,omitempty"`   // logical ones
	Tags   []string `json:"tags,omitempty"`   // "kind:id"
	Family string   `json:"family,omitempty"` // pattern: all of its values
	At     int64    `json:"at"`               // Unix milliseconds; long after it no old value is left
}

func newDrop(keys []keyspace.Key, at time.Time) Drop {
	d := Drop{ID: ids.New[Drop]().String(), At: at.UnixMilli()}
	for _, k := range keys {
		d.Keys = append(d.Keys, k.String())
	}
	return d
}

// Request has a server of this database do a drop.
func Request(ctx context.Context, db *sqldb.DB, d Drop) error {
	return db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return enqueue(ctx, tx, d) })
}

// Tx runs fn as [sqldb.DB.Tx] does, for a change of [cache.Runtime.Change]. A commit whose outcome is unknown is
// undecided for package cache, so that the fences of what may have changed stand. Where a fence could not be set, the
// transaction itself enqueues the drops: this node may be the only one without Redis, and may die before it has dropped
// the copies.
func Tx(ctx context.Context, db *sqldb.DB, fn func(ctx context.Context, tx *sqldb.Tx) error) error {
	return sqldb.Undecided(db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := fn(ctx, tx); err != nil {
			return err
		}
		return Enqueue(ctx, tx, cache.UnfencedKeys(ctx))
	}))
}

// Enqueue has a server of this database drop keys once tx is committed.
func Enqueue(ctx context.Context, tx *sqldb.Tx, keys []keyspace.Key) error {
	if len(keys) == 0 {
		return nil
	}
	return enqueue(ctx, tx, newDrop(keys, tx.Now()))
}

func enqueue(ctx context.Context, tx *sqldb.Tx, d Drop) error {
	row := sqldb.Message{Topic: Topic}
	if len(d.Keys) == 1 && len(d.Keys[0]) <= 120 { // what the column holds
		row.Key = d.Keys[0]
	}
	return tx.EnqueueJSON(ctx, row, d)
}

// Queue holds the drops that wait for Redis, in memory and in SQL. It is a
// cache.RetryQueue.
type Queue struct {
	db     *sqldb.DB
	cached *Cached
	log    *slog.Logger

	pending atomic.Bool

	mu     sync.Mutex
	memory map[string]keyspace.Key
}

var _ cache.RetryQueue = (*Queue)(nil)

const (
	addTimeout  = 2 * time.Second        // for a write to SQL: a caller waits for it
	awayTimeout = 100 * time.Millisecond // instead while SQL is known to be away
	memoryEvery = 100 * time.Millisecond // how often Redis is tried
	maxMemory   = 10_000                 // keys in memory; the others are in SQL alone
	sqlEvery    = 200 * time.Millisecond // how often SQL is asked: less than the least MaxStale
	sqlTimeout  = 5 * time.Second        // for the answer
)

// New returns the drops that wait in db.
func New(db *sqldb.DB, cached *Cached, log *slog.Logger) *Queue {
	return &Queue{db: db, cached: cached, log: log, memory: map[string]keyspace.Key{}}
}

// Add implements cache.RetryQueue. In SQL a key that waits already is not queued
// twice.
func (q *Queue) Add(ctx context.Context, keys []keyspace.Key) error {
	d := newDrop(keys, q.db.Now())
	q.mu.Lock()
	for _, k := range keys {
		if len(q.memory) < maxMemory {
			q.memory[k.String()] = k
		}
	}
	q.mu.Unlock()
	timeout := addTimeout
	if !q.db.Away().IsZero() {
		timeout = awayTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return Request(ctx, q.db, d)
}

// Pending reports that drops wait in SQL which this node could not do either. Old
// values may be found in Redis until they are done.
func (q *Queue) Pending() bool { return q.pending.Load() }

// Run does the drops that wait, in memory and in SQL, until ctx ends.
func (q *Queue) Run(ctx context.Context, rt *cache.Runtime) {
	var both sync.WaitGroup
	both.Go(func() { q.runMemory(ctx, rt.Redo) })
	both.Go(func() { q.runSQL(ctx, rt.Redo) })
	both.Wait()
}

// try does drops, and returns those that wait for Redis. What Redis refuses waits no more.
func try(page []keyspace.Key, redo func([]keyspace.Key) error) []keyspace.Key {
	err := redo(page)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, redis.ErrUnavailable):
		return page
	}
	return slices.DeleteFunc(page, func(k keyspace.Key) bool { // the error does not say which
		return !errors.Is(redo([]keyspace.Key{k}), redis.ErrUnavailable)
	})
}

// runMemory does the drops in memory as soon as Redis takes them. What Redis refuses is left to
// SQL, where it becomes a dead letter.
func (q *Queue) runMemory(ctx context.Context, redo func([]keyspace.Key) error) {
	tick := time.NewTicker(memoryEvery)
	defer tick.Stop()
	var page []keyspace.Key
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for {
			if page == nil {
				page = q.take()
			}
			if page == nil {
				break
			}
			if page = try(page, redo); len(page) > 0 {
				break
			}
			page = nil
		}
	}
}

// take removes up to pageSize keys from memory.
func (q *Queue) take() (keys []keyspace.Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for name, k := range q.memory {
		if len(keys) == pageSize {
			break
		}
		keys = append(keys, k)
		delete(q.memory, name) // an Add of the same key meanwhile means a later change
	}
	return keys
}

// runSQL does the drops in SQL.
func (q *Queue) runSQL(ctx context.Context, redo func([]keyspace.Key) error) {
	tick := time.NewTicker(sqlEvery)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := q.doWaiting(ctx, redo)
		if err != nil && !failing && ctx.Err() == nil {
			q.log.LogAttrs(ctx, slog.LevelWarn, "drops that wait in SQL cannot be read", slog.Any("err", err))
		}
		failing = err != nil
	}
}

// doWaiting does the drops of keys that wait in SQL, whichever node they are from.
// The consumers of the queue may do them as well; drops of tags and families are
// theirs alone.
func (q *Queue) doWaiting(ctx context.Context, redo func([]keyspace.Key) error) error {
	ctx, cancel := context.WithTimeout(ctx, sqlTimeout)
	defer cancel()
	outbox := queue.NewSQL(q.db)
	for {
		page, err := outbox.Waiting(ctx, Topic, pageSize)
		if err != nil {
			return err
		}
		var keys []keyspace.Key
		var ours []queue.Entry
		for _, e := range page {
			var d Drop
			if json.Unmarshal(e.Payload, &d) != nil || len(d.Keys) == 0 || len(d.Tags) > 0 || d.Family != "" {
				continue
			}
			if parsed, err := q.cached.keys(d.Keys); err == nil {
				ours, keys = append(ours, e), append(keys, parsed...)
			}
		}
		if len(ours) == 0 {
			q.pending.Store(false)
			return nil
		}
		if redo(keys) != nil { // the connection's watcher has logged why
			q.pending.Store(true)
			return nil
		}
		if err := outbox.Done(ctx, ours...); err != nil {
			return err
		}
	}
}

// Handler handles [Topic]. While Redis is away the message comes again, for as long
// as an old value could live; what Redis refuses is tried five times.
func (q *Queue) Handler(db *redis.DB, rt *cache.Runtime) queue.Handler {
	return queue.JSON(func(ctx context.Context, d Drop, _ queue.Delivery) error {
		_, err := q.cached.Do(ctx, db, rt, d, nil)
		if errors.Is(err, redis.ErrUnavailable) && q.db.Now().Sub(time.UnixMilli(d.At)) > q.cached.longest {
			return nil
		}
		return err
	})
}
