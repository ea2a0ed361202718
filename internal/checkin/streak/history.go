package streak

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stoa-dev/stoa/internal/base/civil"
)

// Kind states why a day counts.
type Kind uint8

// The kinds of a day.
const (
	Tapped  Kind = 1 // checked in on the day itself
	MadeUp  Kind = 2 // checked in later
	Frozen  Kind = 3 // missed and covered by a freeze
	Skipped Kind = 4 // skipped by a change of time zone, hence covered
)

// Signs reports whether the day counts as checked in. The other kinds cover: they bridge a streak without adding to it.
func (k Kind) Signs() bool { return k == Tapped || k == MadeUp }

// Mark is one row of the log: one user's day.
type Mark struct {
	Day  civil.Day
	Kind Kind
	At   time.Time // by the server's clock; only boards need it
}

// Status has a user's figures on one day.
type Status struct {
	Day       civil.Day // today, in the user's zone
	Today     bool      // checked in today
	Yesterday bool
	Streak    int // signed days in the unbroken run that ends today or yesterday
	Longest   int // longest streak ever
	Total     int // days signed
	Freezes   int // left, without those that cover the days missed just now
	Used      int // freezes spent ever
}

// Grant is a number of freezes that an operator gave.
type Grant struct {
	N  int // 1 to MaxGrant
	At time.Time
}

// MaxGrant is the largest number of freezes that one grant gives.
const MaxGrant = 100

// ValidReason reports whether a grant can have that reason: 1 to 200 printable characters.
func ValidReason(s string) bool {
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	return s != "" && s == strings.TrimSpace(s) && utf8.ValidString(s) && utf8.RuneCountInString(s) <= 200 &&
		!strings.ContainsFunc(s, unprintable)
}

// History is all that the log has of one user.
type History struct {
	Marks  []Mark // in order of days
	Grants []Grant
}

// FreezesGranted returns how many freezes operators ever gave.
func (h History) FreezesGranted() (n int) {
	for _, g := range h.Grants {
		n += g.N
	}
	return n
}

// LastWrite returns when the newest row was written, or zero without rows.
func (h History) LastWrite() (at time.Time) {
	for _, m := range h.Marks {
		at = later(at, m.At)
	}
	return at
}

// Equal reports whether o has the same days, written at the same times, and the same grants.
func (h History) Equal(o History) bool {
	return slices.EqualFunc(h.Marks, o.Marks, func(a, b Mark) bool {
		return a.Day == b.Day && a.Kind == b.Kind && a.At.Equal(b.At)
	}) && h.FreezesGranted() == o.FreezesGranted()
}

// place returns the index where the mark of a day is, or belongs.
func (h History) place(day civil.Day) (i int, found bool) {
	return slices.BinarySearchFunc(h.Marks, day, func(m Mark, d civil.Day) int { return cmp.Compare(m.Day, d) })
}

// With returns h with that mark, which replaces another one of its day.
func (h History) With(m Mark) History {
	h.Marks = slices.Clone(h.Marks)
	i, found := h.place(m.Day)
	if found {
		h.Marks[i] = m
	} else {
		h.Marks = slices.Insert(h.Marks, i, m)
	}
	return h
}

// WithFrozen returns h with more days covered by freezes at that time.
func (h History) WithFrozen(days []civil.Day, at time.Time) History {
	return h.covered(Frozen, days, at)
}

// WithSkipped returns h with the skipped date of c, if it is before h's last day. The row of that date is written
// later, by the message of the change.
func (h History) WithSkipped(c civil.Clock) History {
	day, ok := c.Skipped()
	if !ok || len(h.Marks) == 0 || h.Marks[len(h.Marks)-1].Day < day {
		return h
	}
	return h.covered(Skipped, []civil.Day{day}, time.Time{})
}

func (h History) covered(k Kind, days []civil.Day, at time.Time) History {
	for _, d := range days {
		if _, found := h.place(d); !found {
			h = h.With(Mark{Day: d, Kind: k, At: at})
		}
	}
	return h
}

// Before returns the history without the rows that were written at that time or later. alone reports whether all of
// these rows are the given days or freezes that cover because of them.
func (h History) Before(at time.Time, signed []civil.Day) (b History, alone bool) {
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

// SignedOf returns those of the days that were signed.
func (h History) SignedOf(days []civil.Day) (out []civil.Day) {
	for _, m := range h.Marks {
		if m.Kind.Signs() && slices.Contains(days, m.Day) {
			out = append(out, m.Day)
		}
	}
	return out
}

// On returns the row of a day.
func (h History) On(day civil.Day) (m Mark, found bool) {
	i, found := h.place(day)
	if !found {
		return Mark{}, false
	}
	return h.Marks[i], true
}

// FirstWith returns the first day that was written with m: m's own, or the first that freezes cover because of m.
func (h History) FirstWith(m Mark) civil.Day {
	for _, f := range h.Marks {
		if f.Day < m.Day && f.Kind == Frozen && f.At.Equal(m.At) {
			return f.Day
		}
	}
	return m.Day
}

// SignedIn returns how many days from first to last were signed, and when the last of them was.
func (h History) SignedIn(first, last civil.Day) (days int, at time.Time) {
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

// Kinds has the kinds of days by their names in files.
var Kinds = map[string]Kind{"tapped": Tapped, "made_up": MadeUp, "frozen": Frozen, "skipped": Skipped}

// String returns the name of a kind in files.
func (k Kind) String() string {
	for name, kind := range Kinds {
		if kind == k {
			return name
		}
	}
	return "kind " + strconv.Itoa(int(k))
}

// MonthOf returns the number of the month of a day: 202611.
func MonthOf(d civil.Day) int {
	year, month, _ := d.Date()
	return 100*year + int(month)
}
