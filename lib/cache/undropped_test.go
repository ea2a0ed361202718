package cache_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
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

// Redis is unavailable for a whole change, and back before the drop is retried. It still has the old value, which the
// caller that made the change must not get.
func TestChange_WithoutRedisIsVisibleLocally(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		s, p := &row{}, &parked{}
		s.value.Store(1)
		policy := cache.Policy{Unfenced: cache.Proceed, MaxStale: time.Second}
		source := cache.Source[keyspace.Int, int64]{Load: s.load,
			LoadMany: func(ctx context.Context, ks []keyspace.Int) (map[keyspace.Int]int64, error) {
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
		sees(theirs, 1) // Redis does have the old value
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

// The same for a change that panics after its commit: its process lives on, as a server's does.
func TestChange_PanicWithoutRedisIsDroppedLater(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		s := &row{}
		s.value.Store(1)
		policy := cache.Policy{Unfenced: cache.Proceed, MaxStale: time.Second}
		source := cache.Source[keyspace.Int, int64]{Load: s.load}
		wire := server.Wire()
		rt, ours := numberNode(t, redistest.OpenConfig(t, wire.Config()), cache.Config{}, policy, source)
		_, theirs := numberNode(t, server.Open(t), cache.Config{}, policy, source)
		both := func(want int64) {
			t.Helper()
			for _, c := range []*cache.Cache[keyspace.Int, int64]{ours, theirs} {
				if got, err := c.Get(t.Context(), one); got != want || err != nil {
					t.Errorf("Get = %d, %v, want %d", got, err, want)
				}
			}
		}
		both(1)
		wire.Refuse()
		func() {
			defer func() { _ = recover() }()
			_ = rt.Change(t.Context(), func(context.Context) error { s.value.Store(2); panic("after the commit") }, ours.Target(one))
		}()
		wire.Heal()
		time.Sleep(5 * time.Second)
		both(2)
	})
}

// The same for a tag: until the drop is done, Redis has its old version, and with it all values stored under that.
func TestTag_DropWithoutRedisIsVisibleLocally(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		s, p := &row{}, &parked{}
		s.value.Store(1)
		source := cache.Source[keyspace.Int, int64]{Load: s.load, Tags: func(keyspace.Int) []cache.Tag { return []cache.Tag{roomTag} }}
		wire := server.Wire()
		rt, c := numberNode(t, redistest.OpenConfig(t, wire.Config()), cache.Config{Retries: p}, cache.Policy{MaxStale: time.Second}, source)
		sees := func(want int64) {
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
		sees(1)
		wire.Refuse()
		s.value.Store(2)
		if err := rt.Drop(t.Context(), roomTag.Target()); !errors.Is(err, cache.ErrQueued) {
			t.Fatalf("a drop that Redis does not accept: %v", err)
		}
		wire.Heal()
		time.Sleep(5 * time.Second)
		sees(2)

		must(t, rt.Redo(slices.Clone(p.keys)))
		sees(2)
		hits := c.Stats().RedisHits
		c.Clear()
		if sees(2); c.Stats().RedisHits == hits {
			t.Error("Redis is not asked after the drop")
		}
	})
}

// Any process may run a drop from a queue that processes share, such as a table.
func TestDrop_DoneByOtherProcessIsForgotten(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		s, p := &row{}, &parked{}
		s.value.Store(1)
		policy := cache.Policy{Unfenced: cache.Proceed, MaxStale: time.Second}
		source := cache.Source[keyspace.Int, int64]{Load: s.load}
		wire := server.Wire()
		rt, ours := numberNode(t, redistest.OpenConfig(t, wire.Config()), cache.Config{Retries: p}, policy, source)
		other, _ := numberNode(t, server.Open(t), cache.Config{}, policy, source)
		wire.Refuse()
		must(t, rt.Change(t.Context(), func(context.Context) error { s.value.Store(2); return nil }, ours.Target(one)))
		wire.Heal()
		time.Sleep(5 * time.Second)
		must(t, other.Redo(slices.Clone(p.keys)))
		time.Sleep(2 * time.Minute)
		loads := ours.Stats().Loads
		for range 10 {
			if got, err := ours.Get(t.Context(), one); got != 2 || err != nil {
				t.Errorf("Get = %d, %v, want 2", got, err)
			}
		}
		if got := ours.Stats().Loads - loads; got != 1 {
			t.Errorf("ten reads had %d loads, want one", got)
		}
		if got := rt.Health().Queued; got != 0 {
			t.Errorf("%d drops are waited for, want none", got)
		}
	})
}

// A key of another type occupies the place of a value. It is never dropped, but the other waiting keys are.
func TestDrop_RefusedKeyBlocksNoOthers(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		s := &row{}
		s.value.Store(1)
		wire := server.Wire()
		rt, c := numberNode(t, redistest.OpenConfig(t, wire.Config()), cache.Config{}, cache.Policy{MaxStale: time.Second},
			cache.Source[keyspace.Int, int64]{Load: s.load})
		two := keyspace.Int{N: 2}
		must(t, redis.NewScript("return redis.call('RPUSH', KEYS[1], 'no value')").Run(t.Context(), server.Open(t),
			[]keyspace.Key{c.Target(two).Key()}).Err)
		wire.Refuse()
		if err := c.Invalidate(t.Context(), one, two); !errors.Is(err, cache.ErrQueued) {
			t.Fatalf("a drop that Redis does not accept: %v", err)
		}
		wire.Heal()
		time.Sleep(5 * time.Second)
		if got := rt.Health().Queued; got != 1 {
			t.Errorf("%d drops wait, want only that of the list", got)
		}
		loads := c.Stats().Loads
		for range 10 {
			if got, err := c.Get(t.Context(), one); got != 1 || err != nil {
				t.Errorf("Get = %d, %v, want 1", got, err)
			}
			time.Sleep(time.Second)
		}
		if got := c.Stats().Loads - loads; got != 1 {
			t.Errorf("ten reads in ten seconds had %d loads, want one", got)
		}
	})
}

// The same for a clear: it drops all keys but that one.
func TestClearEverywhere_RefusedKeyBlocksNoOthers(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		s := &row{}
		s.value.Store(1)
		rt, c := numberNode(t, server.Open(t), cache.Config{}, cache.Policy{MaxStale: time.Second},
			cache.Source[keyspace.Int, int64]{Load: s.load})
		two := c.Target(keyspace.Int{N: 2}).Key()
		must(t, redis.NewScript("return redis.call('RPUSH', KEYS[1], 'no value')").Run(t.Context(), server.Open(t), []keyspace.Key{two}).Err)
		if _, err := c.Get(t.Context(), one); err != nil {
			t.Fatal(err)
		}
		s.value.Store(2)
		if err := c.ClearEverywhere(t.Context()); !errors.Is(err, cache.ErrQueued) {
			t.Errorf("a clear that Redis refuses for one key: %v", err)
		}
		loads := c.Stats().Loads
		for range 10 {
			if got, err := c.Get(t.Context(), one); got != 2 || err != nil {
				t.Errorf("Get = %d, %v, want 2", got, err)
			}
			time.Sleep(time.Second)
		}
		if got := c.Stats().Loads - loads; got != 1 {
			t.Errorf("ten reads in ten seconds had %d loads, want one", got)
		}
		if got := rt.Health().Queued; got != 1 {
			t.Errorf("%d drops wait, want only that of the list", got)
		}
	})
}

// A read between the commit and the failed drop may get the old value, and must not leave a copy of it.
func TestDrop_FailureLeavesNoOldCopy(t *testing.T) {
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
