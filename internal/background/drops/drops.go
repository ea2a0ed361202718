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

// Topic is the outbox topic of drops that Redis did not accept and of drops that an operator requested. The payload is
// a [Drop].
const Topic = "cache.drop"

// Drop lists cached values to remove.
type Drop struct {
	ID string `json:"id,omitempty"` // distinguishes it from a later drop of the same keys

	Keys   []string `json:"keys,omitempty"`   // logical names
	Tags   []string `json:"tags,omitempty"`   // "kind:id"
	Family string   `json:"family,omitempty"` // a pattern: all values of the family
	At     int64    `json:"at"`               // Unix milliseconds; after the longest TTL no stale value remains
}

func newDrop(keys []keyspace.Key, at time.Time) Drop {
	d := Drop{ID: ids.New[Drop]().String(), At: at.UnixMilli()}
	for _, k := range keys {
		d.Keys = append(d.Keys, k.String())
	}
	return d
}

// Request enqueues a drop for a server of this database.
func Request(ctx context.Context, db *sqldb.DB, d Drop) error {
	return db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return enqueue(ctx, tx, d) })
}

// Tx runs fn like [sqldb.DB.Tx], for a change of [cache.Runtime.Change]. After a commit with unknown outcome, package
// cache keeps the fences of the keys. If a fence could not be set, the transaction itself enqueues the drops, because
// this node may be the only one without Redis and may die before it drops the keys.
func Tx(ctx context.Context, db *sqldb.DB, fn func(ctx context.Context, tx *sqldb.Tx) error) error {
	return sqldb.Undecided(db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := fn(ctx, tx); err != nil {
			return err
		}
		return Enqueue(ctx, tx, cache.UnfencedKeys(ctx))
	}))
}

// Enqueue makes a server of this database drop keys after tx is committed.
func Enqueue(ctx context.Context, tx *sqldb.Tx, keys []keyspace.Key) error {
	if len(keys) == 0 {
		return nil
	}
	return enqueue(ctx, tx, newDrop(keys, tx.Now()))
}

func enqueue(ctx context.Context, tx *sqldb.Tx, d Drop) error {
	row := sqldb.Message{Topic: Topic}
	if len(d.Keys) == 1 && len(d.Keys[0]) <= 120 { // the length of the column
		row.Key = d.Keys[0]
	}
	return tx.EnqueueJSON(ctx, row, d)
}

// Config configures a [Queue].
type Config struct {
	DB        *sqldb.DB // whose Watch finds drops in SQL
	Cached    *Cached
	Connected func() bool // reports whether this node is connected to Redis
	Alone     bool        // no other node uses this Redis
	Log       *slog.Logger
}

// Queue has the drops that wait for Redis, in memory and in SQL. It implements cache.RetryQueue.
type Queue struct {
	db     *sqldb.DB
	cached *Cached
	alone  bool
	log    *slog.Logger

	pending atomic.Bool
	found   chan struct{} // drops may wait in SQL

	mu     sync.Mutex
	memory map[string]keyspace.Key
	seen   time.Time // the last time that a drop was in SQL
	added  time.Time // of the last drop of this node in SQL
	known  time.Time // since then, another node checks SQL often
}

var _ cache.RetryQueue = (*Queue)(nil)

const (
	addTimeout         = 2 * time.Second        // bounds a write to SQL that a caller waits for
	unavailableTimeout = 100 * time.Millisecond // the same while SQL is known to be unavailable
	memoryInterval     = 100 * time.Millisecond // interval of retries in memory
	maxMemory          = 10_000                 // keys in memory; further keys are only in SQL
	sqlTimeout         = 5 * time.Second        // bounds one turn with the drops in SQL
	hurryTime          = 30 * time.Second       // how long a node checks SQL often after a drop
)

// New returns a queue of drops.
func New(cfg Config) *Queue {
	q := &Queue{db: cfg.DB, cached: cfg.Cached, alone: cfg.Alone, log: cfg.Log, found: make(chan struct{}, 1),
		memory: map[string]keyspace.Key{}}
	q.db.AddProbe(sqldb.Probe{Query: "SELECT 1 FROM outbox WHERE topic = ? AND dead = 0", Args: func() []any { return []any{Topic} }},
		func(found bool, _ time.Time) {
			if found {
				q.hurry()
			}
			if found || q.pending.Load() {
				select {
				case q.found <- struct{}{}:
				default:
				}
			}
		})
	q.db.HurryWhile(func() bool { return !cfg.Connected() || q.inHurry() })
	return q
}

// hurry makes this node check SQL often for some time.
func (q *Queue) hurry() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.seen = time.Now()
}

func (q *Queue) inHurry() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return time.Since(q.seen) < hurryTime
}

// Add implements cache.RetryQueue. It does not enqueue a key twice in SQL. It returns when other nodes have had the time
// to find the drop, because the response to the change follows.
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
		timeout = unavailableTimeout
	}
	err := func() error {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return Request(ctx, q.db, d)
	}()
	if err == nil && !q.alone {
		q.awaitOthers(ctx)
	}
	return err
}

// awaitOthers returns when a live node has found the drop that this node has just added, or finds it within hurryInterval
// of [sqldb.DB.Watch]. Only the first drop waits, because that node then checks often.
func (q *Queue) awaitOthers(ctx context.Context) {
	q.mu.Lock()
	now := time.Now()
	if now.Sub(q.added) > hurryTime/2 {
		q.known = now.Add(sqldb.WatchWithin)
	}
	q.added = now
	wait := q.known.Sub(now)
	q.mu.Unlock()
	if wait <= 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// done is called after this node has done drops of SQL: other nodes may not have found them, and check seldom. The next
// drop of this node waits again.
func (q *Queue) done() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.added = time.Time{}
}

// Pending reports whether drops wait in SQL and this node could not do them. Redis may then return stale values.
func (q *Queue) Pending() bool { return q.pending.Load() }

// Run does the waiting drops, in memory and in SQL, until ctx ends.
func (q *Queue) Run(ctx context.Context, rt *cache.Runtime) {
	var both sync.WaitGroup
	both.Go(func() { q.runMemory(ctx, rt.Redo) })
	both.Go(func() { q.runSQL(ctx, rt.Redo) })
	both.Wait()
}

// redoPage does drops, and returns those that still wait for Redis. It discards drops that Redis refuses.
func redoPage(page []keyspace.Key, redo func([]keyspace.Key) error) []keyspace.Key {
	err := redo(page)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, redis.ErrUnavailable):
		return page
	}
	return slices.DeleteFunc(page, func(k keyspace.Key) bool { // the error does not name the key
		return !errors.Is(redo([]keyspace.Key{k}), redis.ErrUnavailable)
	})
}

// runMemory does the drops in memory as soon as Redis accepts them. It leaves refused drops to SQL, where they become
// dead letters.
func (q *Queue) runMemory(ctx context.Context, redo func([]keyspace.Key) error) {
	tick := time.NewTicker(memoryInterval)
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
				page = q.popPage()
			}
			if page == nil {
				break
			}
			if page = redoPage(page, redo); len(page) > 0 {
				break
			}
			page = nil
		}
	}
}

// popPage removes up to pageSize keys from memory.
func (q *Queue) popPage() (keys []keyspace.Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for name, k := range q.memory {
		if len(keys) == pageSize {
			break
		}
		keys = append(keys, k)
		delete(q.memory, name) // another Add of this key means a later change
	}
	return keys
}

// runSQL does the drops in SQL when a check finds some.
func (q *Queue) runSQL(ctx context.Context, redo func([]keyspace.Key) error) {
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-q.found:
		}
		err := q.doWaiting(ctx, redo)
		if err != nil && !failing && ctx.Err() == nil {
			q.log.LogAttrs(ctx, slog.LevelWarn, "drops: waiting drops not read from SQL", slog.Any("err", err))
		}
		failing = err != nil
	}
}

// doWaiting does the drops of keys that wait in SQL, from any node. The consumers of the queue may do them as well.
// Only the consumers drop tags and families.
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
		var parsedEntries []queue.Entry
		for _, e := range page {
			var d Drop
			if json.Unmarshal(e.Payload, &d) != nil || len(d.Keys) == 0 || len(d.Tags) > 0 || d.Family != "" {
				continue
			}
			if parsed, err := q.cached.keys(d.Keys); err == nil {
				parsedEntries, keys = append(parsedEntries, e), append(keys, parsed...)
			}
		}
		if len(parsedEntries) == 0 {
			q.pending.Store(false)
			return nil
		}
		if redo(keys) != nil { // the watcher of the connection logs the reason
			q.pending.Store(true)
			return nil
		}
		q.done()
		if err := outbox.Done(ctx, parsedEntries...); err != nil {
			return err
		}
	}
}

// Handler handles [Topic]. While Redis is unavailable the message is retried until the longest TTL has passed. A drop
// that Redis refuses is tried five times.
func (q *Queue) Handler(db *redis.DB, rt *cache.Runtime) queue.Handler {
	return queue.JSON(func(ctx context.Context, d Drop, _ queue.Delivery) error {
		q.hurry() // this call may remove the drop before a check finds it
		_, err := q.cached.Do(ctx, db, rt, d, nil)
		if errors.Is(err, redis.ErrUnavailable) && q.db.Now().Sub(time.UnixMilli(d.At)) > q.cached.longest {
			return nil
		}
		if err == nil {
			q.done()
		}
		return err
	})
}
