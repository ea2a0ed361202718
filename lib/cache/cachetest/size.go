package cachetest

import (
	"os"
	"time"
)

// full asks for the sizes and limits of docs/cache-hazards.md.
var full = os.Getenv("STOA_HAZARDS") == "full"

var (
	// historySize is how many reads and changes a random history has.
	historySize = choose[int64](3_000, 10_000)
	// awayLimit is what a read may cost over its load while Redis is away. Tests
	// share their machine.
	awayLimit = choose(100*time.Millisecond, 5*time.Millisecond)
)

func choose[T any](ordinary, whole T) T {
	if full {
		return whole
	}
	return ordinary
}
