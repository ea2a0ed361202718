package cache

import (
	"testing"
	"testing/synctest"

	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// A negative entry has no value to weigh, but occupies memory all the same.
func TestMaxWeight_BoundsNegativeEntries(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for _, limit := range []uint64{2 * defaultEntries, defaultEntries / 10} {
			c := &core{policy: Policy{MaxWeight: limit}, types: typeFuncs{weigh: func(*localCopy) uint32 { panic("there is no value") }}}
			local := c.newLocal()
			for hash := range uint64(defaultEntries + 2000) {
				local.Set(hash, &localCopy{missing: true})
			}
			synctest.Wait()
			if n, want := local.EstimatedSize(), min(defaultEntries, int(limit)); n > want || n < want/2 {
				t.Errorf("%d copies of a weight of %d, want at most %d", n, limit, want)
			}
		}
	})
}
