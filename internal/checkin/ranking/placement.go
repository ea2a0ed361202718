package ranking

import (
	"slices"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
)

// Placement is what a change means for a user's place on the boards.
type Placement struct {
	streak.Score
	Restart bool // an older entry may be higher
	// From is the former value of the user's days. It is nil if that is unknown, or if the boards may already have the
	// change.
	From *streak.Score
	Told *Placement // the wrong move of the same change that the boards already have

	user    accounts.ID
	at, ran time.Time    // when the total and the streak were reached
	seasons []seasonDays // of the days that the change signed
}

// seasonDays is the number of days that a user signed in one season.
type seasonDays struct {
	board Board
	days  int
	at    time.Time // of the last day
}

// reached returns when the value on a board for all time was reached.
func (p *Placement) reached(b Board) time.Time {
	if b == StreakBoard {
		return p.ran
	}
	return p.at
}

// Marked is a row of the log with its user.
type Marked struct {
	User  accounts.ID
	Clock civil.Clock
	streak.Mark
}

// PlacementOf returns what a new row means for the boards, by the record that has it. ok is true only if the row's day
// signs, is the user's newest day, and is in the present year. Otherwise the log has to be read.
func PlacementOf(z streak.Freezes, rec *streak.Record, m Marked, now time.Time) (p Placement, ok bool) {
	year := m.Day.Year()
	newest, any := rec.Newest(year)
	if !any || newest != m.Day || !m.Kind.Signs() || year != m.Clock.Today(now).Year() {
		return Placement{}, false
	}
	for _, b := range SeasonsOf(m.Day) {
		first, last := b.Span()
		p.seasons = append(p.seasons, seasonDays{b, rec.SignedIn(year, first, last), m.At})
	}
	p.user, p.at, p.ran, p.Score = m.User, m.At, m.At, z.Score(rec, m.Clock, year)
	p.Restart = p.Streak == 1 && p.Total > 1
	return p, true
}

// placementFrom returns what a whole history means for the boards. ok is false if no day was ever signed. The death of
// a dead streak is in the past.
func placementFrom(z streak.Freezes, user accounts.ID, clock civil.Clock, h streak.History) (p Placement, ok bool) {
	var t streak.Tally
	for _, m := range h.WithSkipped(clock).Marks {
		t.Add(m)
	}
	return tallied(z, user, clock, t, h.FreezesGranted()), t.Total > 0
}

func tallied(z streak.Freezes, user accounts.ID, clock civil.Clock, t streak.Tally, granted int) Placement {
	return Placement{user: user, at: t.Signed, ran: t.Ran, Score: z.ScoreOf(t, clock, granted), Restart: true}
}

// PlacementSince returns what a change that wrote days at that time means for the boards, by the history that has it.
// The placement has the user's former place, unless another row was written since. ok is false if no day was ever
// signed.
func PlacementSince(z streak.Freezes, user accounts.ID, clock civil.Clock, h streak.History, signed []civil.Day,
	at time.Time) (p Placement, ok bool) {
	if p, ok = placementFrom(z, user, clock, h); !ok {
		return p, false
	}
	for _, d := range signed {
		for _, b := range SeasonsOf(d) {
			if slices.ContainsFunc(p.seasons, func(s seasonDays) bool { return s.board == b }) {
				continue
			}
			if days, last := h.SignedIn(b.Span()); days > 0 {
				p.seasons = append(p.seasons, seasonDays{b, days, last})
			}
		}
	}
	if before, alone := h.Before(at, signed); alone {
		was, _ := placementFrom(z, user, clock, before)
		p.From = &was.Score
	}
	return p, true
}

// Only removes the seasons that are not among the boards.
func (p *Placement) Only(boards []Board) {
	p.seasons = slices.DeleteFunc(p.seasons, func(d seasonDays) bool { return !slices.Contains(boards, d.board) })
}
