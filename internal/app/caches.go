package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoa-dev/stoa/cache"
	"github.com/stoa-dev/stoa/internal/foundation/config"
	"github.com/stoa-dev/stoa/internal/foundation/ids"
	"github.com/stoa-dev/stoa/internal/foundation/queue"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb"
	"github.com/stoa-dev/stoa/keyspace"
	"github.com/stoa-dev/stoa/redis"
)

// CacheSettings are what an operator may choose about the caches.
type CacheSettings struct {
	Entries  int           `koanf:"entries" default:"10000" help:"values that each cache keeps in this process; 0 is 10000, -1 keeps none"`
	MaxStale time.Duration `koanf:"max_stale" default:"500ms" help:"how long after a change an old value may be read anywhere, whatever happens to the network; 0 is 500ms"`
	Budget   time.Duration `koanf:"budget" help:"how long a read waits for Redis before it asks SQL; 0 is 75ms, and 1s for the embedded Redis"`
	Loads    int           `koanf:"loads" default:"64" help:"reads of SQL for caches at a time, others wait; 0 is 64"`
	Warm     int           `koanf:"warm" default:"1000" help:"users, the most recently active, that a node reads when it has started; 0 for none"`
}

// leastStale is three beats of the bus.
const leastStale = 300 * time.Millisecond

// MostWarm keeps a start from reading a whole table.
const MostWarm = 100_000

// Validate returns all faults, joined.
func (s CacheSettings) Validate() error {
	var faults []error
	fault := func(bad bool, key, format string, args ...any) {
		if bad {
			faults = append(faults, &config.Fault{Key: key, Text: fmt.Sprintf(format, args...)})
		}
	}
	fault(s.Entries < -1, "entries", "%d is not -1 or more", s.Entries)
	fault(s.MaxStale != 0 && s.MaxStale < leastStale, "max_stale", "%s is less than %s: nodes hear of changes each 100ms, and one may be missed", s.MaxStale, leastStale)
	fault(s.Budget < 0 || s.Budget > 5*time.Second, "budget", "%s is not between 0 and 5s", s.Budget)
	fault(s.Loads < 0, "loads", "%d is less than 0", s.Loads)
	fault(s.Warm < 0 || s.Warm > MostWarm, "warm", "%d is not between 0 and %d", s.Warm, MostWarm)
	return errors.Join(faults...)
}

func (s CacheSettings) policy() cache.Policy {
	return cache.Policy{Entries: s.Entries, MaxStale: s.MaxStale}
}

// runCaches keeps the caches in order, and warms them up beside what else starts.
func (a *App) runCaches(ctx context.Context, ready func()) error {
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() { a.drops.run(ctx, a.caches.Redo) })
	beside.Go(func() { a.drops.watch(ctx, a.caches.Redo) })
	if a.cfg.Cache.Warm > 0 && a.cfg.does(roleAPI) {
		beside.Go(func() { a.warm(ctx) })
	}
	return a.caches.Run(ctx, ready)
}

// warm tells the log how far it is.
func (a *App) warm(ctx context.Context) {
	began, told := time.Now(), time.Now()
	n := 0
	err := a.bus.Nodes().Wait(ctx)
	if err == nil {
		n, err = a.accounts.Users().Warm(ctx, a.cfg.Cache.Warm, func(done, total int) {
			if time.Since(told) > time.Second {
				told = time.Now()
				a.log.LogAttrs(ctx, slog.LevelInfo, "warming up", slog.Int("users", done), slog.Int("of", total))
			}
		})
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		a.log.LogAttrs(ctx, slog.LevelWarn, "the caches are not warm; they fill as they are asked", slog.Any("error", err))
	case n > 0:
		a.log.LogAttrs(ctx, slog.LevelInfo, "warmed up", slog.Int("users", n), slog.Duration("took", time.Since(began).Round(time.Millisecond)))
	}
}

// TopicDrop is the topic of drops that Redis did not take, and of those that
// somebody asks a server for; the payload is a [Drop].
const TopicDrop = "cache.drop"

// Drop is what caches are to forget.
type Drop struct {
	ID string `json:"id,omitempty"` // tells it from a later one of the same keys

	Keys   []string `json:"keys,omitempty"`   // logical ones
	Tags   []string `json:"tags,omitempty"`   // "kind:id"
	Family string   `json:"family,omitempty"` // pattern: all of its values
	At     int64    `json:"at"`               // Unix milliseconds; long after it no old value is left
}

// drops are those that Redis did not take. They are in SQL, so that some server
// does them whatever happens to this one, and in memory, so that this one does
// them the moment Redis is back: until then others may find old values there.
//
// A node that alone is cut off from Redis depends on the others. The queue is too
// slow for that, and may hand the message to that very node again; so every node
// looks for keys that are to be dropped, and whoever has Redis drops them.
type drops struct {
	db  *sqldb.DB
	log *slog.Logger

	// behind says that there are drops in SQL that this node could not do either.
	// Once Redis is back old values may be found there until they are done.
	behind atomic.Bool

	mu   sync.Mutex
	soon map[string]keyspace.Key
}

const (
	addTime   = 2 * time.Second        // for a write to SQL: somebody waits for it
	soonEvery = 100 * time.Millisecond // how often Redis is tried
	mostSoon  = 10_000                 // keys in memory; the others are in SQL alone
	lookEvery = 200 * time.Millisecond // how often SQL is asked: less than the least MaxStale
	lookTime  = 5 * time.Second        // for the answer
)

// Add implements cache.RetryQueue. In SQL a key that waits already is not queued
// twice.
func (d *drops) Add(ctx context.Context, keys []keyspace.Key) error {
	m := newDrop(keys, d.db.Now())
	d.mu.Lock()
	for _, k := range keys {
		if len(d.soon) < mostSoon {
			d.soon[k.String()] = k
		}
	}
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, addTime)
	defer cancel()
	return Enqueue(ctx, d.db, m)
}

// take removes up to dropPage keys from memory.
func (d *drops) take() (keys []keyspace.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, k := range d.soon {
		if len(keys) == dropPage {
			break
		}
		keys = append(keys, k)
		delete(d.soon, name) // whoever adds it again meanwhile means a later change
	}
	return keys
}

// run does what is in memory as soon as Redis takes it.
func (d *drops) run(ctx context.Context, redo func([]keyspace.Key) error) {
	tick := time.NewTicker(soonEvery)
	defer tick.Stop()
	var left []keyspace.Key
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for {
			if left == nil {
				left = d.take()
			}
			if left == nil || redo(left) != nil {
				break
			}
			left = nil
		}
	}
}

// watch does what is in SQL.
func (d *drops) watch(ctx context.Context, redo func([]keyspace.Key) error) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := d.look(ctx, redo)
		if err != nil && !failing && ctx.Err() == nil {
			d.log.LogAttrs(ctx, slog.LevelWarn, "the drops of other nodes cannot be read", slog.Any("error", err))
		}
		failing = err != nil
	}
}

// look does the drops of keys that wait in SQL, whichever node they are from. The
// consumers may do them, too, and do those of families.
func (d *drops) look(ctx context.Context, redo func([]keyspace.Key) error) error {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	outbox := queue.NewSQL(d.db)
	for {
		page, err := outbox.Waiting(ctx, TopicDrop, dropPage)
		if err != nil {
			return err
		}
		var keys []keyspace.Key
		var ours []queue.Entry
		for _, e := range page {
			var m Drop
			if json.Unmarshal(e.Payload, &m) != nil || len(m.Keys) == 0 || len(m.Tags) > 0 || m.Family != "" {
				continue
			}
			if parsed, err := parseAll(m.Keys); err == nil {
				ours, keys = append(ours, e), append(keys, parsed...)
			}
		}
		if len(ours) == 0 {
			d.behind.Store(false)
			return nil
		}
		if redo(keys) != nil { // the connection's watcher has said why
			d.behind.Store(true)
			return nil
		}
		if err := outbox.Done(ctx, ours...); err != nil {
			return err
		}
	}
}

// leave is Add within a transaction that changes what the keys cache.
func (d *drops) leave(ctx context.Context, tx *sqldb.Tx, keys []keyspace.Key) error {
	return enqueue(ctx, tx, newDrop(keys, tx.Now()))
}

func newDrop(keys []keyspace.Key, at time.Time) Drop {
	m := Drop{ID: ids.New[Drop]().String(), At: at.UnixMilli()}
	for _, k := range keys {
		m.Keys = append(m.Keys, k.String())
	}
	return m
}

// Enqueue has a server of this database do drops.
func Enqueue(ctx context.Context, db *sqldb.DB, m Drop) error {
	return db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return enqueue(ctx, tx, m) })
}

func enqueue(ctx context.Context, tx *sqldb.Tx, m Drop) error {
	payload, err := json.Marshal(m)
	if err != nil {
		return err
	}
	row := sqldb.Message{Topic: TopicDrop, Payload: payload}
	if len(m.Keys) == 1 && len(m.Keys[0]) <= 120 { // what the column holds
		row.Key = m.Keys[0]
	}
	return tx.Enqueue(ctx, row)
}

// longestLife is that of any cached value.
func longestLife() (d time.Duration) {
	for _, s := range Keys() {
		for _, f := range s.Families() {
			if f.IsCached() {
				d = max(d, f.TTL.Longest())
			}
		}
	}
	return d
}

// dropped handles [TopicDrop]. While Redis is away it comes again, for as long as
// an old value could live; what Redis refuses is tried five times.
func (a *App) dropped(ctx context.Context, d queue.Delivery) error {
	var m Drop
	if err := json.Unmarshal(d.Payload, &m); err != nil {
		return fmt.Errorf("%w: %w", queue.ErrGiveUp, err)
	}
	_, err := DropCached(ctx, a.redis, a.caches, m, nil)
	if errors.Is(err, redis.ErrUnavailable) && a.db.Now().Sub(time.UnixMilli(m.At)) > longestLife() {
		return nil
	}
	return err
}

// dropPage is how many keys are dropped at once.
const dropPage = 500

// errNoCached reports what is no key, tag or family of a cache.
var errNoCached = errors.New("nothing is cached as that")

// ParseCached returns the cached key of that name.
func ParseCached(name string) (keyspace.Key, error) {
	found, ok := parser().Key(name)
	if !ok || !found.Family.IsCached() {
		return keyspace.Key{}, fmt.Errorf("%w: %s", errNoCached, name)
	}
	return found.Key(), nil
}

func parseAll(names []string) (_ []keyspace.Key, err error) {
	keys := make([]keyspace.Key, len(names))
	for i, name := range names {
		if keys[i], err = ParseCached(name); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

var parser = sync.OnceValue(func() *keyspace.Parser { return keyspace.NewParser(Keys()...) })

// CachedFamily returns the family with that pattern.
func CachedFamily(pattern string) (*keyspace.Family, error) {
	for _, s := range Keys() {
		for _, f := range s.Families() {
			if f.Pattern == pattern && f.IsCached() {
				return f, nil
			}
		}
	}
	return nil, fmt.Errorf("%w: %s", errNoCached, pattern)
}

// EachCached calls fn with the keys in Redis of a cached family, up to dropPage at
// a time.
func EachCached(ctx context.Context, db *redis.DB, f *keyspace.Family, fn func([]keyspace.Key) error) error {
	prefix := db.Physical(keyspace.Key{})
	var page []keyspace.Key
	err := db.Scan(ctx, func(physical string) error {
		found, ok := parser().Key(strings.TrimPrefix(physical, prefix))
		if !ok || found.Family != f {
			return nil
		}
		if page = append(page, found.Key()); len(page) < dropPage {
			return nil
		}
		err := fn(page)
		page = nil
		return err
	})
	if err == nil && len(page) > 0 {
		err = fn(page)
	}
	return err
}

// DropCached drops as a change would, on every node, and returns how many keys it
// dropped in Redis. It may tell how far it is.
func DropCached(ctx context.Context, db *redis.DB, rt *cache.Runtime, m Drop, progress func(done int)) (n int, err error) {
	drop := func(keys []keyspace.Key) error {
		if err := rt.Redo(keys); err != nil {
			return err
		}
		if n += len(keys); progress != nil {
			progress(n)
		}
		return nil
	}
	keys, err := parseAll(m.Keys)
	if err != nil {
		return 0, err
	}
	for _, tag := range m.Tags {
		t, ok := cache.ParseTag(tag)
		if !ok {
			return 0, fmt.Errorf("%w: %s", errNoCached, tag)
		}
		keys = append(keys, t.Target().Key())
	}
	if len(keys) > 0 {
		if err := drop(keys); err != nil {
			return n, err
		}
	}
	if m.Family == "" {
		return n, nil
	}
	f, err := CachedFamily(m.Family)
	if err != nil {
		return n, err
	}
	if err := EachCached(ctx, db, f, drop); err != nil {
		return n, err
	}
	return n, rt.Forget() // what Redis has evicted, processes may still have
}
