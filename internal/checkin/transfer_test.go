package checkin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/background/queue"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/checkin/ranking"
	"github.com/stoa-dev/stoa/internal/checkin/reconcile"
	"github.com/stoa-dev/stoa/internal/checkin/records"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/internal/checkin/transfer"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// imports runs an import and returns its counts and the wrong rows.
func imports(t *testing.T, db *sqldb.DB, text string, o transfer.ImportOptions) (sum transfer.Imported, faults []string, err error) {
	t.Helper()
	o.Fault = func(f transfer.Fault) { faults = append(faults, f.Error()) }
	o.Progress = func(transfer.Imported) error { return nil }
	if o.MaxFaults == 0 {
		o.MaxFaults = 100
	}
	sum, err = transfer.Import(t.Context(), db, strings.NewReader(text), o)
	return sum, faults, err
}

func exports(t *testing.T, db *sqldb.DB, o transfer.ExportOptions) string {
	t.Helper()
	var out bytes.Buffer
	o.Progress = func(int64, int64) error { return nil }
	n, err := transfer.Export(t.Context(), db, &out, o)
	if err != nil {
		t.Fatal(err)
	}
	if lines := int64(strings.Count(out.String(), "\n")); lines != n && lines != n+1 {
		t.Errorf("%d rows are told, %d lines written", n, lines)
	}
	return out.String()
}

// touched returns the messages of imports that wait in the outbox.
func (w *world) touched(t *testing.T) (all []transfer.Touched) {
	t.Helper()
	rows, err := w.db.QueryContext(t.Context(), "SELECT payload FROM outbox WHERE topic = ?", transfer.TopicTouched)
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var payload []byte
		if err := rows.Scan(&payload); err != nil {
			t.Fatal(err)
		}
		var users transfer.Touched
		if err := json.Unmarshal(payload, &users); err != nil {
			t.Fatal(err)
		}
		all = append(all, users)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// follow delivers the messages of imports to the server, as the outbox does.
func (w *world) follow(t *testing.T) (n int) {
	t.Helper()
	all := w.touched(t)
	if _, err := w.db.ExecContext(t.Context(), "DELETE FROM outbox WHERE topic = ?", transfer.TopicTouched); err != nil {
		t.Fatal(err)
	}
	for _, users := range all {
		if err := w.followTouched(t.Context(), users); err != nil {
			t.Fatal(err)
		}
	}
	return len(all)
}

func TestImport_ReachesSQLThenRedis(t *testing.T) {
	t.Parallel()
	worlds(t, func(t *testing.T, w *world) {
		w.clock.set(time.Now().UTC().Truncate(time.Second))
		users, c := newUsers(30), civil.Clock{Zone: "America/New_York"}
		var text strings.Builder
		text.WriteString("user,day,words,minutes\n")
		today := c.Today(w.clock.now())
		for i, user := range users {
			w.register(t, user, c.Zone)
			if i%2 == 0 {
				w.mustMark(t, user, c) // loads the record
			}
			for day := today - civil.Day(20+i); day < today; day++ {
				fmt.Fprintf(&text, "%s,%s,3,2\n", user, day)
			}
		}
		w.check(t, users, c)
		sum, faults, err := imports(t, w.db, text.String(), transfer.ImportOptions{Format: transfer.CSV, DryRun: true})
		if err != nil || len(faults) > 0 || sum.New != sum.Rows || w.follow(t) != 0 {
			t.Fatalf("dry: %+v, %v, %v", sum, faults, err)
		}
		w.check(t, users, c)
		sum, faults, err = imports(t, w.db, text.String(), transfer.ImportOptions{Format: transfer.CSV})
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
		again, _, err := imports(t, w.db, text.String(), transfer.ImportOptions{Format: transfer.CSV})
		if err != nil || again.New != 0 || again.Existing != again.Rows || w.follow(t) != 0 {
			t.Errorf("the second time: %+v, %v", again, err)
		}
		w.clock.set(w.clock.now().Add(2 * reconcile.Settled))
		if r := w.finish(t, reconcile.ReconcileRun, reconcile.Options{}); r.Summary.Differences != 0 {
			t.Errorf("reconciliation: %+v, %v", r.Summary, w.found(t, r))
		}
		redistest.KeysDeclared(t, w.redis, Keys, records.Keys, ranking.Keys, queue.Keys)
	})
}

// The rows' own times are before the part of the log that a replay reads.
func TestImport_ReplayedToRedisThatLostIt(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"))
		w.clock.set(time.Now().UTC())
		users, c := newUsers(3), civil.Clock{Zone: "UTC"}
		text := "user,day\n"
		for _, user := range users {
			w.register(t, user, c.Zone)
			w.mustMark(t, user, c)
			text += fmt.Sprintf("%s,%s\n", user, c.Today(w.clock.now())-1)
		}
		if _, _, err := imports(t, w.db, text, transfer.ImportOptions{Format: transfer.CSV}); err != nil {
			t.Fatal(err)
		}
		if err := w.replay(t.Context(), time.Now().Add(-time.Minute)); err != nil {
			t.Fatal(err)
		}
		w.check(t, users, c)
	})
}

func TestExport_ReadBackByImport(t *testing.T) {
	t.Parallel()
	worlds(t, func(t *testing.T, w *world) {
		users, _ := inhabited(t, w, 14)
		other := sqldbtest.SQLite(t)
		for _, format := range []transfer.Format{transfer.CSV, transfer.JSONL} {
			all := exports(t, w.db, transfer.ExportOptions{Format: format, Accounts: true})
			sum, faults, err := imports(t, other, all, transfer.ImportOptions{Format: format, CreateAccounts: true})
			if err != nil || len(faults) > 0 {
				t.Fatalf("%s: %+v, %v, %v", format, sum, faults, err)
			}
			if format == transfer.CSV && (sum.Accounts != 14 || sum.New != sum.Rows) || format == transfer.JSONL &&
				(sum.Accounts != 0 || sum.New != 0) {
				t.Errorf("%s: %+v", format, sum)
			}
			if back := exports(t, other, transfer.ExportOptions{Format: format, Accounts: true}); back != all {
				t.Errorf("%s differs:\n%s\nwant\n%s", format, back, all)
			}
			// Without the addresses, only a database with the accounts can import it.
			if again, faults, err := imports(t, other, exports(t, w.db, transfer.ExportOptions{Format: format}),
				transfer.ImportOptions{Format: format}); err != nil || len(faults) > 0 || again.Existing != again.Rows {
				t.Errorf("%s without accounts: %+v, %v, %v", format, again, faults, err)
			}
		}
		one := exports(t, w.db, transfer.ExportOptions{Format: transfer.CSV, User: users[0], Bounded: true, First: civil.DayOf(2026, 1, 1),
			Last: civil.DayOf(2026, 1, 2)})
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

// moved returns a second world on a database of its own, with the imported export of the first one.
func moved(t *testing.T, w *world, users []accounts.ID, format transfer.Format, rules Settings) (to *world, text string) {
	t.Helper()
	w.persisted(t)
	text = exports(t, w.db, transfer.ExportOptions{Format: format, Accounts: true})
	to = newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"), rules)
	to.clock.set(w.clock.now())
	for _, user := range users { // Redis has empty records for them
		if _, err := to.Status(t.Context(), user, civil.Clock{}); err != nil {
			t.Fatal(err)
		}
	}
	sum, faults, err := imports(t, to.db, text, transfer.ImportOptions{Format: format, CreateAccounts: true, DryRun: true})
	if err != nil || len(faults) > 0 || sum.New != sum.Rows {
		t.Fatalf("%s, dry: %+v, %v, %v", format, sum, faults, err)
	}
	sum, faults, err = imports(t, to.db, text, transfer.ImportOptions{Format: format, CreateAccounts: true})
	if err != nil || len(faults) > 0 || sum.New != sum.Rows {
		t.Fatalf("%s: %+v, %v, %v", format, sum, faults, err)
	}
	return to, text
}

func TestExport_MovesGrantsAndMakeUps(t *testing.T) {
	t.Parallel()
	rules := Settings{MakeupDays: 30, MakeupLimit: 3, FreezeEvery: 3, FreezeMax: 2}
	worlds(t, func(t *testing.T, w *world) {
		w.clock.set(time.Now().UTC().Truncate(time.Second)) // the accounts are created today
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
		if _, _, err := imports(t, w.db, text.String(), transfer.ImportOptions{Format: transfer.CSV}); err != nil {
			t.Fatal(err)
		}
		w.follow(t)
		// The later day was made up first. One user has grants and no day at all.
		for i, day := range []civil.Day{today - 22, today - 23} {
			if _, _, _, err := w.sql.makeUp(t.Context(), makeup{user: users[0], month: streak.MonthOf(today), day: day, at: w.clock.now(),
				req: int64(i)}, 3,
				func(streak.History) ([]civil.Day, error) { return nil, nil }); err != nil {
				t.Fatal(err)
			}
		}
		for i, user := range []int{0, 0, 1} {
			if err := w.Grant(t.Context(), users[user], 2, fmt.Sprintf("The app, \"down\", %d", i)); err != nil {
				t.Fatal(err)
			}
		}
		for _, user := range users[:2] {
			if err := w.ApplyGrant(t.Context(), user); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.followTouched(t.Context(), transfer.Touched{Users: users[:1]}); err != nil {
			t.Fatal(err)
		}
		for _, format := range []transfer.Format{transfer.CSV, transfer.JSONL} {
			to, text := moved(t, w, users, format, rules)
			to.follow(t)
			if back := exports(t, to.db, transfer.ExportOptions{Format: format, Accounts: true}); back != text {
				t.Errorf("%s differs:\n%s\nwant\n%s", format, back, text)
			}
			if again, faults, err := imports(t, to.db, text, transfer.ImportOptions{Format: format}); err != nil || len(faults) > 0 ||
				again.New != 0 || to.follow(t) != 0 {
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
			if err != nil || err2 != nil || is.Left != 1 || was.Left != 1 || !slices.EqualFunc(is.History, was.History, func(a, b Makeup) bool {
				return a.Day == b.Day && a.At.Equal(b.At)
			}) {
				t.Errorf("%s: got %+v, %v, want %+v, %v", format, is, err, was, err2)
			}
			to.clock.set(to.clock.now().Add(2 * reconcile.Settled))
			if r := to.finish(t, reconcile.ReconcileRun, reconcile.Options{}); r.Summary.Differences != 0 {
				t.Errorf("%s: reconciliation: %+v, %v", format, r.Summary, to.found(t, r))
			}
		}
	}, rules)
}

// The rows of the first number may be wrong, or missing in an export of some days.
func TestMakeUp_NumbersMissingInImport(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"), Settings{MakeupDays: 30, MakeupLimit: 3})
		user, c := newUsers(1)[0], civil.Clock{}
		w.register(t, user, "UTC")
		if sum, faults, err := imports(t, w.db, fmt.Sprintf("user,day,kind,makeup\n%s,2026-11-15,made_up,2026-11/2\n", user),
			transfer.ImportOptions{Format: transfer.CSV}); err != nil || sum.New != 1 {
			t.Fatal(sum, faults, err)
		}
		for i, day := range []string{"2026-11-16", "2026-11-17"} {
			if res := w.mustMakeUp(t, user, day); res.Left != 1-i {
				t.Errorf("%s: %d are left, want %d", day, res.Left, 1-i)
			}
		}
		if _, err := w.MakeUp(t.Context(), user, c, c.Today(w.clock.now())-1, 1); !errors.Is(err, ErrMakeupLimit) {
			t.Errorf("a fourth one: got %v, want %v", err, ErrMakeupLimit)
		}
	})
}

// Without a day, late data of an erased user would stay for ever.
func TestErase_LateGrantIsErasedByRecheck(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"))
		users, _ := inhabited(t, w, 2)
		text := fmt.Sprintf("user,at,kind,freezes,reason,day\n%s,2026-01-01T00:00:00Z,grant,2,Late,\n", users[0])
		if sum, faults, err := imports(t, w.db, text, transfer.ImportOptions{Format: transfer.CSV}); err != nil || sum.New != 1 {
			t.Fatal(sum, faults, err)
		}
		if _, err := w.db.ExecContext(t.Context(), "DELETE FROM checkins WHERE user_id = ?", users[0]); err != nil {
			t.Fatal(err)
		}
		w.tombstone(t, users[0])
		if _, faults, err := imports(t, w.db, text, transfer.ImportOptions{Format: transfer.CSV}); err != nil || len(faults) != 1 {
			t.Errorf("of an erased user: %v, %v, want a fault", faults, err)
		}
		w.finish(t, reconcile.ReconcileRun, reconcile.Options{})
		if found := w.heldOf(t, users[0]); len(found) > 0 {
			t.Errorf("still held: %v", found)
		}
	})
}

// A day may have begun earlier in the zone where the user lived then.
func TestImport_SeasonHasDaysOfEarlierZone(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"))
		day := civil.DayOf(2026, 11, 16) // a Monday
		zones := map[string]string{}     // of the users
		for _, zone := range []string{"UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago"} {
			user, c := newUsers(1)[0], civil.Clock{Zone: zone}
			w.register(t, user, zone)
			zones[user.String()] = zone
			at := c.Start(day).Add(-transfer.ZoneSpan).UTC()
			if sum, faults, err := imports(t, w.db, fmt.Sprintf("user,day,at\n%s,%s,%s\n", user, day, at.Format(time.RFC3339)),
				transfer.ImportOptions{Format: transfer.CSV}); err != nil || sum.New != 1 {
				t.Fatal(sum, faults, err)
			}
		}
		if err := w.Boards.Recount(t.Context(), ranking.WeekOf(day), nil); err != nil {
			t.Fatal(err)
		}
		top, err := w.Boards.Of(ranking.WeekOf(day)).Top(t.Context(), w.clock.now(), 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range top {
			if r.Value == 1 {
				delete(zones, r.Member)
			}
		}
		if len(zones) > 0 {
			t.Errorf("the week does not have one day of the users in %v", zones)
		}
	})
}

// Days of former months that are imported also reach their boards, if these are loaded, and do not put the current
// boards in doubt.
func TestImport_ReachesBoardsOfSeasons(t *testing.T) {
	t.Parallel()
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
			if sum, faults, err := imports(t, w.db, "user,day\n"+text, transfer.ImportOptions{Format: transfer.CSV}); err != nil ||
				sum.New != sum.Rows {
				t.Fatal(sum, faults, err)
			}
			if w.follow(t) == 0 {
				t.Error("there is no news")
			}
		}
		brings(rows(users[0], day, day-1))
		former, unloaded := ranking.MonthOf(day), ranking.MonthOf(day-62)
		if err := w.Boards.LoadMissing(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := w.Boards.Rebuild(t.Context(), former); err != nil {
			t.Fatal(err)
		}
		first, _ := former.Span()
		brings(rows(users[1], first+3, first+7, first+11, day-62))
		top, err := w.Boards.Of(former).Top(t.Context(), w.clock.now(), 10)
		if err != nil || len(top) != 2 || top[0].Member != users[1].String() || top[0].Value != 3 {
			t.Errorf("%s: %+v, %v", former.Key(), top, err)
		}
		sure, err := w.Boards.Of(former).Complete(t.Context(), w.clock.now())
		if err != nil || sure != (kind == ranking.Exact) {
			t.Errorf("%s is complete: %t, %v; a compact board cannot know", former.Key(), sure, err)
		}
		for _, b := range ranking.SeasonsOf(today) {
			if sure, err := w.Boards.Of(b).Complete(t.Context(), w.clock.now()); err != nil || !sure {
				t.Errorf("%s is in doubt, %v", b.Key(), err)
			}
		}
		for _, key := range []keyspace.Key{ranking.CompactKeys(unloaded).Log.Key, ranking.ExactKeys(unloaded).Scores.Key} {
			if n := w.do(t, "EXISTS", key).N; n != 0 {
				t.Errorf("%s, which nobody has loaded, keeps what it was told", unloaded.Key())
			}
		}
	}
	for _, kind := range []string{ranking.Compact, ranking.Exact} {
		t.Run(kind, func(t *testing.T) { test(t, kind) })
	}
}

// A change that is committed after the load of a former season's board has read SQL must be sent to the board, because
// no job would apply it.
func TestImport_ReachesSeasonBeingLoaded(t *testing.T) {
	t.Parallel()
	worlds(t, func(t *testing.T, w *world) {
		users, c := inhabited(t, w, 3)
		w.clock.set(time.Date(2026, 3, 4, 5, 0, 0, 0, time.UTC))
		late := newUsers(1)[0]
		w.register(t, late, c.Zone)
		season := ranking.MonthOf(civil.DayOf(2026, 1, 1))
		brings := sync.OnceValue(func() error { // once SQL is read
			sum, _, err := imports(t, w.db, fmt.Sprintf("user,day\n%s,2026-01-15\n", late), transfer.ImportOptions{Format: transfer.CSV})
			if err == nil && sum.New != 1 {
				err = fmt.Errorf("imported: %+v", sum)
			}
			w.follow(t)
			return err
		})
		if err := w.Boards.Renew(t.Context(), season, brings); err != nil {
			t.Fatal(err)
		}
		all, err := w.Boards.FromRedis(t.Context(), season, users[0], c, 10, 0)
		if err != nil || !slices.ContainsFunc(all.Top, func(r ranking.Row) bool { return r.User == late && r.Value == 1 }) {
			t.Errorf("January: %+v, %v, want one day of %s among them", all.Top, err, late)
		}
	})
}

// slowLog delays the result of its first read of users' days until the test allows it.
type slowLog struct {
	checkinLog
	asked     atomic.Bool
	read, may chan struct{}
}

func (l *slowLog) histories(ctx context.Context, users []accounts.ID) (map[accounts.ID]streak.History, error) {
	out, err := l.checkinLog.histories(ctx, users)
	if l.asked.Swap(true) {
		return out, err
	}
	close(l.read)
	select {
	case <-l.may:
		return out, err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// The record does not exist when the import is applied, and the later write has data from before it.
func TestImport_NotHiddenByRecordReadBefore(t *testing.T) {
	t.Parallel()
	for name, load := range map[string]func(context.Context, *world, records.Key) error{
		"a load": func(ctx context.Context, w *world, k records.Key) error {
			_, err := w.loadRecords(ctx, []records.Key{k})
			return err
		},
		"a change that is brought to Redis": func(ctx context.Context, w *world, k records.Key) error {
			return w.projection.Renew(ctx, change{user: k.User})
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"))
				w.clock.set(time.Now())
				user, c := newUsers(1)[0], civil.Clock{Zone: "UTC"}
				w.register(t, user, c.Zone)
				today := c.Today(w.clock.now())
				bubble.Sleep(time.Second) // after a second, the world has begun and reads its log only for the test
				log := &slowLog{checkinLog: w.checkins, read: make(chan struct{}), may: make(chan struct{})}
				w.checkins = log
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					_ = load(t.Context(), w, records.Key{User: user, Year: today.Year()}) // it may give up
				}()
				<-log.read
				if sum, _, err := imports(t, w.db, fmt.Sprintf("user,day\n%s,%s\n", user, today-1),
					transfer.ImportOptions{Format: transfer.CSV}); err != nil || sum.New != 1 {
					t.Fatal(sum, err)
				}
				var due int64
				if err := w.db.QueryRowContext(t.Context(), "SELECT due FROM outbox WHERE topic = ?", transfer.TopicTouched).Scan(&due); err != nil {
					t.Fatal(err)
				}
				bubble.Sleep(time.Until(time.UnixMilli(due)))
				w.follow(t)
				close(log.may)
				<-ended
				if s, err := w.Status(t.Context(), user, c); err != nil || s.Total != 1 {
					t.Errorf("got %+v, %v, want the day that was imported", s, err)
				}
			})
		})
	}
}

// A wait for Redis must not use up the tries of a message.
func TestImport_WaitsForRedisWithoutUsingTries(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, server.URL))
	w.clock.set(time.Now())
	user, c := newUsers(1)[0], civil.Clock{Zone: "UTC"}
	w.register(t, user, c.Zone)
	w.mustMark(t, user, c)
	server.Kill()
	eventually.True(t, "redis to be found away", func() bool { return !w.projection.Writable() })
	if _, _, err := imports(t, w.db, fmt.Sprintf("user,day\n%s,%s\n", user, c.Today(w.clock.now())-1),
		transfer.ImportOptions{Format: transfer.CSV}); err != nil {
		t.Fatal(err)
	}
	if w.follow(t) != 1 {
		t.Error("there was no news")
	}
	server.Restart()
	eventually.True(t, "redis to be complete again", w.projection.Up)
	if w.follow(t) != 1 {
		t.Error("the news were not kept")
	}
	w.check(t, []accounts.ID{user}, c)
}

// The rows of an import are ordered by day, so that each chunk has most of the users.
func TestImport_EachUserIsFollowedOnce(t *testing.T) {
	t.Parallel()
	worlds(t, func(t *testing.T, w *world) {
		w.clock.set(time.Now().UTC().Truncate(time.Second))
		users, c := newUsers(40), civil.Clock{Zone: "UTC"}
		for _, user := range users {
			w.register(t, user, c.Zone)
		}
		var text strings.Builder
		text.WriteString("user,day\n")
		today := c.Today(w.clock.now())
		for day := today - 60; day < today; day++ {
			for _, user := range users {
				fmt.Fprintf(&text, "%s,%s\n", user, day)
			}
		}
		if sum, faults, err := imports(t, w.db, text.String(), transfer.ImportOptions{Format: transfer.CSV}); err != nil || len(faults) > 0 ||
			sum.New != sum.Rows {
			t.Fatalf("%+v, %v, %v", sum, faults, err)
		}
		messages, due := w.touched(t), 0
		for _, m := range messages {
			parts, err := transfer.Due(t.Context(), w.db, m)
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range parts {
				due += len(part.Users)
				if part.First != today-60 || part.Last != today-1 {
					t.Errorf("followed from %s to %s, want %s to %s", part.First, part.Last, today-60, today-1)
				}
			}
		}
		if len(messages) < 2 || due != len(users) {
			t.Errorf("%d messages are followed for %d users, want several for %d", len(messages), due, len(users))
		}
		if w.follow(t) != len(messages) {
			t.Error("a message is missing")
		}
		w.check(t, users, c)
		for _, m := range messages { // delivered again
			if err := w.followTouched(t.Context(), m); err != nil {
				t.Error(err)
			}
		}
		w.check(t, users, c)
	})
}
