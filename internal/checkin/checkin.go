package checkin

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/checkin/ranking"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/internal/config"
)

// The errors that a caller can cause.
var (
	ErrYear        = errs.New(errs.Invalid, "checkin.year", "The year is out of range. Use 1970 to 9999.")
	ErrDayClosed   = errs.New(errs.Conflict, "checkin.day_closed", "Check-in for this day is closed. Check in for today.")
	ErrMakeupOff   = errs.New(errs.Forbidden, "checkin.makeup_off", "This server does not offer make-ups.")
	ErrMakeupDay   = errs.New(errs.Invalid, "checkin.makeup_day", "That day cannot be made up.")
	ErrMakeupLimit = errs.New(errs.Conflict, "checkin.makeup_limit", "You have reached this month's limit of make-ups.")
	ErrDayCounts   = errs.New(errs.Conflict, "checkin.day_counts", "This day already counts: it is signed or covered.")
	ErrCursor      = errs.New(errs.Invalid, "checkin.cursor", "That cursor is not one of this list.")
	ErrGrant       = errs.New(errs.Invalid, "checkin.grant", "Send 1 to 100 freezes and a reason up to 200 characters.")
)

// Settings are the rules that an operator may choose. The zero value has no make-up, no freezes, no grace, and compact
// boards.
type Settings struct {
	MakeupDays  int           `koanf:"makeup_days" default:"30" help:"how many days back a missed day can be made up, at most 366" zero:"none can"`
	MakeupLimit int           `koanf:"makeup_limit" default:"3" help:"days that a user may make up in one month, at most 31" zero:"none"`
	FreezeEvery int           `koanf:"freeze_every" default:"10" help:"signed days that earn a streak freeze" zero:"none is earned"`
	FreezeMax   int           `koanf:"freeze_max" default:"2" help:"missed days in a row that freezes cover, at most 100" zero:"none"`
	Mode        string        `koanf:"mode" default:"durable" help:"durable: a check-in is answered when SQL has it; redis: when Redis has it, which loses what Redis loses before SQL follows, see docs/operate-checkin.md"`
	Replicas    int           `koanf:"replicas" default:"0" help:"replicas of Redis that must have a check-in before it is answered, in mode redis, at most 5"`
	Boards      string        `koanf:"boards" default:"compact" help:"compact, or exact: everybody's rank without ties and neighbours on every place, for a hundred times the memory"`
	Grace       time.Duration `koanf:"grace" default:"10m" help:"how long after midnight yesterday can still be signed, less than a day" zero:"not at all"`

	WordsName   string `koanf:"words_name" default:"words" help:"what the number words of a check-in counts, for people: steps, say; 1 to 40 characters"`
	MinutesName string `koanf:"minutes_name" default:"minutes" help:"what the number minutes of a check-in counts, for people; 1 to 40 characters"`

	ReconcileEvery time.Duration `koanf:"reconcile_every" default:"168h" help:"how often Redis is compared with SQL and repaired" zero:"never"`
	ReconcileRate  int           `koanf:"reconcile_rate" default:"2000" help:"users compared per second at the most, so that traffic is not hurt" zero:"no limit"`
}

// The modes state which store acknowledges a check-in.
const (
	DurableFirst = "durable"
	RedisFirst   = "redis"
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
	for key, name := range map[string]string{"words_name": c.WordsName, "minutes_name": c.MinutesName} {
		if len(name) > 0 && !streak.ValidReason(name) || utf8.RuneCountInString(name) > 40 {
			faults = append(faults, &config.Fault{Key: key, Text: "a name has 1 to 40 printable characters"})
		}
	}
	if c.Mode != DurableFirst && c.Mode != RedisFirst && c.Mode != "" {
		faults = append(faults, &config.Fault{Key: "mode", Text: fmt.Sprintf("%q is neither durable nor redis", c.Mode)})
	}
	if c.Boards != ranking.Compact && c.Boards != ranking.Exact && c.Boards != "" {
		faults = append(faults, &config.Fault{Key: "boards", Text: fmt.Sprintf("%q is neither compact nor exact", c.Boards)})
	}
	if c.Grace < 0 || c.Grace >= 24*time.Hour {
		faults = append(faults, &config.Fault{Key: "grace", Text: fmt.Sprintf("%s is not between 0 and a day", c.Grace)})
	}
	if c.ReconcileEvery < 0 || c.ReconcileEvery != 0 && c.ReconcileEvery < time.Hour {
		faults = append(faults, &config.Fault{Key: "reconcile_every",
			Text: fmt.Sprintf("%s is neither 0 nor at least an hour", c.ReconcileEvery)})
	}
	if c.ReconcileRate < 0 {
		faults = append(faults, &config.Fault{Key: "reconcile_rate", Text: fmt.Sprintf("%d is less than zero", c.ReconcileRate)})
	}
	return errors.Join(faults...)
}

// late reports whether a check-in at now for day is for the day that has just ended. It returns ErrDayClosed if day is
// neither that day nor today.
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

// Activity has the words and minutes of a user since the last check-in.
type Activity struct {
	Words   int // words learned
	Minutes int // minutes studied
}

// Result is the result of a check-in.
type Result struct {
	New    bool      // false: the day was signed before, and nothing changed
	At     time.Time // when the day was signed
	Status streak.Status
}

// Stats are a user's figures over all time.
type Stats struct {
	streak.Status
	Words, Minutes int64
}

// Calendar has the days of a month or a year, in order.
type Calendar struct {
	Year    int
	Month   time.Month // 0 for a whole year
	Signed  []civil.Day
	Covered []civil.Day
}
