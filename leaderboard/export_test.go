package leaderboard

import (
	"time"

	"github.com/stoa-dev/stoa/redis"
)

// Loads wait that long for changes that are on their way; tests have none.
func init() { grace = time.Millisecond }

// SmallCompact is a compact board that soon has more than it can rank.
func SmallCompact(db *redis.DB, k CompactKeys) Board {
	return &compact{db: db, k: k, sizes: sizes{head: 2, want: 3, keep: 4, max: 6}}
}

// HeldLate is when a load counts as lost.
const HeldLate = heldLate
