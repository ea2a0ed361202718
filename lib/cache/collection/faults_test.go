package collection_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/cache/collection"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

// parked is a queue whose drops run when the test calls for it.
type parked struct {
	mu   sync.Mutex
	keys []keyspace.Key
}

func (p *parked) Add(_ context.Context, keys []keyspace.Key) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys = append(p.keys, keys...)
	return nil
}

func TestCollection_ChangeWithoutRedisIsVisibleLocally(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		s, p := newTables(), &parked{}
		s.befriend(1, "bob", friend{})
		policy := collection.Policy{Unfenced: cache.Proceed, MaxStale: time.Second}
		wire := server.Wire()
		ours := relate(t, redistest.OpenConfig(t, wire.Config()), s, policy, func(c *cache.Config) { c.Retries = p })
		theirs := relate(t, server.Open(t), s, policy)
		sees := func(n *relations, want bool) {
			t.Helper()
			if ok, err := n.friends.Has(t.Context(), id(1), "bob"); ok != want || err != nil {
				t.Errorf("Has = %v, %v, want %v", ok, err, want)
			}
		}
		sees(ours, true)
		wire.Refuse()
		must(t, ours.friends.Mutate(t.Context(), id(1), s.do(func() {
			delete(s.friends[1], "bob")
		}), func(e *collection.HashEdit[string, friend]) { e.Delete("bob") }))
		wire.Heal()
		time.Sleep(5 * time.Second)
		sees(theirs, true) // Redis does have the old collection
		sees(ours, false)
		must(t, ours.rt.Redo(slices.Clone(p.keys)))
		sees(theirs, false)
		hits := ours.friends.Stats().RedisHits
		if sees(ours, false); ours.friends.Stats().RedisHits == hits {
			t.Error("Redis is not asked after the drop")
		}
	})
}

func TestCollection_DeadLoaderIsWaitedForOnce(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		gone, s := newTables(), newTables()
		s.befriend(1, "bob", friend{})
		dead := relate(t, server.Open(t), gone, collection.Policy{})
		release, done := loading(t, gone, dead, 1)
		n := relate(t, server.Open(t), s, collection.Policy{LeaseWait: 300 * time.Millisecond})
		for _, stored := range []bool{false, true, true} {
			began := time.Now()
			ok, err := n.friends.Has(t.Context(), id(1), "bob")
			if waited := time.Since(began) >= 300*time.Millisecond; !ok || err != nil || waited == stored {
				t.Errorf("%v, %v after %s; want one that is stored: %v", ok, err, time.Since(began), stored)
			}
		}
		if st := n.friends.Stats(); st.RedisHits == 0 {
			t.Errorf("nothing is stored: %+v", st)
		}
		release()
		<-done
	})
}

// Small collections are loaded all the time, so the average load time does not predict that of the big one.
func TestCollection_SlowBigLoadIsStored(t *testing.T) {
	for _, count := range []int{1, 2} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			redistest.Bubble(t, func(t *testing.T) {
				server := redistest.InMemory(t)
				s := newTables()
				s.befriend(1, "bob", friend{})
				var loads atomic.Int64
				s.takes = func(id int64) time.Duration {
					if id != 1 {
						return 5 * time.Millisecond
					}
					loads.Add(1)
					return time.Second
				}
				var ns []*relations
				for range count {
					ns = append(ns, relate(t, server.Open(t), s, collection.Policy{MaxStale: 500 * time.Millisecond}))
				}
				var reads sync.WaitGroup
				for small := range int64(500) {
					for i, n := range ns {
						reads.Go(func() {
							if ok, err := n.friends.Has(t.Context(), id(1), "bob"); !ok || err != nil {
								t.Errorf("Has = %v, %v", ok, err)
							}
						})
						reads.Go(func() {
							if _, err := n.friends.Has(t.Context(), id(2+small*int64(count)+int64(i)), "bob"); err != nil {
								t.Error(err)
							}
						})
					}
					time.Sleep(20 * time.Millisecond)
				}
				reads.Wait()
				for _, n := range ns {
					if st := n.friends.Stats(); st.RedisHits == 0 {
						t.Errorf("nothing is stored: %+v", st)
					}
				}
				if got := loads.Load(); got > int64(count)+1 {
					t.Errorf("%d loads of %d processes, want one more than processes at most", got, count)
				}
			})
		})
	}
}
