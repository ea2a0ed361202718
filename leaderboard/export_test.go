package leaderboard

import "time"

// Loads wait that long for changes that are on their way; tests have none.
func init() { grace = time.Millisecond }
