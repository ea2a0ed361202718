package checkin

import (
	"hash/maphash"
	"sync"
)

// hints are records as this node's check-ins left them. The next one guesses from
// them what it will mean for the boards; Redis' answer then tells whether it was
// right, so that a hint may be old, or about nobody. (It is a set-associative
// cache: in each set the records left last, the newest first. With a single one
// in each, of users who come one after the other a quarter would not be known
// again in a third of the room, and nearly every batch would have to ask Redis.)
type hints struct {
	seed  maphash.Seed
	locks [hintLocks]sync.Mutex
	sets  [][hintWays]hint // touched as they are used; 9 MB when all are
}

type hint struct {
	key yearKey
	rec Record
}

const (
	hintSets  = 1 << 13
	hintWays  = 8
	hintLocks = 64
)

func newHints() *hints {
	return &hints{seed: maphash.MakeSeed(), sets: make([][hintWays]hint, hintSets)}
}

func (h *hints) set(k yearKey) (*[hintWays]hint, *sync.Mutex) {
	n := maphash.Comparable(h.seed, k) % hintSets
	return &h.sets[n], &h.locks[n%hintLocks]
}

func (h *hints) put(k yearKey, rec *Record) {
	s, mu := h.set(k)
	mu.Lock()
	defer mu.Unlock()
	i := 0
	for i < hintWays-1 && s[i].key != k {
		i++
	}
	copy(s[1:], s[:i])
	s[0] = hint{k, *rec}
}

// get returns a copy, or nil.
func (h *hints) get(k yearKey) *Record {
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
