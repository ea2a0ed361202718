package checkin

import (
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/keyspace"
	"github.com/stoa-dev/stoa/leaderboard"
)

// Keys is the check-in part of the keyspace.
var Keys = keyspace.New("checkin")

// Board names one ranking.
type Board struct{ name string }

// The boards.
var (
	StreakBoard = Board{"streak"}     // by current streak; the dead leave it
	TotalBoard  = Board{"total_days"} // by days checked in
)

// ParseBoard returns the board with that name, or ErrBoard.
func ParseBoard(name string) (Board, error) {
	for _, b := range []Board{StreakBoard, TotalBoard} {
		if b.name == name {
			return b, nil
		}
	}
	return Board{}, ErrBoard
}

func (b Board) String() string { return b.name }

// AppendSegment implements [keyspace.Segment].
func (b Board) AppendSegment(buf []byte) []byte { return append(buf, b.name...) }

// SegmentForm implements [keyspace.Formed].
func (Board) SegmentForm() keyspace.Form {
	return keyspace.Form{Words: []string{StreakBoard.name, TotalBoard.name}}
}

var (
	// recordKeys need no care on a cluster: every command names one record.
	recordKeys = keyspace.Def2[accounts.ID, keyspace.Int](Keys, "user:sign:{{uid}}:{year}",
		keyspace.BitmapOf("108 bytes, see checkin.Record"),
		// Whoever is away costs nothing; writes and one read in a hundred renew.
		keyspace.Expire(45*24*time.Hour),
		keyspace.Doc{Purpose: "one user's year: signed and covered days, and what came before", MaxBytes: recordSize})

	appliedKey = keyspace.Def0(Keys, "checkin:applied", keyspace.HashOf("node → Unix ms"),
		keyspace.Forever("one field for each live node; another node removes a dead one's"),
		keyspace.Doc{Purpose: "the time up to which each node's commits are in Redis"})

	scoreKeys = keyspace.Def1[Board](Keys, "leaderboard:{{board}}", keyspace.ZSetOf("user → value and time reached"),
		keyspace.Forever("rebuilt from SQL when lost"),
		keyspace.Doc{Purpose: "a board's ranking", MaxBytes: 1 << 30})

	deathKeys = keyspace.Def1[Board](Keys, "leaderboard:{{board}}:deaths", keyspace.ZSetOf("user → Unix ms"),
		keyspace.Forever("emptied as streaks die"),
		keyspace.Doc{Purpose: "when each entry of a board dies unless it grows", MaxBytes: 1 << 30})

	loadedKeys = keyspace.Def1[Board](Keys, "leaderboard:{{board}}:loaded", keyspace.BytesOf("the load's token"),
		keyspace.Forever("lost together with the board it vouches for"),
		keyspace.Doc{Purpose: "says that the board is complete, not emptied"})
)

func boardKeys(b Board) leaderboard.Keys {
	keys := leaderboard.Keys{Scores: scoreKeys.At(b), Loaded: loadedKeys.At(b)}
	if b == StreakBoard {
		keys.Deaths = deathKeys.At(b)
	}
	return keys
}
