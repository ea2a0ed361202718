package leaderboard

import (
	"time"

	"github.com/stoa-dev/stoa/lib/redis"
)

func init() {
	grace = time.Millisecond // tests have no changes that are on their way
	beatEvery = 5 * time.Millisecond
	heldLate = 100 * time.Millisecond
}

// SmallCompact is a compact board that soon has more than it can rank.
func SmallCompact(db *redis.DB, k CompactKeys) Board {
	return &compact{db: db, k: k, sizes: sizes{head: 2, want: 3, keep: 4, max: 6}}
}

// Schema has the families of Named and NamedCompact.
var Schema = schema
