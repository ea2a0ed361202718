package cache

import (
	"sync"
	"sync/atomic"

	"github.com/stoa-dev/stoa/keyspace"
)

// undropped are the keys whose drop Redis has not confirmed: it may hold values from
// before a change that this process has made. Until a retry succeeds this process reads
// them from their source, so that whoever made a change sees it, whatever Redis does.
type undropped struct {
	n atomic.Int64 // of the keys: most reads need no lock

	mu    sync.Mutex
	keys  map[string]uint64 // the last drop of each that failed
	all   bool              // there were too many: every key is one, until none is left
	drops uint64            // that failed so far
}

func (u *undropped) add(keys []keyspace.Key) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.keys == nil {
		u.keys = map[string]uint64{}
	}
	u.drops++
	for _, k := range keys {
		if _, known := u.keys[k.String()]; !known && len(u.keys) >= memoryKeys {
			u.all = true
			continue // a later key may be known, and belongs to this change now
		}
		u.keys[k.String()] = u.drops
	}
	u.n.Store(int64(len(u.keys)))
}

func (u *undropped) has(key keyspace.Key) bool {
	if u.n.Load() == 0 {
		return false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	_, known := u.keys[key.String()]
	return known || u.all
}

// before returns what done takes, for a retry that begins now.
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
		if u.keys[k.String()] <= before {
			delete(u.keys, k.String())
		}
	}
	if u.n.Store(int64(len(u.keys))); len(u.keys) == 0 {
		u.all = false
	}
}
