package leaderboard

import (
	"time"

	"github.com/stoa-dev/stoa/lib/redis"
)

func init() {
	grace = time.Millisecond // tests have no changes in flight
	beatEvery = 5 * time.Millisecond
	loadTimeout = 100 * time.Millisecond
}

// SmallCompact returns a compact board that soon has more members than it can rank.
func SmallCompact(db *redis.DB, k CompactKeys) Board {
	return &compact{db: db, k: k, sizes: sizes{head: 2, want: 3, keep: 4, max: 6}}
}

// Schema contains the families of Named and NamedCompact.
var Schema = schema
