package cache_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/bus"
	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/cache/collection"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
	"github.com/stoa-dev/stoa/lib/testing/logtest"
)

// row is a source of one row, whose loads can be held.
type row struct {
	value atomic.Int64
	loads atomic.Int64
	hold  atomic.Pointer[hold] // for the next load
}

// hold stops a load after it has read.
type hold struct{ reached, release chan struct{} }

func newHold() *hold { return &hold{make(chan struct{}), make(chan struct{})} }

func (r *row) load(context.Context, keyspace.Int) (int64, error) {
	r.loads.Add(1)
	v := r.value.Load()
	if h := r.hold.Swap(nil); h != nil {
		close(h.reached)
		<-h.release
	}
	return v, nil
}

var (
	numbers = keyspace.Def1[keyspace.Int](schema, "test:number:{id}", keyspace.CachedOf[int64](),
		keyspace.Expire(time.Hour).StaleIfError(time.Hour), keyspace.Doc{Purpose: "numbers of the tests"})
	bobs = keyspace.Def1[keyspace.Int](schema, "test:bobs:{id}", keyspace.CachedSetOf[string](),
		keyspace.Expire(time.Hour).Negative(time.Minute), keyspace.Doc{Purpose: "names of the tests"})
	roomTag = cache.TagOf("room", "1")
)

// numberNode is a process with a cache of numbers.
func numberNode(t testing.TB, db *redis.DB, cfg cache.Config, p cache.Policy,
	s cache.Source[keyspace.Int, int64]) (*cache.Runtime, *cache.Cache[keyspace.Int, int64]) {
	t.Helper()
	b := bus.New(db, bus.Keys{Events: events.At(), Log: log.At()}, bus.Config{Node: fmt.Sprint("n", nodes.Add(1))})
	rt := cache.NewRuntime(db, b, cfg)
	c := cache.New(rt, numbers, p, s)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = b.Run(ctx, func() {}) })
	wg.Go(func() { _ = rt.Run(ctx, func() {}) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	must(t, b.Wait(t.Context()))
	return rt, c
}

var one = keyspace.Int{N: 1}

func textOf(id keyspace.Int) string { return decimal(id.N) }

func TestChange_ReadsJoinNoEarlierFlight(t *testing.T) {
	for _, by := range []string{"key", "tag"} {
		t.Run(by, func(t *testing.T) {
			redistest.Bubble(t, func(t *testing.T) {
				s := &row{}
				rt, c := numberNode(t, redistest.Open(t, "embedded"), cache.Config{}, cache.Policy{MaxStale: time.Minute},
					cache.Source[keyspace.Int, int64]{Load: s.load, Tags: func(keyspace.Int) []cache.Tag { return []cache.Tag{roomTag} }})
				target := c.Target(one)
				if by == "tag" {
					target = roomTag.Target()
				}
				h := newHold()
				s.hold.Store(h)
				var early sync.WaitGroup
				must(t, rt.Change(t.Context(), func(ctx context.Context) error {
					early.Go(func() { _, _ = c.Get(t.Context(), one) })
					<-h.reached // it has read the old value
					s.value.Store(1)
					return nil
				}, target))
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				time.AfterFunc(200*time.Millisecond, func() { close(h.release) })
				if v, err := c.Get(ctx, one); v != 1 || err != nil {
					t.Errorf("after the change: %d, %v", v, err)
				}
				early.Wait()
				if v, err := c.Get(ctx, one); v != 1 || err != nil {
					t.Errorf("after the early read: %d, %v", v, err)
				}
			})
		})
	}
}

func TestFence_ShortChangeKeepsLongFence(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		s := &row{}
		db := redistest.Open(t, "embedded")
		rt, c := numberNode(t, db, cache.Config{ChangeBudget: 100 * time.Millisecond}, cache.Policy{ChangeTimeout: 20 * time.Second},
			cache.Source[keyspace.Int, int64]{Load: s.load})
		rt2, brief := numberNode(t, db, cache.Config{ChangeBudget: 100 * time.Millisecond}, cache.Policy{ChangeTimeout: 10 * time.Millisecond},
			cache.Source[keyspace.Int, int64]{Load: s.load})
		must(t, rt.Change(t.Context(), func(ctx context.Context) error {
			must(t, rt2.Change(ctx, func(context.Context) error { return nil }, brief.Target(one)))
			time.Sleep(1600 * time.Millisecond) // longer than a fence of the short change
			if e, err := brief.Lookup(ctx, one); err != nil || e.Version != 0 {
				t.Errorf("during the long change: %+v, %v; want a value that is not stored", e, err)
			}
			return nil
		}, c.Target(one)))
	})
}

func TestFence_ExpiresAfterCrash(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		s := &row{}
		rt, c := numberNode(t, redistest.Open(t, "embedded"), cache.Config{ChangeBudget: 100 * time.Millisecond},
			cache.Policy{ChangeTimeout: 10 * time.Millisecond}, cache.Source[keyspace.Int, int64]{Load: s.load})
		func() {
			defer func() { _ = recover() }()
			_ = rt.Change(t.Context(), func(context.Context) error { panic("crash") }, c.Target(one))
		}()
		for end := time.Now().Add(1800 * time.Millisecond); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			must(t, rt.Change(t.Context(), func(context.Context) error { return nil }, c.Target(one)))
		}
		if e, err := c.Lookup(t.Context(), one); err != nil || e.Version == 0 {
			t.Errorf("after it: %+v, %v; want a value that is stored", e, err)
		}
	})
}

func TestFence_StaysAfterUnknownOutcome(t *testing.T) {
	for _, unknown := range []error{context.DeadlineExceeded, cache.ErrUndecided} {
		t.Run(unknown.Error(), func(t *testing.T) {
			redistest.Bubble(t, func(t *testing.T) {
				s := &row{}
				rt, c := numberNode(t, redistest.Open(t, "embedded"), cache.Config{}, cache.Policy{}, cache.Source[keyspace.Int, int64]{Load: s.load})
				err := rt.Change(t.Context(), func(context.Context) error { return fmt.Errorf("commit: %w", unknown) }, c.Target(one))
				if !errors.Is(err, unknown) {
					t.Fatal(err)
				}
				if _, err := c.Get(t.Context(), one); err != nil {
					t.Fatal(err)
				}
				s.value.Store(1) // the commit was under way
				if v, err := c.Get(t.Context(), one); v != 1 || err != nil {
					t.Errorf("after the late commit: %d, %v", v, err)
				}
			})
		})
	}
}

func TestChange_LateCommitIsDroppedAgain(t *testing.T) {
	for _, fault := range []error{context.DeadlineExceeded, errors.New("the connection broke")} {
		t.Run(fault.Error(), func(t *testing.T) {
			redistest.Bubble(t, func(t *testing.T) {
				s := &row{}
				server := redistest.InMemory(t)
				rt, c := numberNode(t, server.Open(t), cache.Config{}, cache.Policy{}, cache.Source[keyspace.Int, int64]{Load: s.load})
				_, other := numberNode(t, server.Open(t), cache.Config{}, cache.Policy{}, cache.Source[keyspace.Int, int64]{Load: s.load})
				_ = rt.Change(t.Context(), func(context.Context) error { return fault }, c.Target(one))
				time.Sleep(15 * time.Second) // longer than a fence
				for _, c := range []*cache.Cache[keyspace.Int, int64]{c, other} {
					if e, err := c.Lookup(t.Context(), one); err != nil || e.Version == 0 {
						t.Errorf("after the fence: %+v, %v; want a value that is stored", e, err)
					}
				}
				time.Sleep(10 * time.Second)
				s.value.Store(1) // the commit was under way for 25 seconds
				time.Sleep(6 * time.Second)
				for _, c := range []*cache.Cache[keyspace.Int, int64]{c, other} {
					if v, err := c.Get(t.Context(), one); v != 1 || err != nil {
						t.Errorf("half a minute after the change: %d, %v", v, err)
					}
				}
			})
		})
	}
}

func TestMutate_SucceedsOverASlowNetwork(t *testing.T) {
	for _, hop := range []time.Duration{25 * time.Millisecond, 40 * time.Millisecond, 60 * time.Millisecond} {
		t.Run(hop.String(), func(t *testing.T) {
			redistest.Bubble(t, func(t *testing.T) {
				s := &row{}
				wire := redistest.InMemory(t).Wire()
				_, c := numberNode(t, redistest.OpenConfig(t, wire.Config()), cache.Config{}, cache.Policy{},
					cache.Source[keyspace.Int, int64]{Load: s.load})
				wire.Delay(hop)
				for i := range int64(15) {
					v, err := c.Mutate(t.Context(), one, func(context.Context) error { s.value.Store(i); return nil })
					if v != i || err != nil {
						t.Errorf("change %d: got %d, %v", i, v, err)
					}
				}
			})
		})
	}
}

func TestMutate_WorksWhileReadBreakerIsOpen(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		s := &row{}
		wire := redistest.InMemory(t).Wire()
		rt, c := numberNode(t, redistest.OpenConfig(t, wire.Config()), cache.Config{}, cache.Policy{Entries: -1},
			cache.Source[keyspace.Int, int64]{Load: s.load})
		wire.BlackHole()
		for rt.Health().Open == 0 {
			_, err := c.Get(t.Context(), one)
			must(t, err)
		}
		wire.Heal()
		v, err := c.Mutate(t.Context(), one, func(context.Context) error { s.value.Store(1); return nil })
		if v != 1 || err != nil || rt.Health().Open != 1 {
			t.Errorf("got %d, %v with %d open breakers; want 1 while reads have one open", v, err, rt.Health().Open)
		}
	})
}

func TestMutate_EndsWithItsContext(t *testing.T) {
	for _, unfenced := range []cache.Unfenced{cache.Refuse, cache.Proceed} {
		redistest.Bubble(t, func(t *testing.T) {
			s := &row{}
			wire := redistest.InMemory(t).Wire()
			rt, c := numberNode(t, redistest.OpenConfig(t, wire.Config()), cache.Config{}, cache.Policy{Unfenced: unfenced},
				cache.Source[keyspace.Int, int64]{Load: s.load})
			wire.BlackHole()
			for range 10 {
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				began := time.Now()
				_, err := c.Mutate(ctx, one, func(context.Context) error { t.Error("the change was called"); return nil })
				if took := time.Since(began); !errors.Is(err, cache.ErrUnfenced) || !errors.Is(err, context.DeadlineExceeded) ||
					took != 50*time.Millisecond {
					t.Errorf("got %v after %s, want ErrUnfenced after 50ms", err, took)
				}
				cancel()
			}
			if open := rt.Health().Open; open != 0 {
				t.Errorf("%d breakers are open after callers left, want 0", open)
			}
		})
	}
}

func TestBreaker_StaysClosedAfterOnePause(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		s := &row{}
		wire := redistest.InMemory(t).Wire()
		rt, c := numberNode(t, redistest.OpenConfig(t, wire.Config()), cache.Config{}, cache.Policy{Entries: -1},
			cache.Source[keyspace.Int, int64]{Load: s.load})
		wire.BlackHole() // to this process, its own pause looks the same
		var reads sync.WaitGroup
		for i := range int64(16) {
			reads.Go(func() {
				_, err := c.Get(t.Context(), keyspace.Int{N: i})
				must(t, err)
			})
		}
		reads.Wait()
		if open := rt.Health().Open; open != 0 {
			t.Errorf("%d breakers are open, want 0", open)
		}
	})
}

func TestBreaker_FollowsARealServer(t *testing.T) {
	server := redistest.Server(t)
	s := &row{}
	rt, c := numberNode(t, redistest.Open(t, server.URL), cache.Config{}, cache.Policy{Entries: -1},
		cache.Source[keyspace.Int, int64]{Load: s.load})
	isOpen := func() bool {
		_, err := c.Get(t.Context(), one)
		must(t, err)
		return rt.Health().Open != 0
	}
	server.Pause()
	eventually.True(t, "a breaker opens", isOpen)
	server.Resume()
	eventually.True(t, "all breakers close", func() bool { return !isOpen() })
}

// A network delivers a delayed command after a later change.
func TestSet_LateCommandIsNotStored(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		wire := server.Wire()
		s := &row{}
		source := cache.Source[keyspace.Int, int64]{Load: s.load}
		_, slow := numberNode(t, redistest.OpenConfig(t, wire.Config()), cache.Config{ChangeBudget: 100 * time.Millisecond}, cache.Policy{},
			source)
		_, c := numberNode(t, server.Open(t), cache.Config{}, cache.Policy{Entries: -1}, source)
		must(t, slow.Set(t.Context(), one, 0)) // loads the script into the server
		wire.Delay(time.Second)
		s.value.Store(1)
		if err := slow.Set(t.Context(), one, 1); !errors.Is(err, cache.ErrQueued) {
			t.Fatalf("a value that does not arrive in time: %v", err)
		}
		_, err := c.Mutate(t.Context(), one, func(context.Context) error { s.value.Store(2); return nil })
		must(t, err)
		for range 200 {
			if v, err := c.Get(t.Context(), one); v != 2 || err != nil {
				t.Fatalf("after the change to 2: %d, %v", v, err)
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
}

func TestLease_DeadHolderIsWaitedForOnce(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		gone, s := &row{}, &row{}
		h := newHold()
		defer close(h.release)
		gone.hold.Store(h)
		_, dead := numberNode(t, server.Open(t), cache.Config{}, cache.Policy{}, cache.Source[keyspace.Int, int64]{Load: gone.load})
		_, c := numberNode(t, server.Open(t), cache.Config{}, cache.Policy{LeaseWait: 300 * time.Millisecond},
			cache.Source[keyspace.Int, int64]{Load: s.load})
		go func() { _, _ = dead.Get(t.Context(), one) }()
		<-h.reached
		for _, stored := range []bool{false, true, true} {
			began := time.Now()
			e, err := c.Lookup(t.Context(), one)
			if waited := time.Since(began) >= 300*time.Millisecond; err != nil || waited == stored || (e.Version != 0) != stored {
				t.Errorf("%+v, %v after %s; want one that is stored: %v", e, err, time.Since(began), stored)
			}
		}
	})
}

// Redis accepts a lease, and the connection breaks before its reply arrives.
func TestLease_IsReleasedAfterLostReply(t *testing.T) {
	for _, lost := range []string{"value", "collection"} {
		t.Run(lost, func(t *testing.T) {
			redistest.Bubble(t, func(t *testing.T) {
				server := redistest.InMemory(t)
				wire := server.Wire()
				s := &row{}
				db := redistest.OpenConfig(t, wire.Config())
				rt, c := numberNode(t, db, cache.Config{}, cache.Policy{}, cache.Source[keyspace.Int, int64]{Load: s.load})
				key, read := c.Target(one).Key(), func() error { _, err := c.Get(t.Context(), one); return err }
				if lost == "collection" {
					set := collection.NewSet(rt, bobs, collection.Policy{}, collection.SetSource[keyspace.Int, string]{
						Load: func(context.Context, keyspace.Int) ([]string, error) { return nil, nil }})
					key, read = set.Target(one).Key(), func() error { _, err := set.Has(t.Context(), one, "bob"); return err }
				}
				const hop = 10 * time.Millisecond
				other := server.Open(t)
				leased := func() int64 {
					n, err := other.Do(t.Context(), keyspace.Cmd{Name: "EXISTS", Key: key}).Int()
					must(t, err)
					return n
				}
				for range 20 { // a script that the server does not know is sent twice: repeat until it is known
					wire.Delay(hop)
					done := make(chan error, 1)
					go func() { done <- read() }()
					for end := time.Now().Add(20 * hop); leased() == 0 && time.Now().Before(end); {
						time.Sleep(hop / 10)
					}
					taken := leased() == 1
					wire.Reset()
					wire.Heal()
					must(t, <-done)
					time.Sleep(100 * time.Millisecond)
					if !taken || leased() == 1 {
						t.Fatalf("taken: %v, still leased: %v", taken, leased() == 1)
					}
					time.Sleep(time.Second) // the breaker closes
				}
			})
		})
	}
}

func TestGet_SourceIgnoringContextDoesNotBlock(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		s := &row{}
		h := newHold()
		defer close(h.release)
		s.hold.Store(h)
		_, c := numberNode(t, redistest.Open(t, "embedded"), cache.Config{}, cache.Policy{LoadTimeout: 100 * time.Millisecond},
			cache.Source[keyspace.Int, int64]{Load: s.load})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := c.Get(ctx, one); !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			t.Errorf("Get: %v; the caller's context: %v", err, ctx.Err())
		}
	})
}

func TestSource_MayReadAnotherCache(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		db := redistest.Open(t, "embedded")
		s := &table{}
		s.set(1, user{Name: "ada"})
		b := bus.New(db, bus.Keys{Events: events.At(), Log: log.At()}, bus.Config{Node: fmt.Sprint("n", nodes.Add(1))})
		rt := cache.NewRuntime(db, b, cache.Config{Loads: 1}) // the bus does not run, so only sources are asked
		inner := cache.New(rt, users, cache.Policy{}, cache.Source[keyspace.Int, user]{Load: s.load})
		outer := cache.New(rt, numbers, cache.Policy{LoadTimeout: time.Second}, cache.Source[keyspace.Int, int64]{
			Load: func(ctx context.Context, k keyspace.Int) (int64, error) {
				u, err := inner.Get(ctx, k)
				return int64(len(u.Name)), err
			}})
		if n, err := outer.Get(t.Context(), one); n != 3 || err != nil {
			t.Errorf("Get = %d, %v", n, err)
		}
	})
}

func TestGetMany_SourceIgnoringContextDoesNotBlock(t *testing.T) {
	for name, c := range map[string]struct {
		loadTimeout time.Duration
		leaves      bool // whether the caller leaves before the load ends
	}{"LoadTimeout is over": {100 * time.Millisecond, false}, "the caller leaves": {5 * time.Second, true}} {
		t.Run(name, func(t *testing.T) {
			redistest.Bubble(t, func(t *testing.T) {
				s := &row{}
				s.value.Store(7)
				h := newHold()
				s.hold.Store(h)
				time.AfterFunc(2*time.Second, func() { close(h.release) })
				_, many := numberNode(t, redistest.Open(t, "embedded"), cache.Config{}, cache.Policy{LoadTimeout: c.loadTimeout},
					cache.Source[keyspace.Int, int64]{Load: s.load})
				ctx, leave := t.Context(), func() {}
				if c.leaves {
					ctx, leave = context.WithTimeout(ctx, 100*time.Millisecond)
				}
				defer leave()
				began, keys := time.Now(), []keyspace.Int{one, {N: 2}}
				_, err := many.GetMany(ctx, keys)
				if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took > time.Second {
					t.Errorf("GetMany: %v after %s", err, took)
				}
				if !c.leaves {
					return
				}
				bubble.Sleep(3 * time.Second)
				loads := s.loads.Load()
				if got, err := many.GetMany(t.Context(), keys); got[one] != 7 || err != nil || s.loads.Load() != loads {
					t.Errorf("after the load: %v, %v and %d loads more, want the value that it stored", got, err, s.loads.Load()-loads)
				}
			})
		})
	}
}

// inner contains caches that a source reads.
type inner struct {
	people *cache.Cache[keyspace.Int, user]
	names  *collection.Set[keyspace.Int, string]
}

func (c *inner) get(ctx context.Context) error { _, err := c.people.Get(ctx, one); return err }

func (c *inner) getMany(ctx context.Context) error {
	_, err := c.people.GetMany(ctx, []keyspace.Int{one})
	return err
}

func (c *inner) has(ctx context.Context) error { _, err := c.names.Has(ctx, one, "bob"); return err }

// Another caller has begun to read what a source asks for, and waits for the load slot of that very source.
func TestSource_NestedLoadNeedsNoSlot(t *testing.T) {
	for name, c := range map[string]struct {
		others, source func(*inner, context.Context) error
	}{
		"one value":    {(*inner).get, (*inner).get},
		"many":         {(*inner).get, (*inner).getMany},
		"a collection": {(*inner).has, (*inner).has},
	} {
		t.Run(name, func(t *testing.T) {
			redistest.Bubble(t, func(t *testing.T) {
				s := &table{}
				s.set(1, user{Name: "ada"})
				var caches inner
				h := newHold()
				rt, outer := numberNode(t, redistest.Open(t, "embedded"), cache.Config{Loads: 1}, cache.Policy{}, cache.Source[keyspace.Int, int64]{
					Load: func(ctx context.Context, _ keyspace.Int) (int64, error) {
						close(h.reached)
						<-h.release
						return 1, c.source(&caches, ctx)
					}})
				caches.people = cache.New(rt, users, cache.Policy{}, cache.Source[keyspace.Int, user]{Load: s.load})
				caches.names = collection.NewSet(rt, bobs, collection.Policy{}, collection.SetSource[keyspace.Int, string]{
					Load: func(context.Context, keyspace.Int) ([]string, error) { return []string{"bob"}, nil }})
				var all sync.WaitGroup
				all.Go(func() {
					if n, err := outer.Get(t.Context(), one); n != 1 || err != nil {
						t.Errorf("Get = %d, %v", n, err)
					}
				})
				<-h.reached
				all.Go(func() {
					if err := c.others(&caches, t.Context()); err != nil {
						t.Errorf("the concurrent reader: %v", err)
					}
				})
				bubble.Sleep(10 * time.Millisecond) // it waits for the slot
				released := time.Now()
				close(h.release)
				all.Wait()
				if took := time.Since(released); took > time.Second {
					t.Errorf("both have their answers after %s", took)
				}
			})
		})
	}
}

// strict rejects null and 13.
type strict struct{ N int }

func (s *strict) UnmarshalJSON(text []byte) error {
	_, err := fmt.Sscanf(string(text), "%d", &s.N)
	return err
}

func (s strict) MarshalJSON() ([]byte, error) {
	if s.N == 13 {
		panic("13")
	}
	return fmt.Append(nil, s.N), nil
}

var stricts = keyspace.Def1[keyspace.Int](schema, "test:strict:{id}", keyspace.CachedOf[strict](),
	keyspace.Expire(time.Hour), keyspace.Doc{Purpose: "values with methods of their own"})

func TestValues_WithJSONMethods(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		db := redistest.Open(t, "embedded")
		b := bus.New(db, bus.Keys{Events: events.At(), Log: log.At()}, bus.Config{Node: fmt.Sprint("n", nodes.Add(1))})
		rt := cache.NewRuntime(db, b, cache.Config{})
		c := cache.New(rt, stricts, cache.Policy{}, cache.Source[keyspace.Int, strict]{
			Load: func(_ context.Context, k keyspace.Int) (strict, error) { return strict{int(k.N)}, nil }})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = b.Run(ctx, func() {}) })
		t.Cleanup(func() { cancel(); wg.Wait() })
		must(t, b.Wait(t.Context()))
		if _, err := c.Get(t.Context(), one); err != nil {
			t.Fatal(err)
		}
		if e, err := c.Lookup(t.Context(), one); e.Tier != cache.Process || e.Value.N != 1 || err != nil {
			t.Errorf("a value that was loaded on this node: %+v, %v; want it from the process", e, err)
		}
		if _, err := c.Get(t.Context(), keyspace.Int{N: 13}); err == nil {
			t.Error("a value that cannot be written: no error")
		}
	})
}

var named = keyspace.Def1[keyspace.Raw](keyspace.New("old").Brownfield(), "old/{name}", keyspace.CachedOf[int64](),
	keyspace.Expire(time.Hour), keyspace.Doc{Purpose: "numbers by any name"})

// A name that users choose may contain any byte if keys have the format of another program.
func TestChange_KeyWithLineBreakReachesAllNodes(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		db := redistest.Open(t, "embedded")
		var value atomic.Int64
		node := func() *cache.Cache[keyspace.Raw, int64] {
			rt, _ := numberNode(t, db, cache.Config{}, cache.Policy{}, cache.Source[keyspace.Int, int64]{Load: (&row{}).load})
			return cache.New(rt, named, cache.Policy{MaxStale: time.Second}, cache.Source[keyspace.Raw, int64]{
				Load: func(context.Context, keyspace.Raw) (int64, error) { return value.Load(), nil }})
		}
		ours, theirs := node(), node()
		for _, name := range []string{"plain", "two\nlines", "two\x00parts\nand a line", "\n"} {
			value.Store(1)
			k := keyspace.Raw{S: name}
			if got, err := theirs.Get(t.Context(), k); got != 1 || err != nil {
				t.Fatalf("%q: Get = %d, %v", name, got, err)
			}
			_, err := ours.Mutate(t.Context(), k, func(context.Context) error { value.Store(2); return nil })
			must(t, err)
			time.Sleep(time.Second)
			if got, err := theirs.Get(t.Context(), k); got != 2 || err != nil {
				t.Errorf("%q: Get = %d, %v after MaxStale, want 2", name, got, err)
			}
		}
	})
}

// unlucky is a codec of whole numbers that panics on 13.
type unlucky struct{}

func (unlucky) Name() string { return "unlucky" }

func (unlucky) Append(b []byte, v int64) ([]byte, error) { return fmt.Append(b, v), nil }

func (unlucky) Decode(b []byte, v *int64) error {
	if string(b) == "13" {
		panic("13")
	}
	_, err := fmt.Sscan(string(b), v)
	return err
}

// Keys are read by goroutines of the cache, where callers cannot recover.
func TestGetMany_DecoderPanicIsAnError(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		db := redistest.Open(t, "embedded")
		s := &row{}
		s.value.Store(13)
		source := cache.Source[keyspace.Int, int64]{Load: s.load, Codec: unlucky{}}
		_, other := numberNode(t, db, cache.Config{}, cache.Policy{}, source)
		held := newHold()
		s.hold.Store(held)
		var loading sync.WaitGroup
		loading.Go(func() { _, _ = other.Get(t.Context(), one) })
		<-held.reached

		// The other node stores the value just before this node reads it.
		asked := 0
		cfg := cache.Config{Hooks: cache.Hooks{Asking: func(ctx context.Context, _ cache.Tier, _ string,
			_ int) (context.Context, func(cache.Tier, error)) {
			if asked++; asked == 2 {
				close(held.release)
				loading.Wait()
			}
			return ctx, nil
		}}}
		_, c := numberNode(t, db, cfg, cache.Policy{Entries: -1}, source)
		if got, err := c.GetMany(t.Context(), []keyspace.Int{one}); err == nil || !strings.Contains(err.Error(), "13") {
			t.Errorf("GetMany = %v, %v; want the panic as an error", got, err)
		}
		if err := c.Warm(t.Context(), slices.Values([]keyspace.Int{one}), cache.Warming{}); err == nil || !strings.Contains(err.Error(), "13") {
			t.Errorf("Warm = %v; want the panic as an error", err)
		}
		if asked != 3 {
			t.Errorf("asked %d times, want 3", asked)
		}
	})
}

func TestGet_ExpiredValueDoesNotReturn(t *testing.T) {
	type people = cache.Cache[keyspace.Int, user]
	for name, read := range map[string]func(context.Context, *people) error{
		"alone": func(ctx context.Context, c *people) error { _, err := c.Get(ctx, one); return err },
		"many": func(ctx context.Context, c *people) error {
			found, err := c.GetMany(ctx, []keyspace.Int{one})
			if err == nil && len(found) == 0 {
				err = cache.ErrNotFound
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			redistest.Bubble(t, func(t *testing.T) {
				server := redistest.InMemory(t)
				s := &table{}
				s.set(1, user{Name: "ada"})
				node := func() *people {
					return cache.Keyed(open(t, cache.Options{Redis: server.Wire().Config()}), "mortal", textOf, s.load,
						cache.Lives(keyspace.Expire(time.Minute).StaleIfError(time.Hour)), cache.With(cache.Policy{Beta: -1, Renew: -1}))
				}
				a, b := node(), node()
				must(t, read(t.Context(), a))
				s.mu.Lock()
				delete(s.rows, 1)
				s.delay = 50 * time.Millisecond
				s.mu.Unlock()
				bubble.Sleep(2 * time.Minute)
				if err := read(t.Context(), a); !errors.Is(err, cache.ErrNotFound) {
					t.Errorf("after its life: %v", err)
				}
				again := make(chan error, 1)
				go func() { again <- read(t.Context(), a) }()
				bubble.Sleep(10 * time.Millisecond)
				if err := read(t.Context(), b); !errors.Is(err, cache.ErrNotFound) {
					t.Errorf("on another node, while this one reads again: %v", err)
				}
				if err := <-again; !errors.Is(err, cache.ErrNotFound) {
					t.Errorf("again: %v", err)
				}
				boom := errors.New("boom")
				s.mu.Lock()
				s.err = boom
				s.mu.Unlock()
				for _, c := range []*people{a, b} {
					if err := read(t.Context(), c); !errors.Is(err, boom) {
						t.Errorf("while the source fails: %v", err)
					}
				}
			})
		})
	}
}

func TestGet_ConcurrentReadsWhileSourceFails(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		s := &table{}
		s.set(1, user{Name: "ada"})
		brief := keyspace.Def1[keyspace.Int](keyspace.New("brief"), "test:brief:{id}", keyspace.CachedOf[user](),
			keyspace.Expire(20*time.Millisecond).StaleIfError(time.Hour), keyspace.Doc{})
		db := redistest.Open(t, "embedded")
		b := bus.New(db, bus.Keys{Events: events.At(), Log: log.At()}, bus.Config{Node: fmt.Sprint("n", nodes.Add(1))})
		rt := cache.NewRuntime(db, b, cache.Config{})
		c := cache.New(rt, brief, cache.Policy{MaxStale: time.Minute}, cache.Source[keyspace.Int, user]{Load: s.load})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = b.Run(ctx, func() {}) })
		t.Cleanup(func() { cancel(); wg.Wait() })
		must(t, b.Wait(t.Context()))
		if _, err := c.Get(t.Context(), one); err != nil {
			t.Fatal(err)
		}
		s.mu.Lock()
		s.err = errors.New("down")
		s.mu.Unlock()
		var readers sync.WaitGroup
		for range 8 {
			readers.Go(func() {
				for end := time.Now().Add(1500 * time.Millisecond); time.Now().Before(end); time.Sleep(time.Millisecond) {
					if u, err := c.Get(t.Context(), one); err != nil || u.Name != "ada" {
						t.Errorf("Get = %+v, %v", u, err)
						return
					}
				}
			})
		}
		readers.Wait()
	})
}

// A node whose clock is wrong, or is set while it runs, must not give a value another life. Lives are moments of the
// servers' clock, which package bus maps to the monotonic clock of this process.
func TestCache_UsesNoLocalClock(t *testing.T) {
	var files []string
	for _, pattern := range []string{"*.go", "collection/*.go", "internal/*/*.go"} { // package inspect shows times to people
		found, err := filepath.Glob(pattern)
		must(t, err)
		files = append(files, found...)
	}
	looked := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		must(t, err)
		looked++
		for _, word := range []string{"time.Now", "time.Until", "time.Unix"} {
			if strings.Contains(string(text), word) {
				t.Errorf("%s uses %s", name, word)
			}
		}
	}
	if looked < 10 {
		t.Fatalf("checked %d files", looked)
	}
}

func TestFenceFailed_ReportsToChange(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		s := &row{}
		rt, c := numberNode(t, server.Open(t), cache.Config{}, cache.Policy{Unfenced: cache.Proceed},
			cache.Source[keyspace.Int, int64]{Load: s.load})
		failed := func() (failed bool) {
			t.Helper()
			var want []keyspace.Key
			if err := rt.Change(t.Context(), func(ctx context.Context) error {
				if failed = cache.FenceFailed(ctx); failed {
					want = []keyspace.Key{c.Target(one).Key()}
				}
				if keys := cache.UnfencedKeys(ctx); !slices.Equal(keys, want) {
					t.Errorf("got the keys %v, want %v", keys, want)
				}
				return nil
			}, c.Target(one)); err != nil {
				t.Fatal(err)
			}
			return failed
		}
		if failed() {
			t.Error("FenceFailed reports true with a working Redis")
		}
		server.Kill()
		if !failed() {
			t.Error("FenceFailed reports false without Redis")
		}
	})
}

func TestCutOff_FollowsPolicy(t *testing.T) {
	for policy, want := range map[cache.CutOff]struct {
		value int64
		err   error
	}{cache.Bypass: {value: 1}, cache.Fail: {err: cache.ErrCutOff}, cache.ServeStale: {value: 0}} {
		t.Run(fmt.Sprint(policy), func(t *testing.T) {
			redistest.Bubble(t, func(t *testing.T) {
				wire := redistest.InMemory(t).Wire()
				s := &row{}
				_, c := numberNode(t, redistest.OpenConfig(t, wire.Config()), cache.Config{}, cache.Policy{CutOff: policy},
					cache.Source[keyspace.Int, int64]{Load: s.load})
				for range 2 { // the second read is from the process
					if v, err := c.Get(t.Context(), one); v != 0 || err != nil {
						t.Fatalf("before: %d, %v", v, err)
					}
				}
				wire.BlackHole()
				s.value.Store(1)
				time.Sleep(time.Second)
				if v, err := c.Get(t.Context(), one); v != want.value || !errors.Is(err, want.err) {
					t.Errorf("disconnected: %d, %v; want %d, %v", v, err, want.value, want.err)
				}
			})
		})
	}
}

func TestGet_SlowSourceWithoutRedisLoadsOnce(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		wire := redistest.InMemory(t).Wire()
		s := &table{}
		s.set(1, user{Name: "ada"})
		c := cache.Keyed(open(t, cache.Options{Redis: wire.Config()}), "slow", textOf, s.load,
			cache.Lives(keyspace.Expire(time.Second).StaleIfError(time.Hour)), cache.With(cache.Policy{CutOff: cache.ServeStale}))
		get := func() {
			if u, err := c.Get(t.Context(), one); u.Name != "ada" || err != nil {
				t.Errorf("Get = %+v, %v", u, err)
			}
		}
		get()
		wire.Refuse()
		s.mu.Lock()
		s.delay = 2 * time.Second
		s.mu.Unlock()
		bubble.Sleep(2 * time.Second)
		before := s.loads.Load()
		var readers sync.WaitGroup
		for range 1000 {
			readers.Go(get)
			time.Sleep(10 * time.Millisecond)
		}
		readers.Wait()
		if n := s.loads.Load() - before; n < 2 || n > 6 {
			t.Errorf("%d loads of two seconds in ten, want about five", n)
		}
	})
}

func TestRuntime_LogsIdleBusOnce(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		db := redistest.InMemory(t).Open(t)
		b := bus.New(db, bus.Keys{Events: events.At(), Log: log.At()}, bus.Config{Node: "idle"})
		var said logtest.Buffer
		s := &row{}
		c := cache.New(cache.NewRuntime(db, b, cache.Config{Log: said.Logger()}), numbers, cache.Policy{},
			cache.Source[keyspace.Int, int64]{Load: s.load})
		get := func() {
			_, err := c.Get(t.Context(), one)
			must(t, err)
		}
		get()
		if said.String() != "" {
			t.Errorf("a program that just started logs %s", said.String())
		}
		time.Sleep(11 * time.Second)
		get()
		get()
		if n := said.Count("bus.Run"); n != 1 {
			t.Errorf("logged %d times: %s", n, said.String())
		}
	})
}

func TestMaxStale_LessThanTwoBeatsPanics(t *testing.T) {
	db := redistest.Open(t, "embedded")
	for _, c := range []struct {
		stale, beat time.Duration
		refused     bool
	}{{50 * time.Millisecond, 0, true}, {200 * time.Millisecond, 0, false}, {50 * time.Millisecond, 25 * time.Millisecond, false},
		{0, time.Second, false}, {0, 3 * time.Second, true}} {
		b := bus.New(db, bus.Keys{Events: events.At(), Log: log.At()}, bus.Config{Node: "n", Beat: c.beat})
		refused := func(make func(rt *cache.Runtime)) (refused bool) {
			defer func() { refused = recover() != nil }()
			make(cache.NewRuntime(db, b, cache.Config{}))
			return false
		}
		got := refused(func(rt *cache.Runtime) {
			cache.New(rt, numbers, cache.Policy{MaxStale: c.stale}, cache.Source[keyspace.Int, int64]{Load: (&row{}).load})
		})
		if got != c.refused {
			t.Errorf("%s with a beat of %s: refused %v", c.stale, b.Beat(), got)
		}
	}
}

// The bus beats less often without reads. The first read after that is not cut off.
func TestMaxStale_HoldsAfterATimeWithoutReads(t *testing.T) {
	for _, stale := range []time.Duration{200, 300, 400, 500} {
		redistest.Bubble(t, func(t *testing.T) {
			_, c := numberNode(t, redistest.InMemory(t).Open(t), cache.Config{}, cache.Policy{MaxStale: stale * time.Millisecond,
				CutOff: cache.Fail}, cache.Source[keyspace.Int, int64]{Load: (&row{}).load})
			for i := range 100 {
				time.Sleep(2*time.Second + time.Duration(i)*7*time.Millisecond)
				if _, err := c.Get(t.Context(), one); err != nil {
					t.Fatalf("MaxStale %d ms, read %d: %v", stale, i, err)
				}
			}
		})
	}
}

// A paused process has not lost the server that it embeds.
func TestEmbedded_PauseIsNoOutage(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		db := redistest.Open(t, "embedded")
		b := bus.New(db, bus.Keys{Events: events.At(), Log: log.At()}, bus.Config{Node: "n"})
		rt := cache.NewRuntime(db, b, cache.Config{})
		s := &row{}
		c := cache.New(rt, numbers, cache.Policy{}, cache.Source[keyspace.Int, int64]{Load: s.load})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var running sync.WaitGroup
		running.Go(func() { _ = b.Run(ctx, func() {}) })
		must(t, b.Wait(ctx))
		loads := func(want int64) {
			t.Helper()
			_, err := c.Get(t.Context(), one)
			must(t, err)
			if got := s.loads.Load(); got != want {
				t.Errorf("%d loads, want %d", got, want)
			}
		}
		loads(1)
		stop() // the server can no longer be reached
		running.Wait()
		time.Sleep(4 * time.Second) // of virtual time
		loads(1)
		time.Sleep(2 * time.Second)
		loads(2)
	})
}
