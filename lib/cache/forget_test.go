package cache_test

import (
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

func TestForget_DropsCopiesOfEveryProcess(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		db := redistest.Open(t, "embedded")
		s := &table{}
		s.set(1, user{"ada", 36})
		p := cache.Policy{MaxStale: 10 * time.Second}
		a, b := start(t, db, s, p), start(t, db, s, p)
		id := keyspace.Int{N: 1}
		for _, n := range []*node{a, b} {
			for range 2 {
				if _, err := n.users.Get(t.Context(), id); err != nil {
					t.Fatal(err)
				}
			}
			if e, err := n.users.Lookup(t.Context(), id); err != nil || e.Tier != cache.Process {
				t.Fatalf("before: %+v, %v", e, err)
			}
			if h := n.rt.Health(); h.Open != 0 || h.Behind > 5*time.Second {
				t.Errorf("in normal operation: %+v", h)
			}
		}
		must(t, a.rt.Forget())
		if e, err := a.users.Lookup(t.Context(), id); err != nil || e.Tier != cache.Redis {
			t.Errorf("on this node: %+v, %v, want it from Redis", e, err)
		}
		eventually.True(t, "the other node's copy is gone", func() bool {
			e, err := b.users.Lookup(t.Context(), id)
			must(t, err)
			return e.Tier == cache.Redis
		})
	})
}
