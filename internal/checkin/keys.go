package checkin

import (
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/keyspace"
)

// Keys is the check-in part of the keyspace.
var Keys = keyspace.New("checkin")

var (
	// recordKeys need no care on a cluster: every command names one record.
	recordKeys = keyspace.Def2[accounts.ID, keyspace.Int](Keys, "user:sign:{{uid}}:{year}",
		keyspace.BitmapOf("108 bytes, see streak.Record").Checked(streak.CheckRecord),
		// A user who is away costs nothing; writes and one read in a hundred renew.
		keyspace.Expire(45*24*time.Hour),
		keyspace.Doc{Purpose: "one user's year: signed and covered days, and what came before", MaxBytes: streak.RecordSize})

	// claimKeys exist in redis-first mode only.
	claimKeys = keyspace.Def2[accounts.ID, keyspace.Int](Keys, "user:signed:{{uid}}:{day}",
		keyspace.BytesOf("at, kind, request, words and minutes"),
		// The nightly snapshot looks at each of them at least twice.
		keyspace.Expire(3*24*time.Hour),
		keyspace.Doc{Purpose: "a check-in that was answered before SQL had it: who was first", MaxBytes: 128})

	appliedKey = keyspace.Def0(Keys, "checkin:applied", keyspace.HashOf("node → Unix ms"),
		keyspace.Forever("one field for each live node; another node removes a dead one's"),
		keyspace.Doc{Purpose: "the time up to which each node's commits are in Redis"})

	rulesKey = keyspace.Def0(Keys, "checkin:rules", keyspace.BytesOf("every N, at most M"),
		keyspace.Forever("lost together with the board, and written again"),
		keyspace.Doc{Purpose: "the rules by which the streak board's deaths were computed"})

	// An exact board has these three, ...
	scoreKeys = keyspace.Def1[Board](Keys, "leaderboard:{{board}}", keyspace.ZSetOf("user → value and time reached"),
		keyspace.Forever("rebuilt from SQL when lost; a season's is removed months later"),
		keyspace.Doc{Purpose: "an exact board's ranking", MaxBytes: 1 << 30})

	deathKeys = keyspace.Def1[Board](Keys, "leaderboard:{{board}}:deaths", keyspace.ZSetOf("user → Unix ms"),
		keyspace.Forever("emptied as streaks die"),
		keyspace.Doc{Purpose: "when each entry of an exact board dies unless it grows", MaxBytes: 1 << 30})

	loadedKeys = keyspace.Def1[Board](Keys, "leaderboard:{{board}}:loaded", keyspace.BytesOf("the load's token"),
		keyspace.Forever("lost together with the board it vouches for"),
		keyspace.Doc{Purpose: "says that an exact board is complete, not emptied"})

	// ... and a compact one these.
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
