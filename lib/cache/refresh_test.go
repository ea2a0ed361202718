package cache_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

const maxStale = 500 * time.Millisecond // of the zero Policy

// wants fails unless the node reads this name.
func (n *node) wants(t *testing.T, when, name string) {
	t.Helper()
	if u, err := n.users.Get(t.Context(), one); u.Name != name || err != nil {
		t.Errorf("%s: got %q, %v; want %q", when, u.Name, err, name)
	}
}

func TestPeek_ReadsMemoryOnly(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		s := &table{}
		s.set(1, user{"ada", 36})
		a, b := start(t, server.Open(t), s, cache.Policy{}), start(t, server.Open(t), s, cache.Policy{Entries: -1})
		peeks := func(when string, n *node, id int64, want string) {
			t.Helper()
			if u, ok := n.users.Peek(keyspace.Int{N: id}); u.Name != want || ok != (want != "") {
				t.Errorf("%s: got %q, %v", when, u.Name, ok)
			}
		}
		peeks("before any read", a, 1, "")
		a.wants(t, "a", "ada")
		b.wants(t, "b", "ada")
		if _, err := a.users.Get(t.Context(), keyspace.Int{N: 2}); !errors.Is(err, cache.ErrNotFound) {
			t.Error(err)
		}
		before, calls := a.users.Stats(), server.Calls()["get"]
		peeks("after a read", a, 1, "ada")
		peeks("of a missing value", a, 2, "")
		peeks("without copies", b, 1, "")
		if after := a.users.Stats(); after != before || server.Calls()["get"] != calls || s.loads.Load() != 2 {
			t.Errorf("stats after Peek: %+v, before %+v", after, before)
		}
		must(t, b.users.Invalidate(t.Context(), one))
		bubble.Sleep(maxStale)
		peeks("after a change elsewhere", a, 1, "")
		a.wants(t, "again", "ada")
		peeks("after another read", a, 1, "ada")

		slow := func(context.Context, int64) (string, error) { time.Sleep(time.Millisecond); return "Ada", nil }
		names := cache.Keyed(a.rt, "name", decimal, slow,
			cache.Lives(keyspace.Expire(time.Minute).StaleIfError(time.Minute)), cache.With(cache.Policy{Beta: 1e6})) // Redis is asked again at once
		if _, err := names.Get(t.Context(), 7); err != nil {
			t.Error(err)
		}
		bubble.Sleep(59 * time.Second)
		if name, ok := names.Peek(7); name != "Ada" || !ok {
			t.Errorf("at the end of its life: %q, %v", name, ok)
		}
		bubble.Sleep(2 * time.Second)
		if name, ok := names.Peek(7); ok {
			t.Errorf("after its life: %q", name)
		}
	})
}

// A node that may have missed a change does not return its copies.
func TestPeek_IgnoresCopiesWhileDisconnected(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		wire := server.Wire()
		s := &table{}
		s.set(1, user{"ada", 36})
		a := start(t, redistest.OpenConfig(t, wire.Config()), s, cache.Policy{})
		a.wants(t, "a", "ada")
		if _, ok := a.users.Peek(one); !ok {
			t.Error("no copy")
		}
		wire.BlackHole()
		bubble.Sleep(maxStale + 100*time.Millisecond)
		if u, ok := a.users.Peek(one); ok {
			t.Errorf("a disconnected node returns %+v", u)
		}
	})
}

func TestRefresh_LoadsCachedValueAgain(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		s := &table{}
		s.set(1, user{"ada", 36})
		a, b := start(t, server.Open(t), s, cache.Policy{}), start(t, server.Open(t), s, cache.Policy{})
		for _, n := range []*node{a, b} {
			n.wants(t, "at first", "ada")
		}
		s.set(1, user{"countess", 36})
		if u, err := a.users.Refresh(t.Context(), one); u.Name != "countess" || err != nil {
			t.Errorf("Refresh = %+v, %v", u, err)
		}
		a.wants(t, "here", "countess")
		bubble.Sleep(maxStale)
		b.wants(t, "on the other node", "countess")
		if n := s.loads.Load(); n != 2 {
			t.Errorf("%d loads, want one at first and one for Refresh", n)
		}

		s.err = errors.New("the table is locked")
		if _, err := a.users.Refresh(t.Context(), one); !errors.Is(err, s.err) {
			t.Errorf("while the source fails: %v", err)
		}
		s.err = nil
		loads := s.loads.Load()
		for _, n := range []*node{a, b} {
			n.users.Clear()
			n.wants(t, "after a refresh that failed", "countess")
		}
		if s.loads.Load() != loads {
			t.Error("a failed refresh has dropped the cached value")
		}

		s.mu.Lock()
		delete(s.rows, 1)
		s.mu.Unlock()
		if u, err := a.users.Refresh(t.Context(), one); !errors.Is(err, cache.ErrNotFound) {
			t.Errorf("of a deleted value: %+v, %v", u, err)
		}
		bubble.Sleep(maxStale)
		for _, n := range []*node{a, b} {
			if u, err := n.users.Get(t.Context(), one); !errors.Is(err, cache.ErrNotFound) {
				t.Errorf("after the refresh: %+v, %v", u, err)
			}
		}
		gone, stop := context.WithCancel(t.Context())
		stop()
		if _, err := a.users.Refresh(gone, one); !errors.Is(err, context.Canceled) {
			t.Errorf("after the end of its context: %v", err)
		}
	})
}

// A family without negative entries stores none, but the old value still has to be removed.
func TestRefresh_MissingValueIsDropped(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		s := &nameTable{names: map[int64]string{7: "Ada"}}
		c := cache.Keyed(open(t, cache.Options{Redis: server.Wire().Config()}), "name", decimal, s.load, cache.Lives(keyspace.Expire(time.Hour)))
		if name, err := c.Get(t.Context(), 7); name != "Ada" || err != nil {
			t.Errorf("got %q, %v", name, err)
		}
		delete(s.names, 7)
		if name, err := c.Refresh(t.Context(), 7); !errors.Is(err, cache.ErrNotFound) {
			t.Errorf("Refresh = %q, %v", name, err)
		}
		if name, err := c.Get(t.Context(), 7); !errors.Is(err, cache.ErrNotFound) {
			t.Errorf("after the refresh: %q, %v", name, err)
		}
	})
}

func TestRefresh_ConcurrentCallsShareLoad(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		s := &table{delay: 100 * time.Millisecond}
		s.set(1, user{"ada", 36})
		a := start(t, redistest.InMemory(t).Open(t), s, cache.Policy{})
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				if u, err := a.users.Refresh(t.Context(), one); u.Name != "ada" || err != nil {
					t.Errorf("got %+v, %v", u, err)
				}
			})
		}
		all.Wait()
		if n := s.loads.Load(); n != 1 {
			t.Errorf("%d loads", n)
		}
		if _, err := a.users.Refresh(t.Context(), one); err != nil || s.loads.Load() != 2 {
			t.Errorf("a later refresh: %v, %d loads in all", err, s.loads.Load())
		}
	})
}

// A value that another node loaded from the state before the call is not a valid result.
func TestRefresh_IgnoresEarlierLoads(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		old, now := &table{delay: 50 * time.Millisecond}, &table{}
		old.set(1, user{"ada", 36})
		now.set(1, user{"countess", 36})
		a, b := start(t, server.Open(t), now, cache.Policy{}), start(t, server.Open(t), old, cache.Policy{})
		var all sync.WaitGroup
		all.Go(func() { b.wants(t, "its own load", "ada") })
		time.Sleep(10 * time.Millisecond)
		if u, err := a.users.Refresh(t.Context(), one); u.Name != "countess" || err != nil {
			t.Errorf("Refresh = %+v, %v", u, err)
		}
		all.Wait()
		bubble.Sleep(maxStale)
		a.wants(t, "here", "countess")
		b.wants(t, "on the other node", "countess")
	})
}

// A change during a refresh takes precedence.
func TestRefresh_ConcurrentChangeTakesPrecedence(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		slow, s := &table{delay: 100 * time.Millisecond}, &table{}
		slow.set(1, user{"ada", 36})
		s.set(1, user{"ada", 36})
		a, b := start(t, server.Open(t), slow, cache.Policy{}), start(t, server.Open(t), s, cache.Policy{})
		b.wants(t, "at first", "ada")
		var all sync.WaitGroup
		all.Go(func() { _, _ = a.users.Refresh(t.Context(), one) })
		time.Sleep(10 * time.Millisecond) // it has read the old value from the source
		if _, err := b.users.Mutate(t.Context(), one, func(context.Context) error { s.set(1, user{"countess", 36}); return nil }); err != nil {
			t.Error(err)
		}
		b.wants(t, "who changed it", "countess")
		all.Wait()
		slow.set(1, user{"countess", 36})
		bubble.Sleep(maxStale)
		a.wants(t, "after the refresh", "countess")
		b.wants(t, "after the refresh, on the other node", "countess")
	})
}

func TestRefresh_WithoutRedis(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		wire := server.Wire()
		s := &table{}
		s.set(1, user{"ada", 36})
		a, b := start(t, redistest.OpenConfig(t, wire.Config()), s, cache.Policy{CutOff: cache.ServeStale}),
			start(t, server.Open(t), s, cache.Policy{})
		a.wants(t, "at first", "ada")
		b.wants(t, "at first", "ada")
		s.set(1, user{"countess", 36})
		wire.Refuse()
		if u, err := a.users.Refresh(t.Context(), one); u.Name != "countess" || err != nil {
			t.Errorf("Refresh = %+v, %v", u, err)
		}
		a.wants(t, "meanwhile", "countess")
		wire.Heal()
		bubble.Sleep(5 * time.Second)
		b.wants(t, "once Redis is back", "countess")
	})
}

func TestClearEverywhere(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		s := &table{}
		a, b := start(t, server.Open(t), s, cache.Policy{}), start(t, server.Open(t), s, cache.Policy{})
		var ids []keyspace.Int
		for i := range int64(1200) { // more than fit in one message
			s.set(i, user{"ada", 36})
			ids = append(ids, keyspace.Int{N: i})
		}
		all := func(when string, n *node, want string) {
			t.Helper()
			got, err := n.users.GetMany(t.Context(), ids)
			must(t, err)
			for _, id := range ids {
				if got[id].Name != want {
					t.Fatalf("%s: %d is %q, want %q", when, id.N, got[id].Name, want)
				}
			}
		}
		all("at first", a, "ada")
		all("at first", b, "ada")
		names := &nameTable{names: map[int64]string{7: "Ada"}}
		others := cache.Keyed(a.rt, "name", decimal, names.load, cache.With(cache.Policy{Entries: -1}))
		long := strings.Repeat("x", 500)
		texts := cache.Keyed(a.rt, "text", func(s string) string {
			return s
		}, func(_ context.Context, s string) (int, error) { return len(s) + names.asked, nil })
		for range 2 {
			if _, err := others.Get(t.Context(), 7); err != nil {
				t.Error(err)
			}
			if n, err := texts.Get(t.Context(), long); n != 501 || err != nil {
				t.Errorf("got %d, %v", n, err)
			}
		}
		for _, id := range ids {
			s.set(id.N, user{"countess", 36})
		}
		all("while nobody says anything", b, "ada")
		must(t, a.users.ClearEverywhere(t.Context()))
		all("here", a, "countess")
		bubble.Sleep(maxStale)
		all("on the other node", b, "countess")
		if _, err := others.Get(t.Context(), 7); err != nil || names.asked != 1 {
			t.Errorf("another cache was cleared, too: %v after %d loads", err, names.asked)
		}
		names.asked = 100
		must(t, texts.ClearEverywhere(t.Context()))
		if n, err := texts.Get(t.Context(), long); n != 600 || err != nil {
			t.Errorf("a key that is hashed: got %d, %v", n, err)
		}
	})
}

// Each node reads missed events from the log: the entry of a clear must not grow with the number of cached values.
func TestClearEverywhere_PublishesOneEvent(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		db := server.Open(t)
		logged := func() (bytes int) {
			entries, err := db.Do(t.Context(), keyspace.Cmd{Name: "XRANGE", Key: log.At().Key, Args: []string{"-", "+"}}).Items()
			must(t, err)
			for _, e := range entries {
				bytes += len(e.List[1].List[1].Str)
			}
			return bytes
		}
		s := &table{}
		a := start(t, server.Open(t), s, cache.Policy{})
		var ids []keyspace.Int
		for i := range int64(1200) { // more than one command drops
			ids = append(ids, keyspace.Int{N: i})
		}
		_, err := a.users.GetMany(t.Context(), ids)
		must(t, err)
		before := logged()
		must(t, a.users.ClearEverywhere(t.Context()))
		if n := logged() - before; n == 0 || n > 1000 {
			t.Errorf("a clear of %d keys writes %d bytes into the log, want at most 1000", len(ids), n)
		}
	})
}

// Copies can outlive the value in Redis, which may have evicted the key.
func TestClearEverywhere_DropsCopiesOfEvictedKeys(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		db := server.Open(t)
		s := &table{}
		s.set(1, user{"ada", 36})
		a, b := start(t, server.Open(t), s, cache.Policy{}), start(t, server.Open(t), s, cache.Policy{})
		a.wants(t, "at first", "ada")
		b.wants(t, "at first", "ada")
		must(t, db.Do(t.Context(), keyspace.Cmd{Name: "UNLINK", Key: a.users.Target(one).Key()}).Err)
		s.set(1, user{"countess", 36})
		must(t, a.users.ClearEverywhere(t.Context()))
		a.wants(t, "here", "countess")
		bubble.Sleep(maxStale)
		b.wants(t, "on the other node", "countess")
	})
}

// A load that is running when everything is cleared is not stored.
func TestClearEverywhere_RunningLoadIsNotStored(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		slow, s := &table{delay: 100 * time.Millisecond}, &table{}
		slow.set(1, user{"ada", 36})
		s.set(1, user{"countess", 36})
		a, b := start(t, server.Open(t), s, cache.Policy{}), start(t, server.Open(t), slow, cache.Policy{})
		var all sync.WaitGroup
		all.Go(func() { b.wants(t, "who asked before", "ada") })
		time.Sleep(10 * time.Millisecond)
		must(t, a.users.ClearEverywhere(t.Context()))
		all.Wait()
		slow.set(1, user{"countess", 36})
		bubble.Sleep(maxStale)
		a.wants(t, "here", "countess")
		b.wants(t, "on the other node", "countess")
	})
}

func TestClearEverywhere_IsRetriedAfterOutage(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		wire := server.Wire()
		s := &table{}
		s.set(1, user{"ada", 36})
		a, b := start(t, redistest.OpenConfig(t, wire.Config()), s, cache.Policy{CutOff: cache.ServeStale}),
			start(t, server.Open(t), s, cache.Policy{})
		a.wants(t, "at first", "ada")
		b.wants(t, "at first", "ada")
		s.set(1, user{"countess", 36})
		wire.Refuse()
		if err := a.users.ClearEverywhere(t.Context()); !errors.Is(err, cache.ErrQueued) {
			t.Errorf("while Redis is away: %v", err)
		}
		a.wants(t, "meanwhile", "countess")
		if h := a.rt.Health(); h.Queued != 1 {
			t.Errorf("%+v", h)
		}
		wire.Heal()
		bubble.Sleep(10 * time.Second)
		synctest.Wait()
		b.wants(t, "once Redis is back", "countess")
		if h := a.rt.Health(); h.Queued != 0 {
			t.Errorf("once Redis is back: %+v", h)
		}
	})
}
