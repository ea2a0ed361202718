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

// Settings are the operator's.
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

// ErrNotExact reports that retention was asked for where no set says who was active.
var ErrNotExact = errs.New(errs.Conflict, "activity.not_exact", "Days are counted approximately (activity.count), so nothing says who was active, and there is no retention.")

// ErrRange reports a range of days that has no first day, or too many.
var ErrRange = errs.New(errs.Invalid, "activity.range", "A range begins before it ends, and is within the last 30 days.")

// Count is how many users were active.
type Count struct {
	Actives int64 `json:"actives"`
	Exact   bool  `json:"exact"`   // else the number is an estimate
	Partial bool  `json:"partial"` // there were at least so many: Redis had lost some of them
}

// falls reports whether the number counted now shows that Redis has lost users since before was counted.
// An estimate may move by a little.
func (c Count) falls(before Count) bool {
	if c.Exact && before.Exact {
		return c.Actives < before.Actives
	}
	return float64(c.Actives) < estimate*float64(before.Actives)
}

// estimate is how much of a true number an estimate is at the very least: the error of
// Redis' HyperLogLog is 0.81 % as a rule, and six times that as good as never.
const estimate = 0.95

// over is the count that is to be kept where before was: a number never falls.
func (c Count) over(before Count) Count {
	partial := c.Partial || before.Partial || c.falls(before)
	if c.Actives <= before.Actives {
		c = before
	}
	c.Partial = partial
	return c
}

// A Period is a kind of range whose counts are kept.
type Period string

// The periods.
const (
	Week  Period = "week"  // of ISO 8601, Monday to Sunday
	Month Period = "month" // of the calendar
)

var periods = []Period{Week, Month}

// Span is a range of days, both ends in it.
type Span struct{ First, Last civil.Day }

// Of returns the period that a day belongs to.
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

// Day is what is kept of a day.
type Day struct {
	Date civil.Day
	Count
	Closed  time.Time // when it was counted last with all that belongs to it; zero: it was not yet
	Updated time.Time
}

// Range is what is kept of a week or month.
type Range struct {
	Period Period
	Span
	Through civil.Day // the last day that is counted in; Last when the period has ended
	Count
	Updated time.Time
}

// over is the range that is to be kept where before was. A count that was whole stays so
// when the sets are gone.
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

// Cohort is how many of the users who registered on a day were active some days after it.
type Cohort struct {
	Date    civil.Day
	After   int
	Size    int64 // users who registered, those whose accounts are gone by now among them
	Active  int64
	Partial bool // Redis had lost some of those who were active
}

// daysAfter are the days after their registration on which users are looked up: a month
// day by day, and the two after which products are compared.
var daysAfter = func() (all []int) {
	for n := range 30 {
		all = append(all, n+1)
	}
	return append(all, 60, 90)
}()

const (
	// settle is how long after its end a day is closed: what waited on the nodes is there,
	// unless Redis was away.
	settle = 15 * time.Minute
	// lateness is after which time it is closed once more, for what came late.
	lateness = 24 * time.Hour
	// kept is of how many days before today there are whole sets.
	kept = 30
)

// due reports whether a day that ended at end, and was closed then, has to be closed.
func due(now, closed, end time.Time) bool {
	for _, after := range []time.Duration{settle, lateness + settle} {
		if at := end.Add(after); !now.Before(at) && closed.Before(at) {
			return true
		}
	}
	return false
}
