package checkin

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stoa-dev/stoa/internal/foundation/civil"
	"github.com/stoa-dev/stoa/internal/foundation/config"
	"github.com/stoa-dev/stoa/internal/foundation/errs"
)

// What a caller can do wrong.
var (
	ErrYear        = errs.New(errs.Invalid, "checkin.year", "A calendar has the years 1970 to 9999.")
	ErrBoard       = errs.New(errs.NotFound, "checkin.board_unknown", "There are four boards: streak, total_days, week and month.")
	ErrSeason      = errs.New(errs.NotFound, "checkin.season", "A week is named 2026-W47 and a month 2026-11, has begun, and is kept for half a year.")
	ErrDayClosed   = errs.New(errs.Conflict, "checkin.day_closed", "Check-in is for today, and for a few minutes after midnight for the day before.")
	ErrMakeupOff   = errs.New(errs.Forbidden, "checkin.makeup_off", "Missed days cannot be made up here.")
	ErrMakeupDay   = errs.New(errs.Invalid, "checkin.makeup_day", "That day cannot be made up.")
	ErrMakeupLimit = errs.New(errs.Conflict, "checkin.makeup_limit", "No more days can be made up this month.")
	ErrDayCounts   = errs.New(errs.Conflict, "checkin.day_counts", "That day counts already: it is signed or covered.")
	ErrCursor      = errs.New(errs.Invalid, "checkin.cursor", "That cursor is not one of this list.")
	ErrGrant       = errs.New(errs.Invalid, "checkin.grant", "A grant is of 1 to 100 freezes and has a reason of 1 to 200 printable characters.")
)

// Settings are the rules that an operator may choose. The zero value has no
// make-up, no freezes, no grace, and compact boards.
type Settings struct {
	MakeupDays  int           `koanf:"makeup_days" default:"30" help:"how many days back a missed day can be made up, at most 366"`
	MakeupLimit int           `koanf:"makeup_limit" default:"3" help:"days that a user may make up in one month, at most 31; 0: none"`
	FreezeEvery int           `koanf:"freeze_every" default:"10" help:"signed days that earn a streak freeze; 0: none is earned"`
	FreezeMax   int           `koanf:"freeze_max" default:"2" help:"missed days in a row that freezes cover, at most 100; 0: none"`
	Mode        string        `koanf:"mode" default:"durable" help:"durable: a check-in is answered when SQL has it; redis: when Redis has it, which loses what Redis loses before SQL follows, see docs/operate-checkin.md"`
	Replicas    int           `koanf:"replicas" default:"0" help:"replicas of Redis that must have a check-in before it is answered, in mode redis, at most 5"`
	Boards      string        `koanf:"boards" default:"compact" help:"compact, or exact: everybody's rank without ties and neighbours on every place, for a hundred times the memory"`
	Grace       time.Duration `koanf:"grace" default:"10m" help:"how long after midnight yesterday can still be signed, less than a day; 0: not at all"`

	ReconcileEvery time.Duration `koanf:"reconcile_every" default:"168h" help:"how often Redis is compared with SQL and repaired; 0 is never"`
	ReconcileRate  int           `koanf:"reconcile_rate" default:"2000" help:"users compared per second at the most, so that traffic is not hurt; 0 is no limit"`
}

// The modes: which one is first to have a check-in.
const (
	DurableFirst = "durable"
	RedisFirst   = "redis"
)

// The kinds of boards, as package leaderboard describes them.
const (
	CompactBoards = "compact"
	ExactBoards   = "exact"
)

// Validate returns all faults, joined.
func (c Settings) Validate() error {
	var faults []error
	within := func(key string, n, most int) {
		if n < 0 || n > most {
			faults = append(faults, &config.Fault{Key: key, Text: fmt.Sprintf("%d is not between 0 and %d", n, most)})
		}
	}
	within("makeup_days", c.MakeupDays, 366)
	within("makeup_limit", c.MakeupLimit, 31)
	within("freeze_every", c.FreezeEvery, 10_000)
	within("freeze_max", c.FreezeMax, 100)
	within("replicas", c.Replicas, 5)
	if c.Mode != DurableFirst && c.Mode != RedisFirst && c.Mode != "" {
		faults = append(faults, &config.Fault{Key: "mode", Text: fmt.Sprintf("%q is neither durable nor redis", c.Mode)})
	}
	if c.Boards != CompactBoards && c.Boards != ExactBoards && c.Boards != "" {
		faults = append(faults, &config.Fault{Key: "boards", Text: fmt.Sprintf("%q is neither compact nor exact", c.Boards)})
	}
	if c.Grace < 0 || c.Grace >= 24*time.Hour {
		faults = append(faults, &config.Fault{Key: "grace", Text: fmt.Sprintf("%s is not between 0 and a day", c.Grace)})
	}
	if c.ReconcileEvery < 0 || c.ReconcileEvery != 0 && c.ReconcileEvery < time.Hour {
		faults = append(faults, &config.Fault{Key: "reconcile_every", Text: fmt.Sprintf("%s is neither 0 nor at least an hour", c.ReconcileEvery)})
	}
	if c.ReconcileRate < 0 {
		faults = append(faults, &config.Fault{Key: "reconcile_rate", Text: fmt.Sprintf("%d is less than zero", c.ReconcileRate)})
	}
	return errors.Join(faults...)
}

// late says whether a check-in at now for day is one for the day that has just
// ended; ErrDayClosed if it is for neither that nor today.
func (c Settings) late(clock civil.Clock, now time.Time, day civil.Day) (bool, error) {
	today := clock.Today(now)
	if day == today {
		return false, nil
	}
	midnight := clock.Start(today)
	if now.Sub(midnight) >= c.Grace || day != clock.Today(midnight.Add(-time.Millisecond)) {
		return false, ErrDayClosed
	}
	return true, nil
}

// firstMakeup returns the first day that can be made up on today.
func (c Settings) firstMakeup(clock civil.Clock, created time.Time, today civil.Day) civil.Day {
	return max(today-civil.Day(c.MakeupDays), clock.Today(created))
}

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
	Freezes   int // left, those deducted that cover the days missed just now
	Used      int // freezes spent ever
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

// A Grant is a number of freezes that an operator gave.
type Grant struct {
	N  int
	At time.Time
}

// History is all that the log holds of one user.
type History struct {
	Marks  []Mark // in order of days
	Grants []Grant
}

func (h History) granted() (n int) {
	for _, g := range h.Grants {
		n += g.N
	}
	return n
}

// frozen returns h with more days covered by freezes at that time.
func (h History) frozen(days []civil.Day, at time.Time) History {
	return h.covered(Frozen, days, at)
}

// skipping returns h with the date before its last day that a change of zone has
// left out. The row comes when the change is told.
func (h History) skipping(c civil.Clock) History {
	day, ok := c.Skipped()
	if !ok || len(h.Marks) == 0 || h.Marks[len(h.Marks)-1].Day < day {
		return h
	}
	return h.covered(Skipped, []civil.Day{day}, time.Time{})
}

func (h History) covered(k Kind, days []civil.Day, at time.Time) History {
	h.Marks = slices.Clone(h.Marks)
	for _, d := range days {
		i, there := slices.BinarySearchFunc(h.Marks, d, func(m Mark, d civil.Day) int { return cmp.Compare(m.Day, d) })
		if !there {
			h.Marks = slices.Insert(h.Marks, i, Mark{Day: d, Kind: k, At: at})
		}
	}
	return h
}

// Tally counts a history, fed to it in order of days. The zero Tally is empty.
type Tally struct {
	Last    civil.Day // the newest day, signed or covered
	Signed  time.Time // when the last signed day was written: with it the counts were reached
	Run     int       // signed days in the run that ends on Last
	Longest int
	Total   int
	Frozen  int // days that freezes cover

	any    bool
	signed bool // Last was signed
}

// Add counts the next day, which must be later than all before.
func (t *Tally) Add(m Mark) {
	if !t.any || m.Day != t.Last+1 {
		t.Run = 0
	}
	t.any, t.Last, t.signed = true, m.Day, m.Kind.Signs()
	switch {
	case t.signed:
		t.Run++
		t.Total++
		t.Longest = max(t.Longest, t.Run)
		if m.At.After(t.Signed) {
			t.Signed = m.At
		}
	case m.Kind == Frozen:
		t.Frozen++
	}
}

// Streak returns the run as it stands on today: 0 the moment a day is missed
// that no freeze covers.
func (t *Tally) Streak(today civil.Day) int {
	if !t.any || t.Last < today-1 {
		return 0
	}
	return t.Run
}

// Freezes are the rules by which missed days are covered. While a gap is open
// nothing is written: that its first days are covered follows from what the user
// owns. Whoever closes the gap writes them down, and from then on the rows hold,
// whatever the rules become.
type Freezes struct {
	Every int // signed days that earn a freeze; 0: none is earned
	Max   int // missed days in a row that are covered; 0: none
}

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

// bridge walks from the newest day of a run over the missed days behind it, not
// beyond until, as far as they are covered: by a freeze, or because a change of
// zone leaves the date out, which costs nothing and ends the gap.
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

// dies returns the instant at which a run that ends on newest falls to 0 unless
// a day is added: the start of the day after the first one that is missed.
func (z Freezes) dies(c civil.Clock, newest civil.Day, run, owned int) time.Time {
	last, _ := z.bridge(c, newest, run, owned, newest+civil.Day(2*z.Max+1))
	return c.Start(last + 2)
}

// due returns the days that freezes cover because a row was written for day at
// that time: those behind the newest day that the log then had, if that lies
// before. Rows and grants of later are not looked at, so that the answer is the
// same whenever it is asked for.
func (z Freezes) due(h History, c civil.Clock, day civil.Day, at time.Time) (days []civil.Day) {
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
