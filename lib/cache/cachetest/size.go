package cachetest

import (
	"os"
	"time"
)

// full selects the sizes and limits of docs/cache-hazards.md.
var full = os.Getenv("STOA_HAZARDS") == "full"

var (
	// historySize is the number of reads and changes in a random history.
	historySize = choose[int64](3_000, 10_000)
	// awayLimit bounds the cost of a read over its load while Redis is unavailable. The larger one is for tests that
	// share their machine.
	awayLimit = choose(100*time.Millisecond, 5*time.Millisecond)
)

func choose[T any](ordinary, whole T) T {
	if full {
		return whole
	}
	return ordinary
}
