package checkin

import (
	"hash/maphash"
	"sync"
)

// hints are records as this node saw them last. A check-in guesses from them
// what it will mean for the boards; Redis' answer then tells whether it was
// right, so that a hint may be old, or about nobody. (It is a direct-mapped
// cache: a newer record takes the place of whichever was there.)
type hints struct {
	seed  maphash.Seed
	locks [hintLocks]sync.Mutex
	slots []hint // touched as they are used; 9 MB when all are
}

type hint struct {
	key yearKey
	rec Record
}

const (
	hintSlots = 1 << 16
	hintLocks = 64
)

func newHints() *hints { return &hints{seed: maphash.MakeSeed(), slots: make([]hint, hintSlots)} }

func (h *hints) slot(k yearKey) (*hint, *sync.Mutex) {
	n := maphash.Comparable(h.seed, k) % hintSlots
	return &h.slots[n], &h.locks[n%hintLocks]
}

func (h *hints) put(k yearKey, rec *Record) {
	s, mu := h.slot(k)
	mu.Lock()
	s.key, s.rec = k, *rec
	mu.Unlock()
}

// get returns a copy, or nil.
func (h *hints) get(k yearKey) *Record {
	s, mu := h.slot(k)
	mu.Lock()
	defer mu.Unlock()
	if s.key != k {
		return nil
	}
	rec := s.rec
	return &rec
}
