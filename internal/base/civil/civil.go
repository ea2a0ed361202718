// Package civil counts calendar days: a [Day] is a date, and a [Clock] returns the date of one user at an instant.
// The instant always comes from the server; the user only chooses the zone.
package civil

import (
	"fmt"
	"regexp"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	_ "time/tzdata" // for a machine without zoneinfo; the machine's own data takes precedence

	"github.com/stoa-dev/stoa/internal/base/errs"
)

// Day is a date as the number of days since 1970-01-01. It has no zone.
type Day int32

// DayOf returns the day with that date; overflowing values are normalised as in time.Date.
func DayOf(year int, month time.Month, day int) Day {
	return Day(time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix() / 86400)
}

// ParseDay parses "2006-01-02".
func ParseDay(s string) (Day, error) {
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		return 0, err
	}
	return DayOf(t.Date()), nil
}

// Date returns the year, month and day of the month.
func (d Day) Date() (year int, month time.Month, day int) { return d.utc().Date() }

// Year returns the year.
func (d Day) Year() int { return d.utc().Year() }

// OfYear returns 0 for 1 January, 364 or 365 for 31 December.
func (d Day) OfYear() int { return d.utc().YearDay() - 1 }

// String returns "2006-01-02".
func (d Day) String() string { return d.utc().Format(time.DateOnly) }

// Weekday returns the day of the week.
func (d Day) Weekday() time.Weekday { return d.utc().Weekday() }

// ISOWeek returns the year and the number of the week by ISO 8601.
func (d Day) ISOWeek() (year, week int) { return d.utc().ISOWeek() }

func (d Day) utc() time.Time { return time.Unix(int64(d)*86400, 0).UTC() }

// ErrZone reports a name that is not a time zone.
var ErrZone = errs.New(errs.Invalid, "zone.unknown", "Unknown time zone. Use an IANA name, such as Europe/Athens.")

var zones sync.Map // name → *zone; only existing names are stored

// zoneNames matches the names of the IANA database. The system opens names as files, and so would find each zone
// under endless other names, such as Europe//Athens and Europe/./Athens.
var zoneNames = regexp.MustCompile(`^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$`)

// zone caches the beginnings of recent days: a check-in needs two.
type zone struct {
	*time.Location
	starts [8]atomic.Pointer[start] // by day, the last requested ones
}

type start struct {
	day Day
	at  time.Time
}

// LoadZone returns the zone with that IANA name. It refuses "", "Local" and "localtime", which would mean the
// server's own zone. It also refuses the copies of the database's zones on some systems, including those with leap
// seconds.
func LoadZone(name string) (*time.Location, error) {
	z, err := loadZone(name)
	if err != nil {
		return nil, err
	}
	return z.Location, nil
}

func loadZone(name string) (*zone, error) {
	if z, ok := zones.Load(name); ok {
		return z.(*zone), nil
	}
	if len(name) > 64 || !zoneNames.MatchString(name) {
		return nil, ErrZone
	}
	switch first, _, _ := strings.Cut(name, "/"); first {
	case "Local", "localtime", "posix", "posixrules", "right":
		return nil, ErrZone
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, ErrZone
	}
	z, _ := zones.LoadOrStore(name, &zone{Location: loc})
	return z.(*zone), nil
}

// Clock is one user's calendar: a zone, and possibly another one that replaces it at a future midnight. The zero
// Clock is UTC.
type Clock struct {
	Zone string `json:"z,omitempty"` // IANA name; empty means UTC
	Next string `json:"n,omitempty"` // the zone from From on; empty if no change is pending
	From int64  `json:"f,omitempty"` // Unix milliseconds
}

// In returns the name of the zone that is valid at t.
func (c Clock) In(t time.Time) string {
	switch {
	case c.Next != "" && t.UnixMilli() >= c.From:
		return c.Next
	case c.Zone == "":
		return "UTC"
	}
	return c.Zone
}

// Today returns the date at t. It never decreases as t grows, though a change of zone may extend a date or skip one.
// If a zone's clock is set back over midnight, as in St John's until 2011, the new date stays.
func (c Clock) Today(t time.Time) Day {
	day := dateIn(c.In(t), t)
	if c.Next != "" && t.UnixMilli() >= c.From {
		// After a change from +14 to −11 the new zone is two dates behind for an hour.
		day = max(day, dateIn(c.Zone, time.UnixMilli(c.From-1)))
	}
	return day
}

func dateIn(zone string, t time.Time) Day {
	loc, err := LoadZone(zone)
	if err != nil {
		loc = time.UTC // the zero Clock, or a stored zone that is missing in this build's database
	}
	t = t.In(loc)
	day, second := dateOf(t)
	if second < evening {
		return day
	}
	changed, _ := t.ZoneBounds()
	if changed.IsZero() || t.Sub(changed) > 24*time.Hour {
		return day
	}
	before, _ := dateOf(changed.Add(-time.Second))
	return max(day, before)
}

// evening is the earliest second of a day that a zone's clock may show after being set back over midnight.
const evening = 20 * 3600

// dateOf returns the date on t's clock, and the second of the day.
func dateOf(t time.Time) (Day, int64) {
	_, offset := t.Zone()
	s := t.Unix() + int64(offset)
	day, second := s/86400, s%86400
	if second < 0 {
		day, second = day-1, second+86400
	}
	return Day(day), second
}

// Start returns the first instant, to the second, when the date is d or later. Daylight saving may have removed
// midnight, and a change of zone may have removed the whole date.
func (c Clock) Start(d Day) time.Time {
	z, err := loadZone(c.Zone)
	if err != nil || c.Next != "" {
		return c.start(d)
	}
	known := &z.starts[uint32(d)%uint32(len(z.starts))] //nolint:gosec // any number will do
	if s := known.Load(); s != nil && s.day == d {
		return s.at
	}
	at := c.start(d)
	known.Store(&start{d, at})
	return at
}

func (c Clock) start(d Day) time.Time {
	year, month, day := d.Date()
	if loc, err := LoadZone(c.Zone); err == nil {
		if t := time.Date(year, month, day, 0, 0, 0, 0, loc); c.Today(t) == d && c.Today(t.Add(-time.Second)) < d {
			return t.UTC()
		}
	}
	// No zone is more than 26 hours from UTC, in either direction.
	const reach = 40 * 3600
	from := int64(d)*86400 - reach
	n := sort.Search(2*reach, func(i int) bool { return c.Today(time.Unix(from+int64(i), 0)) >= d })
	return time.Unix(from+int64(n), 0).UTC()
}

// Change returns the clock after its owner chose zone at now. The new zone is valid from the next midnight in the
// current zone, so that a day cannot be extended by moving. Choosing the current zone again cancels a pending change.
// While the old zone's last date still lasts in the new zone, the choice replaces the new zone; otherwise the date
// would decrease.
func (c Clock) Change(zone string, now time.Time) (Clock, error) {
	if _, err := LoadZone(zone); err != nil {
		return c, fmt.Errorf("zone %.64q: %w", zone, err)
	}
	settled := Clock{Zone: c.In(now)}
	switch lasts := settled.Today(now) < c.Today(now); {
	case lasts && zone != c.Zone:
		return Clock{Zone: c.Zone, Next: zone, From: c.From}, nil
	case zone == settled.Zone || lasts:
		return Clock{Zone: zone}, nil
	}
	return Clock{Zone: settled.Zone, Next: zone, From: settled.Start(settled.Today(now) + 1).UnixMilli()}, nil
}

// Skipped returns the date that the pending or past change of zone skips, if it skips one.
func (c Clock) Skipped() (Day, bool) {
	if c.Next == "" {
		return 0, false
	}
	at := time.UnixMilli(c.From)
	last := c.Today(at.Add(-time.Millisecond))
	return last + 1, c.Today(at) == last+2
}
