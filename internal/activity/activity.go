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
	Count string `koanf:"count" default:"exact" enum:"exact,approximate" help:"counting of active users: exact, with a set of ids (about 60 bytes of Redis for each user and day), or approximate, with a HyperLogLog (12 KiB a day for any number of users; usually wrong by less than 1 %; without retention; not with the embedded Redis)"`
	Zone  string `koanf:"zone" default:"UTC" help:"time zone at whose midnight the days for counting active users begin; it applies to all users, and must be equal on all nodes"`
}

// Validate returns all faults, joined.
func (c Settings) Validate() error {
	if c.Zone == "" {
		return nil
	}
	_, err := civil.LoadZone(c.Zone)
	return config.Refuse(err != nil, "zone", "%q is not a time zone of the IANA database, such as Europe/Athens", c.Zone)
}

// Approximate reports whether active users are counted approximately.
func (c Settings) Approximate() bool { return c.Count == approximate }

func (c Settings) clock() civil.Clock { return civil.Clock{Zone: c.Zone} }

// ErrNotExact reports that retention is unavailable, because days have no set of users.
var ErrNotExact = errs.New(errs.Conflict, "activity.not_exact", "Retention needs exact counts. Set activity.count to exact.")

// ErrRange reports an invalid range of days.
var ErrRange = errs.New(errs.Invalid, "activity.range", "Choose a first and a last date within the last 30 days.")

// Count is a number of active users.
type Count struct {
	Actives int64 `json:"actives"`
	Exact   bool  `json:"exact"`   // false means an estimate
	Partial bool  `json:"partial"` // a lower bound, because Redis has lost users
}

// showsLoss reports whether c shows that Redis has lost users since the count before. An estimate may vary slightly
// without a loss.
func (c Count) showsLoss(before Count) bool {
	if c.Exact && before.Exact {
		return c.Actives < before.Actives
	}
	return float64(c.Actives) < minEstimateRatio*float64(before.Actives)
}

// minEstimateRatio is the smallest expected ratio of an estimate to the true number. The standard error of a
// HyperLogLog of Redis is 0.81 %, and six times that practically never occurs.
const minEstimateRatio = 0.95

// merge returns the count that replaces the stored count before. A stored number never decreases.
func (c Count) merge(before Count) Count {
	partial := c.Partial || before.Partial || c.showsLoss(before)
	if c.Actives <= before.Actives {
		c = before
	}
	c.Partial = partial
	return c
}

// A Period is a kind of stored range.
type Period string

// The periods.
const (
	Week  Period = "week"  // of ISO 8601, Monday to Sunday
	Month Period = "month" // of the calendar
)

var periods = []Period{Week, Month}

// Span is a range of days, including both ends.
type Span struct{ First, Last civil.Day }

// SpanOf returns the week or month that contains a day.
func (p Period) SpanOf(d civil.Day) Span {
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
	Closed  time.Time // when it was last closed; zero means never
	Updated time.Time
}

// Range is the stored data of a week or month.
type Range struct {
	Period Period
	Span
	Through civil.Day // the last counted day; equal to Last after the end of the period
	Count
	Updated time.Time
}

// merge returns the range that replaces the stored range before. A complete count stays complete after its sets have
// expired.
func (r Range) merge(before Range) Range {
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

// Cohort has the number of users who registered on a day, and the number of those who were active some days later.
type Cohort struct {
	Date    civil.Day
	After   int
	Size    int64 // users who registered, including deleted accounts
	Active  int64
	Partial bool // Redis had lost active users
}

// daysAfter lists the numbers of days between registration and check: each day of a month, and two more for
// comparisons.
var daysAfter = func() (all []int) {
	for n := range 30 {
		all = append(all, n+1)
	}
	return append(all, 60, 90)
}()

const (
	// closeDelay is the time from the end of a day until it is closed. Nodes have sent their users within this time,
	// unless Redis was unavailable.
	closeDelay = 15 * time.Minute
	// recloseDelay is the time until a day is closed again, because users may be sent late.
	recloseDelay = 24 * time.Hour
	// daysWithSets is the number of days before today with complete sets.
	daysWithSets = 30
)

// isDue reports whether a day must be closed. The day ended at end, and was last closed at closed.
func isDue(now, closed, end time.Time) bool {
	for _, after := range []time.Duration{closeDelay, recloseDelay + closeDelay} {
		if at := end.Add(after); !now.Before(at) && closed.Before(at) {
			return true
		}
	}
	return false
}
