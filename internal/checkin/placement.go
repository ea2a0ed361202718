package checkin

import (
	"slices"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/internal/foundation/civil"
)

// placement is what a change means for a user's place on the boards.
type placement struct {
	streak.Score
	user    accounts.ID
	at      time.Time // when that was reached
	restart bool      // an older entry may stand higher
	// from is what the user's days were worth before. Nil: that is not known, or the
	// boards may have been told of the change already.
	from    *streak.Score
	told    *placement   // what the boards were told of the same change, wrongly
	seasons []seasonDays // of the days that the change signed
}

// seasonDays is how many days a user signed in one season.
type seasonDays struct {
	board Board
	days  int
	at    time.Time // of the last one
}

// placeOf returns what a mark means for the boards; ok is false unless its day
// is the user's newest, of the present year, and signs: else the log has to be
// asked.
func placementOf(z streak.Freezes, rec *streak.Record, r request, res Result, today civil.Day) (p placement, ok bool) {
	year := r.day.Year()
	newest, any := rec.Newest(year)
	if !any || newest != r.day || !r.kind.Signs() || year != today.Year() {
		return placement{}, false
	}
	for _, b := range seasonsOf(r.day) {
		first, last := b.span()
		p.seasons = append(p.seasons, seasonDays{b, rec.SignedIn(year, first, last), res.At})
	}
	p.user, p.at, p.Score = r.user, res.At, z.Score(rec, r.clock, year)
	// Of an old row it is not known what came after it.
	p.restart = !res.New || p.Streak == 1 && p.Total > 1
	return p, true
}

// placeFrom returns what a whole history means for the boards; ok is false when
// nothing was ever signed. A streak that is dead has its death in the past.
func placementFrom(z streak.Freezes, user accounts.ID, clock civil.Clock, h streak.History) (p placement, ok bool) {
	var t streak.Tally
	for _, m := range h.WithSkipped(clock).Marks {
		t.Add(m)
	}
	return tallied(z, user, clock, t, h.FreezesGranted()), t.Total > 0
}

func tallied(z streak.Freezes, user accounts.ID, clock civil.Clock, t streak.Tally, granted int) placement {
	return placement{user: user, at: t.Signed, Score: z.ScoreOf(t, clock, granted), restart: true}
}

// since is placeFrom for a change that wrote days at that time, with where the
// user stood before it, unless something else was written since.
func since(z streak.Freezes, user accounts.ID, clock civil.Clock, h streak.History, signed []civil.Day, at time.Time) (p placement, ok bool) {
	if p, ok = placementFrom(z, user, clock, h); !ok {
		return p, false
	}
	for _, d := range signed {
		for _, b := range seasonsOf(d) {
			if slices.ContainsFunc(p.seasons, func(s seasonDays) bool { return s.board == b }) {
				continue
			}
			if days, last := h.SignedIn(b.span()); days > 0 {
				p.seasons = append(p.seasons, seasonDays{b, days, last})
			}
		}
	}
	if before, alone := h.Before(at, signed); alone {
		was, _ := placementFrom(z, user, clock, before)
		p.from = &was.Score
	}
	return p, true
}
