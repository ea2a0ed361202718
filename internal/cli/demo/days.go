package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/checkin"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/internal/checkin/transfer"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// clock is the clock of a demo while it is filled. It does not advance by itself.
type clock struct {
	mu sync.Mutex
	at time.Time
}

// Now returns the time that was set last.
func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) set(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = at
}

// story is the history of one member of the cast, day by day.
type story struct {
	joined  time.Time
	rows    []row     // ordered by time
	last    time.Time // time of the last row
	days    int64     // number of check-ins
	history streak.History
}

// row is a row of an import.
type row struct {
	Email   string `json:"email"`
	Name    string `json:"name"`
	Zone    string `json:"zone"`
	Day     string `json:"day"`
	At      string `json:"at"`
	Kind    string `json:"kind"`
	Words   int    `json:"words,omitempty"`
	Minutes int    `json:"minutes,omitempty"`
}

// adasGaps are the days that Ada missed in the past weeks, as numbers of days ago. Freezes cover the first days of a
// gap, and she can make up some of the other days.
var adasGaps = map[int]bool{12: true, 13: true, 14: true, 15: true, 21: true, 22: true, 23: true, 24: true}

// year returns the history of the cast for each day of the past year. The same day returns the same history. Freezes
// cover missed days by the rules.
func year(now time.Time, rules checkin.Settings) []story {
	freezes := streak.Freezes{Every: rules.FreezeEvery, Max: rules.FreezeMax}
	random := rand.New(rand.NewPCG(1, 1))
	out := make([]story, len(cast))
	for i := range cast {
		diligence := 0.45 + 0.54*random.Float64() // active on four to nearly all of ten days
		run := 3 + random.IntN(30)                // length of the run of days that ends yesterday
		if i%6 == 5 {
			run = 0 // absent for some days
		}
		since := 90 + random.IntN(275)
		if i == ada {
			diligence, run, since = 0.85, 11, 364
		}
		clock := clockOf(i)
		today := clock.Today(now)
		for back := since; back >= 0; back-- {
			at := clock.Start(today - civil.Day(back)).Add(6*time.Hour + time.Duration(random.IntN(16*60))*time.Minute)
			here := random.Float64() < diligence
			switch {
			case back == since:
				here = true // the first check-in creates the account
			case i == ada && back <= 30:
				here = back > 0 && !adasGaps[back] // today is left to the visitor
			case back == 0:
				here = run > 0 && at.Before(now.Add(-10*time.Minute))
			case back <= run:
				here = true
			case back <= run+4:
				here = false
			}
			if here {
				out[i].checkIn(i, freezes, today-civil.Day(back), at, random.IntN(40), 5+random.IntN(55))
			}
		}
	}
	return out
}

// checkIn adds a day, and the freezes that are spent because of it.
func (s *story) checkIn(i int, freezes streak.Freezes, day civil.Day, at time.Time, words, minutes int) {
	add := func(day civil.Day, kind streak.Kind, words, minutes int) {
		s.rows = append(s.rows, row{address(i), cast[i].name, cast[i].zone, day.String(), at.UTC().Format(time.RFC3339Nano), kind.String(), words,
			minutes})
	}
	for _, covered := range freezes.Due(s.history, clockOf(i), day, at) {
		s.history = s.history.With(streak.Mark{Day: covered, Kind: streak.Frozen, At: at})
		add(covered, streak.Frozen, 0, 0)
	}
	s.history = s.history.With(streak.Mark{Day: day, Kind: streak.Tapped, At: at})
	add(day, streak.Tapped, words, minutes)
	s.last = at
	s.days++
	if s.joined.IsZero() {
		s.joined = at
	}
}

// write imports the stories. Each account is created at the time of its first check-in.
func write(ctx context.Context, db *sqldb.DB, clock *clock, now time.Time, stories []story) (people, days int64, err error) {
	load := func(rows []row) error {
		var file bytes.Buffer
		out := json.NewEncoder(&file)
		for _, r := range rows {
			if err := out.Encode(r); err != nil {
				return err
			}
		}
		var wrong error // a row is wrong: a fault of this package
		sum, err := transfer.Import(ctx, db, &file, transfer.ImportOptions{
			Format: transfer.JSONL, CreateAccounts: true, MaxFaults: 1,
			Fault:    func(f transfer.Fault) { wrong = f },
			Progress: func(transfer.Imported) error { return nil },
		})
		people += sum.Accounts
		return errors.Join(err, wrong)
	}
	var rest []row
	for _, s := range stories {
		clock.set(s.joined)
		if err := load(s.rows[:1]); err != nil {
			return 0, 0, err
		}
		rest = append(rest, s.rows[1:]...)
		days += s.days
	}
	clock.set(now)
	return people, days, load(rest)
}
