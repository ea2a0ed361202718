package checkin

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/foundation/civil"
	"github.com/stoa-dev/stoa/internal/foundation/errs"
	"github.com/stoa-dev/stoa/internal/foundation/queue"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/keyspace"
	"github.com/stoa-dev/stoa/redis/redistest"
)

func init() { catchUpAfter, laterAgain = 0, 0 }

// imports runs an import and returns what it did and the wrong rows.
func imports(t *testing.T, db *sqldb.DB, text string, o ImportOptions) (sum Imported, faults []string, err error) {
	t.Helper()
	o.Fault = func(f Fault) { faults = append(faults, f.Error()) }
	o.Progress = func(Imported) error { return nil }
	if o.MaxFaults == 0 {
		o.MaxFaults = 100
	}
	sum, err = NewExchange(db).Import(t.Context(), strings.NewReader(text), o)
	return sum, faults, err
}

func exports(t *testing.T, db *sqldb.DB, o ExportOptions) string {
	t.Helper()
	var out bytes.Buffer
	o.Progress = func(int64, int64) error { return nil }
	n, err := NewExchange(db).Export(t.Context(), &out, o)
	if err != nil {
		t.Fatal(err)
	}
	if lines := int64(strings.Count(out.String(), "\n")); lines != n && lines != n+1 {
		t.Errorf("%d rows are told, %d lines written", n, lines)
	}
	return out.String()
}

// follow hands the messages of imports to the server, as the outbox does.
func (w *world) follow(t *testing.T) (n int) {
	t.Helper()
	rows, err := w.db.QueryContext(t.Context(), "SELECT payload FROM outbox WHERE topic = ?", TopicTouched)
	if err != nil {
		t.Fatal(err)
	}
	var payloads [][]byte
	for rows.Next() {
		var p []byte
		if err := rows.Scan(&p); err != nil {
			t.Fatal(err)
		}
		payloads = append(payloads, p)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.db.ExecContext(t.Context(), "DELETE FROM outbox WHERE topic = ?", TopicTouched); err != nil {
		t.Fatal(err)
	}
	for _, p := range payloads {
		users, err := parseTouched(p)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.followTouched(t.Context(), users); err != nil {
			t.Fatal(err)
		}
	}
	return len(payloads)
}

func TestImportedDaysAreInSQLAndThenEverywhere(t *testing.T) {
	worlds(t, func(t *testing.T, w *world) {
		w.clock.set(time.Now().UTC().Truncate(time.Second))
		users, c := newUsers(30), civil.Clock{Zone: "America/New_York"}
		var text strings.Builder
		text.WriteString("user,day,words,minutes\n")
		today := c.Today(w.clock.now())
		for i, user := range users {
			w.register(t, user, c.Zone)
			if i%2 == 0 {
				w.mustMark(t, user, c) // whose record is loaded
			}
			for day := today - civil.Day(20+i); day < today; day++ {
				fmt.Fprintf(&text, "%s,%s,3,2\n", user, day)
			}
		}
		w.check(t, users, c)
		sum, faults, err := imports(t, w.db, text.String(), ImportOptions{Format: CSV, DryRun: true})
		if err != nil || len(faults) > 0 || sum.New != sum.Rows || w.follow(t) != 0 {
			t.Fatalf("dry: %+v, %v, %v", sum, faults, err)
		}
		w.check(t, users, c)
		sum, faults, err = imports(t, w.db, text.String(), ImportOptions{Format: CSV})
		if err != nil || len(faults) > 0 || sum.New != sum.Rows || sum.Rows != int64(strings.Count(text.String(), "\n")-1) {
			t.Fatalf("%+v, %v, %v", sum, faults, err)
		}
		if w.follow(t) == 0 {
			t.Error("nobody tells Redis")
		}
		w.check(t, users, c)
		if s, err := w.Status(t.Context(), users[0], c); err != nil || s.Streak != 21 || s.Total != 21 {
			t.Errorf("the first user: %+v, %v", s, err)
		}
		again, _, err := imports(t, w.db, text.String(), ImportOptions{Format: CSV})
		if err != nil || again.New != 0 || again.Existing != again.Rows || w.follow(t) != 0 {
			t.Errorf("the second time: %+v, %v", again, err)
		}
		w.clock.set(w.clock.now().Add(2 * settled))
		if r := w.finish(t, ReconcileRun, RunOptions{}); r.Summary.Differences != 0 {
			t.Errorf("reconciliation: %+v, %v", r.Summary, w.found(t, r))
		}
		redistest.KeysDeclared(t, w.redis, Keys, queue.Keys)
	})
}

// The rows' own times lie before what a replay reads of the log.
func TestARedisThatLostAnImportIsCaughtUp(t *testing.T) {
	w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"))
	w.clock.set(time.Now().UTC())
	users, c := newUsers(3), civil.Clock{Zone: "UTC"}
	text := "user,day\n"
	for _, user := range users {
		w.register(t, user, c.Zone)
		w.mustMark(t, user, c)
		text += fmt.Sprintf("%s,%s\n", user, c.Today(w.clock.now())-1)
	}
	if _, _, err := imports(t, w.db, text, ImportOptions{Format: CSV}); err != nil {
		t.Fatal(err)
	}
	if err := w.replay(t.Context(), time.Now().Add(-time.Minute)); err != nil {
		t.Fatal(err)
	}
	w.check(t, users, c)
}

func TestExportIsReadBackByImport(t *testing.T) {
	worlds(t, func(t *testing.T, w *world) {
		users, _ := inhabited(t, w, 14)
		other := sqldbtest.SQLite(t)
		for _, format := range []Format{CSV, JSONL} {
			all := exports(t, w.db, ExportOptions{Format: format, Accounts: true})
			sum, faults, err := imports(t, other, all, ImportOptions{Format: format, CreateAccounts: true})
			if err != nil || len(faults) > 0 {
				t.Fatalf("%s: %+v, %v, %v", format, sum, faults, err)
			}
			if format == CSV && (sum.Accounts != 14 || sum.New != sum.Rows) || format == JSONL && (sum.Accounts != 0 || sum.New != 0) {
				t.Errorf("%s: %+v", format, sum)
			}
			if back := exports(t, other, ExportOptions{Format: format, Accounts: true}); back != all {
				t.Errorf("%s differs:\n%s\nwant\n%s", format, back, all)
			}
			// Without the addresses it is read where the accounts are.
			if again, faults, err := imports(t, other, exports(t, w.db, ExportOptions{Format: format}), ImportOptions{Format: format}); err != nil || len(faults) > 0 || again.Existing != again.Rows {
				t.Errorf("%s without accounts: %+v, %v, %v", format, again, faults, err)
			}
		}
		one := exports(t, w.db, ExportOptions{Format: CSV, User: users[0], Bounded: true, First: civil.DayOf(2026, 1, 1), Last: civil.DayOf(2026, 1, 2)})
		lines := strings.Split(strings.TrimSpace(one), "\n")
		if lines[0] != "user,day,at,kind,words,minutes,makeup,freezes,reason,id" || len(lines) < 2 || len(lines) > 3 {
			t.Errorf("two days of one user: %q", one)
		}
		for _, l := range lines[1:] {
			if !strings.HasPrefix(l, users[0].String()+",2026-01-0") || !strings.HasSuffix(l, ",tapped,10,5,,,,") {
				t.Errorf("two days of one user: %q", l)
			}
		}
	})
}

// moved is a second world on a database of its own, into which the first one's
// export was imported.
func moved(t *testing.T, w *world, users []accounts.ID, format Format, rules Settings) (to *world, text string) {
	t.Helper()
	w.persisted(t)
	text = exports(t, w.db, ExportOptions{Format: format, Accounts: true})
	to = newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"), rules)
	to.clock.set(w.clock.now())
	for _, user := range users { // Redis holds that they have nothing
		if _, err := to.Status(t.Context(), user, civil.Clock{}); err != nil {
			t.Fatal(err)
		}
	}
	sum, faults, err := imports(t, to.db, text, ImportOptions{Format: format, CreateAccounts: true, DryRun: true})
	if err != nil || len(faults) > 0 || sum.New != sum.Rows {
		t.Fatalf("%s, dry: %+v, %v, %v", format, sum, faults, err)
	}
	sum, faults, err = imports(t, to.db, text, ImportOptions{Format: format, CreateAccounts: true})
	if err != nil || len(faults) > 0 || sum.New != sum.Rows {
		t.Fatalf("%s: %+v, %v, %v", format, sum, faults, err)
	}
	return to, text
}

func TestGrantsAndDaysMadeUpMoveToAnotherDatabase(t *testing.T) {
	rules := Settings{MakeupDays: 30, MakeupLimit: 3, FreezeEvery: 3, FreezeMax: 2}
	worlds(t, func(t *testing.T, w *world) {
		w.clock.set(time.Now().UTC().Truncate(time.Second)) // the accounts are of today
		c, users := civil.Clock{Zone: "America/New_York"}, newUsers(3)
		for _, user := range users {
			w.register(t, user, c.Zone)
		}
		today := c.Today(w.clock.now())
		var text strings.Builder
		text.WriteString("user,day\n")
		for d := today - 20; d < today-3; d++ {
			fmt.Fprintf(&text, "%s,%s\n", users[0], d)
		}
		if _, _, err := imports(t, w.db, text.String(), ImportOptions{Format: CSV}); err != nil {
			t.Fatal(err)
		}
		w.follow(t)
		// The later day was made up first; somebody has grants and no day at all.
		for i, day := range []civil.Day{today - 22, today - 23} {
			if _, _, _, err := w.store.makeUp(t.Context(), makeup{user: users[0], month: monthOf(today), day: day, at: w.clock.now(), req: int64(i)}, 3,
				func(History) ([]civil.Day, error) { return nil, nil }); err != nil {
				t.Fatal(err)
			}
		}
		for i, user := range []int{0, 0, 1} {
			if err := w.Grant(t.Context(), users[user], 2, fmt.Sprintf("The app, \"down\", %d", i)); err != nil {
				t.Fatal(err)
			}
		}
		for _, user := range users[:2] {
			if err := w.Granted(t.Context(), user); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.followTouched(t.Context(), touched{Users: users[:1]}); err != nil {
			t.Fatal(err)
		}
		for _, format := range []Format{CSV, JSONL} {
			to, text := moved(t, w, users, format, rules)
			to.follow(t)
			if back := exports(t, to.db, ExportOptions{Format: format, Accounts: true}); back != text {
				t.Errorf("%s differs:\n%s\nwant\n%s", format, back, text)
			}
			if again, faults, err := imports(t, to.db, text, ImportOptions{Format: format}); err != nil || len(faults) > 0 || again.New != 0 || to.follow(t) != 0 {
				t.Errorf("%s again: %+v, %v, %v", format, again, faults, err)
			}
			for _, user := range users[:2] {
				is, err := to.Stats(t.Context(), user, c)
				was, err2 := w.Stats(t.Context(), user, c)
				if err != nil || err2 != nil || is != was || user == users[1] && is.Freezes != 2 || user == users[0] && is.Used+is.Freezes != 4+19/3 {
					t.Errorf("%s: %s: got %+v, %v, want %+v, %v", format, user, is, err, was, err2)
				}
			}
			is, err := to.Makeups(t.Context(), users[0], c, "", 10)
			was, err2 := w.Makeups(t.Context(), users[0], c, "", 10)
			if err != nil || err2 != nil || is.Left != 1 || was.Left != 1 || !slices.EqualFunc(is.History, was.History, func(a, b Makeup) bool { return a.Day == b.Day && a.At.Equal(b.At) }) {
				t.Errorf("%s: got %+v, %v, want %+v, %v", format, is, err, was, err2)
			}
			to.clock.set(to.clock.now().Add(2 * settled))
			if r := to.finish(t, ReconcileRun, RunOptions{}); r.Summary.Differences != 0 {
				t.Errorf("%s: reconciliation: %+v, %v", format, r.Summary, to.found(t, r))
			}
		}
	}, rules)
}

// An account elsewhere is opened with what an export says, and its days follow from
// the zone.
func TestAnExportNamesTheZoneThatIsInForce(t *testing.T) {
	db := sqldbtest.SQLite(t)
	for i, from := range []time.Time{time.Now().Add(-time.Hour), time.Now().Add(time.Hour)} {
		user, mail := newUsers(1)[0], fmt.Sprintf("%d@example.org", i)
		if _, err := db.ExecContext(t.Context(), "INSERT INTO users (id, email, email_key, name, zone, zone_next, zone_from, created) VALUES (?, ?, ?, 'A', 'Asia/Tokyo', 'America/New_York', ?, 0)", user, mail, mail, from.UnixMilli()); err != nil {
			t.Fatal(err)
		}
		if _, _, err := imports(t, db, fmt.Sprintf("user,day\n%s,2026-01-01\n", user), ImportOptions{Format: CSV}); err != nil {
			t.Fatal(err)
		}
		got, want := exports(t, db, ExportOptions{Format: CSV, User: user, Accounts: true}), []string{"America/New_York", "Asia/Tokyo"}[i]
		if !strings.HasSuffix(got, ",A,"+want+"\n") {
			t.Errorf("got %s, want the zone %s", got, want)
		}
	}
}

// Where the number of a day made up is taken, the day gets a later one; where the
// day is there and its audit is not, the audit is added.
func TestDaysMadeUpOfTwoDatabasesCountTogether(t *testing.T) {
	w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"), Settings{MakeupDays: 30, MakeupLimit: 3})
	user, c := newUsers(1)[0], civil.Clock{Zone: "UTC"}
	w.register(t, user, c.Zone)
	today := c.Today(time.Now())
	month := makeupText(monthOf(today), 1)
	lines := func(rows ...string) string { return "user,day,kind,makeup\n" + strings.Join(rows, "\n") + "\n" }
	row := func(before civil.Day, kind, makeup string) string {
		return fmt.Sprintf("%s,%s,%s,%s", user, today-before, kind, makeup)
	}
	for i, tt := range []struct {
		text     string
		added, n int
	}{
		{lines(row(3, "made_up", month)), 1, 1},
		{lines(row(4, "made_up", month), row(5, "made_up", ""), row(6, "tapped", "")), 3, 2},
		{lines(row(5, "made_up", month), row(6, "made_up", month), row(3, "made_up", month)), 1, 3}, // the second one was tapped
	} {
		for _, dry := range []bool{true, false} {
			sum, faults, err := imports(t, w.db, tt.text, ImportOptions{Format: CSV, DryRun: dry})
			if err != nil || len(faults) > 0 || sum.New != int64(tt.added) || sum.Existing != sum.Rows-sum.New {
				t.Errorf("%d, dry %t: %+v, %v, %v, want %d new", i, dry, sum, faults, err, tt.added)
			}
		}
		if n, err := w.store.makeupsIn(t.Context(), user, monthOf(today)); err != nil || n != tt.n {
			t.Errorf("%d: %d of the month's days are used, %v, want %d", i, n, err, tt.n)
		}
	}
}

func TestWrongGrantsAndDaysMadeUpAreTold(t *testing.T) {
	db := sqldbtest.SQLite(t)
	user := newUsers(1)[0]
	if _, err := db.ExecContext(t.Context(), "INSERT INTO users (id, email, email_key, name, zone, zone_next, zone_from, created) VALUES (?, 'a@example.org', 'a@example.org', 'A', 'UTC', '', 0, 0)", user); err != nil {
		t.Fatal(err)
	}
	next := civil.DayOf(time.Now().Date()) + 62
	text, want := "user,day,at,kind,words,makeup,freezes,reason,id\n", []string(nil)
	for i, tt := range []struct{ row, fault string }{
		{",2026-01-02T10:00:00Z,grant,0,,2,Why,", ""},
		{",2026-01-02T10:00:00Z,grant,0,,2,Why,", ""}, // the same one
		{",2026-01-02T10:00:00Z,grant,0,,2,Why,aaaaaaaaaaaa", ""},
		{"2026-01-02,2026-01-02T10:00:00Z,grant,,,2,Why,", "day: is for days, not for grants"},
		{",2026-01-02T10:00:00Z,grant,5,,2,Why,", "words: is for days, not for grants"},
		{",2026-01-02T10:00:00Z,grant,,2026-01/1,2,Why,", "makeup: is for days, not for grants"},
		{",,grant,,,2,Why,", "at: is not a time such as 2026-11-21T08:30:00Z"},
		{",9026-01-02T10:00:00Z,grant,,,2,Why,", "at: lies in the future"},
		{",2026-01-02T10:00:00Z,grant,,,,Why,", "freezes: is not between 1 and 100"},
		{",2026-01-02T10:00:00Z,grant,,,101,Why,", "freezes: is not between 1 and 100"},
		{",2026-01-02T10:00:00Z,grant,,,some,Why,", "freezes: is not a whole number"},
		{",2026-01-02T10:00:00Z,grant,,,2,,", "reason: is not 1 to 200 printable characters"},
		{",2026-01-02T10:00:00Z,grant,,,2,a\tb,", "reason: is not 1 to 200 printable characters"},
		{",2026-01-02T10:00:00Z,grant,,,2,Why,short", "id: is not an id of 12 characters"},
		{"2026-01-02,,tapped,,,2,,", "freezes: is for grants alone"},
		{"2026-01-02,,tapped,,,,Why,", "reason: is for grants alone"},
		{"2026-01-02,,tapped,,,,,aaaaaaaaaaaa", "id: is for grants alone"},
		{"2026-01-02,,tapped,,2026-01/1,,,", "makeup: is for days of the kind made_up alone"},
		{"2026-01-02,,made_up,,2026-01,,,", "makeup: is not a month and a number such as 2026-11/1"},
		{"2026-01-02,,made_up,,2026-01/0,,,", "makeup: is not a month and a number such as 2026-11/1"},
		{"2026-01-02,,made_up,,2026-13/1,,,", "makeup: is not a month and a number such as 2026-11/1"},
		{"2026-01-02,,made_up,,2025-12/1,,,", "makeup: is not in a month from that of the day to the present one"},
		{"2026-01-02,,made_up,," + makeupText(monthOf(next), 1) + ",,,", "makeup: is not in a month from that of the day to the present one"},
	} {
		if text += user.String() + "," + tt.row + "\n"; tt.fault != "" {
			want = append(want, fmt.Sprintf("line %d, %s", i+2, tt.fault))
		}
	}
	sum, faults, err := imports(t, db, text, ImportOptions{Format: CSV})
	slices.Sort(faults)
	slices.Sort(want)
	if err != nil || !slices.Equal(faults, want) || sum.New != 2 || sum.Existing != 1 {
		t.Errorf("got %+v, %v\n%s\nwant\n%s", sum, err, strings.Join(faults, "\n"), strings.Join(want, "\n"))
	}
	if again, _, err := imports(t, db, text, ImportOptions{Format: CSV}); err != nil || again.New != 0 {
		t.Errorf("again: %+v, %v", again, err)
	}
}

// What came of an erased user without a day would stay for ever.
func TestAGrantThatComesLateOfAnErasedUserGoesWithTheNextLook(t *testing.T) {
	w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"))
	users, _ := inhabited(t, w, 2)
	text := fmt.Sprintf("user,at,kind,freezes,reason,day\n%s,2026-01-01T00:00:00Z,grant,2,Late,\n", users[0])
	if sum, faults, err := imports(t, w.db, text, ImportOptions{Format: CSV}); err != nil || sum.New != 1 {
		t.Fatal(sum, faults, err)
	}
	if _, err := w.db.ExecContext(t.Context(), "DELETE FROM checkins WHERE user_id = ?", users[0]); err != nil {
		t.Fatal(err)
	}
	w.tombstone(t, users[0])
	if _, faults, err := imports(t, w.db, text, ImportOptions{Format: CSV}); err != nil || len(faults) != 1 {
		t.Errorf("of an erased user: %v, %v, want a fault", faults, err)
	}
	w.finish(t, ReconcileRun, RunOptions{})
	if found := w.heldOf(t, users[0]); len(found) > 0 {
		t.Errorf("still held: %v", found)
	}
}

// counting counts what is read.
type counting struct {
	r io.Reader
	n int
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n
	return n, err
}

// zeros is a file without an end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

func TestWrongRowsAreToldByLineAndColumnAndLeftOut(t *testing.T) {
	db := sqldbtest.SQLite(t)
	known := newUsers(1)[0]
	if _, err := db.ExecContext(t.Context(), "INSERT INTO users (id, email, email_key, name, zone, zone_next, zone_from, created) VALUES (?, 'Ann@example.org', 'ann@example.org', 'Ann', 'Asia/Tokyo', '', 0, 0)", known); err != nil {
		t.Fatal(err)
	}
	tomorrow := civil.Clock{Zone: "Asia/Tokyo"}.Today(time.Now()) + 1
	rows := []struct{ text, fault string }{
		{fmt.Sprintf("%s,,2026-01-01,,,,", known), ""},
		{",ANN@example.org,2026-01-02,2026-01-02T10:00:00+09:00,made_up,7,8", ""},
		{",,2026-01-03,,,,", "user: neither user nor email is given"},
		{"short,,2026-01-03,,,,", "user: is not an id of 12 characters"},
		{"aaaaaaaaaaaa,,2026-01-03,,,,", "user: there is no such account"},
		{",bob@example.org,2026-01-03,,,,", "email: there is no account with this address"},
		{",bob,2026-01-03,,,,", "email: is not an e-mail address"},
		{fmt.Sprintf("%s,,2026-02-30,,,,", known), "day: is not a date such as 2026-11-21"},
		{fmt.Sprintf("%s,,,,,,", known), "day: is not a date such as 2026-11-21"},
		{fmt.Sprintf("%s,,%s,,,,", known, tomorrow), "day: has not begun for this user"},
		{fmt.Sprintf("%s,,2026-01-03,noon,,,", known), "at: is not a time such as 2026-11-21T08:30:00Z"},
		{fmt.Sprintf("%s,,2026-01-03,9026-01-03T12:00:00Z,,,", known), "at: lies in the future"},
		{fmt.Sprintf("%s,,2026-01-03,2025-12-31T12:00:00Z,,,", known), "at: is before the day began"},
		{fmt.Sprintf("%s,,2026-01-03,,slept,,", known), "kind: is not one of tapped, made_up, frozen, skipped, grant"},
		{fmt.Sprintf("%s,,2026-01-03,,,many,", known), "words: is not a whole number"},
		{fmt.Sprintf("%s,,2026-01-03,,,-1,", known), "words: is not between 0 and 100000"},
		{fmt.Sprintf("%s,,2026-01-03,,,,1441", known), "minutes: is not between 0 and 1440"},
		{"too,few", "wrong number of fields"},
		{fmt.Sprintf("%s,,2026-01-02,,,,", known), ""}, // there already
	}
	text, want := "user,email,day,at,kind,words,minutes\n", []string(nil)
	for i, r := range rows {
		text += r.text + "\n"
		if r.fault != "" {
			sep := ", "
			if !strings.Contains(r.fault, ": ") {
				sep = ": "
			}
			want = append(want, fmt.Sprintf("line %d%s%s", i+2, sep, r.fault))
		}
	}
	sum, faults, err := imports(t, db, text, ImportOptions{Format: CSV})
	slices.Sort(faults)
	slices.Sort(want)
	if err != nil || !slices.Equal(faults, want) {
		t.Errorf("got %v\n%s\nwant\n%s", err, strings.Join(faults, "\n"), strings.Join(want, "\n"))
	}
	if sum != (Imported{Rows: 19, New: 2, Existing: 1, Bad: 16}) {
		t.Errorf("got %+v", sum)
	}
	wantRows := fmt.Sprintf("user,day,at,kind,words,minutes,makeup,freezes,reason,id\n%[1]s,2026-01-01,2026-01-01T03:00:00.000Z,tapped,0,0,,,,\n%[1]s,2026-01-02,2026-01-02T01:00:00.000Z,made_up,7,8,,,,\n", known)
	if got := exports(t, db, ExportOptions{Format: CSV}); got != wantRows {
		t.Errorf("the log has\n%s\nwant\n%s", got, wantRows)
	}

	if _, faults, err := imports(t, db, text, ImportOptions{Format: CSV, MaxFaults: 3}); err == nil || len(faults) != 3 {
		t.Errorf("at most three wrong rows: got %d and %v", len(faults), err)
	}
	for _, tt := range []struct {
		format Format
		text   string
		fault  string
	}{
		{JSONL, `{"user":"x","day":5}`, "line 1, day: is a number and should be a string"},
		{JSONL, "\n" + `{"user":"x","date":"2026-01-01"}`, `line 2: unknown field "date"`},
		{JSONL, `{"user":"x"} {}`, "line 1: more than one object on the line"},
		{JSONL, `{`, "line 1: unexpected EOF"},
		{JSONL, "\n" + `{"user":"` + strings.Repeat("x", 200_000) + `"}`, "line 2: is longer than 65536 bytes"},
		{JSONL, `{"user":"` + strings.Repeat("x", 200_000) + "\"}\n" + `{"user":"` + known.String() + `","day":"2026-01-02"}`, "line 1: is longer than 65536 bytes"},
	} {
		if _, faults, err := imports(t, db, tt.text, ImportOptions{Format: tt.format}); err != nil || !slices.Equal(faults, []string{tt.fault}) {
			t.Errorf("%s: got %v, %v, want %s", tt.text, faults, err, tt.fault)
		}
	}
	// An open quote does not take the memory for all that follows.
	open := &counting{r: io.MultiReader(strings.NewReader("user,day\n"+known.String()+",2026-01-02\n\"x"), io.LimitReader(zeros{}, 100<<20))}
	sum, err = NewExchange(db).Import(t.Context(), open, ImportOptions{Format: CSV, MaxFaults: 9, Fault: func(Fault) {}, Progress: func(Imported) error { return nil }})
	if e, ok := errors.AsType[*errs.Error](err); !ok || len(e.Fields) != 1 || e.Fields[0].Where != "after line 2" || open.n > 3<<20 {
		t.Errorf("an open quote: %+v, %v after %d bytes", sum, err, open.n)
	}
	for _, head := range []string{"user\n", "day\n", "user,day,day\n", "user,day,mood\n", "\"\n"} {
		if _, _, err := imports(t, db, head, ImportOptions{Format: CSV}); err == nil {
			t.Errorf("a file that begins with %q was taken", head)
		}
	}
	if sum, faults, err := imports(t, db, "\ufeffday,user\n2026-01-02,"+known.String()+"\n", ImportOptions{Format: CSV}); err != nil || len(faults) > 0 || sum.Existing != 1 {
		t.Errorf("from a spreadsheet: %+v, %v, %v", sum, faults, err)
	}
}

// A day may have begun elsewhere, where the user lived then.
func TestASeasonHasWhatWasImportedOfBeforeItsFirstDayBegan(t *testing.T) {
	w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"))
	for _, zone := range []string{"UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago"} {
		user, c := newUsers(1)[0], civil.Clock{Zone: zone}
		w.register(t, user, zone)
		day := civil.DayOf(2026, 11, 16) // a Monday
		at := c.Start(day).Add(-dayOff).UTC()
		if sum, faults, err := imports(t, w.db, fmt.Sprintf("user,day,at\n%s,%s,%s\n", user, day, at.Format(time.RFC3339)), ImportOptions{Format: CSV}); err != nil || sum.New != 1 {
			t.Fatal(sum, faults, err)
		}
		found := 0
		for a, err := range w.store.season(t.Context(), WeekOf(day)) {
			if err != nil {
				t.Fatal(err)
			}
			if a.user == user {
				found = a.days
			}
		}
		if found != 1 {
			t.Errorf("%s: the week has %d of the user's days, want 1", zone, found)
		}
	}
}

func TestImportOpensAccountsThatTheirOwnersCanUse(t *testing.T) {
	w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"))
	w.clock.set(time.Now())
	text := `email,name,zone,day
Ann@example.org,Ann,Asia/Tokyo,2026-01-01
ann@EXAMPLE.org,,,2026-01-02
bob@example.org,,,2026-01-01
eve@example.org,Eve,Mars/Olympus,2026-01-01
eve@example.org,Eve,UTC,2026-01-02
ida@example.org,Ida,UTC,2026-99-01
`
	sum, faults, err := imports(t, w.db, text, ImportOptions{Format: CSV, CreateAccounts: true})
	want := []string{
		"line 5, zone: is not a time zone of the IANA database",
		"line 6, email: no account was opened, for the first row with this address is wrong",
		"line 7, day: is not a date such as 2026-11-21",
	}
	if err != nil || !slices.Equal(faults, want) || sum != (Imported{Rows: 6, New: 3, Bad: 3, Accounts: 2}) {
		t.Fatalf("%+v, %q, %v", sum, faults, err)
	}
	// Eve's second row is fine by itself.
	sum, faults, err = imports(t, w.db, "email,name,zone,day\neve@example.org,Eve,UTC,2026-01-02\n", ImportOptions{Format: CSV, CreateAccounts: true})
	if err != nil || len(faults) > 0 || sum.Accounts != 1 {
		t.Errorf("%+v, %v, %v", sum, faults, err)
	}
	found, err := accounts.NewDirectory(w.db).ByEmail(t.Context(), []string{"ann@example.org", "bob@example.org", "eve@example.org", "ida@example.org"})
	if err != nil || len(found) != 3 {
		t.Fatalf("%v, %v", found, err)
	}
	if ann, bob := found["ann@example.org"], found["bob@example.org"]; ann.Email != "Ann@example.org" || ann.Name != "Ann" || ann.Clock.Zone != "Asia/Tokyo" || bob.Name != "bob" || bob.Clock.Zone != "UTC" {
		t.Errorf("%+v, %+v", ann, bob)
	}
}

// What is imported of months ago is on their boards, too, as far as those are
// loaded, and does not put those of now in doubt.
func TestAnImportReachesTheBoardsOfItsSeasons(t *testing.T) {
	test := func(t *testing.T, kind string) {
		w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"), Settings{Boards: kind})
		w.clock.set(time.Now())
		users, c := newUsers(2), civil.Clock{Zone: "UTC"}
		for _, user := range users {
			w.register(t, user, c.Zone)
			w.mustMark(t, user, c)
		}
		today := c.Today(w.clock.now())
		day := today - 70
		rows := func(user accounts.ID, days ...civil.Day) (text string) {
			for _, d := range days {
				text += fmt.Sprintf("%s,%s\n", user, d)
			}
			return text
		}
		brings := func(text string) {
			t.Helper()
			if sum, faults, err := imports(t, w.db, "user,day\n"+text, ImportOptions{Format: CSV}); err != nil || sum.New != sum.Rows {
				t.Fatal(sum, faults, err)
			}
			if w.follow(t) == 0 {
				t.Error("there is no news")
			}
		}
		brings(rows(users[0], day, day-1))
		former, unloaded := MonthOf(day), MonthOf(day-62)
		if err := w.keepBoards(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := w.Rebuild(t.Context(), former); err != nil {
			t.Fatal(err)
		}
		first := civil.DayOf(day.Year(), time.Month(former.season%100), 1)
		brings(rows(users[1], first+3, first+7, first+11, day-62))
		top, err := w.fast.boards.of(former).Top(t.Context(), w.clock.now(), 10)
		if err != nil || len(top) != 2 || top[0].Member != users[1].String() || top[0].Value != 3 {
			t.Errorf("%s: %+v, %v", former.key(), top, err)
		}
		sure, err := w.fast.boards.of(former).Complete(t.Context(), w.clock.now())
		if err != nil || sure != (kind == ExactBoards) {
			t.Errorf("%s is complete: %t, %v; a compact board cannot know", former.key(), sure, err)
		}
		for _, b := range seasonsOf(today) {
			if sure, err := w.fast.boards.of(b).Complete(t.Context(), w.clock.now()); err != nil || !sure {
				t.Errorf("%s is in doubt, %v", b.key(), err)
			}
		}
		for _, key := range []keyspace.Key{logKeys.At(unloaded).Key, scoreKeys.At(unloaded).Key} {
			if n := w.do(t, "EXISTS", key).N; n != 0 {
				t.Errorf("%s, which nobody has loaded, keeps what it was told", unloaded.key())
			}
		}
	}
	for _, kind := range []string{CompactBoards, ExactBoards} {
		t.Run(kind, func(t *testing.T) { test(t, kind) })
	}
}

// A wait for Redis must not use up the tries of a message.
func TestWhileRedisIsAwayAnImportsNewsWait(t *testing.T) {
	server := redistest.Server(t)
	w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, server.URL))
	w.clock.set(time.Now())
	user, c := newUsers(1)[0], civil.Clock{Zone: "UTC"}
	w.register(t, user, c.Zone)
	w.mustMark(t, user, c)
	server.Kill()
	wait(t, "redis to be found away", func() bool { return !w.projection.Writable() })
	if _, _, err := imports(t, w.db, fmt.Sprintf("user,day\n%s,%s\n", user, c.Today(w.clock.now())-1), ImportOptions{Format: CSV}); err != nil {
		t.Fatal(err)
	}
	if w.follow(t) != 1 {
		t.Error("there was no news")
	}
	server.Restart()
	wait(t, "redis to be complete again", w.projection.Up)
	if w.follow(t) != 1 {
		t.Error("the news were not kept")
	}
	w.check(t, []accounts.ID{user}, c)
}

// BenchmarkExchange imports ten days of 100,000 users by address, who get their
// accounts with it, imports the same again, and exports them.
func BenchmarkExchange(b *testing.B) {
	const users, days = 100_000, 10
	for _, engine := range []struct {
		name string
		db   func() *sqldb.DB
	}{
		{"MariaDB", func() *sqldb.DB {
			server := sqldbtest.OwnServer(b, sqldbtest.Options{Durable: true})
			return sqldbtest.Open(b, sqldb.Config{URL: server.URL})
		}},
		{"SQLite", func() *sqldb.DB { return sqldbtest.SQLite(b) }},
	} {
		b.Run(engine.name, func(b *testing.B) {
			for range b.N {
				db := engine.db()
				var took [3]time.Duration
				var memory [2]runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&memory[0])
				for i := range 2 {
					r, w := io.Pipe()
					go func() {
						fmt.Fprintln(w, "email,day,words")
						for n := range users * days {
							fmt.Fprintf(w, "user%d@example.org,%s,5\n", n/days, civil.DayOf(2026, 1, 1+n%days))
						}
						w.Close()
					}()
					began := time.Now()
					sum, err := NewExchange(db).Import(b.Context(), r, ImportOptions{Format: CSV, CreateAccounts: true, MaxFaults: 1,
						Fault: func(f Fault) { b.Error(f) }, Progress: func(Imported) error { return nil }})
					took[i] = time.Since(began)
					if err != nil || sum.New+sum.Existing != users*days || (sum.New == 0) != (i == 1) {
						b.Fatal(sum, err)
					}
				}
				began := time.Now()
				if _, err := NewExchange(db).Export(b.Context(), io.Discard, ExportOptions{Format: CSV, Progress: func(int64, int64) error { return nil }}); err != nil {
					b.Fatal(err)
				}
				took[2] = time.Since(began)
				runtime.GC()
				runtime.ReadMemStats(&memory[1])
				for i, what := range []string{"import-s", "again-s", "export-s"} {
					b.ReportMetric(took[i].Seconds(), what)
				}
				b.ReportMetric(float64(int64(memory[1].HeapAlloc)-int64(memory[0].HeapAlloc))/1e6, "MB-more")
			}
		})
	}
}
