package cache_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// fresh fails unless the node returns this name to a reader with a maxAge, after this number of loads in all.
func (n *node) fresh(t *testing.T, s *table, maxAge time.Duration, name string, loads int64) {
	t.Helper()
	if u, err := n.users.GetFresh(t.Context(), one, maxAge); u.Name != name || err != nil {
		t.Errorf("at most %s old: got %q, %v; want %q", maxAge, u.Name, err, name)
	}
	if got := s.loads.Load(); got != loads {
		t.Errorf("at most %s old: %d loads in all, want %d", maxAge, got, loads)
	}
}

func TestGetFresh_ReturnsNoOlderValue(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		s := &table{}
		s.set(1, user{"ada", 36})
		p := cache.Policy{Renew: -1}
		a, b := start(t, server.Open(t), s, p), start(t, server.Open(t), s, p)
		a.fresh(t, s, time.Second, "ada", 1) // a cold key
		b.wants(t, "on the other node", "ada")
		s.set(1, user{"countess", 36}) // a change without notification
		bubble.Sleep(10 * time.Second)
		hits := a.users.Stats().Hits
		a.fresh(t, s, 11*time.Second, "ada", 1)
		if got := a.users.Stats().Hits - hits; got != 1 {
			t.Errorf("%d hits in process, want 1", got)
		}
		a.users.Clear()
		a.fresh(t, s, 11*time.Second, "ada", 1) // from Redis
		a.fresh(t, s, 9*time.Second, "countess", 2)
		a.wants(t, "from then on", "countess")
		b.wants(t, "in the memory of the other node", "ada")
		b.fresh(t, s, 9*time.Second, "countess", 2) // it is in Redis now
		b.wants(t, "on the other node, from then on", "countess")

		bubble.Sleep(time.Second)
		a.fresh(t, s, 0, "countess", 3)
		a.fresh(t, s, -time.Hour, "countess", 4)
		a.fresh(t, s, time.Second, "countess", 4)

		s.mu.Lock()
		delete(s.rows, 1)
		s.mu.Unlock()
		bubble.Sleep(time.Second)
		for range 2 { // the second read is in process
			if u, err := a.users.GetFresh(t.Context(), one, time.Millisecond); !errors.Is(err, cache.ErrNotFound) || s.loads.Load() != 5 {
				t.Errorf("of a missing value: %+v, %v after %d loads", u, err, s.loads.Load())
			}
		}
		s.set(1, user{"ada", 36})
		bubble.Sleep(time.Second)
		a.fresh(t, s, time.Second/2, "ada", 6)

		bubble.Sleep(time.Second)
		gone, stop := context.WithCancel(t.Context())
		stop()
		if _, err := a.users.GetFresh(gone, one, 0); !errors.Is(err, context.Canceled) {
			t.Errorf("after the end of its context: %v", err)
		}
	})
}

// A stale value, which other readers get while the source fails, is not returned to a reader with a maxAge.
func TestGetFresh_NeverReturnsStaleValue(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		s := &table{}
		s.set(1, user{"ada", 36})
		a := start(t, redistest.InMemory(t).Open(t), s, cache.Policy{})
		a.wants(t, "at first", "ada")
		boom := errors.New("boom")
		s.mu.Lock()
		s.err = boom
		s.mu.Unlock()
		bubble.Sleep(5 * time.Second)
		for range 2 {
			if u, err := a.users.GetFresh(t.Context(), one, time.Second); !errors.Is(err, boom) || u.Name != "" {
				t.Errorf("while the source fails: %+v, %v", u, err)
			}
			a.users.Clear()
		}
		a.wants(t, "what was cached", "ada")
	})
}

func TestGetFresh_ConcurrentCallsShareLoad(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		s := &table{delay: 100 * time.Millisecond}
		s.set(1, user{"ada", 36})
		a := start(t, redistest.InMemory(t).Open(t), s, cache.Policy{})
		a.wants(t, "at first", "ada")
		bubble.Sleep(time.Second)
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				if u, err := a.users.GetFresh(t.Context(), one, 500*time.Millisecond); u.Name != "ada" || err != nil {
					t.Errorf("got %+v, %v", u, err)
				}
			})
		}
		all.Wait()
		if n := s.loads.Load(); n != 2 {
			t.Errorf("%d loads, want 2", n)
		}
	})
}

// A reader that joins a read with a larger maxAge reads again.
func TestGetFresh_RereadsAfterJoiningOlderRead(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		s := &table{}
		s.set(1, user{"ada", 36})
		wire := server.Wire()
		a := start(t, redistest.OpenConfig(t, wire.Config()), s, cache.Policy{Entries: -1, Renew: -1})
		a.wants(t, "at first", "ada")
		s.set(1, user{"countess", 36})
		bubble.Sleep(10 * time.Second)
		wire.Delay(20 * time.Millisecond)
		var all sync.WaitGroup
		all.Go(func() { // reads Redis, which is slow
			if u, err := a.users.GetFresh(t.Context(), one, time.Minute); u.Name != "ada" || err != nil {
				t.Errorf("at most a minute old: %+v, %v", u, err)
			}
		})
		all.Go(func() {
			time.Sleep(5 * time.Millisecond)
			if u, err := a.users.GetFresh(t.Context(), one, time.Second); u.Name != "countess" || err != nil {
				t.Errorf("at most a second old: %+v, %v", u, err)
			}
		})
		all.Wait()
	})
}

// A reader that accepts any age does not share the failure of a reader with a maxAge.
func TestGetFresh_FailureIsNotShared(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		s := &table{}
		s.set(1, user{"ada", 36})
		a := start(t, redistest.InMemory(t).Open(t), s, cache.Policy{Entries: -1, Renew: -1})
		a.wants(t, "at first", "ada")
		s.mu.Lock()
		s.err, s.delay = errors.New("boom"), 100*time.Millisecond
		s.mu.Unlock()
		var all sync.WaitGroup
		all.Go(func() {
			if u, err := a.users.GetFresh(t.Context(), one, 0); err == nil {
				t.Errorf("got %+v from a failing source", u)
			}
		})
		time.Sleep(10 * time.Millisecond)
		a.wants(t, "meanwhile", "ada")
		all.Wait()
	})
}

// A reader cannot store an old value after a change, whatever its maxAge.
func TestGetFresh_ConcurrentChangeTakesPrecedence(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		slow, s := &table{delay: 100 * time.Millisecond}, &table{}
		slow.set(1, user{"ada", 36})
		s.set(1, user{"ada", 36})
		a, b := start(t, server.Open(t), slow, cache.Policy{}), start(t, server.Open(t), s, cache.Policy{})
		b.wants(t, "at first", "ada")
		bubble.Sleep(time.Second)
		var all sync.WaitGroup
		all.Go(func() { _, _ = a.users.GetFresh(t.Context(), one, 0) })
		time.Sleep(10 * time.Millisecond) // it has read the old value from the source
		if _, err := b.users.Mutate(t.Context(), one, func(context.Context) error { s.set(1, user{"countess", 36}); return nil }); err != nil {
			t.Error(err)
		}
		all.Wait()
		slow.set(1, user{"countess", 36})
		bubble.Sleep(maxStale)
		a.wants(t, "here", "countess")
		b.wants(t, "on the other node", "countess")
	})
}

// accessToken is a value that contains its own end.
type accessToken struct {
	Text string
	Ends time.Time // zero: not known
}

func (a accessToken) life() time.Duration {
	if a.Ends.IsZero() {
		return 0
	}
	return time.Until(a.Ends)
}

// issuer is a source of tokens with this life; 0: the tokens do not contain it.
type issuer struct {
	life   time.Duration
	issued int
}

func (i *issuer) load(context.Context, int64) (accessToken, error) {
	i.issued++
	if i.life == 0 {
		return accessToken{Text: "token"}, nil
	}
	return accessToken{"token", time.Now().Add(i.life)}, nil
}

func TestLifeOf_ValueSetsItsLife(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		for _, c := range []struct {
			name   string
			life   time.Duration // life of the value
			asked  time.Duration // how long it is read, once a second
			issued int
		}{
			{"ten_seconds", 10*time.Second + time.Millisecond/2, 29*time.Second + time.Second/2, 3},
			{"says_nothing", 0, 90 * time.Second, 1}, // and its life is extended
			{"longer_than_allowed", time.Hour, 150 * time.Second, 2},
			{"is_over", -time.Second, 4*time.Second + time.Second/2, 5},
			{"is_about_to_end", time.Microsecond, 4*time.Second + time.Second/2, 5},
		} {
			i := &issuer{life: c.life}
			db := redistest.OpenConfig(t, server.Wire().Config())
			tokens := cache.Keyed(open(t, cache.Options{DB: db}), c.name, decimal, i.load, cache.LifeOf(accessToken.life),
				cache.Lives(keyspace.Expire(time.Minute).StaleIfError(time.Minute)), cache.With(cache.Policy{Renew: 1, Beta: -1}))
			for began := time.Now(); time.Since(began) < c.asked; bubble.Sleep(time.Second) {
				got, err := tokens.Get(t.Context(), 7)
				if err != nil || got.Text != "token" {
					t.Errorf("%s: got %+v, %v", c.name, got, err)
				}
				tokens.Clear() // because Redis may extend the life of a value that is read
			}
			if i.issued != c.issued {
				t.Errorf("%s: %d were issued, want %d", c.name, i.issued, c.issued)
			}
			i.life = -time.Second
			if err := tokens.Set(t.Context(), 8, accessToken{"token", time.Now().Add(-time.Second)}); err != nil {
				t.Errorf("%s: Set of an expired value: %v", c.name, err)
			}
			if got, err := tokens.GetMany(t.Context(), []int64{8, 9}); len(got) != 2 || err != nil {
				t.Errorf("%s: GetMany of an expired value: %v, %v", c.name, got, err)
			}
			if _, err := tokens.Mutate(t.Context(), 9, func(context.Context) error { return nil }); err != nil {
				t.Errorf("%s: Mutate to an expired value: %v", c.name, err)
			}
			before := i.issued
			if got, err := tokens.GetMany(t.Context(), []int64{8, 9}); len(got) != 2 || err != nil || i.issued != before+2 {
				t.Errorf("%s: again: %v, %v, %d issued", c.name, got, err, i.issued-before)
			}
		}
	})
}

func TestGetFresh_EveryEngine(t *testing.T) {
	for _, engine := range redistest.SharedEngines(t) {
		t.Run(engine.Name, func(t *testing.T) {
			rt := open(t, cache.Options{DB: engine.Open(t), Config: cache.Config{Budget: 5 * time.Second}})
			i := &issuer{}
			tokens := cache.Keyed(rt, "engine_token", decimal, i.load, cache.LifeOf(accessToken.life),
				cache.With(cache.Policy{MaxStale: 10 * time.Second}))
			read := func(when string, issued int, get func(context.Context, int64) (accessToken, error)) {
				t.Helper()
				if got, err := get(t.Context(), 7); got.Text != "token" || err != nil || i.issued != issued {
					t.Errorf("%s: got %+v, %v after %d loads, want %d", when, got, err, i.issued, issued)
				}
			}
			within := func(age time.Duration) func(context.Context, int64) (accessToken, error) {
				return func(ctx context.Context, id int64) (accessToken, error) { return tokens.GetFresh(ctx, id, age) }
			}
			read("cold", 1, within(time.Minute))
			read("young enough", 1, within(time.Minute))
			tokens.Clear()
			read("in Redis", 1, within(time.Minute))
			read("too old", 2, within(0))
			tokens.Clear()
			read("what was loaded is in Redis", 2, tokens.Get)
			i.life = -time.Second
			read("too old, and over", 3, within(0))
			i.life = time.Hour
			if err := tokens.Invalidate(t.Context(), 7); err != nil {
				t.Error(err)
			}
			i.life = -time.Second
			read("over", 4, tokens.Get)
			read("it is stored nowhere", 5, tokens.Get)
		})
	}
}
