package records

import (
	"hash/maphash"
	"sync"

	"github.com/stoa-dev/stoa/internal/checkin/streak"
)

// Cache has records as this node's check-ins left them. The next check-in guesses
// from them what it will mean for the boards; Redis' answer then tells whether the guess
// was right, so that a record may be old. (The cache is set-associative: each set has
// the records left last, the newest first. With one record in a set, a quarter of users
// who come one after the other would not be found again in a third of the room, and
// nearly every batch would have to ask Redis.) A nil cache holds nothing.
type Cache struct {
	seed  maphash.Seed
	locks [cacheLocks]sync.Mutex
	sets  [][cacheWays]cachedRecord // touched as they are used; 9 MB when all are
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

// Put keeps a copy of a record as the one that was left last.
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
