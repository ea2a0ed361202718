package cache_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

// parked is a queue whose drops are done when the test says so.
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

// Redis was away for the whole of a change, and is there again before the drop is
// retried: it has the old value, and who made the change must not be shown it.
func TestTheNodeThatChangedWithoutRedisSeesItsChange(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		s, p := &row{}, &parked{}
		s.value.Store(1)
		policy := cache.Policy{Unfenced: cache.Proceed, MaxStale: time.Second}
		source := cache.Source[keyspace.Int, int64]{Load: s.load, LoadMany: func(ctx context.Context, ks []keyspace.Int) (map[keyspace.Int]int64, error) {
			v, err := s.load(ctx, ks[0])
			return map[keyspace.Int]int64{ks[0]: v}, err
		}}
		wire := server.Wire()
		rt, ours := numberNode(t, redistest.OpenConfig(t, wire.Config()), cache.Config{Retries: p}, policy, source)
		_, theirs := numberNode(t, server.Open(t), cache.Config{}, policy, source)
		sees := func(c *cache.Cache[keyspace.Int, int64], want int64) {
			t.Helper()
			for range 2 { // a read leaves a copy for the next one
				if got, err := c.Get(t.Context(), one); got != want || err != nil {
					t.Errorf("Get = %d, %v, want %d", got, err, want)
				}
				if got, err := c.GetMany(t.Context(), []keyspace.Int{one}); got[one] != want || err != nil {
					t.Errorf("GetMany = %v, %v, want %d", got, err, want)
				}
			}
		}
		sees(ours, 1)
		wire.Refuse()
		must(t, rt.Change(t.Context(), func(context.Context) error { s.value.Store(2); return nil }, ours.Target(one)))
		wire.Heal()
		time.Sleep(5 * time.Second)
		ours.Clear()
		theirs.Clear()
		sees(theirs, 1) // Redis has the old value indeed
		sees(ours, 2)

		must(t, rt.Redo(slices.Clone(p.keys)))
		time.Sleep(time.Second)
		sees(theirs, 2)
		hits := ours.Stats().RedisHits
		ours.Clear()
		if sees(ours, 2); ours.Stats().RedisHits == hits {
			t.Error("Redis is not asked after the drop")
		}
	})
}

// A read between the commit and the drop that fails may find the old value, and must
// leave no copy of it.
func TestNoCopyIsLeftOfAReadBetweenACommitAndADropThatFails(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		s, p := &row{}, &parked{}
		s.value.Store(1)
		wire := server.Wire()
		_, c := numberNode(t, redistest.OpenConfig(t, wire.Config()), cache.Config{Retries: p},
			cache.Policy{Unfenced: cache.Proceed, MaxStale: time.Minute, ChangeTimeout: time.Minute, LoadTimeout: time.Minute},
			cache.Source[keyspace.Int, int64]{Load: s.load})
		get := func(want int64) {
			t.Helper()
			if got, err := c.Get(t.Context(), one); got != want || err != nil {
				t.Errorf("Get = %d, %v, want %d", got, err, want)
			}
		}
		get(1)
		wire.Refuse()
		h := newHold()
		var changed sync.WaitGroup
		changed.Go(func() {
			_, _ = c.Mutate(t.Context(), one, func(context.Context) error { s.value.Store(2); s.hold.Store(h); return nil })
		})
		<-h.reached
		wire.Heal()
		time.Sleep(5 * time.Second)
		get(1) // the change has not returned
		wire.Refuse()
		close(h.release)
		changed.Wait()
		get(2)
		wire.Heal()
		time.Sleep(5 * time.Second)
		get(2)
	})
}
