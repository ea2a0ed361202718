package cache_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/bus"
	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

var schema = keyspace.New("cachetest")

type user struct {
	Name string `json:"name"`
	Age  int    `json:"age"`
}

var (
	users = keyspace.Def1[keyspace.Int](schema, "test:user:{id}", keyspace.CachedOf[user](),
		keyspace.Expire(time.Hour).Jitter(5*time.Minute).Negative(5*time.Minute).StaleIfError(24*time.Hour),
		keyspace.Doc{Purpose: "users of the tests", InvalidatedBy: []string{"user changed"}})
	events = keyspace.DefChannel0(schema, "test:events", keyspace.RawMessages("bus"), keyspace.Doc{Purpose: "the tests' bus"})
	log    = keyspace.Def0(schema, "test:events", keyspace.StreamOf("bus"), keyspace.Forever("trimmed"),
		keyspace.Doc{Purpose: "the tests' bus"})
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// table is the source, in place of SQL.
type table struct {
	mu    sync.Mutex
	rows  map[int64]user
	loads atomic.Int64
	delay time.Duration
	err   error
}

func (s *table) load(ctx context.Context, id keyspace.Int) (user, error) {
	s.loads.Add(1)
	s.mu.Lock()
	u, ok := s.rows[id.N]
	delay, err := s.delay, s.err
	s.mu.Unlock()
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return u, ctx.Err()
		}
	}
	if err != nil {
		return u, err
	}
	if !ok {
		return u, cache.ErrNotFound
	}
	return u, nil
}

func (s *table) set(id int64, u user) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rows == nil {
		s.rows = map[int64]user{}
	}
	s.rows[id] = u
}

// node is one process.
type node struct {
	rt    *cache.Runtime
	users *cache.Cache[keyspace.Int, user]
	bus   *bus.Bus
}

var nodes atomic.Int64

func start(t testing.TB, db *redis.DB, s *table, p cache.Policy) *node {
	t.Helper()
	b := bus.New(db, bus.Keys{Events: events.At(), Log: log.At()}, bus.Config{Node: fmt.Sprint("n", nodes.Add(1))})
	n := &node{rt: cache.NewRuntime(db, b, cache.Config{Budget: 5 * time.Second}), bus: b}
	n.users = cache.New(n.rt, users, p, cache.Source[keyspace.Int, user]{Load: s.load})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = b.Run(ctx, func() {}) })
	wg.Go(func() { _ = n.rt.Run(ctx, func() {}) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	must(t, b.Wait(t.Context()))
	return n
}

func TestCache(t *testing.T) {
	for _, engine := range redistest.SharedEngines(t) {
		t.Run(engine.Name, func(t *testing.T) {
			t.Parallel()
			db := engine.Open(t)
			s := &table{}
			// On a busy machine a beat may take long; that must not affect this test.
			p := cache.Policy{MaxStale: 10 * time.Second}
			a, b := start(t, db, s, p), start(t, db, s, p)
			id := keyspace.Int{N: 7}
			if _, err := a.users.Get(t.Context(), id); !errors.Is(err, cache.ErrNotFound) {
				t.Errorf("Get of a missing value: %v", err)
			}
			if _, err := b.users.Get(t.Context(), id); !errors.Is(err, cache.ErrNotFound) || s.loads.Load() != 1 {
				t.Errorf("Get of a missing value on the other node: %v after %d loads", err, s.loads.Load())
			}
			u, err := a.users.Mutate(t.Context(), id, func(context.Context) error { s.set(7, user{"ada", 36}); return nil })
			if err != nil || u.Name != "ada" {
				t.Errorf("Mutate = %+v, %v", u, err)
			}
			loads := s.loads.Load()
			if e, err := a.users.Lookup(t.Context(), id); err != nil || e.Value.Name != "ada" || e.Tier != cache.Process {
				t.Errorf("on this node: %+v, %v", e, err)
			}
			deadline := time.Now().Add(10 * time.Second)
			for {
				e, err := b.users.Lookup(t.Context(), id)
				must(t, err)
				if e.Value.Name == "ada" {
					if e.Tier != cache.Redis {
						t.Errorf("on the other node: %+v", e)
					}
					break
				}
				if time.Now().After(deadline) {
					t.Fatal("the other node does not see the change")
				}
			}
			if s.loads.Load() != loads {
				t.Errorf("%d loads after the change, want none", s.loads.Load()-loads)
			}
			var many []keyspace.Int
			for i := range int64(50) {
				s.set(i, user{fmt.Sprint("u", i), int(i)})
				many = append(many, keyspace.Int{N: i})
			}
			must(t, a.users.Invalidate(t.Context(), many...))
			m, err := b.users.GetMany(t.Context(), append(many, keyspace.Int{N: 99}))
			if err != nil || len(m) != 50 || m[keyspace.Int{N: 49}].Name != "u49" {
				t.Errorf("GetMany: %d, %v", len(m), err)
			}
			loads = s.loads.Load()
			m, err = a.users.GetMany(t.Context(), many)
			// The other node may still have had its copy of one value, and not stored it.
			if err != nil || len(m) != 50 || s.loads.Load() > loads+1 {
				t.Errorf("GetMany on the other node: %d, %v, %d loads", len(m), err, s.loads.Load()-loads)
			}
			// In process, in Redis, missing, in process again: each result at its index.
			a.users.Clear()
			_, err = a.users.Get(t.Context(), many[0])
			must(t, err)
			all, err := a.users.GetAll(t.Context(), []keyspace.Int{many[0], many[7], {N: 99}, many[0], many[7]})
			if err != nil || len(all) != 5 || all[2] != nil || all[0] == nil || all[1] == nil || all[4] == nil || all[0] != all[3] ||
				all[0].Name != "u0" || *all[1] != *all[4] || all[1].Name != "u7" {
				t.Errorf("GetAll: %+v, %v", all, err)
			}
			hits := a.users.Stats().Hits
			all, err = a.users.GetAll(t.Context(), many[:8])
			if err != nil || len(all) != 8 || all[7].Name != "u7" || a.users.Stats().Hits != hits+2 {
				t.Errorf("GetAll again: %+v, %v, %d hits more", all, err, a.users.Stats().Hits-hits)
			}
			s.set(7, user{"countess", 36})
			loads = s.loads.Load()
			if u, err := a.users.Refresh(t.Context(), many[7]); err != nil || u.Name != "countess" || s.loads.Load() != loads+1 {
				t.Errorf("Refresh = %+v, %v after %d loads", u, err, s.loads.Load()-loads)
			}
			s.set(7, user{"ada", 36})
			must(t, a.users.ClearEverywhere(t.Context()))
			if u, err := a.users.Get(t.Context(), many[7]); err != nil || u.Name != "ada" {
				t.Errorf("after ClearEverywhere: %+v, %v", u, err)
			}
			t.Logf("%+v", a.users.Stats())
			redistest.KeysDeclared(t, db, schema, cache.Keys)
		})
	}
}

func TestMain(m *testing.M) { os.Exit(m.Run()) }
