package checkin

import (
	"time"

	"github.com/stoa-dev/stoa/internal/foundation/civil"
	"github.com/stoa-dev/stoa/internal/foundation/errs"
)

// What a caller can do wrong.
var (
	ErrYear  = errs.New(errs.Invalid, "checkin.year", "A calendar has the years 1970 to 9999.")
	ErrBoard = errs.New(errs.NotFound, "checkin.board_unknown", "There are two boards: streak and total_days.")
)

// Kind says how a day came to count.
type Kind uint8

// The kinds of a day.
const (
	Tapped  Kind = 1 // checked in on the day itself
	MadeUp  Kind = 2 // checked in later
	Frozen  Kind = 3 // missed and covered by a freeze
	Skipped Kind = 4 // left out of the calendar by a change of zone, hence covered
)

// Signs reports whether the day counts as checked in. Days that do not sign
// cover: they bridge a streak without adding to it.
func (k Kind) Signs() bool { return k == Tapped || k == MadeUp }

// Mark is one row of the log: one user's day.
type Mark struct {
	Day  civil.Day
	Kind Kind
	At   time.Time // by the server's clock; only boards need it
}

// Activity is what a user did since the last check-in.
type Activity struct {
	Words   int // words learned
	Minutes int // minutes studied
}

// Status is where a user stands on one day.
type Status struct {
	Day       civil.Day // today, in the user's zone
	Today     bool      // checked in today
	Yesterday bool
	Streak    int // signed days in the unbroken run that ends today or yesterday
	Longest   int // longest streak ever
	Total     int // days signed
}

// Result is the answer to a check-in.
type Result struct {
	New    bool      // false: the day was signed before, and nothing changed
	At     time.Time // when the day was signed
	Status Status
}

// Stats are a user's figures over all time.
type Stats struct {
	Status
	Words, Minutes int64
}

// Calendar has the days of a month or a year, in order.
type Calendar struct {
	Year    int
	Month   time.Month // 0 for a whole year
	Signed  []civil.Day
	Covered []civil.Day
}

// Tally counts a history, fed to it in order of days. The zero Tally is empty.
type Tally struct {
	Last    civil.Day // the newest day, signed or covered
	Signed  time.Time // when the newest signed day was signed
	Run     int       // signed days in the run that ends on Last
	Longest int
	Total   int

	any    bool
	signed bool // Last was signed
}

// Add counts the next day, which must be later than all before.
func (t *Tally) Add(m Mark) {
	if !t.any || m.Day != t.Last+1 {
		t.Run = 0
	}
	t.any, t.Last, t.signed = true, m.Day, m.Kind.Signs()
	if t.signed {
		t.Run++
		t.Total++
		t.Longest = max(t.Longest, t.Run)
		t.Signed = m.At
	}
}

// Streak returns the run as it stands on today: 0 the moment a day is missed.
func (t *Tally) Streak(today civil.Day) int {
	if !t.any || t.Last < today-1 {
		return 0
	}
	return t.Run
}

// dies returns the instant at which a streak whose newest day is d falls to 0
// unless a day is added: the start of the day after next, not counting a date
// that a change of zone leaves out.
func dies(c civil.Clock, d civil.Day) time.Time {
	if skipped, ok := c.Skipped(); ok && skipped == d+1 {
		d = skipped
	}
	return c.Start(d + 2)
}
