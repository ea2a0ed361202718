package streak

import (
	"fmt"
	"time"

	"github.com/stoa-dev/stoa/internal/base/civil"
)

// Tally counts a history in order of days. The zero Tally is empty.
type Tally struct {
	Last    civil.Day // the newest day, signed or covered
	Signed  time.Time // when the last signed day was written: Total was reached with it
	Run     int       // signed days in the run that ends on Last
	Ran     time.Time // when the last of these was written
	Longest int
	Total   int
	Frozen  int // days that freezes cover

	any    bool
	signed bool // Last was signed
}

// Add counts the next day, which must be later than all before.
func (t *Tally) Add(m Mark) {
	if !t.any || m.Day != t.Last+1 {
		t.Run, t.Ran = 0, time.Time{}
	}
	t.any, t.Last, t.signed = true, m.Day, m.Kind.Signs()
	switch {
	case t.signed:
		t.Run++
		t.Total++
		t.Longest = max(t.Longest, t.Run)
		t.Signed, t.Ran = later(t.Signed, m.At), later(t.Ran, m.At)
	case m.Kind == Frozen:
		t.Frozen++
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Streak returns the run as of today. It is 0 from the moment when a day is missed that no freeze covers.
func (t *Tally) Streak(today civil.Day) int {
	if !t.any || t.Last < today-1 {
		return 0
	}
	return t.Run
}

// Freezes are the rules that decide which missed days are covered. While a gap is open, nothing is written: the covered
// days follow from what the user owns. The check-in that closes the gap writes their rows, and these rows stay valid
// even if the rules change.
type Freezes struct {
	Every int // signed days that earn a freeze; 0: none is earned
	Max   int // the largest number of missed days in a row that are covered; 0: none
}

// String returns the rules in the form that the streak board stores.
func (z Freezes) String() string { return fmt.Sprintf("every %d, at most %d", z.Every, z.Max) }

// owned returns how many freezes are left.
func (z Freezes) owned(signed, granted, used int) int {
	if z.Max == 0 {
		return 0
	}
	if z.Every > 0 {
		granted += signed / z.Every
	}
	return max(granted-used, 0)
}

// bridge returns the last covered day after the newest day of a run, at most until, and the freezes that it takes. A
// freeze covers a missed day. A skipped date costs no freeze and ends the gap.
func (z Freezes) bridge(c civil.Clock, newest civil.Day, run, owned int, until civil.Day) (last civil.Day, spent int) {
	skipped, skips := c.Skipped()
	left := min(owned, z.Max)
	for last = newest; last < until; last++ {
		switch {
		case skips && last+1 == skipped:
			left = min(owned-spent, z.Max)
		case left > 0 && run > 0: // there is a streak to save
			left--
			spent++
		default:
			return last, spent
		}
	}
	return last, spent
}

// dies returns the instant when a run that ends on newest falls to 0 unless a day is added: the start of the day after
// the first missed day.
func (z Freezes) dies(c civil.Clock, newest civil.Day, run, owned int) time.Time {
	last, _ := z.bridge(c, newest, run, owned, newest+civil.Day(2*z.Max+1))
	return c.Start(last + 2)
}

// Due returns the days that freezes cover because a row was written for day at that time. They follow the newest day
// that the log then had, if that was before day. Later rows and grants do not count, so the result is the same at any
// time.
func (z Freezes) Due(h History, c civil.Clock, day civil.Day, at time.Time) (days []civil.Day) {
	if z.Max == 0 {
		return nil
	}
	var t Tally
	for _, m := range h.Marks {
		switch {
		case m.Day == day || !m.At.Before(at):
		case m.Day > day:
			return nil // no gap was open
		default:
			t.Add(m)
		}
	}
	if !t.any {
		return nil
	}
	granted := 0
	for _, g := range h.Grants {
		if !g.At.After(at) {
			granted += g.N
		}
	}
	last, _ := z.bridge(c, t.Last, t.Run, z.owned(t.Total, granted, t.Frozen), day-1)
	skipped, skips := c.Skipped()
	for d := t.Last + 1; d <= last; d++ {
		if !skips || d != skipped {
			days = append(days, d)
		}
	}
	return days
}

// MakeUp returns the days that freezes cover when day is made up on today: the days before it, if it closes an open
// gap. ok is false if day is already covered.
func (z Freezes) MakeUp(h History, c civil.Clock, day, today civil.Day) (covered []civil.Day, ok bool) {
	var t Tally
	for _, m := range h.Marks {
		t.Add(m)
	}
	if t.any && day > t.Last {
		last, _ := z.bridge(c, t.Last, t.Run, z.owned(t.Total, h.FreezesGranted(), t.Frozen), today-1)
		if day <= last {
			return nil, false
		}
	}
	if skipped, skips := c.Skipped(); skips && day == skipped {
		return nil, false
	}
	return z.Due(h, c, day, forever), true
}

// forever is later than every row.
var forever = time.Unix(1<<40, 0)
