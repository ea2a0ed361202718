package cache_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// removals records the calls of a listener.
type removals struct {
	mu    sync.Mutex
	calls []string
}

func (r *removals) listen(id int64, name string, why cache.Removal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, fmt.Sprint(id, " ", name, " ", why))
}

// want fails unless the listener got exactly these calls since the last check.
func (r *removals) want(t *testing.T, when string, want ...string) {
	t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.Sort(r.calls)
	if !slices.Equal(r.calls, want) {
		t.Errorf("%s: got %q, want %q", when, r.calls, want)
	}
	r.calls = nil
}

func TestOnRemoval_ReportsValueAndReason(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		r := &removals{}
		s := &nameTable{names: map[int64]string{7: "Ada"}}
		var fault error
		load := func(ctx context.Context, id int64) (string, error) {
			name, err := s.load(ctx, id)
			return name, errors.Join(fault, err)
		}
		c := cache.Keyed(open(t, cache.Options{Redis: redistest.InMemory(t).Wire().Config()}), "name", decimal, load,
			cache.Lives(keyspace.Expire(20*time.Second).Negative(time.Second).StaleIfError(time.Minute)),
			cache.With(cache.Policy{Beta: -1, Renew: -1}), cache.OnRemoval(r.listen))
		get := func(want string) {
			t.Helper()
			if name, err := c.Get(t.Context(), 7); name != want || err != nil {
				t.Errorf("got %q, %v; want %q", name, err, want)
			}
		}
		get("Ada")
		get("Ada")
		r.want(t, "in good order")
		must(t, s.rename(7, "Countess"))
		if _, err := c.Refresh(t.Context(), 7); err != nil {
			t.Error(err)
		}
		r.want(t, "after Refresh", "7 Ada replaced")
		get("Countess")
		r.want(t, "after the drop of its copy", "7 Countess invalidated")
		must(t, c.Invalidate(t.Context(), 7))
		bubble.Sleep(61 * time.Second)
		r.want(t, "a minute after Invalidate", "7 Countess invalidated")
		get("Countess")
		c.Clear()
		r.want(t, "after Clear", "7 Countess invalidated")
		get("Countess")

		fault = errors.New("the table is locked")
		bubble.Sleep(21 * time.Second)
		get("Countess")
		r.want(t, "when Redis was asked for it again", "7 Countess expired")
		fault = nil
		bubble.Sleep(2 * time.Second)
		get("Countess")
		r.want(t, "once it does not", "7 Countess expired")
		bubble.Sleep(150 * time.Second)
		r.want(t, "after its life", "7 Countess expired")

		for range 2 {
			if _, err := c.Get(t.Context(), 8); !errors.Is(err, cache.ErrNotFound) {
				t.Error(err)
			}
			bubble.Sleep(time.Minute)
		}
		r.want(t, "for a missing value")
	})
}

// Without Redis and the source a value is served past its life, and stays.
func TestOnRemoval_IgnoresValuesServedStale(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		r := &removals{}
		wire := redistest.InMemory(t).Wire()
		var fault error
		load := func(context.Context, int64) (string, error) { return "Ada", fault }
		c := cache.Keyed(open(t, cache.Options{Redis: wire.Config()}), "name", decimal, load,
			cache.Lives(keyspace.Expire(20*time.Second).StaleIfError(time.Minute)), cache.With(cache.Policy{Beta: -1, CutOff: cache.ServeStale}),
			cache.OnRemoval(r.listen))
		get := func() {
			t.Helper()
			if name, err := c.Get(t.Context(), 7); name != "Ada" || err != nil {
				t.Errorf("got %q, %v", name, err)
			}
		}
		get()
		fault = errors.New("the table is locked")
		wire.Refuse()
		for range 3 {
			bubble.Sleep(10 * time.Second)
			get()
		}
		if c.Stats().Stale == 0 {
			t.Error("no value was served past its life")
		}
		r.want(t, "meanwhile")
	})
}

func TestOnRemoval_ReportsEviction(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		r := &removals{}
		load := func(context.Context, int64) (string, error) { return "x", nil }
		c := cache.Keyed(open(t, cache.Options{}), "name", decimal, load, cache.With(cache.Policy{Entries: 10}), cache.OnRemoval(r.listen))
		for id := range int64(100) {
			if _, err := c.Get(t.Context(), id); err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		if n := c.Len(); n != 10 || len(r.calls) != 90 || slices.ContainsFunc(r.calls, func(s string) bool {
			return !strings.HasSuffix(s, " x evicted")
		}) {
			t.Errorf("%d copies, listener calls %q", n, r.calls)
		}
	})
}

func TestMaxWeight_BoundsCopies(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		rt := open(t, cache.Options{})
		load := func(_ context.Context, id int64) (string, error) { return strings.Repeat("x", int(id%3)*50), nil } // 50 bytes each, or so
		fill := func(c *cache.Cache[int64, string]) (weight int) {
			for id := range int64(300) {
				if _, err := c.Get(t.Context(), id); err != nil {
					t.Error(err)
				}
			}
			synctest.Wait()
			for id := range int64(300) {
				name, _ := c.Peek(id)
				weight += len(name)
			}
			return weight
		}
		size := func(_ int64, name string) uint32 { return uint32(len(name)) }
		if weight := fill(cache.Keyed(rt, "size", decimal, load, cache.MaxWeight(1000, size))); weight > 1000 || weight < 500 {
			t.Errorf("copies weigh %d, want at most 1000", weight)
		}
		none := cache.KeyedFrom(rt, "none", decimal, cache.Source[int64, string]{Load: load, Weigh: func(int64, string) uint32 {
			return 0
		}}, cache.With(cache.Policy{MaxWeight: 10}))
		if fill(none); none.Len() != 10 {
			t.Errorf("%d copies without a weight, want 10", none.Len())
		}
	})
}

func TestOptions_WrongTypePanics(t *testing.T) {
	rt := open(t, cache.Options{})
	for what, opt := range map[string]cache.Option{
		"a listener for other values": cache.OnRemoval(func(int64, int, cache.Removal) {}),
		"a weigher for other keys":    cache.MaxWeight(1, func(string, string) uint32 { return 1 }),
		"a weigher without a bound":   cache.MaxWeight(0, func(int64, string) uint32 { return 1 }),
		"a bound without a weigher":   cache.With(cache.Policy{MaxWeight: 1}),
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s is accepted", what)
				}
			}()
			cache.Keyed(rt, "refused", decimal, (&nameTable{}).load, opt)
		}()
	}
}
