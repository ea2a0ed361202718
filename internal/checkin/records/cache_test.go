package records

import (
	"testing"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
)

func TestCache_KeepsNearlyAllWhileNotFull(t *testing.T) {
	t.Parallel()
	h := NewCache()
	keys := make([]Key, cacheSets*cacheWays*3/10)
	rec := func(i, round int) *streak.Record { return &streak.Record{1: byte(i), 2: byte(round)} }
	for i := range keys {
		keys[i] = Key{ids.New[accounts.User](), 2026}
		h.Put(keys[i], rec(i, 0))
	}
	lost := 0
	for i, k := range keys { // each comes a second time, and evicts another one if necessary
		switch had := h.Get(k); {
		case had == nil:
			lost++
		case *had != *rec(i, 0):
			t.Fatalf("got %v, want %v", *had, *rec(i, 0))
		}
		h.Put(k, rec(i, 1))
		if had := h.Get(k); had == nil || *had != *rec(i, 1) {
			t.Fatalf("got %v right after it was put, want %v", had, *rec(i, 1))
		}
	}
	if lost > len(keys)/50 {
		t.Errorf("%d of %d are lost, want at most a fiftieth", lost, len(keys))
	}
	if had := h.Get(Key{keys[0].User, 2027}); had != nil {
		t.Errorf("another year has %v", had)
	}
}
