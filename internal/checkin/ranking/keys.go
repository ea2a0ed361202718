package ranking

import (
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/leaderboard"
)

// Keys is the boards' part of check-in's keyspace.
var Keys = keyspace.New("checkin")

var (
	rulesKey = keyspace.Def0(Keys, "checkin:rules", keyspace.BytesOf("every N, at most M"),
		keyspace.Forever("lost together with the board, and written again"),
		keyspace.Doc{Purpose: "the rules by which the streak board's deaths were computed"})

	// An exact board has these three keys.
	scoreKeys = keyspace.Def1[Board](Keys, "leaderboard:{{board}}", keyspace.ZSetOf("user → value and time reached"),
		keyspace.Forever("rebuilt from SQL when lost; a season's is removed months later"),
		keyspace.Doc{Purpose: "an exact board's ranking", MaxBytes: 1 << 30})

	deathKeys = keyspace.Def1[Board](Keys, "leaderboard:{{board}}:deaths", keyspace.ZSetOf("user → Unix ms"),
		keyspace.Forever("emptied as streaks die"),
		keyspace.Doc{Purpose: "when each entry of an exact board dies unless it grows", MaxBytes: 1 << 30})

	loadedKeys = keyspace.Def1[Board](Keys, "leaderboard:{{board}}:loaded", keyspace.BytesOf("the load's token"),
		keyspace.Forever("lost together with the board it vouches for"),
		keyspace.Doc{Purpose: "says that an exact board is complete, not emptied"})

	// A compact board has these keys.
	stateKeys = keyspace.Def1[Board](Keys, "leaderboard:{{board}}:state", keyspace.HashOf("see leaderboard.Compact"),
		keyspace.Forever("rebuilt from SQL when lost; a season's is removed months later"),
		keyspace.Doc{Purpose: "a compact board: its best, and how many stand where", MaxBytes: 1 << 20})

	logKeys = keyspace.Def1[Board](Keys, "leaderboard:{{board}}:log", keyspace.ListOf("changes, a batch in each element"),
		keyspace.Forever("folded into the state within seconds"),
		keyspace.Doc{Purpose: "what a compact board was told since", MaxBytes: 1 << 24})

	heldKeys = keyspace.Def1[Board](Keys, "leaderboard:{{board}}:held", keyspace.ListOf("changes, a batch in each element"),
		keyspace.Forever("dropped when the load ends"),
		keyspace.Doc{Purpose: "what a compact board was told while it is being loaded", MaxBytes: 1 << 28})
)

// ExactKeys returns the keys of an exact board.
func ExactKeys(b Board) leaderboard.Keys {
	keys := leaderboard.Keys{Scores: scoreKeys.At(b), Loaded: loadedKeys.At(b)}
	if b == StreakBoard {
		keys.Deaths = deathKeys.At(b)
	}
	return keys
}

// CompactKeys returns the keys of a compact board.
func CompactKeys(b Board) leaderboard.CompactKeys {
	return leaderboard.CompactKeys{State: stateKeys.At(b), Log: logKeys.At(b), Held: heldKeys.At(b)}
}
