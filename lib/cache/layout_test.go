package cache_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/bus"
	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/cache/collection"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

// Two versions of a program run at once with different layouts of their cached values. Neither reads what the other
// stored, although both could decode it.
func TestDocVersion_OtherLayoutIsMissing(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		program := func(version int) (*cache.Cache[keyspace.Int, string], *collection.Set[keyspace.Int, string]) {
			doc := keyspace.Doc{Purpose: "of the tests", Version: version}
			s := keyspace.New("programs")
			values := keyspace.Def1[keyspace.Int](s, "program:value:{id}", keyspace.CachedOf[string](), keyspace.Expire(time.Hour), doc)
			sets := keyspace.Def1[keyspace.Int](s, "program:set:{id}", keyspace.CachedSetOf[string](), keyspace.Expire(time.Hour), doc)
			db := server.Open(t)
			b := bus.New(db, bus.Keys{Events: events.At(), Log: log.At()}, bus.Config{Node: "n"})
			rt := cache.NewRuntime(db, b, cache.Config{})
			text := fmt.Sprint("of version ", version)
			c := cache.New(rt, values, cache.Policy{Entries: -1}, cache.Source[keyspace.Int, string]{
				Load: func(context.Context, keyspace.Int) (string, error) { return text, nil }})
			set := collection.NewSet(rt, sets, collection.Policy{}, collection.SetSource[keyspace.Int, string]{
				Load: func(context.Context, keyspace.Int) ([]string, error) { return []string{text}, nil }})
			ctx, cancel := context.WithCancel(t.Context())
			var run sync.WaitGroup
			run.Go(func() { _ = b.Run(ctx, func() {}) })
			run.Go(func() { _ = rt.Run(ctx, func() {}) })
			t.Cleanup(func() { cancel(); run.Wait() })
			must(t, b.Wait(t.Context()))
			return c, set
		}
		for _, version := range []int{0, 2, 1, 3} { // 0 and 1 are the same version
			c, set := program(version)
			want := fmt.Sprint("of version ", version)
			for range 2 {
				if got, err := c.Get(t.Context(), one); got != want || err != nil {
					t.Errorf("version %d: Get = %q, %v", version, got, err)
				}
				if ok, err := set.Has(t.Context(), one, want); !ok || err != nil {
					t.Errorf("version %d: Has = %v, %v", version, ok, err)
				}
			}
			if c.Stats().Loads != 1 || c.Stats().RedisHits != 1 || set.Stats().Loads != 1 {
				t.Errorf("version %d: %+v, %+v", version, c.Stats(), set.Stats())
			}
			must(t, set.Mutate(t.Context(), one, func(context.Context) error { return nil }, func(e *collection.SetEdit[string]) { e.Add("more") }))
			if ok, err := set.Has(t.Context(), one, "more"); !ok || err != nil || set.Stats().Applied != 1 {
				t.Errorf("version %d: after a change: %v, %v, %+v", version, ok, err, set.Stats())
			}
		}
	})
}
