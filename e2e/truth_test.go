package e2e

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// The results are computed from the log a second time, in the simplest way, and share no code with the server.

// The kinds of a day in the log; all other kinds are covered days.
const (
	tapped = 1
	madeUp = 2
	frozen = 3
)

// The nodes' rules of the freezes: the defaults.
const (
	freezeEvery = 10
	freezeMax   = 2
)

// board is one leaderboard. A season counts the days signed from first to last.
type board struct {
	name, season string
	first, last  int
}

func (b board) path() string { return "/v1/checkin/boards/" + b.name + "?season=" + b.season }

// boardsOf returns the boards for all time, and those of the week and the month that have begun in every zone.
func boardsOf(now time.Time) []board {
	t := now.UTC().Add(-12 * time.Hour)
	day := int(t.Unix() / 86400)
	year, week := t.ISOWeek()
	monday := day - (int(t.Weekday())+6)%7
	first := day - t.Day() + 1
	return []board{
		{name: "streak"}, {name: "total_days"},
		{"week", fmt.Sprintf("%d-W%02d", year, week), monday, monday + 6},
		{"month", t.Format("2006-01"), first, first + time.Date(t.Year(), t.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day() - 1},
	}
}

// logRow is one day of one user.
type logRow struct {
	day   int
	at    int64 // ms
	kind  int
	words int
}

func (r logRow) signs() bool { return r.kind == tapped || r.kind == madeUp }

// standing has the figures of a status.
type standing struct {
	day                    string
	today, yesterday       bool
	streak, longest, total int
}

func statusOf(s api.CheckinStatus) standing {
	return standing{s.Day, s.Today, s.Yesterday, s.Streak, s.Longest, s.Total}
}

func date(day int) string { return time.Unix(int64(day)*86400, 0).UTC().Format(time.DateOnly) }

var locations sync.Map // by zone, because each is a file

func location(zone string) *time.Location {
	loc, ok := locations.Load(zone)
	if !ok {
		var err error
		if loc, err = time.LoadLocation(zone); err != nil {
			panic(err)
		}
		locations.Store(zone, loc)
	}
	return loc.(*time.Location)
}

// dayIn returns the number of the local date in a zone.
func dayIn(zone string, now time.Time) int {
	loc := location(zone)
	y, m, d := now.In(loc).Date()
	return int(time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix() / 86400)
}

// noon returns the middle of a date in a zone.
func noon(zone string, day int) time.Time {
	loc := location(zone)
	y, m, d := time.Unix(int64(day)*86400, 0).UTC().Date()
	return time.Date(y, m, d, 12, 0, 0, 0, loc)
}

// covered returns the days after the newest row that freezes cover if nothing is signed before today. These are the
// first days of a gap after a streak, one for each earned and unspent freeze.
func covered(rows []logRow, today int) (days []int) {
	if len(rows) == 0 {
		return nil
	}
	alive, signed, used := false, 0, 0
	for i, r := range rows {
		if i == 0 || rows[i-1].day != r.day-1 {
			alive = false
		}
		switch {
		case r.signs():
			alive = true
			signed++
		case r.kind == frozen:
			used++
		}
	}
	left := min(signed/freezeEvery-used, freezeMax)
	for d := rows[len(rows)-1].day + 1; alive && d < today && len(days) < left; d++ {
		days = append(days, d)
	}
	return days
}

// shown returns the log as users see it, with the days that freezes cover so far.
func shown(rows []logRow, today int) []logRow {
	rows = slices.Clone(rows)
	for _, d := range covered(rows, today) {
		rows = append(rows, logRow{day: d, kind: frozen})
	}
	return rows
}

func standingOn(today int, rows []logRow) standing {
	rows = shown(rows, today)
	signed, counts := map[int]bool{}, map[int]bool{}
	for _, r := range rows {
		signed[r.day] = r.signs()
		counts[r.day] = true
	}
	run := func(last int) (n int) {
		for d := last; counts[d]; d-- {
			if signed[d] {
				n++
			}
		}
		return n
	}
	s := standing{day: date(today), today: signed[today], yesterday: signed[today-1]}
	if s.streak = run(today); !counts[today] {
		s.streak = run(today - 1)
	}
	for day := range counts {
		s.longest = max(s.longest, run(day))
		if signed[day] {
			s.total++
		}
	}
	return s
}

// calendar returns the days of a year or month in the shown log. prefix is the beginning of their dates.
func calendar(rows []logRow, prefix string) (signed, covered []string) {
	for _, r := range rows {
		switch d := date(r.day); {
		case !strings.HasPrefix(d, prefix):
		case r.signs():
			signed = append(signed, d)
		default:
			covered = append(covered, d)
		}
	}
	return signed, covered
}

// place is a user's place on a board. Users who reached a value in the same second may have any order among them.
type place struct {
	value, first, last int
	shared             int // the first place of all users with the value
}

// sharedBeyond is a rank: from there on, a board may give all users of one value the same place.
const sharedBeyond = 1000

func (p place) takes(rank int) bool {
	return p.first <= rank && rank <= p.last || p.first > sharedBeyond && rank == p.shared
}

// lastRun returns the newest rows without a missing day between them. A streak was reached with the row among these
// that was written last.
func lastRun(rows []logRow) []logRow {
	i := len(rows) - 1
	for i > 0 && rows[i-1].day == rows[i].day-1 {
		i--
	}
	return rows[max(i, 0):]
}

// ranking computes a board.
func ranking(persons []*person, rows map[string][]logRow, now time.Time, b board) (map[string]place, int) {
	type entry struct {
		user   string
		value  int
		second int64
	}
	var all []entry
	for _, p := range persons {
		e := entry{user: p.id}
		season, theirs := 0, rows[p.id]
		if b.name == "streak" {
			theirs = lastRun(theirs)
		}
		for _, r := range theirs {
			if r.signs() && (b.season == "" || b.first <= r.day && r.day <= b.last) {
				season++
				e.second = max(e.second, r.at/1000)
			}
		}
		switch s := standingOn(dayIn(p.zone, now), rows[p.id]); b.name {
		case "streak":
			e.value = s.streak
		case "total_days":
			e.value = s.total
		default:
			e.value = season
		}
		if e.value > 0 {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b entry) int {
		return cmp.Or(cmp.Compare(b.value, a.value), cmp.Compare(a.second, b.second))
	})
	places := make(map[string]place, len(all))
	for i := 0; i < len(all); {
		end := i
		for end < len(all) && all[end].value == all[i].value && all[end].second == all[i].second {
			end++
		}
		shared := i + 1
		if i > 0 && all[i-1].value == all[i].value {
			shared = places[all[i-1].user].shared
		}
		for _, e := range all[i:end] {
			places[e.user] = place{e.value, i + 1, end, shared}
		}
		i = end
	}
	return places, len(all)
}

// log reads SQL and returns the rows of each user in order of days.
func (w *world) log() map[string][]logRow {
	w.t.Helper()
	rows, err := w.db.QueryContext(w.t.Context(), "SELECT user_id, day, at, kind, words FROM checkins ORDER BY user_id, day")
	if err != nil {
		w.t.Fatal(err)
	}
	defer rows.Close()
	all := map[string][]logRow{}
	for rows.Next() {
		var user string
		var r logRow
		if err := rows.Scan(&user, &r.day, &r.at, &r.kind, &r.words); err != nil {
			w.t.Fatal(err)
		}
		all[user] = append(all[user], r)
	}
	if err := rows.Err(); err != nil {
		w.t.Fatal(err)
	}
	return all
}

// judge compares SQL with the records of the callers. Each acknowledged row exists once and is complete, and no row
// exists without a request.
func (w *world) judge(log map[string][]logRow) {
	w.t.Helper()
	ours := map[string]bool{}
	for _, p := range w.persons {
		ours[p.id] = true
		left := map[logRow]bool{}
		for _, r := range p.history {
			left[r] = true
		}
		var covers, added []logRow
		for _, r := range log[p.id] {
			switch {
			case left[r]:
				delete(left, r)
			case r.kind == frozen && slices.Contains(p.frozen, r.day):
				covers = append(covers, r)
			default:
				added = append(added, r)
			}
		}
		if len(left) > 0 {
			w.bad("%s: SQL has %v, want what was there before: %v", p.id, log[p.id], p.history)
			continue
		}
		p.mu.Lock()
		switch want := p.row(); {
		case len(added) > 1:
			w.bad("%s: SQL has %v, want one new day", p.id, added)
		case len(added) == 0 && len(covers) > 0:
			w.bad("%s: SQL has %v for nothing", p.id, covers)
		case len(added) == 0 && !p.at.IsZero() && w.first.mayLose(p):
		case len(added) == 0 && !p.at.IsZero():
			w.bad("%s was acknowledged and is not in SQL", p.id)
		case len(added) == 0:
		case p.asked == 0:
			w.bad("%s is in SQL and never asked", p.id)
		case added[0].day != want.day || added[0].kind != want.kind || added[0].words != want.words:
			w.bad("%s: SQL has %+v, want %+v", p.id, added[0], want)
		case w.first != nil && p.open > 0 && len(p.told) > 0 && added[0].at < p.told[0].UnixMilli():
			// An earlier request got no response, because its node considered Redis unavailable and was killed together with
			// it.
		case !p.at.IsZero() && !slices.ContainsFunc(p.told, func(at time.Time) bool { return at.UnixMilli() == added[0].at }):
			w.bad("%s was told %s and SQL has %s", p.id, p.told, time.UnixMilli(added[0].at).UTC())
		case slices.ContainsFunc(covers, func(r logRow) bool { return r.at != added[0].at || r.words != 0 }):
			w.bad("%s: SQL has %+v for %+v", p.id, covers, added[0])
		}
		if p.open == 0 && p.asked > 0 && p.news != 1 && !w.first.tellsTwice() {
			w.bad("%s was always answered and told %d times that the check-in is new, want once", p.id, p.news)
		}
		p.mu.Unlock()
	}
	for user := range log {
		if !ours[user] {
			w.bad("%s is in SQL and nobody's", user)
		}
	}
}

// settle pauses the callers and compares everything: the rows of SQL, and what the nodes return about the given persons
// and the boards.
func (w *world) settle(persons []*person) {
	w.t.Helper()
	healed := time.Now()
	w.calm.Lock()
	defer w.calm.Unlock()
	defer w.checkDomains()
	var log map[string][]logRow
	defer func() { w.judge(log) }() // also if the nodes never agree
	eventually.Equal(w.t, fmt.Sprintf("the nodes to say what SQL has, after %q", w.inflicted), "", func() string {
		took := time.Since(healed) // the comparison itself takes time
		log = w.log()
		wrong := w.compare(log, persons)
		if len(wrong) == 0 {
			w.converged = max(w.converged, took)
			w.settled = append(w.settled, time.Now())
			return ""
		}
		return fmt.Sprintf("%d answers that differ, among them\n%s", len(wrong), strings.Join(wrong[:min(10, len(wrong))], "\n"))
	})
}

// settleAll is settle for all persons who may have checked in, and some who did not.
func (w *world) settleAll() {
	w.t.Helper()
	begun := w.persons[:min(w.upTo(w.released.Load())+50, len(w.persons)-w.reserved)]
	w.settle(slices.Concat(begun, w.persons[len(w.persons)-w.reserved:]))
}

// compare requests the state from the nodes and returns the differences from the log.
func (w *world) compare(log map[string][]logRow, persons []*person) (wrong []string) {
	w.t.Helper()
	var mu sync.Mutex
	say := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		wrong = append(wrong, fmt.Sprintf(format, args...))
	}
	for _, n := range w.nodes {
		if is := readiness(w.t.Context(), w.hc, n); is != "" {
			say("%s: %s", n.URL(), is)
		}
	}
	if len(wrong) > 0 {
		return wrong
	}
	now := time.Now()
	ask := func(n *node, p *person, path string, into any) bool {
		if w.send(n, http.MethodGet, path, p, "", into) != answered {
			say("%s for %s: no answer", path, p.id)
			return false
		}
		return true
	}
	for _, board := range w.boards {
		places, size := ranking(w.persons, log, now, board)
		for _, n := range w.nodes {
			var got api.Board
			if !ask(n, w.persons[0], board.path()+"&limit=100", &got) {
				return wrong
			}
			if len(got.Entries) != min(100, size) {
				say("%s shows %d places, want %d", board.name, len(got.Entries), min(100, size))
			}
			seen := map[string]bool{}
			for i, e := range got.Entries {
				if at, on := places[e.User]; !on || at.value != e.Value || !at.takes(e.Rank) || e.Rank != i+1 || seen[e.User] {
					say("%s shows %+v at place %d, want %+v", board.name, e, i+1, at)
				}
				seen[e.User] = true
			}
		}
		if len(wrong) > 0 {
			return wrong // more requests would only delay the current work
		}
		ranks := map[int]string{}
		each(persons, func(i int, p *person) {
			var got api.Board
			if !ask(w.nodes[i%len(w.nodes)], p, board.path()+"&limit=1", &got) {
				return
			}
			at, on := places[p.id]
			switch {
			case !on && got.Me != nil:
				say("%s has %s at %+v, want nowhere", board.name, p.id, *got.Me)
			case on && got.Me == nil:
				say("%s has %s nowhere, want %+v", board.name, p.id, at)
			case on && (got.Me.User != p.id || got.Me.Value != at.value || !at.takes(got.Me.Rank)):
				say("%s has %s at %+v, want %+v", board.name, p.id, *got.Me, at)
			}
			if got.Me == nil || at.first > sharedBeyond {
				return
			}
			mu.Lock()
			other, taken := ranks[got.Me.Rank]
			ranks[got.Me.Rank] = p.id
			mu.Unlock()
			if taken {
				say("%s has %s and %s at place %d", board.name, p.id, other, got.Me.Rank)
			}
		})
	}
	each(persons, func(i int, p *person) {
		today := dayIn(p.zone, now)
		want, rows := standingOn(today, log[p.id]), shown(log[p.id], today)
		if has := func(d int) bool { return slices.ContainsFunc(rows, func(r logRow) bool { return r.day == d }) }; has(today) {
			for _, d := range p.frozen {
				if !has(d) {
					say("%s: SQL lacks the freeze of %s", p.id, date(d))
				}
			}
		}
		for _, n := range w.nodes {
			var got api.CheckinStatus
			if ask(n, p, "/v1/checkin", &got) && statusOf(got) != want {
				say("%s reads %+v, want %+v", p.id, got, want)
			}
		}
		for _, prefix := range []string{want.day[:len("2006")], want.day[:len("2006-01")]} {
			signed, covered := calendar(rows, prefix)
			var got api.Calendar
			path := "/v1/checkin/calendar/" + strings.ReplaceAll(prefix, "-", "/")
			if ask(w.nodes[i%len(w.nodes)], p, path, &got) && (!slices.Equal(got.Days, signed) || !slices.Equal(got.Covered, covered)) {
				say("%s reads %s with %v and %v, want %v and %v", p.id, path, got.Days, got.Covered, signed, covered)
			}
		}
	})
	return wrong
}

// each calls fn for all, sixteen at a time.
func each(persons []*person, fn func(int, *person)) {
	var wg sync.WaitGroup
	for from := range 16 {
		wg.Go(func() {
			for i := from; i < len(persons); i += 16 {
				fn(i, persons[i])
			}
		})
	}
	wg.Wait()
}
