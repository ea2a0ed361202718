package checkin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/background/queue"
	"github.com/stoa-dev/stoa/internal/background/runs"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/checkin/ranking"
	"github.com/stoa-dev/stoa/internal/checkin/reconcile"
	"github.com/stoa-dev/stoa/internal/checkin/records"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/leaderboard"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// finish requests a run and does it on this node.
func (w *world) finish(t *testing.T, kind runs.Kind, o reconcile.Options) *reconcile.Run {
	t.Helper()
	x := NewAdmin(w.db)
	r, err := x.Request(t.Context(), kind, o)
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); r.State != runs.Done; {
		if _, err := w.reconciler.Step(t.Context()); err != nil && !errors.Is(err, redis.ErrUnavailable) { // else the pool calls it again
			t.Fatal(err)
		}
		if r, err = x.Runs.Run(t.Context(), r.ID); err != nil {
			t.Fatal(err)
		}
		if r.State == runs.Failed || time.Now().After(end) {
			t.Fatalf("run: %+v", r)
		}
	}
	return r
}

// found returns the run's lines of the repair log as "user: what".
func (w *world) found(t *testing.T, r *reconcile.Run) (out []string) {
	t.Helper()
	lines, err := NewAdmin(w.db).Runs.Repairs(t.Context(), 0, r.ID, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		if l.Was == "" || l.Becomes == "" || l.Was == l.Becomes || l.Repaired == r.Options.DryRun {
			t.Errorf("a line that says little: %+v", l)
		}
		out = append(out, l.User+": "+l.What)
	}
	slices.Sort(out)
	return out
}

// plant runs any command, even one that a typed key would refuse.
var plant = redis.NewScript("return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))")

func (w *world) do(t *testing.T, name string, key keyspace.Key, args ...string) keyspace.Reply {
	t.Helper()
	reply := plant.Run(t.Context(), w.redis, []keyspace.Key{key}, append([]string{name}, args...)...)
	if reply.Err != nil {
		t.Fatal(reply.Err)
	}
	return reply
}

// damage changes a record's bytes.
func (w *world) damage(t *testing.T, user accounts.ID, year int, change func(r *streak.Record)) {
	t.Helper()
	key := records.BitmapOf(user, year)
	text := w.do(t, "GET", key.Key).Str
	if len(text) != len(streak.Record{}) {
		t.Fatalf("the record of %d is not loaded", year)
	}
	r := streak.Parse(text)
	change(r)
	w.do(t, "SET", key.Key, string(r[:]), "PX", "1000000")
}

// inhabited creates users with streaks over New Year, loads their records of both years, and settles everything.
func inhabited(t *testing.T, w *world, n int) (users []accounts.ID, c civil.Clock) {
	t.Helper()
	users, c = newUsers(n), civil.Clock{Zone: "Asia/Tokyo"}
	for _, user := range users {
		w.register(t, user, c.Zone)
	}
	for day := range 8 {
		w.clock.set(time.Date(2025, 12, 28+day, 3, 0, 0, 0, time.UTC))
		for i, user := range users {
			if day == 7 || (day+i)%5 != 0 {
				w.mustMark(t, user, c)
			}
		}
		w.persisted(t) // on its day: else the rows are late ones
	}
	for _, user := range users {
		for _, year := range []int{2025, 2026} {
			if _, err := w.Calendar(t.Context(), user, c, year, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.clock.set(time.Date(2026, 1, 4, 5, 0, 0, 0, time.UTC))
	if err := w.Boards.LoadMissing(t.Context()); err != nil {
		t.Fatal(err)
	}
	return users, c
}

// vandalise damages the data in Redis in every possible way and returns the lines that a reconciliation must find.
func vandalise(t *testing.T, w *world, users []accounts.ID) (want []string) {
	t.Helper()
	w.persisted(t) // else the worker repairs some of it
	expect := func(member, what string) { want = append(want, member+": "+what) }
	member := func(i int) string { return users[i].String() }

	w.damage(t, users[0], 2026, func(r *streak.Record) { r.Set(civil.DayOf(2026, 1, 1)+200, streak.Tapped) })
	expect(member(0), "record 2026: surplus days")
	w.damage(t, users[1], 2026, func(r *streak.Record) { r[16] = 0 })
	expect(member(1), "record 2026: missing days")
	w.damage(t, users[2], 2026, func(r *streak.Record) { r[11] += 3 })
	expect(member(2), "record 2026: what came before")
	w.damage(t, users[3], 2026, func(r *streak.Record) { r[9]-- })
	expect(member(3), "record 2026: what came before")
	w.damage(t, users[4], 2025, func(r *streak.Record) { r.Set(civil.DayOf(2025, 1, 10), streak.Frozen) })
	expect(member(4), "record 2025: surplus days")
	w.do(t, "UNLINK", records.BitmapOf(users[5], 2025).Key)
	w.do(t, "HSET", records.BitmapOf(users[5], 2025).Key, "a", "b")
	expect(member(5), "record 2025: not a string")
	w.damage(t, users[6], 2026, func(r *streak.Record) { r[0] = 77 })
	expect(member(6), "record 2026: version")

	ghost := ids.New[accounts.User]()
	if w.Boards.Kind() == ranking.Exact {
		streaks, totals := ranking.ExactKeys(ranking.StreakBoard), ranking.ExactKeys(ranking.TotalBoard).Scores.Key
		scores, deaths := streaks.Scores.Key, streaks.Deaths.Key
		w.do(t, "ZINCRBY", scores, "4294967296", member(7))
		w.do(t, "ZREM", totals, member(8))
		w.do(t, "ZINCRBY", deaths, "86400000", member(9))
		w.do(t, "ZREM", deaths, member(10))
		w.do(t, "ZADD", scores, "4294967296", ghost.String())
		w.do(t, "ZADD", deaths, "+inf", ghost.String())
		w.do(t, "ZADD", totals, "4294967296", "nobody")
	} else {
		now, ever := w.clock.now(), time.Time{}
		put := func(b ranking.Board, member string, value int64, dies time.Time) {
			t.Helper()
			cmds := w.Boards.Of(b).Update([]leaderboard.Entry{{Member: member, Value: value, At: now, Dies: dies, Restart: true}})
			if err := keyspace.FirstErr(w.redis.DoMulti(t.Context(), cmds)); err != nil {
				t.Fatal(err)
			}
		}
		put(ranking.StreakBoard, member(7), 300, ever)
		put(ranking.StreakBoard, member(9), 300, now) // dead
		put(ranking.StreakBoard, ghost.String(), 1, ever)
		put(ranking.TotalBoard, "nobody", 1, ever)
		for i, b := range map[int]ranking.Board{8: ranking.TotalBoard, 10: ranking.StreakBoard} {
			if err := w.Boards.Remove(t.Context(), b, member(i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	expect(member(7), "board streak")
	expect(member(8), "board total_days")
	expect(member(9), "board streak")
	expect(member(10), "board streak")
	expect(ghost.String(), "board streak: a member without days")
	expect("nobody", "board total_days: a member without days")
	stray := streak.RecordOf(2026, streak.History{})
	stray.Set(civil.DayOf(2026, 1, 4), streak.Tapped)
	for _, k := range []records.Key{{User: ghost, Year: 2026}, {User: users[11], Year: 1999}} {
		w.do(t, "SET", records.BitmapOf(k.User, k.Year).Key, string(stray[:]), "PX", "1000000")
		expect(k.User.String(), fmt.Sprintf("record %d: surplus days", k.Year))
	}
	slices.Sort(want)
	return want
}

func TestReconcile_RepairsEveryKindOfDamage(t *testing.T) {
	t.Parallel()
	worlds(t, func(t *testing.T, w *world) {
		users, c := inhabited(t, w, 14)
		if r := w.finish(t, reconcile.ReconcileRun, reconcile.Options{DryRun: true}); r.Summary != (reconcile.Summary{Compared: 14}) {
			t.Fatalf("before any damage: %+v, %v", r.Summary, w.found(t, r))
		}
		want := vandalise(t, w, users)
		for range 2 { // the second time proves that a dry run changes nothing
			r := w.finish(t, reconcile.ReconcileRun, reconcile.Options{DryRun: true})
			if got := w.found(t, r); !slices.Equal(got, want) {
				t.Fatalf("found\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			if r.Summary.Differences != len(want) || r.Summary.Repaired != 0 || r.Summary.Compared != 14 {
				t.Errorf("summary %+v", r.Summary)
			}
		}
		r := w.finish(t, reconcile.ReconcileRun, reconcile.Options{})
		if got := w.found(t, r); !slices.Equal(got, want) || r.Summary.Repaired != len(want) {
			t.Errorf("repaired %+v\n%s\nwant\n%s", r.Summary, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if r := w.finish(t, reconcile.ReconcileRun, reconcile.Options{}); r.Summary.Differences != 0 {
			t.Errorf("after the repair: %+v, %v", r.Summary, w.found(t, r))
		}
		w.check(t, users, c)
		redistest.KeysDeclared(t, w.redis, Keys, records.Keys, ranking.Keys, queue.Keys)
	})
}

// The freezes granted and used this year may be missing in the record of a former year, because no read uses them
// there.
func TestReconcile_AllowsMissingFreezesInPastYear(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"), Settings{FreezeMax: 3})
		user, c := newUsers(1)[0], civil.Clock{}
		w.register(t, user, "UTC")
		w.clock.set(time.Date(2026, 12, 30, 12, 0, 0, 0, time.UTC))
		w.mustMark(t, user, c)
		w.clock.set(time.Date(2027, 1, 10, 12, 0, 0, 0, time.UTC))
		w.mustMark(t, user, c)
		for _, year := range []int{2026, 2027} {
			if _, err := w.Calendar(t.Context(), user, c, year, 0); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Grant(t.Context(), user, 2, "A test"); err != nil {
			t.Fatal(err)
		}
		if err := w.ApplyGrant(t.Context(), user); err != nil {
			t.Fatal(err)
		}
		w.clock.set(time.Date(2027, 1, 12, 12, 0, 0, 0, time.UTC))
		if r := w.mustMark(t, user, c); r.Status.Streak != 2 || r.Status.Used != 1 {
			t.Fatalf("got %+v, want a freeze to be used", r.Status)
		}
		w.clock.set(time.Date(2027, 1, 12, 13, 0, 0, 0, time.UTC))
		if found := w.found(t, w.finish(t, reconcile.ReconcileRun, reconcile.Options{})); len(found) > 0 {
			t.Errorf("found %v", found)
		}
	})
}

func TestReconcile_OneUserOrPart(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"))
		users, _ := inhabited(t, w, 14)
		vandalise(t, w, users)
		one := w.finish(t, reconcile.ReconcileRun, reconcile.Options{User: users[0]})
		if got, want := w.found(t, one), []string{users[0].String() + ": record 2026: surplus days"}; !slices.Equal(got, want) {
			t.Errorf("one user: got %v, want %v", got, want)
		}
		compared, differing := 0, 0
		for part := range 3 {
			r := w.finish(t, reconcile.ReconcileRun, reconcile.Options{Part: part + 1, Parts: 3, DryRun: true})
			compared, differing = compared+r.Summary.Compared, differing+r.Summary.Differing
		}
		if compared != 14 || differing != 13 { // users 1 to 10, two members, and the user with a record in excess; one member has one as well
			t.Errorf("three parts compared %d users and found %d, want 14 and 13", compared, differing)
		}
		for _, bad := range []reconcile.Options{{Part: 3, Parts: 2}, {Part: 1}, {Parts: 2}, {Part: 1, Parts: 5000}, {Days: 400}} {
			if _, err := NewAdmin(w.db).Request(t.Context(), reconcile.ReconcileRun, bad); err == nil {
				t.Errorf("%+v was taken", bad)
			}
		}
	})
}

func TestReconcile_NoFalseDifferencesDuringCheckIns(t *testing.T) {
	t.Parallel()
	worlds(t, func(t *testing.T, w *world) {
		damaged, _ := inhabited(t, w, 14)
		want := vandalise(t, w, damaged)
		users, c := newUsers(320), civil.Clock{Zone: "Asia/Tokyo"}
		for _, user := range users {
			w.register(t, user, c.Zone)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		var mu sync.Mutex
		marks, marked, rest := 0, map[accounts.ID]bool{}, 5*time.Millisecond
		if w.clock.virtual {
			rest = 100 * time.Millisecond // a run takes seconds then
		}
		for caller := range 16 {
			callers.Go(func() {
				for ctx.Err() == nil {
					user := users[caller+16*rand.IntN(len(users)/16)] // one request of a user at a time
					at := w.clock.now()
					day := c.Today(at) - civil.Day(rand.IntN(4)) // also late for earlier days
					if _, err := w.submit(t.Context(), request{user: user, clock: c, day: day, at: at.Truncate(time.Millisecond), kind: streak.Tapped,
						req: rand.Int64()}); err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					marks++
					marked[user] = true
					mu.Unlock()
					time.Sleep(rest)
				}
			})
		}
		// On a machine that stalls, a batch may be applied again, which causes a recount, or the log may be replayed.
		// Both repair differences before a run finds them.
		as := func(got []string) bool {
			return slices.Equal(got, want) || !w.clock.virtual && !slices.ContainsFunc(got, func(s string) bool { return !slices.Contains(want, s) })
		}
		dry := w.finish(t, reconcile.ReconcileRun, reconcile.Options{DryRun: true})
		if got := w.found(t, dry); !as(got) {
			t.Errorf("found\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		r := w.finish(t, reconcile.ReconcileRun, reconcile.Options{})
		if got := w.found(t, r); !as(got) {
			t.Errorf("repaired\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		cancel()
		callers.Wait()
		if marks < 100 {
			t.Errorf("only %d check-ins meanwhile", marks)
		}
		if r.Summary.Abnormal != 0 {
			t.Errorf("%d abnormal changes", r.Summary.Abnormal)
		}
		// Writes that were too slow for Redis are on their way to it.
		eventually.True(t, "redis to be complete", func() bool {
			w.projection.Suspect()
			time.Sleep(20 * time.Millisecond)
			return w.projection.Up()
		})
		w.clock.set(w.clock.now().Add(2 * reconcile.Settled))
		if r := w.finish(t, reconcile.ReconcileRun, reconcile.Options{}); r.Summary.Differences != 0 || r.Summary.Compared < len(marked) {
			t.Errorf("afterwards: %+v of at least %d, %v", r.Summary, len(marked), w.found(t, r))
		}
	})
}

func TestSnapshot_PrecedesWaitingWorkWhileRedisUnavailable(t *testing.T) {
	t.Parallel()
	i := redistest.Server(t)
	w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, i.URL))
	inhabited(t, w, 3)
	x := NewAdmin(w.db)
	first, err := x.Request(t.Context(), reconcile.ReconcileRun, reconcile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	i.Kill()
	eventually.True(t, "redis to be found away", func() bool { return !w.projection.Up() })
	snapshot := w.finish(t, reconcile.SnapshotRun, reconcile.Options{})
	if snapshot.Summary.Persisted+len(w.persistedUsers(t)) < 3 {
		t.Errorf("the snapshot: %+v", snapshot)
	}
	if _, err := w.reconciler.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	if first, err = x.Runs.Run(t.Context(), first.ID); err != nil || first.State != runs.Running ||
		first.Error != "waiting for redis to be complete" {
		t.Errorf("the reconciliation: %+v, %v, want that it says what it waits for", first, err)
	}
	i.Restart()
	for end := time.Now().Add(5 * time.Minute); first.State != runs.Done; {
		if _, err := w.reconciler.Step(t.Context()); err != nil && !errors.Is(err, redis.ErrUnavailable) || time.Now().After(end) {
			t.Fatalf("the reconciliation %+v does not end (%v)", first, err)
		}
		if first, err = x.Runs.Run(t.Context(), first.ID); err != nil {
			t.Fatal(err)
		}
	}
}

// persistedUsers returns the users of the snapshots.
func (w *world) persistedUsers(t *testing.T) []accounts.ID {
	t.Helper()
	users, err := sqldb.Column[accounts.ID](w.db.QueryContext(t.Context(), "SELECT user_id FROM checkin_totals"))
	if err != nil {
		t.Fatal(err)
	}
	return users
}

func TestRebuild_BoardsAndRecords(t *testing.T) {
	t.Parallel()
	worlds(t, func(t *testing.T, w *world) {
		users, c := inhabited(t, w, 14)
		vandalise(t, w, users)
		r := w.finish(t, reconcile.RebuildRun, reconcile.Options{Boards: true})
		if r.Summary.Placed != 4*14 || // streak, total, week and month
			r.Summary.Loaded != 0 {
			t.Errorf("boards: %+v", r.Summary)
		}
		for _, b := range ranking.Current(w.clock.now()) {
			members, next, err := w.Boards.Members(t.Context(), b, "0", 200)
			if err != nil || next != "" || len(members) != 14 {
				t.Errorf("board %s has %v, %v", b, members, err)
			}
		}
		for _, user := range users {
			w.do(t, "UNLINK", records.BitmapOf(user, 2026).Key)
		}
		if r := w.finish(t, reconcile.RebuildRun, reconcile.Options{Days: 30}); r.Summary.Placed != 0 || r.Summary.Loaded != 14 ||
			r.Total != 14 || r.Done != 14 {
			t.Errorf("records: %+v", r.Summary)
		}
		for _, user := range users {
			if text := w.do(t, "GET", records.BitmapOf(user, 2026).Key).Str; len(text) != len(streak.Record{}) {
				t.Errorf("%s: the record is not there", user)
			}
		}
		w.check(t, users, c)
	})
}

// totals has a user's figures, and month the days of one month, as snapshots have written them.
type totals struct {
	User    accounts.ID `bun:"user_id"`
	Streak  int         `bun:"streak"`
	Longest int         `bun:"longest"`
	Total   int         `bun:"total"`
	LastDay int32       `bun:"last_day"`
	AsOf    int64       `bun:"as_of"`
}

type month struct {
	User    accounts.ID `bun:"user_id"`
	Month   int         `bun:"month"`
	Days    int         `bun:"days"`
	Covered int         `bun:"covered"`
}

// persistedOf reads the tables of the snapshots.
func (w *world) persistedOf(t *testing.T) (map[accounts.ID]totals, map[string]month) {
	t.Helper()
	var sums []totals
	if err := w.db.NewRaw("SELECT user_id, streak, longest, total, last_day, as_of FROM checkin_totals").Scan(t.Context(), &sums); err != nil {
		t.Fatal(err)
	}
	var months []month
	if err := w.db.NewRaw("SELECT user_id, month, days, covered FROM checkin_months").Scan(t.Context(), &months); err != nil {
		t.Fatal(err)
	}
	byUser, byMonth := map[accounts.ID]totals{}, map[string]month{}
	for _, s := range sums {
		byUser[s.User] = s
	}
	for _, m := range months {
		byMonth[fmt.Sprint(m.User, m.Month)] = m
	}
	return byUser, byMonth
}

func TestSnapshot_FollowsLogDespiteEmptiedRedis(t *testing.T) {
	t.Parallel()
	worlds(t, func(t *testing.T, w *world) {
		users, c := inhabited(t, w, 14)
		w.clock.set(time.Now()) // runs have the time of the database's clock
		w.finish(t, reconcile.SnapshotRun, reconcile.Options{})
		check := func(when string) {
			t.Helper()
			histories, err := w.sql.histories(t.Context(), users)
			if err != nil {
				t.Fatal(err)
			}
			sums, months := w.persistedOf(t)
			for _, user := range users {
				want := expected(histories[user], civil.Day(sums[user].LastDay))
				if got := sums[user]; got.Streak != want.Streak || got.Longest != want.Longest || got.Total != want.Total {
					t.Errorf("%s: %s: %+v, want %+v", when, user, got, want)
				}
				days := map[int]int{}
				for _, m := range histories[user].Marks {
					year, mon, day := m.Day.Date()
					days[100*year+int(mon)] |= 1 << (day - 1)
				}
				for n, bits := range days {
					if got := months[fmt.Sprint(user, n)]; got.Days != bits {
						t.Errorf("%s: %s in %d: %b, want %b", when, user, n, got.Days, bits)
					}
				}
			}
		}
		check("first")
		for _, user := range users[:5] {
			w.mustMark(t, user, c)
		}
		if r := w.finish(t, reconcile.SnapshotRun, reconcile.Options{}); r.Summary != (reconcile.Summary{Persisted: 5}) {
			t.Errorf("five checked in: %+v", r.Summary)
		}
		check("second")

		sums, months := w.persistedOf(t)
		histories, err := w.sql.histories(t.Context(), users)
		if err != nil {
			t.Fatal(err)
		}
		for _, user := range users {
			for _, year := range []int{2025, 2026, time.Now().Year()} {
				w.do(t, "UNLINK", records.BitmapOf(user, year).Key)
			}
		}
		for _, b := range ranking.Current(w.clock.now()) {
			if err := w.Boards.Of(b).Drop(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for _, kind := range []runs.Kind{reconcile.SnapshotRun, reconcile.ReconcileRun, reconcile.RebuildRun, reconcile.SnapshotRun} {
			if r := w.finish(t, kind, reconcile.Options{}); r.Summary.Abnormal != 0 || r.Summary.Persisted != 0 || r.Summary.Differences != 0 {
				t.Errorf("%s of an emptied Redis: %+v", kind, r.Summary)
			}
		}
		sums2, months2 := w.persistedOf(t)
		histories2, err := w.sql.histories(t.Context(), users)
		if err != nil || !maps.Equal(sums, sums2) || !maps.Equal(months, months2) || !reflect.DeepEqual(histories, histories2) {
			t.Errorf("SQL changed: %v", err)
		}
	})
}

func TestSnapshot_LostDaysRaiseAlarm(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"))
		users, c := inhabited(t, w, 6)
		w.finish(t, reconcile.SnapshotRun, reconcile.Options{}) // after the one of the night
		exec := func(query string, args ...any) {
			t.Helper()
			if err := w.db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
				_, err := tx.ExecContext(ctx, query, args...)
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		last := c.Today(w.clock.now())
		// total falls
		exec("DELETE FROM checkins WHERE user_id = ? AND day < ?", users[0], int32(last)-3)
		// all days are gone
		exec("DELETE FROM checkins WHERE user_id = ?", users[1])
		// a streak rises without days
		exec("UPDATE checkin_totals SET streak = 1 WHERE user_id = ?", users[2])
		// the same …
		exec("UPDATE checkin_totals SET streak = 1 WHERE user_id = ?", users[3])
		// … with a day made up
		exec("INSERT INTO checkins (user_id, day, at, kind, words, minutes, req) VALUES (?, 1, ?, 2, 0, 0, 0)", users[3],
			w.clock.now().UnixMilli())
		dry := w.finish(t, reconcile.ReconcileRun, reconcile.Options{DryRun: true})
		r := w.finish(t, reconcile.ReconcileRun, reconcile.Options{})
		if dry.Summary.Abnormal != 3 || r.Summary.Abnormal != 3 {
			t.Errorf("%d and %d abnormal changes, want 3", dry.Summary.Abnormal, r.Summary.Abnormal)
		}
		if r := w.finish(t, reconcile.ReconcileRun, reconcile.Options{}); r.Summary.Abnormal != 0 {
			t.Errorf("told again: %+v", r.Summary)
		}
	})
}
