package records

import (
	"hash/maphash"
	"sync"

	"github.com/stoa-dev/stoa/internal/checkin/streak"
)

// Cache has records as this node's check-ins left them. From them, the next check-in computes an expected move on the
// boards. The reply of Redis then shows whether the expectation was right, so a cache entry may be old. A nil cache is
// always empty.
//
// The cache is set-associative: each set has the newest records, the newest first. With one record in a set, a quarter
// of the users of one check-in after the other would miss when a third of the cache is full. Nearly every batch would
// then have to read from Redis.
type Cache struct {
	seed  maphash.Seed
	locks [cacheLocks]sync.Mutex
	sets  [][cacheWays]cachedRecord // allocated as they are used; 9 MB when all are
}

type cachedRecord struct {
	key Key
	rec streak.Record
}

const (
	cacheSets  = 1 << 13
	cacheWays  = 8
	cacheLocks = 64
)

// NewCache returns an empty cache.
func NewCache() *Cache {
	return &Cache{seed: maphash.MakeSeed(), sets: make([][cacheWays]cachedRecord, cacheSets)}
}

func (h *Cache) set(k Key) (*[cacheWays]cachedRecord, *sync.Mutex) {
	n := maphash.Comparable(h.seed, k) % cacheSets
	return &h.sets[n], &h.locks[n%cacheLocks]
}

// Put stores a copy of a record as the newest of its set.
func (h *Cache) Put(k Key, rec *streak.Record) {
	if h == nil {
		return
	}
	s, mu := h.set(k)
	mu.Lock()
	defer mu.Unlock()
	i := 0
	for i < cacheWays-1 && s[i].key != k {
		i++
	}
	copy(s[1:], s[:i])
	s[0] = cachedRecord{k, *rec}
}

// Get returns a copy of a record, or nil.
func (h *Cache) Get(k Key) *streak.Record {
	if h == nil {
		return nil
	}
	s, mu := h.set(k)
	mu.Lock()
	defer mu.Unlock()
	for i := range s {
		if s[i].key == k {
			rec := s[i].rec
			return &rec
		}
	}
	return nil
}
