package activity

import (
	"time"

	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/config"
)

// The ways to count.
const (
	exact       = "exact"
	approximate = "approximate"
)

// Settings are the operator's settings.
type Settings struct {
	Count string `koanf:"count" default:"exact" enum:"exact,approximate" help:"how the users of a day are counted: exact, by a set of ids (some 60 bytes of Redis for each user and day), or approximate, by a HyperLogLog (12 KiB a day for any number; as a rule wrong by less than 1 %; there is no retention then, and the embedded Redis has none)"`
	Zone  string `koanf:"zone" default:"UTC" help:"time zone at whose midnights the days begin by which active users are counted, the same for all users and on all nodes"`
}

// Validate returns all faults, joined.
func (c Settings) Validate() error {
	if c.Zone == "" {
		return nil
	}
	_, err := civil.LoadZone(c.Zone)
	return config.Refuse(err != nil, "zone", "%q is no time zone of the IANA database, such as Europe/Athens", c.Zone)
}

// Approximate reports whether estimates are enough.
func (c Settings) Approximate() bool { return c.Count == approximate }

func (c Settings) clock() civil.Clock { return civil.Clock{Zone: c.Zone} }

// ErrNotExact reports that retention is unavailable, because no set of users exists.
var ErrNotExact = errs.New(errs.Conflict, "activity.not_exact", "Days are counted approximately (activity.count), so nothing says who was active, and there is no retention.")

// ErrRange reports an invalid range of days.
var ErrRange = errs.New(errs.Invalid, "activity.range", "A range begins before it ends, and is within the last 30 days.")

// Count is a number of active users.
type Count struct {
	Actives int64 `json:"actives"`
	Exact   bool  `json:"exact"`   // false means an estimate
	Partial bool  `json:"partial"` // a lower bound: Redis had lost some users
}

// falls reports whether this count shows that Redis has lost users since before. An estimate may vary slightly.
func (c Count) falls(before Count) bool {
	if c.Exact && before.Exact {
		return c.Actives < before.Actives
	}
	return float64(c.Actives) < estimate*float64(before.Actives)
}

// estimate is the smallest ratio of an estimate to the true number: the standard error of Redis' HyperLogLog is 0.81 %,
// and six times that practically never occurs.
const estimate = 0.95

// over returns the count to store in place of before: a stored number never decreases.
func (c Count) over(before Count) Count {
	partial := c.Partial || before.Partial || c.falls(before)
	if c.Actives <= before.Actives {
		c = before
	}
	c.Partial = partial
	return c
}

// A Period is a kind of range whose counts are stored.
type Period string

// The periods.
const (
	Week  Period = "week"  // of ISO 8601, Monday to Sunday
	Month Period = "month" // of the calendar
)

var periods = []Period{Week, Month}

// Span is a range of days, including both ends.
type Span struct{ First, Last civil.Day }

// Of returns the period that contains a day.
func (p Period) Of(d civil.Day) Span {
	if p == Week {
		monday := d - civil.Day((d.Weekday()+6)%7)
		return Span{monday, monday + 6}
	}
	year, month, _ := d.Date()
	return Span{civil.DayOf(year, month, 1), civil.DayOf(year, month+1, 0)}
}

// days lists the days of a span.
func (s Span) days() []civil.Day {
	all := make([]civil.Day, 0, s.Last-s.First+1)
	for d := s.First; d <= s.Last; d++ {
		all = append(all, d)
	}
	return all
}

// Day is the stored data of a day.
type Day struct {
	Date civil.Day
	Count
	Closed  time.Time // the last time it was closed; zero means never
	Updated time.Time
}

// Range is the stored data of a week or month.
type Range struct {
	Period Period
	Span
	Through civil.Day // the last counted day; Last after the end of the period
	Count
	Updated time.Time
}

// over returns the range to store in place of before. A complete count stays complete after its sets have expired.
func (r Range) over(before Range) Range {
	if r.Partial && !before.Partial && before.Through >= r.Through {
		r.Partial = r.Actives > before.Actives
	} else if before.Partial && before.Through >= r.Through {
		r.Partial = true
	}
	if r.Actives < before.Actives {
		r.Actives, r.Exact = before.Actives, before.Exact
	}
	r.Through = max(r.Through, before.Through)
	return r
}

// Cohort is how many of the users who registered on a day were active some days later.
type Cohort struct {
	Date    civil.Day
	After   int
	Size    int64 // users who registered, including deleted accounts
	Active  int64
	Partial bool // Redis had lost some of the active users
}

// daysAfter lists the days after registration when users are checked: each day of a month, and two more for
// comparisons.
var daysAfter = func() (all []int) {
	for n := range 30 {
		all = append(all, n+1)
	}
	return append(all, 60, 90)
}()

const (
	// settle is how long after its end a day is closed: by then the nodes have sent their users, unless Redis was
	// unavailable.
	settle = 15 * time.Minute
	// lateness is the delay until a day is closed again, for late users.
	lateness = 24 * time.Hour
	// kept is the number of days before today with complete sets.
	kept = 30
)

// due reports whether a day that ended at end, and was last closed at closed, must be closed.
func due(now, closed, end time.Time) bool {
	for _, after := range []time.Duration{settle, lateness + settle} {
		if at := end.Add(after); !now.Before(at) && closed.Before(at) {
			return true
		}
	}
	return false
}
