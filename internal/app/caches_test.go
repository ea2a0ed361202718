package app

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/foundation/config"
	"github.com/stoa-dev/stoa/internal/foundation/ids"
	"github.com/stoa-dev/stoa/internal/foundation/queue"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb"
	"github.com/stoa-dev/stoa/keyspace"
	"github.com/stoa-dev/stoa/redis"
	"github.com/stoa-dev/stoa/redis/redistest"
)

// whole builds every part of a node that serves nobody.
func whole(t *testing.T, redis string) *App {
	t.Helper()
	a, err := New(t.Context(), Config{Data: t.TempDir(), Redis: redis, SQL: "sqlite", KeyPrefix: "stoa", Dev: "true"}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

func TestEveryEventThatACachedFamilyNamesDropsIt(t *testing.T) {
	a := whole(t, "embedded")
	if err := a.caches.Check(); err != nil {
		t.Error(err)
	}
	used := a.caches.Stats()
	n := 0
	for _, s := range Keys() {
		for _, f := range s.Families() {
			if !f.IsCached() {
				continue
			}
			n++
			if _, ok := used[f.Pattern]; !ok {
				t.Errorf("%s is declared and no cache uses it", f.Pattern)
			}
			if len(f.Doc.InvalidatedBy) == 0 {
				t.Errorf("nothing drops %s", f.Pattern)
			}
		}
	}
	if n == 0 || n != len(used) {
		t.Errorf("%d families and %d caches", n, len(used))
	}
}

func userKey(t *testing.T) keyspace.Key {
	t.Helper()
	key, err := ParseCached("user:info:" + ids.New[accounts.User]().String())
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// consume runs a consumer of the node's drops, with short waits.
func (a *App) consume(t *testing.T) {
	t.Helper()
	c, err := queue.NewConsumer(queue.NewSQL(a.db), map[string]queue.Handler{TopicDrop: a.dropped}, nil,
		queue.Config{Poll: 5 * time.Millisecond, Backoff: 2 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = c.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
}

// waiting returns the drops that wait in SQL, and the dead ones.
func (a *App) waiting(t *testing.T) (wait, dead []queue.Entry) {
	t.Helper()
	for _, isDead := range []bool{false, true} {
		es, err := queue.NewSQL(a.db).List(t.Context(), queue.Filter{Dead: isDead, Topic: TopicDrop})
		if err != nil {
			t.Fatal(err)
		}
		wait, dead = dead, es
	}
	return wait, dead
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 20 s", what)
		}
	}
}

func TestADropThatRedisRefusesIsTriedFiveTimesAndThenADeadLetter(t *testing.T) {
	a := whole(t, "embedded")
	key := userKey(t)
	if err := a.redis.Do(t.Context(), keyspace.Cmd{Name: "RPUSH", Key: key, Args: []string{"not a value"}}).Err; err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := a.drops.Add(t.Context(), []keyspace.Key{key}); err != nil {
			t.Fatal(err)
		}
	}
	if wait, _ := a.waiting(t); len(wait) != 1 || wait[0].Key != key.String() {
		t.Fatalf("%+v wait, want the key once", wait)
	}
	a.consume(t)
	var dead []queue.Entry
	eventually(t, "a dead letter", func() bool { _, dead = a.waiting(t); return len(dead) == 1 })
	if dead[0].Attempts != queue.Tries || !strings.Contains(dead[0].Error, "WRONGTYPE") {
		t.Errorf("got %+v, want five tries and why", dead[0])
	}
	if err := a.redis.Do(t.Context(), keyspace.Cmd{Name: "DEL", Key: key}).Err; err != nil {
		t.Fatal(err)
	}
	if n, err := queue.NewSQL(a.db).Replay(t.Context(), dead[0].ID); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	eventually(t, "done", func() bool { wait, dead := a.waiting(t); return len(wait)+len(dead) == 0 })
}

// While Redis is away no try counts; afterwards an old value is gone at once, by
// the node that could not drop it or by any other.
func TestDropsWaitForRedis(t *testing.T) {
	server := redistest.Server(t)
	for name, do := range map[string]func(t *testing.T, a *App){
		"in memory": func(t *testing.T, a *App) {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { defer close(ended); a.drops.run(ctx, a.caches.Redo) }()
			t.Cleanup(func() { cancel(); <-ended })
		},
		"in SQL": func(t *testing.T, a *App) { a.consume(t) },
	} {
		t.Run(name, func(t *testing.T) {
			a := whole(t, server.URL)
			key := userKey(t)
			held := func() bool {
				_, ok, err := a.redis.Do(t.Context(), keyspace.Cmd{Name: "GET", Key: key}).Text()
				return ok || err != nil
			}
			if _, err := server.Do("SET", a.redis.Physical(key), "an old value", "PX", "60000"); err != nil {
				t.Fatal(err)
			}
			server.Pause()
			if err := a.caches.Redo([]keyspace.Key{key}); err == nil {
				t.Fatal("Redis is paused and takes a drop")
			}
			if err := a.drops.Add(t.Context(), []keyspace.Key{key}); err != nil {
				t.Fatal(err)
			}
			do(t, a)
			time.Sleep(200 * time.Millisecond) // some tries
			if _, dead := a.waiting(t); len(dead) > 0 {
				t.Errorf("given up: %+v", dead)
			}
			server.Resume()
			eventually(t, "the old value is dropped", func() bool { return !held() })
		})
	}
}

// What one node could not do another one finds, whoever has claimed the message and
// whenever it is due. Copies count for nothing until it is done.
func TestDropsOfACutOffNodeAreDoneByAnother(t *testing.T) {
	a := whole(t, "embedded")
	key, family := userKey(t), Drop{Family: "user:info:{uid}"}
	err := a.db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		return errors.Join(a.drops.leave(ctx, tx, []keyspace.Key{key}), enqueue(ctx, tx, family))
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.db.ExecContext(t.Context(), "UPDATE outbox SET claim = 'the other', due = ?", time.Now().Add(time.Hour).UnixMilli()); err != nil {
		t.Fatal(err)
	}
	look := func(away error) (done []string) {
		t.Helper()
		if err := a.drops.look(t.Context(), func(keys []keyspace.Key) error {
			for _, k := range keys {
				done = append(done, k.String())
			}
			return away
		}); err != nil {
			t.Fatal(err)
		}
		return done
	}
	if look(redis.ErrUnavailable); !a.drops.behind.Load() {
		t.Error("a drop that could not be done is not noted")
	}
	if done := look(nil); len(done) != 1 || done[0] != key.String() || a.drops.behind.Load() {
		t.Errorf("dropped %v, behind %t, want the key, and nothing waits", done, a.drops.behind.Load())
	}
	if done := look(nil); len(done) != 0 {
		t.Errorf("again: %v", done)
	}
	if wait, _ := a.waiting(t); len(wait) != 1 {
		t.Errorf("%+v wait, want the family's drop, which is for a consumer", wait)
	}
}

// After the longest life there is nothing left to drop.
func TestADropIsNotTriedForEver(t *testing.T) {
	server := redistest.Server(t)
	a := whole(t, server.URL)
	server.Kill()
	m := Drop{Keys: []string{userKey(t).String()}, At: time.Now().Add(-longestLife() - time.Second).UnixMilli()}
	if longestLife() < time.Hour {
		t.Fatalf("the longest life is %s", longestLife())
	}
	if err := Enqueue(t.Context(), a.db, m); err != nil {
		t.Fatal(err)
	}
	a.consume(t)
	eventually(t, "forgotten", func() bool { wait, _ := a.waiting(t); return len(wait) == 0 })
}

func TestADropThatNamesNothingCachedIsAnError(t *testing.T) {
	a := whole(t, "embedded")
	for _, m := range []Drop{{Keys: []string{"auth:at:x:y"}}, {Tags: []string{"room"}}, {Family: "user:nobody"}} {
		if n, err := DropCached(t.Context(), a.redis, a.caches, m, nil); err == nil || n != 0 {
			t.Errorf("%+v: dropped %d, %v", m, n, err)
		}
	}
}

func TestCacheSettingsThatCannotWork(t *testing.T) {
	if err := (CacheSettings{}).Validate(); err != nil {
		t.Errorf("the zero value: %v", err)
	}
	err := CacheSettings{Entries: -2, MaxStale: time.Millisecond, Budget: time.Minute, Loads: -1, Warm: MostWarm + 1}.Validate()
	if faults := config.Faults(err); len(faults) != 5 {
		t.Errorf("got %v, want five faults", faults)
	}
}
