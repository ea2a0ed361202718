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

// undropped are the keys whose drop Redis has not confirmed: it may hold values from
// before a change that this process has made. Until a retry succeeds this process reads
// them from their source, so that whoever made a change sees it, whatever Redis does.
type undropped struct {
	room int          // for keys; 0 means memoryKeys
	n    atomic.Int64 // of keys and families: most reads need no lock

	mu       sync.Mutex
	keys     map[string]undroppedKey
	families map[*keyspace.Family]uint64 // the last drop that failed of keys that found no room: every key is one
	drops    uint64                      // that failed so far

	forgetting atomic.Bool
}

type undroppedKey struct {
	key  keyspace.Key
	drop uint64 // the last one that failed
}

// add returns the keys that found room. All of the others' families has to be forgotten.
func (u *undropped) add(keys []keyspace.Key) (kept []keyspace.Key) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.keys == nil {
		u.keys, u.families = map[string]undroppedKey{}, map[*keyspace.Family]uint64{}
	}
	u.drops++
	for _, k := range keys {
		if _, known := u.keys[k.String()]; !known && len(u.keys) >= cmp.Or(u.room, memoryKeys) {
			u.families[k.Family()] = u.drops
			continue // a later key may be known, and belongs to this change now
		}
		u.keys[k.String()] = undroppedKey{k, u.drops}
		kept = append(kept, k)
	}
	u.count()
	return kept
}

// addFamily says that all of a family has to be forgotten.
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

// before returns what done and forgot take, for a retry that begins now.
func (u *undropped) before() uint64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.drops
}

// done says that a retry has dropped keys. One whose drop has failed again since it
// began belongs to a later change.
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

// full returns the families that have to be forgotten.
func (u *undropped) full() map[*keyspace.Family]uint64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return maps.Clone(u.families)
}

// forgot says that all of a family was dropped. See done.
func (u *undropped) forgot(f *keyspace.Family, before uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.families[f] <= before {
		delete(u.families, f)
	}
	u.count()
}

// redoUndropped drops the keys that this process waits for. Those of a [RetryQueue] may have been
// dropped by another process, of which this one does not learn: once more does no harm.
func (rt *Runtime) redoUndropped() {
	for part := range slices.Chunk(rt.undropped.all(), messageKeys) {
		if left, _ := rt.redo(part); len(left) == len(part) {
			return // Redis is still away
		}
	}
}

// forgetLimit bounds one look through all keys of Redis.
const forgetLimit = 10 * time.Minute

// forgetFull drops all keys of the families of which too many drops have failed, or whose
// ClearEverywhere has, if there are any. It looks through all of Redis, beside everything else.
func (rt *Runtime) forgetFull(ctx context.Context) {
	if rt.undropped.n.Load() == 0 || len(rt.undropped.full()) == 0 || !rt.undropped.forgetting.CompareAndSwap(false, true) {
		return
	}
	rt.begin(func() {
		defer rt.undropped.forgetting.Store(false)
		ctx, cancel := context.WithTimeout(ctx, forgetLimit)
		defer cancel()
		for f := range rt.undropped.full() {
			before := rt.undropped.before()
			refused, err := rt.forgetFamily(ctx, f)
			if err != nil {
				return // Redis is still away
			}
			if len(refused) > 0 {
				rt.later(ctx, refused)
			}
			rt.undropped.forgot(f, before)
			rt.cfg.Log.Warn("Redis did not take a clear, or more drops than can be remembered: now all that was cached of a family is dropped", "family", f.Pattern)
		}
	})
}

// forgetFamily drops all keys of a family in Redis, and then every copy: the nodes are told once, and not of
// each key, of which there may be millions. Without an error it returns the keys that Redis refuses to drop.
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
		if len(page) < messageKeys {
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
