package cache

import (
	"testing"
	"testing/synctest"

	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// What is known not to exist has no value to be weighed, and takes room all the same.
func TestCopiesOfWhatIsNotThereAreBounded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for _, most := range []uint64{2 * defaultEntries, defaultEntries / 10} {
			c := &core{policy: Policy{MaxWeight: most}, types: typeFuncs{weigh: func(*localCopy) uint32 { panic("there is no value") }}}
			local := c.newLocal()
			for hash := range uint64(defaultEntries + 2000) {
				local.Set(hash, &localCopy{missing: true})
			}
			synctest.Wait()
			if n, want := local.EstimatedSize(), min(defaultEntries, int(most)); n > want || n < want/2 {
				t.Errorf("%d copies of a weight of %d, want at most %d", n, most, want)
			}
		}
	})
}
