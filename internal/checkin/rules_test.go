package checkin

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/checkin/ranking"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/leaderboard"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// plain is the reference: one user's days in a list, walked day by day. It has neither records nor rows nor zones; its
// caller gives it the date.
type plain struct {
	rules   Settings
	base    civil.Day // of days[0]
	created civil.Day
	days    [160]streak.Kind // 0: nothing was written
	newest  int              // index of the last day that is not 0, -1 when there is none
	skip    civil.Day        // a skipped date that is not written yet; 0: none
	granted int
	made    map[int]int // days made up in a month
}

func (p *plain) at(d civil.Day) *streak.Kind { return &p.days[d-p.base] }

func (p *plain) counts() (signed, frozen int) {
	for _, k := range p.days[:p.newest+1] {
		switch k {
		case streak.Tapped, streak.MadeUp:
			signed++
		case streak.Frozen:
			frozen++
		}
	}
	return signed, frozen
}

func (p *plain) left() int {
	if p.rules.FreezeMax == 0 {
		return 0
	}
	signed, frozen := p.counts()
	n := p.granted - frozen
	if p.rules.FreezeEvery > 0 {
		n += signed / p.rules.FreezeEvery
	}
	return max(n, 0)
}

// runBack counts signed days back from index i, as long as days are not empty.
func (p *plain) runBack(i int) (n int) {
	for ; i >= 0 && p.days[i] != 0; i-- {
		if p.days[i] == streak.Tapped || p.days[i] == streak.MadeUp {
			n++
		}
	}
	return n
}

// open returns how many days after the newest are covered without rows.
func (p *plain) open(today civil.Day) (n int) {
	if p.newest < 0 {
		return 0
	}
	left, gap := p.left(), 0
	if p.runBack(p.newest) == 0 {
		left = 0
	}
	for d := p.base + civil.Day(p.newest) + 1; d < today; d++ {
		switch {
		case d == p.skip:
			gap = 0
		case left > 0 && gap < p.rules.FreezeMax:
			left--
			gap++
		default:
			return n
		}
		n++
	}
	return n
}

// cover writes the n covered days after the newest.
func (p *plain) cover(n int) {
	for ; n > 0; n-- {
		p.days[p.newest+n] = streak.Frozen
		if p.base+civil.Day(p.newest+n) == p.skip {
			p.days[p.newest+n] = streak.Skipped
		}
	}
}

// write makes d a day of kind k, and writes the covered days of an open gap before it.
func (p *plain) write(d civil.Day, k streak.Kind) {
	if i := int(d - p.base); i > p.newest {
		p.cover(p.open(d))
		p.newest = i
	}
	*p.at(d) = k
}

// leaveOut writes the skipped date, unless that would cover a day that can still be signed.
func (p *plain) leaveOut(grace bool) {
	if !grace || p.open(p.skip) == 0 {
		p.write(p.skip, streak.Skipped)
		p.skip = 0
	}
}

func (p *plain) tap(today, day civil.Day, closes bool) (fresh bool, err error) {
	switch {
	case day != today && !closes:
		return false, ErrDayClosed
	case *p.at(day) == streak.Tapped || *p.at(day) == streak.MadeUp:
		return false, nil
	case *p.at(day) != 0:
		return false, ErrDayClosed
	}
	p.write(day, streak.Tapped)
	return true, nil
}

func (p *plain) makeUp(today, day civil.Day) error {
	year, month, _ := today.Date()
	m := 12*year + int(month)
	switch i := int(day - p.base); {
	case p.rules.MakeupLimit == 0:
		return ErrMakeupOff
	case day >= today || day < p.created || int(today-day) > p.rules.MakeupDays:
		return ErrMakeupDay
	case p.days[i] != 0 || day == p.skip || i > p.newest && i <= p.newest+p.open(today):
		return ErrDayCounts
	case p.made[m] == p.rules.MakeupLimit:
		return ErrMakeupLimit
	}
	p.made[m]++
	p.write(day, streak.MadeUp)
	return nil
}

func (p *plain) status(today civil.Day) streak.Status {
	q := *p
	q.cover(q.open(today))
	if q.skip != 0 {
		*q.at(q.skip) = streak.Skipped
	}
	i := int(today - q.base)
	signs := func(i int) bool { return i >= 0 && q.days[i].Signs() }
	st := streak.Status{Day: today, Today: signs(i), Yesterday: signs(i - 1), Streak: q.runBack(i)}
	if q.days[i] == 0 {
		st.Streak = q.runBack(i - 1)
	}
	run := 0
	for _, k := range q.days[:i+1] {
		switch {
		case k.Signs():
			run++
			st.Total++
			st.Longest = max(st.Longest, run)
		case k == 0:
			run = 0
		case k == streak.Frozen:
			st.Used++
		}
	}
	q.newest = i
	st.Freezes = q.left()
	return st
}

// shown returns the days as calendars show them, and the missed days that are recent enough to be made up.
func (p *plain) shown(today civil.Day) (signed, covered, missed []civil.Day) {
	n := p.open(today)
	for i, k := range p.days[:today-p.base+1] {
		d := p.base + civil.Day(i)
		soft := i > p.newest && i <= p.newest+n
		switch {
		case k.Signs():
			signed = append(signed, d)
		case k != 0 || soft || d == p.skip:
			covered = append(covered, d)
		case d < today && d >= p.created && int(today-d) <= p.rules.MakeupDays:
			missed = append(missed, d)
		}
	}
	return signed, covered, missed
}

// player is the system that a history is played against: the pure rules, or a service.
type player interface {
	join(created time.Time, zone string)
	tap(now time.Time, c civil.Clock, day civil.Day) (fresh bool, err error)
	makeUp(now time.Time, c civil.Clock, day civil.Day) error
	grant(now time.Time, n int)
	zone(now time.Time, c civil.Clock)                     // chosen
	moved(now time.Time, c civil.Clock, skipped civil.Day) // in force, and a date was skipped
	status(now time.Time, c civil.Clock) streak.Status
	shown(now time.Time, c civil.Clock, first, last civil.Day) (signed, covered, missed []civil.Day)
}

var (
	zonesPlayed = []string{"UTC", "Asia/Shanghai", "America/New_York", "Europe/Berlin", "Pacific/Kiritimati", "Pacific/Pago_Pago",
		"Asia/Kathmandu", "America/Havana", "Australia/Lord_Howe", "Pacific/Chatham"}

	// Around New Year, a leap day, and the nights when clocks change.
	startsPlayed = []time.Time{
		time.Date(2025, 12, 20, 7, 0, 0, 0, time.UTC), time.Date(2024, 2, 20, 19, 0, 0, 0, time.UTC),
		time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC), time.Date(2026, 10, 20, 12, 0, 0, 0, time.UTC),
		time.Date(2024, 12, 24, 23, 0, 0, 0, time.UTC), time.Date(2026, 11, 15, 0, 0, 0, 0, time.UTC),
	}
)

// play draws a history and plays it against p. It returns an error for a difference from the reference.
func play(r *rand.Rand, p player, rules Settings, events int) error {
	now := startsPlayed[r.IntN(len(startsPlayed))].Add(time.Duration(r.IntN(5*86400)) * time.Second)
	c := civil.Clock{Zone: zonesPlayed[r.IntN(len(zonesPlayed))]}
	today := c.Today(now)
	want := &plain{rules: rules, base: today - 20, created: today, newest: -1, made: map[int]int{}}
	joined := now
	p.join(joined, c.Zone)
	said := "" // the last event
	regular := r.IntN(3)
	// tell writes the skipped date, late if no worker ran at its time.
	tell := func() {
		if want.skip == 0 {
			return
		}
		now = now.Add(time.Millisecond)
		p.moved(now, c, want.skip)
		day, known := c.Skipped()
		want.leaveOut(known && day == want.skip && now.Before(time.UnixMilli(c.From).Add(rules.Grace)))
		now = now.Add(time.Millisecond)
		today = c.Today(now)
	}
	for range events {
		if r.IntN(5) > 0 { // time advances, mostly to the next day
			from := now
			switch r.IntN(8) {
			case 0:
				now = now.Add(time.Duration(1+r.IntN(6*3600)) * time.Second)
			case 1:
				now = c.Start(c.Today(now) + 1).Add(time.Duration(r.IntN(1200)) * time.Second) // about midnight
			case 2:
				now = c.Start(c.Today(now) + civil.Day(2+r.IntN(4))).Add(time.Duration(r.IntN(86000)) * time.Second)
			default:
				now = c.Start(c.Today(now) + 1).Add(time.Duration(r.IntN(80000)) * time.Second)
			}
			last := today
			today = c.Today(now)
			if c.Next != "" && from.UnixMilli() < c.From && now.UnixMilli() >= c.From {
				// The dates of the clock around that time show which date was skipped.
				at := time.UnixMilli(c.From)
				if eve := c.Today(at.Add(-time.Second)); c.Today(at) == eve+2 {
					want.skip = eve + 1
				}
			}
			said = fmt.Sprintf("from %s to %s", last, today)
		}
		now = now.Add(time.Second)
		today, want.created = c.Today(now), c.Today(joined)
		what := r.IntN(12)
		if regular == 0 && what > 5 {
			what = 0
		}
		if r.IntN(4) > 0 {
			tell() // mostly before the next event
		}
		switch what {
		case 0, 1, 2, 3:
			said += " tap"
			fresh, err := p.tap(now, c, today)
			wantFresh, wantErr := want.tap(today, today, false)
			if fresh != wantFresh || !errors.Is(err, wantErr) {
				return fmt.Errorf("%s: got %v, %v, want %v, %v", said, fresh, err, wantFresh, wantErr)
			}
		case 4, 5: // late, early or far away
			eve := c.Today(now.Add(-rules.Grace))
			day := today - civil.Day(r.IntN(4)) + 1
			if day == today-1 && eve != today && r.IntN(2) == 0 {
				day = eve
			}
			said += " tap for " + day.String()
			fresh, err := p.tap(now, c, day)
			wantFresh, wantErr := want.tap(today, day, day == eve)
			if fresh != wantFresh || !errors.Is(err, wantErr) {
				return fmt.Errorf("%s: got %v, %v, want %v, %v", said, fresh, err, wantFresh, wantErr)
			}
		case 6, 7, 8:
			day := today - civil.Day(r.IntN(12))
			said += " make up " + day.String()
			if err, wantErr := p.makeUp(now, c, day), want.makeUp(today, day); !errors.Is(err, wantErr) {
				return fmt.Errorf("%s: got %v, want %v", said, err, wantErr)
			}
		case 9:
			n := 1 + r.IntN(2)
			said += fmt.Sprintf(" grant %d", n)
			p.grant(now, n)
			want.granted += n
		case 10:
			if c.Next == "" || now.UnixMilli() >= c.From || r.IntN(3) == 0 {
				zone := zonesPlayed[r.IntN(len(zonesPlayed))]
				said += " zone " + zone
				var err error
				if c, err = c.Change(zone, now); err != nil {
					return err
				}
				p.zone(now, c)
				tell() // the clock no longer has the date
			}
		}
		if got, want := p.status(now, c), want.status(today); got != want {
			return fmt.Errorf("%s in %+v:\ngot  %+v\nwant %+v", said, c, got, want)
		}
	}
	tell()
	want.created = c.Today(joined)
	wantSigned, wantCovered, wantMissed := want.shown(today)
	signed, covered, missed := p.shown(now, c, want.base, today)
	if !slices.Equal(signed, wantSigned) || !slices.Equal(covered, wantCovered) || !slices.Equal(missed, wantMissed) {
		return fmt.Errorf("at the end, after %s in %+v:\ngot  %v, covered %v, missed %v\nwant %v, covered %v, missed %v", said, c, signed,
			covered, missed, wantSigned, wantCovered, wantMissed)
	}
	return nil
}

// pure plays against the rules alone, with a history as in the log and records as in Redis.
type pure struct {
	rules   Settings
	freezes streak.Freezes
	created time.Time
	log     streak.History
	recs    map[int]*streak.Record
	made    map[int]int
	fault   error
}

func (p *pure) join(created time.Time, _ string) { p.created = created }

func (p *pure) row(now time.Time, c civil.Clock, day civil.Day, k streak.Kind, frozen []civil.Day) {
	i, _ := slices.BinarySearchFunc(p.log.Marks, day, func(m streak.Mark, d civil.Day) int { return int(m.Day - d) })
	p.log.Marks = slices.Insert(p.log.Marks, i, streak.Mark{Day: day, Kind: k, At: now})
	if r := p.recs[day.Year()]; r != nil {
		r.Set(day, k)
		if k == streak.Tapped && day == c.Today(now) && !p.freezes.Owes(r, day) && len(p.freezes.Due(p.log, c, day, now)) > 0 {
			p.fault = errors.New("the record does not tell that freezes are due")
		}
	}
	p.log = p.log.WithFrozen(frozen, now)
	// The changes are merged into the records: the result must be that of the log.
	from := day
	if len(frozen) > 0 {
		from = min(from, frozen[0])
	}
	p.load(from, c.Today(now))
}

func (p *pure) load(from, today civil.Day) {
	for year := from.Year(); year <= today.Year(); year++ {
		want := streak.RecordOf(year, p.log)
		if held := p.recs[year]; held != nil {
			if flaws := streak.Flaws(string(held[:]), year, new(streak.Record), want); len(flaws) > 0 {
				p.fault = fmt.Errorf("what is merged into the record of %d is not in the log: %+v", year, flaws)
			}
		}
		p.recs[year] = want
	}
}

func (p *pure) tap(now time.Time, c civil.Clock, day civil.Day) (bool, error) {
	if _, err := p.rules.late(c, now, day); err != nil {
		return false, err
	}
	if i, found := slices.BinarySearchFunc(p.log.Marks, day, func(m streak.Mark, d civil.Day) int { return int(m.Day - d) }); found {
		if m := p.log.Marks[i]; !m.Kind.Signs() {
			return false, ErrDayClosed
		} else if m.Kind == streak.Tapped { // a repetition: no further freezes are ever due
			if again := p.log.WithFrozen(p.freezes.Due(p.log, c, day, m.At), m.At); len(again.Marks) != len(p.log.Marks) {
				p.fault = fmt.Errorf("a replay of %s covers more: %v", day, again.Marks)
			}
		}
		return false, nil
	}
	p.row(now, c, day, streak.Tapped, p.freezes.Due(p.log, c, day, now))
	return true, p.fault
}

func (p *pure) makeUp(now time.Time, c civil.Clock, day civil.Day) error {
	today := c.Today(now)
	if p.rules.MakeupLimit == 0 {
		return ErrMakeupOff
	}
	if day >= today || day < p.rules.firstMakeup(c, p.created, today) {
		return ErrMakeupDay
	}
	if slices.ContainsFunc(p.log.Marks, func(m streak.Mark) bool { return m.Day == day }) {
		return ErrDayCounts
	}
	frozen, ok := p.freezes.MakeUp(p.log, c, day, today)
	if !ok {
		return ErrDayCounts
	}
	if p.made[streak.MonthOf(today)] == p.rules.MakeupLimit {
		return ErrMakeupLimit
	}
	p.made[streak.MonthOf(today)]++
	p.row(now, c, day, streak.MadeUp, frozen)
	return p.fault
}

func (p *pure) grant(now time.Time, n int) {
	p.log.Grants = append(p.log.Grants, streak.Grant{N: n, At: now})
}

func (p *pure) zone(time.Time, civil.Clock) {}

func (p *pure) moved(now time.Time, c civil.Clock, day civil.Day) {
	due := p.freezes.Due(p.log, c, day, now)
	if known, ok := c.Skipped(); ok && known == day && now.Before(time.UnixMilli(c.From).Add(p.rules.Grace)) && len(due) > 0 {
		return
	}
	p.row(now, c, day, streak.Skipped, due)
}

func (p *pure) status(now time.Time, c civil.Clock) streak.Status {
	if p.fault != nil {
		return streak.Status{}
	}
	today := c.Today(now)
	p.load(today, today)
	rec := *p.recs[today.Year()]
	st := p.freezes.Status(&rec, c, today)
	// The streak as a board would show it: alive until its death.
	place, any := ranking.PlacementSince(p.freezes, accounts.ID{}, c, p.log, nil, time.Time{})
	if newest, of := p.recs[today.Year()].Newest(today.Year()); of && newest > today-1 {
		if s := p.freezes.Score(p.recs[today.Year()], c, today.Year()); s != place.Score {
			p.fault = fmt.Errorf("by the record %+v, by the log %+v", s, place.Score)
		}
	}
	if any && place.Dies.After(now) != (st.Streak > 0) {
		p.fault = fmt.Errorf("the board has it die at %s, and at %s the streak is %d", place.Dies, now, st.Streak)
	} else if st.Streak > 0 && place.Streak != st.Streak || place.Total != st.Total {
		p.fault = fmt.Errorf("the board has %d and %d, the status %+v", place.Streak, place.Total, st)
	}
	return st
}

func (p *pure) shown(now time.Time, c civil.Clock, first, last civil.Day) (signed, covered, missed []civil.Day) {
	today := c.Today(now)
	open, until, _ := p.freezes.Open(streak.RecordOf(today.Year(), p.log), c, today)
	skipped, skips := c.Skipped()
	for year := first.Year(); year <= last.Year(); year++ {
		rec := streak.RecordOf(year, p.log)
		for d := open; d < until; d++ {
			if (d + 1).Year() == year {
				rec.Cover(d+1, year)
			}
		}
		if skips && skipped < today && skipped.Year() == year {
			rec.Cover(skipped, year)
		}
		s, v := rec.Days(max(first, civil.DayOf(year, 1, 1)), min(last, civil.DayOf(year, 12, 31)))
		signed, covered = append(signed, s...), append(covered, v...)
	}
	for d := p.rules.firstMakeup(c, p.created, today); d < today; d++ {
		if !slices.Contains(signed, d) && !slices.Contains(covered, d) {
			missed = append(missed, d)
		}
	}
	return signed, covered, missed
}

func drawRules(r *rand.Rand) Settings {
	return Settings{MakeupDays: 3 + r.IntN(12), MakeupLimit: r.IntN(4), FreezeEvery: r.IntN(4), FreezeMax: r.IntN(4), Grace: 10 * time.Minute}
}

func TestRules_MatchListOfDays(t *testing.T) {
	t.Parallel()
	histories := int64(100_000)
	if raced {
		histories = 20_000
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for seed := next.Add(1); seed <= histories && !t.Failed(); seed = next.Add(1) {
				r := rand.New(rand.NewPCG(uint64(seed), 4))
				rules := drawRules(r)
				p := &pure{rules: rules, freezes: streak.Freezes{Every: rules.FreezeEvery, Max: rules.FreezeMax}, recs: map[int]*streak.Record{},
					made: map[int]int{}}
				events := 3 + r.IntN(6)
				if seed%10 == 0 {
					events = 20
				}
				err := play(r, p, rules, events)
				if err = errors.Join(p.fault, err); err != nil {
					t.Errorf("history %d with %+v: %v", seed, rules, err)
				}
			}
		})
	}
	wg.Wait()
}

// served plays against a service.
type served struct {
	*world
	t    *testing.T
	user accounts.ID
}

func (s *served) ok(err error) {
	if err != nil {
		s.t.Helper()
		s.t.Fatal(err)
	}
}

func (s *served) join(created time.Time, zone string) {
	s.user = newUsers(1)[0]
	s.clock.set(created)
	s.register(s.t, s.user, zone)
	_, err := s.db.ExecContext(s.t.Context(), "UPDATE users SET created = ? WHERE id = ?", created.UnixMilli(), s.user)
	s.ok(err)
}

func (s *served) tap(now time.Time, c civil.Clock, day civil.Day) (bool, error) {
	s.persisted(s.t) // the days of this clock pass faster than a worker works
	s.clock.set(now)
	if day == c.Today(now) && rand.IntN(2) == 0 {
		res, err := s.Mark(s.t.Context(), s.user, c, Activity{}, rand.Uint64())
		return res.New, err
	}
	res, err := s.MarkDay(s.t.Context(), s.user, c, day, Activity{}, rand.Uint64())
	return res.New, err
}

func (s *served) makeUp(now time.Time, c civil.Clock, day civil.Day) error {
	s.clock.set(now)
	res, err := s.MakeUp(s.t.Context(), s.user, c, day, rand.Uint64())
	if err == nil {
		s.clock.set(now)
		list, err := s.Makeups(s.t.Context(), s.user, c, "", 1)
		if err != nil || list.Left != res.Left || len(list.History) != 1 || list.History[0].Day != day {
			s.t.Errorf("made up %s and have %d left, but the list is %+v, %v", day, res.Left, list, err)
		}
	}
	return err
}

func (s *served) grant(now time.Time, n int) {
	s.clock.set(now)
	s.ok(s.Grant(s.t.Context(), s.user, n, "A test."))
	s.ok(s.ApplyGrant(s.t.Context(), s.user))
}

func (s *served) zone(now time.Time, c civil.Clock) {
	s.clock.set(now.Add(-time.Millisecond))
	zone := c.Next
	if zone == "" {
		zone = c.Zone
	}
	u, err := s.users.Update(s.t.Context(), s.user, accounts.Change{Zone: &zone})
	s.ok(err)
	if u.Clock != c {
		s.t.Errorf("choosing %s leads to %+v, want %+v", zone, u.Clock, c)
	}
	s.deliver()
}

// deliver passes the due messages to the service, as the queue does: at least once.
func (s *served) deliver() {
	rows, err := s.db.QueryContext(s.t.Context(), "SELECT id, payload FROM outbox WHERE topic = ? AND due <= ?", accounts.TopicZone,
		s.db.Now().UnixMilli())
	s.ok(err)
	defer rows.Close()
	told := map[int64]accounts.ZoneChanged{}
	for rows.Next() {
		var id int64
		var payload []byte
		s.ok(rows.Scan(&id, &payload))
		var z accounts.ZoneChanged
		s.ok(json.Unmarshal(payload, &z))
		told[id] = z
	}
	s.ok(errors.Join(rows.Err(), rows.Close()))
	for id, z := range told {
		_, err := s.db.ExecContext(s.t.Context(), "DELETE FROM outbox WHERE id = ?", id)
		s.ok(err)
		for range 1 + rand.IntN(2) {
			s.ok(s.ZoneChanged(s.t.Context(), z))
		}
	}
}

func (s *served) moved(now time.Time, _ civil.Clock, _ civil.Day) {
	s.clock.set(now)
	s.deliver()
}

func (s *served) status(now time.Time, c civil.Clock) streak.Status {
	s.clock.set(now)
	st, err := s.Status(s.t.Context(), s.user, c)
	s.ok(err)
	return st
}

func (s *served) shown(now time.Time, c civil.Clock, first, last civil.Day) (signed, covered, missed []civil.Day) {
	for year := first.Year(); year <= last.Year(); year++ {
		s.clock.set(now)
		cal, err := s.Calendar(s.t.Context(), s.user, c, year, 0)
		s.ok(err)
		signed, covered = append(signed, cal.Signed...), append(covered, cal.Covered...)
	}
	s.clock.set(now)
	list, err := s.Makeups(s.t.Context(), s.user, c, "", 1)
	s.ok(err)
	missed = list.Days
	st := s.status(now, c)
	for b, want := range map[ranking.Board]int{ranking.StreakBoard: st.Streak, ranking.TotalBoard: st.Total} {
		s.clock.set(now)
		got, err := s.Boards.Read(s.t.Context(), b, s.user, c, 1, 0)
		s.ok(err)
		if got.Me == nil && want > 0 || got.Me != nil && got.Me.Value != want {
			s.t.Errorf("board %s: I have %+v, want %d", b, got.Me, want)
		}
		// All of these users are among the best. A busy machine may update Redis a moment later.
		eventually.True(s.t, "redis to be complete", s.projection.Up)
		top, err := s.Boards.Of(b).Top(s.t.Context(), s.clock.now(), leaderboard.MaxTop)
		s.ok(err)
		at := slices.IndexFunc(top, func(r leaderboard.Ranked) bool { return r.Member == s.user.String() })
		if at >= 0 && int(top[at].Value) != want || at < 0 && want > 0 {
			s.t.Errorf("board %s has %+v, want %d at %d", b, top, want, at)
		}
	}
	return signed, covered, missed
}

func TestService_MatchesListOfDays(t *testing.T) {
	t.Parallel()
	rules := Settings{MakeupDays: 9, MakeupLimit: 2, FreezeEvery: 3, FreezeMax: 2, Grace: 10 * time.Minute}
	histories := uint64(200)
	if raced {
		histories = 30
	}
	worlds(t, func(t *testing.T, w *world) {
		if err := w.Boards.LoadMissing(t.Context()); err != nil {
			t.Fatal(err)
		}
		for seed := range histories {
			r := rand.New(rand.NewPCG(seed, 5))
			if err := play(r, &served{world: w, t: t}, rules, 14); err != nil {
				t.Fatalf("history %d: %v", seed, err)
			}
		}
	}, rules)
}

// Right after a change of zone, yesterday is the last date of the old one. No freeze may cover it for good before it
// can no longer be signed.
func TestGrace_LastDateBeforeSkippedDate(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		c := newClock(t)
		w := startWorldAt(t, c, sqldbtest.SQLite(t, func(cfg *sqldb.Config) {
			cfg.Now = c.now
		}), redistest.Open(t, "embedded"), stalls, Settings{FreezeMax: 1, Grace: 10 * time.Minute})
		start := time.Date(2026, 11, 19, 20, 0, 0, 0, time.UTC)
		west := civil.Clock{Zone: "Pacific/Pago_Pago"}
		for _, tt := range []struct {
			what string
			then func(s *served, moved civil.Clock, last civil.Day) civil.Clock
			want []streak.Kind // of the days up to the skipped one
		}{
			{"signed in time", func(s *served, moved civil.Clock, last civil.Day) civil.Clock {
				if fresh, err := s.tap(time.UnixMilli(moved.From).Add(8*time.Minute), moved, last); err != nil || !fresh {
					t.Errorf("in the grace of %s: %v, %v", last, fresh, err)
				}
				return moved
			}, []streak.Kind{streak.Tapped, streak.Tapped, streak.Skipped}},
			{"missed", func(_ *served, moved civil.Clock, _ civil.Day) civil.Clock {
				return moved
			}, []streak.Kind{streak.Tapped, streak.Frozen, streak.Skipped}},
			{"moved on meanwhile", func(s *served, moved civil.Clock, _ civil.Day) civil.Clock {
				now := time.UnixMilli(moved.From).Add(8 * time.Minute)
				next, err := moved.Change("Asia/Tokyo", now)
				s.ok(err)
				s.zone(now, next)
				if n := len(s.log().Marks); n != 3 {
					t.Errorf("the clock has forgotten the date, and the log has %d days", n)
				}
				return next
			}, []streak.Kind{streak.Tapped, streak.Frozen, streak.Skipped}},
		} {
			s := &served{world: w, t: t}
			s.join(start, west.Zone)
			s.grant(start, 1)
			if _, err := s.tap(start, west, west.Today(start)); err != nil {
				t.Fatal(err)
			}
			next := start.Add(24 * time.Hour) // a day without a tap
			moved, err := west.Change("Pacific/Kiritimati", next)
			s.ok(err)
			s.zone(next, moved)
			last := west.Today(next)
			s.moved(time.UnixMilli(moved.From).Add(5*time.Minute), moved, last+1)
			if n := len(s.log().Marks); n != 1 {
				t.Errorf("%s: in the grace the log has %d days", tt.what, n)
			}
			now := tt.then(s, moved, last)
			over := time.UnixMilli(moved.From).Add(11 * time.Minute)
			s.moved(over, now, last+1)
			marks := s.log().Marks
			if kinds := mapped(marks, func(m streak.Mark) streak.Kind { return m.Kind }); !slices.Equal(kinds, tt.want) || marks[2].Day != last+1 {
				t.Errorf("%s: the log has %v, want %v", tt.what, marks, tt.want)
			}
			if st, want := s.status(over, now), len(slices.DeleteFunc(slices.Clone(tt.want), func(k streak.Kind) bool {
				return !k.Signs()
			})); st.Streak != want {
				t.Errorf("%s: %+v, want a streak of %d", tt.what, st, want)
			}
		}
	})
}

func (s *served) log() streak.History {
	histories, err := s.sql.histories(s.t.Context(), []accounts.ID{s.user})
	s.ok(err)
	return histories[s.user]
}
