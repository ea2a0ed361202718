package checkin

import (
	"slices"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/foundation/civil"
)

// standing is where a user stands on the boards for all time.
type standing struct {
	streak int
	dies   time.Time // of the streak
	total  int
}

// place is what a change means for a user's place on the boards.
type place struct {
	standing
	user    accounts.ID
	at      time.Time // when that was reached
	restart bool      // an older entry may stand higher
	// from is where the user stood before. Nil: nobody knows, or the boards may
	// have been told of the change already.
	from    *standing
	told    *place  // what the boards were told of the same change, wrongly
	seasons []score // of the days that the change signed
}

// score is how many days a user signed in one season.
type score struct {
	board Board
	days  int
}

// standing returns where the user stands by the record of the present year.
func (z Freezes) standing(rec *Record, clock civil.Clock, year int) standing {
	newest, run, ok := rec.latest(year)
	if !ok {
		return standing{}
	}
	if skipped, skips := clock.Skipped(); skips && skipped < newest && newest.Year() == year {
		whole := *rec // its row comes when the zone's change is told
		whole.cover(skipped, year)
		run = whole.Streak(newest)
	}
	return standing{streak: run, dies: z.dies(clock, newest, run, z.left(rec)), total: rec.Total()}
}

// placeOf returns what a mark means for the boards; ok is false unless its day
// is the user's newest, of the present year, and signs: else the log has to be
// asked.
func (z Freezes) placeOf(rec *Record, r request, res Result, today civil.Day) (p place, ok bool) {
	year := r.day.Year()
	newest, any := rec.newest(year)
	if !any || newest != r.day || !r.kind.Signs() || year != today.Year() {
		return place{}, false
	}
	for _, b := range seasonsOf(r.day) {
		first, last := b.span()
		p.seasons = append(p.seasons, score{b, rec.signedIn(year, first, last)})
	}
	p.user, p.at, p.standing = r.user, res.At, z.standing(rec, r.clock, year)
	// Of an old row it is not known what came after it.
	p.restart = r.replay || !res.New || p.streak == 1 && p.total > 1
	return p, true
}

// placeFrom returns what a whole history means for the boards; ok is false when
// nothing was ever signed. A streak that is dead has its death in the past.
func (z Freezes) placeFrom(user accounts.ID, clock civil.Clock, h History) (p place, ok bool) {
	var t Tally
	for _, m := range h.skipping(clock).Marks {
		t.Add(m)
	}
	return z.tallied(user, clock, t, h.granted()), t.Total > 0
}

func (z Freezes) tallied(user accounts.ID, clock civil.Clock, t Tally, granted int) place {
	p := place{user: user, at: t.Signed, standing: standing{streak: t.Run, total: t.Total}, restart: true}
	p.dies = z.dies(clock, t.Last, t.Run, z.owned(t.Total, granted, t.Frozen))
	if t.Run == 0 {
		p.dies = p.at // a covered day alone keeps nothing alive
	}
	return p
}

// since is placeFrom for a change that wrote days at that time, with where the
// user stood before it, unless something else was written since.
func (z Freezes) since(user accounts.ID, clock civil.Clock, h History, signed []civil.Day, at time.Time) (p place, ok bool) {
	if p, ok = z.placeFrom(user, clock, h); !ok {
		return p, false
	}
	for _, d := range signed {
		for _, b := range seasonsOf(d) {
			if days, _ := h.in(b); days > 0 {
				p.seasons = append(p.seasons, score{b, days})
			}
		}
	}
	if before, alone := h.before(at, signed); alone {
		was, _ := z.placeFrom(user, clock, before)
		p.from = &was.standing
	}
	return p, true
}

// before returns the history without what was written at that time or later.
// alone reports that nothing but the given days and what freezes cover for them was.
func (h History) before(at time.Time, signed []civil.Day) (b History, alone bool) {
	alone = !at.IsZero()
	for _, m := range h.Marks {
		if m.At.Before(at) {
			b.Marks = append(b.Marks, m)
			continue
		}
		alone = alone && m.At.Equal(at) && (m.Kind == Frozen || slices.Contains(signed, m.Day))
	}
	for _, g := range h.Grants {
		if g.At.Before(at) {
			b.Grants = append(b.Grants, g)
		} else {
			alone = false
		}
	}
	return b, alone
}

// signed returns those of the days that were signed.
func (h History) signed(days []civil.Day) (out []civil.Day) {
	for _, m := range h.Marks {
		if m.Kind.Signs() && slices.Contains(days, m.Day) {
			out = append(out, m.Day)
		}
	}
	return out
}

// in returns how many days of a season were signed, and when the last of them
// was.
func (h History) in(b Board) (days int, at time.Time) {
	first, last := b.span()
	for _, m := range h.Marks {
		if m.Kind.Signs() && first <= m.Day && m.Day <= last {
			days++
			if m.At.After(at) {
				at = m.At
			}
		}
	}
	return days, at
}
