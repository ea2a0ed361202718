package cache_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

type depth struct{}

// diary records the calls of its hooks.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) add(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

func (d *diary) wants(t *testing.T, when string, want ...string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Equal(d.lines, want) {
		t.Errorf("%s: got %q, want %q", when, d.lines, want)
	}
	d.lines = nil
}

func (d *diary) asking(ctx context.Context, of cache.Tier, _ string, keys int) (context.Context, func(cache.Tier, error)) {
	level, _ := ctx.Value(depth{}).(int)
	d.add("%d: ask %s for %d", level, of, keys)
	return context.WithValue(ctx, depth{}, level+1), func(from cache.Tier, err error) { d.add("%d: %s, %v", level, from, err) }
}

func TestHooks_AskingReportsTierAndOutcome(t *testing.T) {
	for _, engine := range redistest.SharedEngines(t) {
		t.Run(engine.Name, func(t *testing.T) {
			d, boom := &diary{}, errors.New("boom")
			rt := open(t, cache.Options{DB: engine.Open(t), Config: cache.Config{Budget: 5 * time.Second, Hooks: cache.Hooks{Asking: d.asking}}})
			load := func(ctx context.Context, id int64) (string, error) {
				if level := ctx.Value(depth{}); level != 2 {
					t.Error("the source did not get the context that the hook returned")
				}
				switch id {
				case 404:
					return "", cache.ErrNotFound
				case 500:
					return "", boom
				}
				return "thing", nil
			}
			things := cache.Keyed(rt, "asked_thing", decimal, load, cache.With(cache.Policy{MaxStale: 10 * time.Second}))
			get := func(id int64, want error) {
				t.Helper()
				if _, err := things.Get(t.Context(), id); !errors.Is(err, want) {
					t.Errorf("Get(%d): %v", id, err)
				}
				rt.Wait()
			}
			get(1, nil)
			d.wants(t, "a cold key", "0: ask redis for 1", "1: ask source for 1", "1: source, <nil>", "0: source, <nil>")
			get(1, nil)
			d.wants(t, "in process")
			things.Clear()
			get(1, nil)
			d.wants(t, "in Redis", "0: ask redis for 1", "0: redis, <nil>")
			get(404, cache.ErrNotFound)
			missing := cache.ErrNotFound.Error()
			d.wants(t, "missing", "0: ask redis for 1", "1: ask source for 1", "1: source, "+missing, "0: source, "+missing)
			get(500, boom)
			d.wants(t, "failed", "0: ask redis for 1", "1: ask source for 1", "1: source, boom", "0: , boom")
			many := func(ids ...int64) {
				t.Helper()
				if _, err := things.GetMany(t.Context(), ids); err != nil {
					t.Error(err)
				}
			}
			things.Clear()
			many(1)
			d.wants(t, "a batch in Redis", "0: ask redis for 1", "0: redis, <nil>")
			many(1, 2, 404)
			d.wants(t, "a batch with one to load", "0: ask redis for 2", "1: ask source for 1", "1: source, <nil>", "0: source, <nil>")
		})
	}
}

func ExampleHooks_And() {
	ctx := context.Background()
	log := cache.Hooks{Asking: func(ctx context.Context, of cache.Tier, name string, keys int) (context.Context, func(cache.Tier, error)) {
		fmt.Println("log:", name, "asks", of)
		return ctx, nil
	}}
	trace := cache.Hooks{
		Asking: func(ctx context.Context, of cache.Tier, _ string, _ int) (context.Context, func(cache.Tier, error)) {
			return ctx, func(from cache.Tier, err error) { fmt.Println("trace: answered by", from, err) }
		},
		Dropped: func(keys int) { fmt.Println("trace: dropped", keys) },
	}
	rt, err := cache.Open(ctx, cache.Options{Config: cache.Config{Hooks: log.And(trace)}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	names := cache.Keyed(rt, "name", decimal, func(context.Context, int64) (string, error) { return "Ada", nil })
	if _, err := names.Get(ctx, 7); err != nil {
		fmt.Println(err)
	}
	if err := names.Invalidate(ctx, 7); err != nil {
		fmt.Println(err)
	}
	// Output:
	// log: name:{key} asks redis
	// log: name:{key} asks source
	// trace: answered by source <nil>
	// trace: answered by source <nil>
	// trace: dropped 1
}

// Of two sets of hooks each hook is called once, even if only one set has it; the second is called inside the first.
func TestHooks_AndCallsBothSets(t *testing.T) {
	d := &diary{}
	set := func(name string) cache.Hooks {
		return cache.Hooks{
			Asking: func(ctx context.Context, _ cache.Tier, _ string, _ int) (context.Context, func(cache.Tier, error)) {
				d.add("%s asks below %v", name, ctx.Value(depth{}))
				return context.WithValue(ctx, depth{}, name), func(cache.Tier, error) { d.add("%s ends", name) }
			},
			Loaded:   func(string, int, time.Duration, error) { d.add("%s loaded", name) },
			Answered: func(string, cache.Tier, time.Duration) { d.add("%s answered", name) },
			Dropped:  func(int) { d.add("%s dropped", name) },
			Queued:   func(int) { d.add("%s queued", name) },
			Redis:    func(error) { d.add("%s redis", name) },
		}
	}
	call := func(h cache.Hooks) {
		_, end := h.Asking(t.Context(), cache.Redis, "", 1)
		end(cache.Redis, nil)
		h.Loaded("", 1, 0, nil)
		h.Answered("", cache.Redis, 0)
		h.Dropped(1)
		h.Queued(1)
		h.Redis(nil)
	}
	call(set("a").And(set("b")))
	d.wants(t, "both", "a asks below <nil>", "b asks below a", "b ends", "a ends", "a loaded", "b loaded", "a answered", "b answered",
		"a dropped", "b dropped", "a queued", "b queued", "a redis", "b redis")
	one := []string{"a asks below <nil>", "a ends", "a loaded", "a answered", "a dropped", "a queued", "a redis"}
	call(set("a").And(cache.Hooks{}))
	d.wants(t, "the first", one...)
	call(cache.Hooks{}.And(set("a")))
	d.wants(t, "the second", one...)
}
