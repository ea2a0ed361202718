package transfer

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
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// account adds an account.
func account(t *testing.T, db *sqldb.DB, email, name, zone string) accounts.ID {
	t.Helper()
	user := ids.New[accounts.User]()
	if _, err := db.ExecContext(t.Context(), "INSERT INTO users (id, email, email_key, name, zone, zone_next, zone_from, created) VALUES "+
		"(?, ?, ?, ?, ?, '', 0, 0)", user, email, strings.ToLower(email), name, zone); err != nil {
		t.Fatal(err)
	}
	return user
}

// imports runs an import and returns its counts and the wrong rows.
func imports(t *testing.T, db *sqldb.DB, text string, o ImportOptions) (sum Imported, faults []string, err error) {
	t.Helper()
	o.Fault = func(f Fault) { faults = append(faults, f.Error()) }
	o.Progress = func(Imported) error { return nil }
	if o.MaxFaults == 0 {
		o.MaxFaults = 100
	}
	sum, err = Import(t.Context(), db, strings.NewReader(text), o)
	return sum, faults, err
}

func exports(t *testing.T, db *sqldb.DB, o ExportOptions) string {
	t.Helper()
	var out bytes.Buffer
	o.Progress = func(int64, int64) error { return nil }
	n, err := Export(t.Context(), db, &out, o)
	if err != nil {
		t.Fatal(err)
	}
	if lines := int64(strings.Count(out.String(), "\n")); lines != n && lines != n+1 {
		t.Errorf("%d rows are told, %d lines written", n, lines)
	}
	return out.String()
}

// An import into another database creates the account with the values of the export, and its days follow from the zone.
func TestExport_HasCurrentZone(t *testing.T) {
	db := sqldbtest.SQLite(t)
	for i, from := range []time.Time{time.Now().Add(-time.Hour), time.Now().Add(time.Hour)} {
		user := account(t, db, fmt.Sprintf("%d@example.org", i), "A", "Asia/Tokyo")
		if _, err := db.ExecContext(t.Context(), "UPDATE users SET zone_next = 'America/New_York', zone_from = ? WHERE id = ?", from.UnixMilli(),
			user); err != nil {
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

// If the number of a make-up is taken, the day gets a later one. If the day exists without its audit, the audit is
// added.
func TestImport_RenumbersMakeUpsOfTwoDatabases(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		db := sqldbtest.SQLite(t)
		user := account(t, db, "a@example.org", "A", "UTC")
		today := civil.Clock{}.Today(time.Now())
		month := makeupText(streak.MonthOf(today), 1)
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
				sum, faults, err := imports(t, db, tt.text, ImportOptions{Format: CSV, DryRun: dry})
				if err != nil || len(faults) > 0 || sum.New != int64(tt.added) || sum.Existing != sum.Rows-sum.New {
					t.Errorf("%d, dry %t: %+v, %v, %v, want %d new", i, dry, sum, faults, err, tt.added)
				}
			}
			var n int
			if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM checkin_makeups WHERE user_id = ? AND month = ?", user,
				streak.MonthOf(today)).Scan(&n); err != nil || n != tt.n {
				t.Errorf("%d: %d of the month's days are used, %v, want %d", i, n, err, tt.n)
			}
		}
	})
}

func TestImport_ReportsWrongGrantsAndMakeUps(t *testing.T) {
	db := sqldbtest.SQLite(t)
	user := account(t, db, "a@example.org", "A", "UTC")
	next := civil.DayOf(time.Now().Date()) + 62
	text, want := "user,day,at,kind,words,makeup,freezes,reason,id\n", []string(nil)
	for i, tt := range []struct{ row, fault string }{
		{",2026-01-02T10:00:00Z,grant,0,,2,Why,", ""},
		{",2026-01-02T10:00:00Z,grant,0,,2,Why,", ""}, // the same grant
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
		{",2026-01-02T10:00:00Z,grant,,,2,f\xfcr,", "reason: is not 1 to 200 printable characters"}, // not UTF-8
		{",2026-01-02T10:00:00Z,grant,,,2,Why,short", "id: is not an id of 12 characters"},
		{"2026-01-02,,tapped,,,2,,", "freezes: is for grants alone"},
		{"2026-01-02,,tapped,,,,Why,", "reason: is for grants alone"},
		{"2026-01-02,,tapped,,,,,aaaaaaaaaaaa", "id: is for grants alone"},
		{"2026-01-02,,tapped,,2026-01/1,,,", "makeup: is for days of the kind made_up alone"},
		{"2026-01-02,,made_up,,2026-01,,,", "makeup: is not a month and a number such as 2026-11/1"},
		{"2026-01-02,,made_up,,2026-01/0,,,", "makeup: is not a month and a number such as 2026-11/1"},
		{"2026-01-02,,made_up,,2026-13/1,,,", "makeup: is not a month and a number such as 2026-11/1"},
		{"2026-01-02,,made_up,,2025-12/1,,,", "makeup: is not in a month from that of the day to the present one"},
		{"2026-01-02,,made_up,," + makeupText(streak.MonthOf(next), 1) + ",,,",
			"makeup: is not in a month from that of the day to the present one"},
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

// Another process creates an account just before an import does, with another id than in the file.
func TestImport_UsesAccountCreatedConcurrently(t *testing.T) {
	var open func() // called as a transaction begins
	now := func() time.Time {
		if f := open; f != nil {
			open = nil
			f()
		}
		return time.Now()
	}
	db := sqldbtest.Default(t).Open(t, func(cfg *sqldb.Config) { cfg.Now = now })
	var theirs accounts.ID
	text := fmt.Sprintf("user,email,day\n%s,ann@example.org,2026-01-01\n", ids.New[accounts.User]())
	o := ImportOptions{Format: CSV, CreateAccounts: true, MaxFaults: 1, Fault: func(f Fault) {
		t.Error(f)
	}, Progress: func(Imported) error { return nil }}
	file := ending{strings.NewReader(text), func() {
		open = func() { theirs = account(t, db, "ann@example.org", "Ann", "UTC") }
	}}
	if sum, err := Import(t.Context(), db, file, o); err != nil || sum.New != 1 || sum.Accounts != 0 {
		t.Fatal(sum, err)
	}
	if got := exports(t, db, ExportOptions{Format: CSV, User: theirs}); !strings.Contains(got, theirs.String()+",2026-01-01") {
		t.Errorf("the account of the address has %q, want the day", got)
	}
}

// ending calls ended at the end of a file.
type ending struct {
	io.Reader
	ended func()
}

func (e ending) Read(p []byte) (int, error) {
	n, err := e.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		e.ended()
	}
	return n, err
}

// counting counts the bytes that are read.
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

func TestImport_SkipsAndReportsWrongRows(t *testing.T) {
	db := sqldbtest.SQLite(t)
	known := account(t, db, "Ann@example.org", "Ann", "Asia/Tokyo")
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
		{fmt.Sprintf("%s,,2026-01-02,,,,", known), ""}, // it exists already
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
	wantRows := fmt.Sprintf("user,day,at,kind,words,minutes,makeup,freezes,reason,id\n"+
		"%[1]s,2026-01-01,2026-01-01T03:00:00.000Z,tapped,0,0,,,,\n"+
		"%[1]s,2026-01-02,2026-01-02T01:00:00.000Z,made_up,7,8,,,,\n", known)
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
		{JSONL, `{"user":"` + strings.Repeat("x", 200_000) + "\"}\n" + `{"user":"` + known.String() + `","day":"2026-01-02"}`,
			"line 1: is longer than 65536 bytes"},
	} {
		if _, faults, err := imports(t, db, tt.text, ImportOptions{Format: tt.format}); err != nil || !slices.Equal(faults, []string{tt.fault}) {
			t.Errorf("%s: got %v, %v, want %s", tt.text, faults, err, tt.fault)
		}
	}
	// An open quote does not load the rest of the file into memory.
	open := &counting{r: io.MultiReader(strings.NewReader("user,day\n"+known.String()+",2026-01-02\n\"x"), io.LimitReader(zeros{}, 100<<20))}
	sum, err = Import(t.Context(), db, open, ImportOptions{Format: CSV, MaxFaults: 9, Fault: func(Fault) {}, Progress: func(Imported) error {
		return nil
	}})
	if e, ok := errors.AsType[*errs.Error](err); !ok || len(e.Fields) != 1 || e.Fields[0].Where != "after line 2" || open.n > 3<<20 {
		t.Errorf("an open quote: %+v, %v after %d bytes", sum, err, open.n)
	}
	for _, head := range []string{"user\n", "day\n", "user,day,day\n", "user,day,mood\n", "\"\n"} {
		if _, _, err := imports(t, db, head, ImportOptions{Format: CSV}); err == nil {
			t.Errorf("a file that begins with %q was taken", head)
		}
	}
	if sum, faults, err := imports(t, db, "\ufeffday,user\n2026-01-02,"+known.String()+"\n", ImportOptions{Format: CSV}); err != nil ||
		len(faults) > 0 || sum.Existing != 1 {
		t.Errorf("from a spreadsheet: %+v, %v, %v", sum, faults, err)
	}
}

func TestImport_CreatesUsableAccounts(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		db := sqldbtest.SQLite(t)
		text := `email,name,zone,day
Ann@example.org,Ann,Asia/Tokyo,2026-01-01
ann@EXAMPLE.org,,,2026-01-02
bob@example.org,,,2026-01-01
eve@example.org,Eve,Mars/Olympus,2026-01-01
eve@example.org,Eve,UTC,2026-01-02
ida@example.org,Ida,UTC,2026-99-01
`
		sum, faults, err := imports(t, db, text, ImportOptions{Format: CSV, CreateAccounts: true})
		want := []string{
			"line 5, zone: is not a time zone of the IANA database",
			"line 6, email: no account was opened, for the first row with this address is wrong",
			"line 7, day: is not a date such as 2026-11-21",
		}
		if err != nil || !slices.Equal(faults, want) || sum != (Imported{Rows: 6, New: 3, Bad: 3, Accounts: 2}) {
			t.Fatalf("%+v, %q, %v", sum, faults, err)
		}
		// Eve's second row alone is valid.
		sum, faults, err = imports(t, db, "email,name,zone,day\neve@example.org,Eve,UTC,2026-01-02\n",
			ImportOptions{Format: CSV, CreateAccounts: true})
		if err != nil || len(faults) > 0 || sum.Accounts != 1 {
			t.Errorf("%+v, %v, %v", sum, faults, err)
		}
		found, err := accounts.NewDirectory(db).ByEmail(t.Context(),
			[]string{"ann@example.org", "bob@example.org", "eve@example.org", "ida@example.org"})
		if err != nil || len(found) != 3 {
			t.Fatalf("%v, %v", found, err)
		}
		if ann, bob := found["ann@example.org"], found["bob@example.org"]; ann.Email != "Ann@example.org" || ann.Name != "Ann" ||
			ann.Clock.Zone != "Asia/Tokyo" || bob.Name != "bob" || bob.Clock.Zone != "UTC" {
			t.Errorf("%+v, %+v", ann, bob)
		}
	})
}

// An export from before an erasure does not create the account again, because its id stays taken. The other rows count.
func TestImport_DoesNotRecreateErasedAccount(t *testing.T) {
	db := sqldbtest.SQLite(t)
	known, gone := account(t, db, "a@example.org", "A", "UTC"), account(t, db, "b@example.org", "B", "UTC")
	if _, err := db.ExecContext(t.Context(), "UPDATE users SET erased = -1, email = '', email_key = ? WHERE id = ?", "deleted:"+gone.String(),
		gone); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("user,email,day\n%s,b@example.org,2026-01-01\n%s,a@example.org,2026-01-01\n", gone, known)
	for _, dry := range []bool{true, false} {
		sum, faults, err := imports(t, db, text, ImportOptions{Format: CSV, CreateAccounts: true, DryRun: dry})
		if want := []string{"line 2, user: is of an account that was erased"}; err != nil || !slices.Equal(faults, want) ||
			sum != (Imported{Rows: 2, New: 1, Bad: 1}) {
			t.Errorf("dry %t: %+v, %q, %v, want %q", dry, sum, faults, err, want)
		}
	}
}

// The owner of a new account may have another address in each of two exports. The id takes precedence, as in a later
// chunk.
func TestImport_TwoAddressesCreateOneAccount(t *testing.T) {
	db := sqldbtest.SQLite(t)
	user := ids.New[accounts.User]()
	text := fmt.Sprintf("user,email,day\n%[1]s,a@example.org,2026-01-01\n%[1]s,b@example.org,2026-01-02\n", user)
	for i, want := range []Imported{{Rows: 2, New: 2, Accounts: 1}, {Rows: 2, Existing: 2}} {
		if sum, faults, err := imports(t, db, text, ImportOptions{Format: CSV, CreateAccounts: true}); err != nil || len(faults) > 0 ||
			sum != want {
			t.Errorf("%d: %+v, %q, %v, want %+v", i, sum, faults, err, want)
		}
	}
	found, err := accounts.NewDirectory(db).ByEmail(t.Context(), []string{"a@example.org", "b@example.org"})
	if err != nil || len(found) != 1 || found["a@example.org"].ID != user {
		t.Errorf("%+v, %v", found, err)
	}
}

// BenchmarkTransfer imports ten days of 100,000 users by address, which creates their accounts. It then imports the
// same file again, and exports it.
func BenchmarkTransfer(b *testing.B) {
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
					sum, err := Import(b.Context(), db, r, ImportOptions{Format: CSV, CreateAccounts: true, MaxFaults: 1,
						Fault: func(f Fault) { b.Error(f) }, Progress: func(Imported) error { return nil }})
					took[i] = time.Since(began)
					if err != nil || sum.New+sum.Existing != users*days || (sum.New == 0) != (i == 1) {
						b.Fatal(sum, err)
					}
				}
				began := time.Now()
				if _, err := Export(b.Context(), db, io.Discard, ExportOptions{Format: CSV, Progress: func(int64, int64) error {
					return nil
				}}); err != nil {
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

func TestImport_ReportsWrongAccountOnce(t *testing.T) {
	db := sqldbtest.SQLite(t)
	var text strings.Builder
	text.WriteString("email,name,day\n")
	for i := range 150 { // more lines than MaxFaults matter; more than one chunk do not
		fmt.Fprintf(&text, "eve@example.org,\u3164,2026-01-%02d\n", i%28+1)
		if i%50 == 10 {
			fmt.Fprintf(&text, "no address %d,Bob,2026-01-01\nbob@example.org,Bob,2026-02-%02d\n", i, i/50+1)
		}
	}
	var repeated []Fault
	sum, faults, err := imports(t, db, text.String(), ImportOptions{Format: CSV, CreateAccounts: true, MaxFaults: 5,
		Repeated: func(f Fault) { repeated = append(repeated, f) }})
	want := []string{"line 2, name: is not 1 to 40 printable characters", "line 13, email: is not an e-mail address",
		"line 65, email: is not an e-mail address", "line 117, email: is not an e-mail address"}
	if err != nil || !slices.Equal(faults, want) {
		t.Errorf("got %q, %v; want %q", faults, err, want)
	}
	if sum.Bad != 153 || sum.New != 3 || sum.Rows != 156 {
		t.Errorf("got %+v, want 156 rows, 3 new and 153 bad", sum)
	}
	if len(repeated) != 1 || repeated[0].Rows != 150 || repeated[0].Line != 2 || repeated[0].Last != 157 ||
		repeated[0].Of != "eve@example.org" {
		t.Errorf("got %+v, want one fault of 150 rows, from line 2 to 157", repeated)
	}
}
