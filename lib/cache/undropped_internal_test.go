package cache

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/bus"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

var (
	undroppedSchema  = keyspace.New("cacheundropped")
	undroppedChannel = keyspace.DefChannel0(undroppedSchema, "undropped_events", keyspace.RawMessages("bus"),
		keyspace.Doc{Purpose: "of the tests"})
	undroppedLog = keyspace.Def0(undroppedSchema, "undropped_events", keyspace.StreamOf("bus"), keyspace.Forever("of the tests"),
		keyspace.Doc{Purpose: "of the tests"})
)

var undroppedKeys = keyspace.Def1[keyspace.Int](undroppedSchema, "undropped:{id}", keyspace.CachedOf[string](), keyspace.Expire(time.Hour),
	keyspace.Doc{Purpose: "of the tests"})

func keysUpTo(n int) (keys []keyspace.Key) {
	for i := range n {
		keys = append(keys, undroppedKeys.At(keyspace.Int{N: int64(i)}).Key)
	}
	return keys
}

// A retry that began before the failed drop of a later change does not cover that change.
func TestUndropped_EarlierRetryKeepsLaterDrop(t *testing.T) {
	var u undropped
	keys := keysUpTo(2)
	u.add(keys)
	before := u.before()
	u.add(keys[:1])
	u.done(keys, before)
	if !u.has(keys[0]) || u.has(keys[1]) {
		t.Errorf("got %v, %v", u.has(keys[0]), u.has(keys[1]))
	}
	if u.done(keys, u.before()); u.has(keys[0]) {
		t.Error("a key remains")
	}
}

func TestUndropped_OverflowCoversWholeFamily(t *testing.T) {
	u := undropped{limit: 3}
	keys := keysUpTo(5)
	fam := keys[0].Family()
	if added := u.add(keys[:3]); len(added) != 3 || u.has(keys[3]) {
		t.Errorf("added %d, want 3; an unchanged key is pending: %v", len(added), u.has(keys[3]))
	}
	if added := u.add(keys[:4]); len(added) != 3 || len(u.keys) != 3 || !u.has(keys[4]) || u.has(tagKey.At(keyspace.Text{S: "x"}).Key) {
		t.Errorf("added %d, %d keys", len(added), len(u.keys))
	}
	before := u.before()
	u.add([]keyspace.Key{keys[4], keys[0]}) // the first exceeds the limit, the second is already in the map
	if u.done(keys[:1], before); !u.has(keys[0]) || u.keys[keys[0].String()].drop == 0 {
		t.Error("a key of a later change was lost with those over the limit")
	}
	u.done(keys[:3], u.before())
	if u.familyDone(fam, before); !u.has(keys[4]) {
		t.Error("a family that overflowed later was forgotten earlier")
	}
	if u.familyDone(fam, u.before()); u.has(keys[4]) {
		t.Error("drops stay pending")
	}
}

// In this outage, more changes are made than this process can remember.
func TestUndropped_OverflowLosesNoDrop(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		wire := server.Wire()
		var value atomic.Int64
		node := func(db *redis.DB) (*Runtime, *Cache[keyspace.Int, string]) {
			b := bus.New(db, bus.Keys{Events: undroppedChannel.At(), Log: undroppedLog.At()}, bus.Config{Node: "n"})
			rt := NewRuntime(db, b, Config{})
			rt.undropped.limit = 10
			c := New(rt, undroppedKeys, Policy{Unfenced: Proceed}, Source[keyspace.Int, string]{
				Load: func(context.Context, keyspace.Int) (string, error) { return strconv.FormatInt(value.Load(), 10), nil }})
			ctx, cancel := context.WithCancel(t.Context())
			var run sync.WaitGroup
			run.Go(func() { _ = b.Run(ctx, func() {}) })
			run.Go(func() { _ = rt.Run(ctx, func() {}) })
			t.Cleanup(func() { cancel(); run.Wait() })
			if err := b.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			return rt, c
		}
		rt, ours := node(redistest.OpenConfig(t, wire.Config()))
		_, theirs := node(server.Open(t))
		const n = 50
		old := func(c *Cache[keyspace.Int, string], want string) (keys int) {
			c.core.clear()
			for i := range n {
				if got, err := c.Get(t.Context(), keyspace.Int{N: int64(i)}); got != want || err != nil {
					keys++
				}
			}
			return keys
		}
		old(theirs, "0")
		wire.Refuse()
		value.Store(1)
		for i := range n {
			if err := rt.Change(t.Context(), func(context.Context) error { return nil }, ours.Target(keyspace.Int{N: int64(i)})); err != nil {
				t.Fatal(err)
			}
		}
		if old(theirs, "0") > 0 || old(ours, "1") > 0 {
			t.Errorf("before the drops: %d keys of the other node, %d of this one", old(theirs, "0"), old(ours, "1"))
		}
		if h := rt.Health(); h.Queued != 11 {
			t.Errorf("%+v", h)
		}
		wire.Heal()
		time.Sleep(5 * time.Second)
		if lost := old(theirs, "1"); lost > 0 {
			t.Errorf("%d of %d keys stay old", lost, n)
		}
		if h := rt.Health(); h.Queued != 0 {
			t.Errorf("%+v", h)
		}
	})
}
