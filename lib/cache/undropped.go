package cache

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
)

// undropped contains the keys whose drop Redis has not confirmed: Redis may hold values from before a change that this
// process made. Until a retry succeeds, this process reads them from their source, so that callers on this node see
// their own change even if Redis fails.
type undropped struct {
	limit int          // of keys; 0 means maxKeysInMemory
	n     atomic.Int64 // number of keys and families, so that most reads need no lock

	mu       sync.Mutex
	keys     map[string]undroppedKey
	families map[*keyspace.Family]uint64 // number of the last failed drop; every key of them counts
	drops    uint64                      // number of failed drops so far

	forgetting atomic.Bool
}

type undroppedKey struct {
	key  keyspace.Key
	drop uint64 // number of the last failed drop
}

// add returns the keys within the limit. For the others, all keys of their family have to be dropped.
func (u *undropped) add(keys []keyspace.Key) (added []keyspace.Key) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.keys == nil {
		u.keys, u.families = map[string]undroppedKey{}, map[*keyspace.Family]uint64{}
	}
	u.drops++
	for _, k := range keys {
		if _, known := u.keys[k.String()]; !known && len(u.keys) >= cmp.Or(u.limit, maxKeysInMemory) {
			u.families[k.Family()] = u.drops
			continue // do not stop: a later key may already be in the map, and now belongs to this change
		}
		u.keys[k.String()] = undroppedKey{k, u.drops}
		added = append(added, k)
	}
	u.count()
	return added
}

// addFamily records that all keys of a family have to be dropped.
func (u *undropped) addFamily(f *keyspace.Family) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.families == nil {
		u.keys, u.families = map[string]undroppedKey{}, map[*keyspace.Family]uint64{}
	}
	u.drops++
	u.families[f] = u.drops
	u.count()
}

func (u *undropped) count() { u.n.Store(int64(len(u.keys) + len(u.families))) }

func (u *undropped) has(key keyspace.Key) bool {
	if u.n.Load() == 0 {
		return false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	_, known := u.keys[key.String()]
	_, all := u.families[key.Family()]
	return known || all
}

// before returns the argument for done and familyDone, for a retry that begins now.
func (u *undropped) before() uint64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.drops
}

// done records that a retry has dropped keys. A key whose drop has failed again since the retry began belongs to a
// later change and stays.
func (u *undropped) done(keys []keyspace.Key, before uint64) {
	if u.n.Load() == 0 {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, k := range keys {
		if u.keys[k.String()].drop <= before {
			delete(u.keys, k.String())
		}
	}
	u.count()
}

// all returns the keys.
func (u *undropped) all() (keys []keyspace.Key) {
	if u.n.Load() == 0 {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, k := range u.keys {
		keys = append(keys, k.key)
	}
	return keys
}

// full returns the families whose keys all have to be dropped.
func (u *undropped) full() map[*keyspace.Family]uint64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return maps.Clone(u.families)
}

// familyDone records that all keys of a family were dropped. See done.
func (u *undropped) familyDone(f *keyspace.Family, before uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.families[f] <= before {
		delete(u.families, f)
	}
	u.count()
}

// redoUndropped repeats the drops that this process waits for. Another process may have dropped keys of a [RetryQueue]
// without this one learning of it; dropping them again does no harm.
func (rt *Runtime) redoUndropped() {
	for part := range slices.Chunk(rt.undropped.all(), maxKeysPerMessage) {
		if left, _ := rt.redo(part); len(left) == len(part) {
			return // Redis is still unavailable
		}
	}
}

// forgetTimeout bounds one scan of all keys of Redis.
const forgetTimeout = 10 * time.Minute

// forgetFull drops all keys of the families that have too many failed drops, or whose ClearEverywhere failed. It scans
// all of Redis in the background.
func (rt *Runtime) forgetFull(ctx context.Context) {
	if rt.undropped.n.Load() == 0 || len(rt.undropped.full()) == 0 || !rt.undropped.forgetting.CompareAndSwap(false, true) {
		return
	}
	rt.begin(func() {
		defer rt.undropped.forgetting.Store(false)
		ctx, cancel := context.WithTimeout(ctx, forgetTimeout)
		defer cancel()
		for f := range rt.undropped.full() {
			before := rt.undropped.before()
			refused, err := rt.forgetFamily(ctx, f)
			if err != nil {
				return // Redis is still unavailable
			}
			if len(refused) > 0 {
				rt.enqueueDrops(ctx, refused)
			}
			rt.undropped.familyDone(f, before)
			rt.cfg.Log.Warn("cache: all keys of a family dropped after a failed clear or too many failed drops", "family", f.Pattern)
		}
	})
}

// forgetFamily drops all keys of a family in Redis, and then every copy. It sends the nodes one message instead of one
// for each key, because there may be millions. Without an error it returns the keys that Redis refuses to drop.
func (rt *Runtime) forgetFamily(ctx context.Context, f *keyspace.Family) (refused []keyspace.Key, err error) {
	parser, prefix := keyspace.ParserOf(f), rt.db.Physical(keyspace.Key{})
	var page []keyspace.Key
	drop := func() error {
		for i, r := range rt.changes.do(dropCmds(page)...) {
			switch {
			case errors.Is(r.Err, redis.ErrUnavailable):
				return r.Err
			case r.Err != nil:
				refused = append(refused, page[i])
			}
		}
		rt.countDropped(len(page))
		page = nil
		return nil
	}
	err = rt.db.Scan(ctx, func(physical string) error {
		if found, ok := parser.Key(strings.TrimPrefix(physical, prefix)); ok {
			page = append(page, found.Key())
		}
		if len(page) < maxKeysPerMessage {
			return nil
		}
		return drop()
	})
	if err == nil && len(page) > 0 {
		err = drop()
	}
	if err != nil {
		return nil, err
	}
	return refused, rt.Forget()
}
