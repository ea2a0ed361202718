package streak

import (
	"time"

	"github.com/stoa-dev/stoa/internal/base/civil"
)

// Score is the value of a user's days on the boards for all time.
type Score struct {
	Streak int
	Dies   time.Time // when the streak ends unless a day is added
	Total  int
}

// Score returns the value of a user's days by the record of the present year.
func (z Freezes) Score(rec *Record, clock civil.Clock, year int) Score {
	newest, run, ok := rec.latest(year)
	if !ok {
		return Score{}
	}
	if skipped, skips := clock.Skipped(); skips && skipped < newest && newest.Year() == year {
		whole := *rec // the row of that day is written by the message of the change of zone
		whole.Cover(skipped, year)
		run = whole.Streak(newest)
	}
	return Score{Streak: run, Dies: z.dies(clock, newest, run, z.left(rec)), Total: rec.Total()}
}

// ScoreOf is Score by a tally of the whole log, for a user with that many granted freezes. The death of a dead streak
// is in the past.
func (z Freezes) ScoreOf(t Tally, clock civil.Clock, granted int) Score {
	s := Score{Streak: t.Run, Total: t.Total, Dies: t.Signed} // covered days alone do not continue a streak
	if t.Run > 0 {
		s.Dies = z.dies(clock, t.Last, t.Run, z.owned(t.Total, granted, t.Frozen))
	}
	return s
}
