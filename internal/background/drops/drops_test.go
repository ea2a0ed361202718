package drops

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/background/queue"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

var schema = keyspace.New("drops_test")

var (
	thingKey = keyspace.Def1[keyspace.Text](schema, "thing:{id}", keyspace.CachedOf[int](),
		keyspace.Expire(2*time.Hour), keyspace.Doc{Purpose: "a value that is cached", MaxBytes: 64})
	_ = keyspace.Def1[keyspace.Text](schema, "count:{id}", keyspace.CounterKind(),
		keyspace.Forever("a test"), keyspace.Doc{Purpose: "a value that is not cached"})
)

var oneThing = thingKey.At(keyspace.Text{S: "1"}).Key

// node is the part of a node that handles drops.
type node struct {
	*Queue
	redis  *redis.DB
	caches *cache.Runtime
}

func newQueue(db *sqldb.DB) *Queue {
	return New(Config{DB: db, Cached: NewCached(schema), Connected: func() bool { return true }, Alone: true,
		Log: slog.New(slog.DiscardHandler)})
}

func newNode(t *testing.T, url string) *node {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	n := &node{Queue: newQueue(sqldbtest.SQLite(t)), redis: redistest.Open(t, url)}
	n.caches = cache.NewRuntime(n.redis, events.NewBus(n.redis, "node", log).Nodes(), cache.Config{Retries: n.Queue, Log: log})
	return n
}

// background runs f until the test ends.
func background(t *testing.T, f func(ctx context.Context)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { f(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
}

// consume runs a consumer of the node's drops with short waits.
func (n *node) consume(t *testing.T) {
	t.Helper()
	c, err := queue.NewConsumer(queue.NewSQL(n.db), map[string]queue.Handler{Topic: n.Handler(n.redis, n.caches)}, nil,
		queue.Config{Poll: 5 * time.Millisecond, Backoff: 2 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	background(t, func(ctx context.Context) { _ = c.Run(ctx) })
}

// waiting returns the waiting drops in SQL, and the dead ones.
func (n *node) waiting(t *testing.T) (wait, dead []queue.Entry) {
	t.Helper()
	for _, isDead := range []bool{false, true} {
		es, err := queue.NewSQL(n.db).List(t.Context(), queue.Filter{Dead: isDead, Topic: Topic})
		if err != nil {
			t.Fatal(err)
		}
		wait, dead = dead, es
	}
	return wait, dead
}

func TestQueue_RefusedDropBecomesADeadLetter(t *testing.T) {
	n, key := newNode(t, "embedded"), oneThing
	if err := redis.NewScript("return redis.call('RPUSH', KEYS[1], 'not a value')").Run(t.Context(), n.redis,
		[]keyspace.Key{key}).Err; err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := n.Add(t.Context(), []keyspace.Key{key}); err != nil {
			t.Fatal(err)
		}
	}
	if wait, _ := n.waiting(t); len(wait) != 1 || wait[0].Key != key.String() {
		t.Fatalf("%+v wait, want the key once", wait)
	}
	n.consume(t)
	var dead []queue.Entry
	eventually.True(t, "a dead letter", func() bool { _, dead = n.waiting(t); return len(dead) == 1 })
	if dead[0].Attempts != queue.Tries || !strings.Contains(dead[0].Error, "WRONGTYPE") {
		t.Errorf("got %+v, want five tries and why", dead[0])
	}
	if err := n.redis.Do(t.Context(), keyspace.Cmd{Name: "DEL", Key: key}).Err; err != nil {
		t.Fatal(err)
	}
	if replayed, err := queue.NewSQL(n.db).Replay(t.Context(), dead[0].ID); replayed != 1 || err != nil {
		t.Fatal(replayed, err)
	}
	eventually.True(t, "done", func() bool { wait, dead := n.waiting(t); return len(wait)+len(dead) == 0 })
}

// While Redis is unavailable no try counts. Afterwards the node that could not drop the value, or another one, drops it
// at once.
func TestQueue_DropsWaitForRedis(t *testing.T) {
	server := redistest.Server(t)
	for name, begin := range map[string]func(t *testing.T, n *node) (tried func() bool){
		"in memory": func(t *testing.T, n *node) func() bool {
			var failed atomic.Int64
			background(t, func(ctx context.Context) {
				n.runMemory(ctx, func(keys []keyspace.Key) error {
					err := n.caches.Redo(keys)
					if err != nil {
						failed.Add(1)
					}
					return err
				})
			})
			return func() bool { return failed.Load() > 1 }
		},
		"in SQL": func(t *testing.T, n *node) func() bool {
			n.consume(t)
			return func() bool {
				wait, _ := n.waiting(t)
				return len(wait) == 1 && wait[0].Error != "" && wait[0].Attempts == 0
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			n, key := newNode(t, server.URL), oneThing
			held := func() bool {
				_, ok, err := n.redis.Do(t.Context(), keyspace.Cmd{Name: "GET", Key: key}).Text()
				return ok || err != nil
			}
			if _, err := server.Do("SET", n.redis.Physical(key), "an old value", "PX", "60000"); err != nil {
				t.Fatal(err)
			}
			server.Pause()
			if err := n.caches.Redo([]keyspace.Key{key}); err == nil {
				t.Fatal("Redis is paused and takes a drop")
			}
			if err := n.Add(t.Context(), []keyspace.Key{key}); err != nil {
				t.Fatal(err)
			}
			eventually.True(t, "tries that do not count", begin(t, n))
			if _, dead := n.waiting(t); len(dead) > 0 {
				t.Errorf("given up: %+v", dead)
			}
			server.Resume()
			eventually.True(t, "the old value is dropped", func() bool { return !held() })
		})
	}
}

// A key that Redis refuses to drop is not retried forever from memory, and delays no later drop.
func TestQueue_RefusedKeyDelaysNoOther(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		q := newQueue(sqldbtest.SQLite(t))
		var refused, dropped atomic.Int64
		background(t, func(ctx context.Context) {
			q.runMemory(ctx, func(keys []keyspace.Key) error {
				if slices.Contains(keys, oneThing) {
					refused.Add(1)
					return redis.ServerError("WRONGTYPE it is a list")
				}
				dropped.Add(int64(len(keys)))
				return nil
			})
		})
		for _, id := range []string{"1", "2"} {
			if err := q.Add(t.Context(), []keyspace.Key{thingKey.At(keyspace.Text{S: id}).Key}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if dropped.Load() != 1 || refused.Load() != 2 {
			t.Errorf("%d dropped and %d refused, want one, and two tries of the other", dropped.Load(), refused.Load())
		}
	})
}

// While Redis is unavailable, the commit itself stores the drop, so that it survives the node.
func TestTx_WithoutFenceEnqueuesTheDrop(t *testing.T) {
	server := redistest.Server(t)
	n := newNode(t, server.URL)
	things := cache.New(n.caches, thingKey, cache.Policy{Unfenced: cache.Proceed}, cache.Source[keyspace.Text, int]{
		Load: func(context.Context, keyspace.Text) (int, error) { return 1, nil },
	})
	left := func() (left int) {
		t.Helper()
		if _, err := n.db.ExecContext(t.Context(), "DELETE FROM outbox"); err != nil { // a slow Redis may have left a drop of the previous change
			t.Fatal(err)
		}
		if err := n.caches.Change(t.Context(), func(ctx context.Context) error {
			return Tx(ctx, n.db, func(_ context.Context, tx *sqldb.Tx) error {
				tx.AfterCommit(func() { wait, _ := n.waiting(t); left = len(wait) })
				return nil
			})
		}, things.Target(keyspace.Text{S: "1"})); err != nil {
			t.Fatal(err)
		}
		return left
	}
	eventually.True(t, "a change that Redis receives", func() bool { return left() == 0 })
	server.Kill()
	if n := left(); n != 1 {
		t.Errorf("the commit left %d drops, want one", n)
	}
}

// Another node does the drops of a node without Redis, whichever node has claimed the message and whenever it is due.
// Until then local copies are not used.
func TestQueue_AnotherNodeDoesTheDrops(t *testing.T) {
	n, key := newNode(t, "embedded"), oneThing
	err := n.db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		return errors.Join(Enqueue(ctx, tx, []keyspace.Key{key}), enqueue(ctx, tx, Drop{Family: "thing:{id}"}))
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.db.ExecContext(t.Context(), "UPDATE outbox SET claim = 'the other', due = ?",
		time.Now().Add(time.Hour).UnixMilli()); err != nil {
		t.Fatal(err)
	}
	look := func(away error) (done []string) {
		t.Helper()
		if err := n.doWaiting(t.Context(), func(keys []keyspace.Key) error {
			for _, k := range keys {
				done = append(done, k.String())
			}
			return away
		}); err != nil {
			t.Fatal(err)
		}
		return done
	}
	if look(redis.ErrUnavailable); !n.Pending() {
		t.Error("a drop that could not be done is not pending")
	}
	if done := look(nil); len(done) != 1 || done[0] != key.String() || n.Pending() {
		t.Errorf("dropped %v, pending %t, want the key, and nothing pending", done, n.Pending())
	}
	if done := look(nil); len(done) != 0 {
		t.Errorf("again: %v", done)
	}
	if wait, _ := n.waiting(t); len(wait) != 1 {
		t.Errorf("%+v wait, want the family's drop, which is for a consumer", wait)
	}
}

// The first drop of a node that is cut off waits until another node has found it. The next ones do not wait, because
// that node then checks often. After a while it checks seldom again.
func TestAdd_ReturnsWhenAnotherNodeHasFoundTheDrop(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		db := sqldbtest.SQLite(t)
		open := func() *Queue {
			return New(Config{DB: db, Cached: NewCached(schema), Connected: func() bool { return true }, Log: slog.New(slog.DiscardHandler)})
		}
		cutOff, other := open(), open()
		var dropped atomic.Pointer[time.Time]
		background(t, func(ctx context.Context) {
			other.runSQL(ctx, func([]keyspace.Key) error { now := time.Now(); dropped.Store(&now); return nil })
		})
		defer sqldbtest.Watch(t, db)()
		add := func() (waited, until time.Duration) {
			t.Helper()
			dropped.Store(nil)
			began := time.Now()
			if err := cutOff.Add(t.Context(), []keyspace.Key{oneThing}); err != nil {
				t.Fatal(err)
			}
			waited = time.Since(began)
			bubble.Sleep(250 * time.Millisecond)
			if at := dropped.Load(); at != nil {
				return waited, at.Sub(began)
			}
			t.Fatalf("no node has done the drop %s after the response, which waited %s", time.Since(began)-waited, waited)
			return 0, 0
		}
		for range 3 {
			for i := range 8 {
				waited, until := add()
				if i > 0 && waited > 0 {
					t.Errorf("drop %d waits %s, want none", i, waited)
				}
				if i > 0 && until > 250*time.Millisecond {
					t.Errorf("drop %d is done after %s, want a check in a hurry", i, until)
				}
				bubble.Sleep(10 * time.Second)
			}
			bubble.Sleep(time.Minute)
		}
	})
}

// Between two short cuts a node may do its own drop before another node has found it.
func TestAdd_WaitsAgainAfterItsNodeHasDoneADrop(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := newNode(t, "embedded")
		n.alone = false
		for how, do := range map[string]func() error{
			"by a consumer": func() error {
				payload, _ := json.Marshal(newDrop([]keyspace.Key{oneThing}, time.Now()))
				return n.Handler(n.redis, n.caches)(t.Context(), queue.Delivery{Payload: payload})
			},
			"by a check": func() error { return n.doWaiting(t.Context(), func([]keyspace.Key) error { return nil }) },
		} {
			for i, want := range []time.Duration{sqldb.WatchWithin, 0, sqldb.WatchWithin} {
				began := time.Now()
				if err := n.Add(t.Context(), []keyspace.Key{oneThing}); err != nil || time.Since(began) != want {
					t.Errorf("%s, drop %d: waits %s, %v; want %s", how, i, time.Since(began), err, want)
				}
				if i == 1 {
					if err := do(); err != nil {
						t.Error(how, err)
					}
				}
			}
			time.Sleep(time.Minute)
		}
	})
}

// A node that is cut off knows that drops wait before its Redis is back.
func TestQueue_ChecksOftenWithoutRedis(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var connected atomic.Bool
		db := sqldbtest.SQLite(t)
		q := New(Config{DB: db, Cached: NewCached(schema), Connected: connected.Load, Alone: true, Log: slog.New(slog.DiscardHandler)})
		background(t, func(ctx context.Context) { q.runSQL(ctx, func([]keyspace.Key) error { return redis.ErrUnavailable }) })
		defer sqldbtest.Watch(t, db)()
		bubble.Sleep(time.Minute)
		if err := Request(t.Context(), db, newDrop([]keyspace.Key{oneThing}, time.Now())); err != nil {
			t.Fatal(err)
		}
		bubble.Sleep(250 * time.Millisecond)
		if !q.Pending() {
			t.Error("a drop that cannot be done is not pending")
		}
		if _, err := db.ExecContext(t.Context(), "DELETE FROM outbox"); err != nil {
			t.Fatal(err)
		}
		bubble.Sleep(250 * time.Millisecond)
		if q.Pending() {
			t.Error("no drop waits, and one is pending")
		}
	})
}

// The handler of a worker may remove a drop before a check finds it. Its node then checks often, as after a check.
func TestHandler_MakesItsNodeCheckOften(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := newNode(t, "embedded")
		if n.inHurry() {
			t.Fatal("a node without drops is in a hurry")
		}
		payload, _ := json.Marshal(newDrop([]keyspace.Key{oneThing}, time.Now()))
		_ = n.Handler(n.redis, n.caches)(t.Context(), queue.Delivery{Payload: payload})
		if !n.inHurry() {
			t.Error("after a drop of another node, the node is not in a hurry")
		}
	})
}

// After the longest TTL no stale value remains.
func TestHandler_StopsAfterTheLongestTTL(t *testing.T) {
	server := redistest.Server(t)
	n := newNode(t, server.URL)
	server.Kill()
	if n.cached.longest != 2*time.Hour {
		t.Fatalf("the longest life is %s", n.cached.longest)
	}
	d := newDrop([]keyspace.Key{oneThing}, time.Now().Add(-n.cached.longest-time.Second))
	if err := Request(t.Context(), n.db, d); err != nil {
		t.Fatal(err)
	}
	n.consume(t)
	eventually.True(t, "forgotten", func() bool { wait, _ := n.waiting(t); return len(wait) == 0 })
}

func TestCached_UnknownNamesAreErrors(t *testing.T) {
	n := newNode(t, "embedded")
	for _, d := range []Drop{{Keys: []string{"count:1"}}, {Keys: []string{"nobody's:1"}}, {Tags: []string{"room"}}, {Family: "count:{id}"}} {
		if done, err := n.cached.Do(t.Context(), n.redis, n.caches, d, nil); !errors.Is(err, ErrNotCached) || done != 0 {
			t.Errorf("%+v: dropped %d, %v", d, done, err)
		}
	}
}
