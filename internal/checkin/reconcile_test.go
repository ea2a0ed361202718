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

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/checkin/ranking"
	"github.com/stoa-dev/stoa/internal/checkin/records"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/internal/foundation/civil"
	"github.com/stoa-dev/stoa/internal/foundation/ids"
	"github.com/stoa-dev/stoa/internal/foundation/queue"
	"github.com/stoa-dev/stoa/internal/foundation/runs"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/leaderboard"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// finish asks for a run and has this node do it.
func (w *world) finish(t *testing.T, kind runs.Kind, o RunOptions) *Run {
	t.Helper()
	x := NewAdmin(w.db)
	r, err := x.Request(t.Context(), kind, o)
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); r.State != runs.Done; {
		if _, err := w.runner.Step(t.Context()); err != nil && !errors.Is(err, redis.ErrUnavailable) { // else the pool calls it again
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

// found returns the run's lines of the log as "user: what".
func (w *world) found(t *testing.T, r *Run) (out []string) {
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

// plant carries out any command, also one that a typed key would refuse.
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

// inhabited has users with streaks over New Year, their records of both years
// loaded, and everything settled.
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
	if err := w.Boards.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	return users, c
}

// vandalise damages what Redis holds in every way there is and returns what a
// reconciliation has to find.
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

func TestReconciliationFindsAndRepairsEveryKindOfDamage(t *testing.T) {
	t.Parallel()
	worlds(t, func(t *testing.T, w *world) {
		users, c := inhabited(t, w, 14)
		if r := w.finish(t, ReconcileRun, RunOptions{DryRun: true}); r.Summary != (Summary{Compared: 14}) {
			t.Fatalf("before any damage: %+v, %v", r.Summary, w.found(t, r))
		}
		want := vandalise(t, w, users)
		for range 2 { // the second time proves that a dry run changes nothing
			r := w.finish(t, ReconcileRun, RunOptions{DryRun: true})
			if got := w.found(t, r); !slices.Equal(got, want) {
				t.Fatalf("found\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			if r.Summary.Differences != len(want) || r.Summary.Repaired != 0 || r.Summary.Compared != 14 {
				t.Errorf("summary %+v", r.Summary)
			}
		}
		r := w.finish(t, ReconcileRun, RunOptions{})
		if got := w.found(t, r); !slices.Equal(got, want) || r.Summary.Repaired != len(want) {
			t.Errorf("repaired %+v\n%s\nwant\n%s", r.Summary, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if r := w.finish(t, ReconcileRun, RunOptions{}); r.Summary.Differences != 0 {
			t.Errorf("after the repair: %+v, %v", r.Summary, w.found(t, r))
		}
		w.check(t, users, c)
		redistest.KeysDeclared(t, w.redis, Keys, records.Keys, ranking.Keys, queue.Keys)
	})
}

// What is given and used this year is not wrong in the record of a year that is over,
// which nobody asks for it.
func TestReconciliationIsContentWithTheFreezesOfAFormerYear(t *testing.T) {
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
		if found := w.found(t, w.finish(t, ReconcileRun, RunOptions{})); len(found) > 0 {
			t.Errorf("found %v", found)
		}
	})
}

func TestReconciliationOfOneUserAndOfParts(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"))
		users, _ := inhabited(t, w, 14)
		vandalise(t, w, users)
		one := w.finish(t, ReconcileRun, RunOptions{User: users[0]})
		if got, want := w.found(t, one), []string{users[0].String() + ": record 2026: surplus days"}; !slices.Equal(got, want) {
			t.Errorf("one user: got %v, want %v", got, want)
		}
		compared, differing := 0, 0
		for part := range 3 {
			r := w.finish(t, ReconcileRun, RunOptions{Part: part + 1, Parts: 3, DryRun: true})
			compared, differing = compared+r.Summary.Compared, differing+r.Summary.Differing
		}
		if compared != 14 || differing != 13 { // users 1 to 10, two members, and who has a record too many; one member has one as well
			t.Errorf("three parts compared %d users and found %d, want 14 and 13", compared, differing)
		}
		for _, bad := range []RunOptions{{Part: 3, Parts: 2}, {Part: 1}, {Parts: 2}, {Part: 1, Parts: 5000}, {Days: 400}} {
			if _, err := NewAdmin(w.db).Request(t.Context(), ReconcileRun, bad); err == nil {
				t.Errorf("%+v was taken", bad)
			}
		}
	})
}

func TestEveryIdIsInOnePart(t *testing.T) {
	t.Parallel()
	for _, parts := range []int{1, 2, 3, 7, 64, MaxParts} {
		for range 200 {
			id, in := ids.New[accounts.User]().String(), 0
			for part := range parts {
				after, before := partOf(part+1, parts)
				if id > after && (before == "" || id < before) {
					in++
				}
			}
			if in != 1 {
				t.Fatalf("%s is in %d of %d parts", id, in, parts)
			}
		}
	}
}

func TestReconciliationTellsNothingFalseWhileSixteenCheckIn(t *testing.T) {
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
					if _, err := w.submit(t.Context(), request{user: user, clock: c, day: day, at: at.Truncate(time.Millisecond), kind: streak.Tapped, req: rand.Int64()}); err != nil {
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
		// On a machine that stalls a batch may have to be applied again, which has a board
		// counted anew, or the log replayed: that repairs what no run finds then.
		as := func(got []string) bool {
			return slices.Equal(got, want) || !w.clock.virtual && !slices.ContainsFunc(got, func(s string) bool { return !slices.Contains(want, s) })
		}
		dry := w.finish(t, ReconcileRun, RunOptions{DryRun: true})
		if got := w.found(t, dry); !as(got) {
			t.Errorf("found\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		r := w.finish(t, ReconcileRun, RunOptions{})
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
		// What Redis was too slow to take is on its way to it.
		eventually.True(t, "redis to be complete", func() bool { w.projection.Suspect(); time.Sleep(20 * time.Millisecond); return w.projection.Up() })
		w.clock.set(w.clock.now().Add(2 * settled))
		if r := w.finish(t, ReconcileRun, RunOptions{}); r.Summary.Differences != 0 || r.Summary.Compared < len(marked) {
			t.Errorf("afterwards: %+v of at least %d, %v", r.Summary, len(marked), w.found(t, r))
		}
	})
}

func TestARunGoesOnWhereADeadNodeLeftIt(t *testing.T) {
	t.Parallel()
	worlds(t, func(t *testing.T, w *world) {
		users, _ := inhabited(t, w, 14)
		want := vandalise(t, w, users)
		x := NewAdmin(w.db)
		r, err := x.Request(t.Context(), ReconcileRun, RunOptions{})
		if err != nil {
			t.Fatal(err)
		}
		// A node that has taken the run, has done one half of the users, and is gone.
		first := slices.SortedFunc(slices.Values(users), accounts.ID.Compare)[:7]
		r.State, r.Node, r.Started = runs.Running, "gone", w.now()
		r.Resume, r.Total = runs.Resume{Stage: "users", Cursor: ""}, 14
		if err := w.reconcileUsers(t.Context(), r, first); err != nil {
			t.Fatal(err)
		}
		r.Resume.Cursor = first[6].String()
		if err := w.runs.Save(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		for r.State != runs.Done {
			if _, err := w.runner.Step(t.Context()); err != nil {
				t.Fatal(err)
			}
			if r, err = x.Runs.Run(t.Context(), r.ID); err != nil {
				t.Fatal(err)
			}
		}
		if got := w.found(t, r); !slices.Equal(got, want) || r.Summary.Compared != 14 || r.Done != 14 || r.Node == "gone" {
			t.Errorf("%+v\n%s\nwant\n%s", r, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// stored returns a run as the next node reads it.
func (w *world) stored(t *testing.T, r *Run) *Run {
	t.Helper()
	if err := w.runs.Save(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	next, err := w.runs.Run(t.Context(), r.ID)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// Else a node that is restarted during a long stage begins it anew, for ever.
func TestTheLookForStrayRecordsGoesOnWhereItEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, redistest.Server(t).URL))
	stray := streak.RecordOf(2026, streak.History{})
	stray.Set(civil.DayOf(2026, 1, 4), streak.Tapped)
	ghosts := newUsers(400)
	for _, user := range ghosts {
		w.do(t, "SET", records.BitmapOf(user, 2026).Key, string(stray[:]), "PX", "1000000")
	}
	r, err := NewAdmin(w.db).Request(t.Context(), ReconcileRun, RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.State, r.Resume.Stage = runs.Running, strayRecords
	steps, looked := 0, 0
	for {
		n, err := w.reconcileRecords(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if steps, looked = steps+1, looked+n; r.Resume.Cursor == "" {
			break
		}
		r = w.stored(t, r)
	}
	if steps < 4 || looked > len(ghosts)+50 { // a page or so more while the table grows
		t.Errorf("%d records in %d steps", looked, steps)
	}
	found := slices.Compact(w.found(t, w.stored(t, r)))
	if len(found) != len(ghosts) {
		t.Errorf("%d strays were found, want %d", len(found), len(ghosts))
	}
}

func TestASnapshotGoesOnAmongTheClaimsWhereItEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, redistest.Server(t, aof...).URL), Settings{Mode: RedisFirst})
	users, today := newUsers(400), civil.Clock{}.Today(w.clock.now())
	for _, user := range users {
		claim := request{user: user, day: today, at: w.clock.now(), kind: streak.Tapped, req: 7}
		w.do(t, "SET", claimKeys.At(user, dayKey(today)).Key, claimText(claim), "PX", "1000000")
	}
	r, err := NewAdmin(w.db).Request(t.Context(), SnapshotRun, RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	steps := 0
	for r.State, r.Resume.Stage = runs.Running, fromTheClaims; r.Resume.Stage == fromTheClaims; steps++ {
		if err := w.claimsOfSnapshot(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		r = w.stored(t, r)
	}
	if n, err := w.sql.countUsers(t.Context(), "", ""); err != nil || n != 400 || steps < 4 || r.Resume.Stage != everybodyAnew || r.Total != n || r.Done != 0 {
		t.Errorf("%d of 400 users are in SQL after %d steps, %v; the run: %+v", n, steps, err, r)
	}
	if _, err := w.snapshotSlice(t.Context(), r, time.Now().Add(time.Hour)); err != nil || r.Done != 400 {
		t.Errorf("the rest: %+v, %v", r, err)
	}
}

func TestWhileRedisIsAwayASnapshotGoesBeforeWhatWaits(t *testing.T) {
	t.Parallel()
	i := redistest.Server(t)
	w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, i.URL))
	inhabited(t, w, 3)
	x := NewAdmin(w.db)
	first, err := x.Request(t.Context(), ReconcileRun, RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	i.Kill()
	eventually.True(t, "redis to be found away", func() bool { return !w.projection.Up() })
	snapshot := w.finish(t, SnapshotRun, RunOptions{})
	if snapshot.Summary.Persisted+len(w.persistedUsers(t)) < 3 {
		t.Errorf("the snapshot: %+v", snapshot)
	}
	if _, err := w.runner.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	if first, err = x.Runs.Run(t.Context(), first.ID); err != nil || first.State != runs.Running || first.Error != errNotNow.Error() {
		t.Errorf("the reconciliation: %+v, %v, want that it says what it waits for", first, err)
	}
	i.Restart()
	for end := time.Now().Add(5 * time.Minute); first.State != runs.Done; {
		if _, err := w.runner.Step(t.Context()); err != nil && !errors.Is(err, redis.ErrUnavailable) || time.Now().After(end) {
			t.Fatalf("the reconciliation %+v does not end (%v)", first, err)
		}
		if first, err = x.Runs.Run(t.Context(), first.ID); err != nil {
			t.Fatal(err)
		}
	}
}

// persistedUsers are those of whom a snapshot was written.
func (w *world) persistedUsers(t *testing.T) []accounts.ID {
	t.Helper()
	users, err := sqldb.Column[accounts.ID](w.db.QueryContext(t.Context(), "SELECT user_id FROM checkin_totals"))
	if err != nil {
		t.Fatal(err)
	}
	return users
}

func TestARunThatTwoNodesWorkOnIsLeftToOne(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"))
		r, err := NewAdmin(w.db).Request(t.Context(), SnapshotRun, RunOptions{})
		if err != nil {
			t.Fatal(err)
		}
		mine, theirs := *r, *r
		mine.Done, theirs.Done = 1, 2
		if err := w.runs.Save(t.Context(), &mine, runs.Repair{User: "a", What: "b"}); err != nil {
			t.Fatal(err)
		}
		if err := w.runs.Save(t.Context(), &theirs, runs.Repair{User: "a", What: "c"}); err == nil {
			t.Error("the second one stored its state as well")
		}
		if lines, err := w.runs.Repairs(t.Context(), 0, r.ID, 10); err != nil || len(lines) != 1 || lines[0].What != "b" {
			t.Errorf("the log has %v, %v", lines, err)
		}
	})
}

func TestRebuildingMakesBoardsAndRecordsAnew(t *testing.T) {
	t.Parallel()
	worlds(t, func(t *testing.T, w *world) {
		users, c := inhabited(t, w, 14)
		vandalise(t, w, users)
		r := w.finish(t, RebuildRun, RunOptions{Boards: true})
		if r.Summary.Placed != 4*14 || // streak, total, week and month
			r.Summary.Loaded != 0 {
			t.Errorf("boards: %+v", r.Summary)
		}
		for _, b := range ranking.Current(w.clock.now()) {
			members, next, err := w.Boards.Members(t.Context(), b, "0", chunkUsers)
			if err != nil || next != "" || len(members) != 14 {
				t.Errorf("board %s has %v, %v", b, members, err)
			}
		}
		for _, user := range users {
			w.do(t, "UNLINK", records.BitmapOf(user, 2026).Key)
		}
		if r := w.finish(t, RebuildRun, RunOptions{Days: 30}); r.Summary.Placed != 0 || r.Summary.Loaded != 14 || r.Total != 14 || r.Done != 14 {
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

// persistedOf reads what snapshots have written.
func (w *world) persistedOf(t *testing.T, users []accounts.ID) (map[accounts.ID]totals, map[string]month) {
	t.Helper()
	sums, months, err := w.sql.persisted(t.Context(), users)
	if err != nil {
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

func TestSnapshotsFollowTheLogAndAnEmptiedRedisChangesNothingInSQL(t *testing.T) {
	t.Parallel()
	worlds(t, func(t *testing.T, w *world) {
		users, c := inhabited(t, w, 14)
		w.clock.set(time.Now()) // runs are dated by the database's clock
		w.finish(t, SnapshotRun, RunOptions{})
		check := func(when string) {
			t.Helper()
			histories, err := w.sql.histories(t.Context(), users)
			if err != nil {
				t.Fatal(err)
			}
			sums, months := w.persistedOf(t, users)
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
		if r := w.finish(t, SnapshotRun, RunOptions{}); r.Summary != (Summary{Persisted: 5}) {
			t.Errorf("five checked in: %+v", r.Summary)
		}
		check("second")

		sums, months := w.persistedOf(t, users)
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
		for _, kind := range []runs.Kind{SnapshotRun, ReconcileRun, RebuildRun, SnapshotRun} {
			if r := w.finish(t, kind, RunOptions{}); r.Summary.Abnormal != 0 || r.Summary.Persisted != 0 || r.Summary.Differences != 0 {
				t.Errorf("%s of an emptied Redis: %+v", kind, r.Summary)
			}
		}
		sums2, months2 := w.persistedOf(t, users)
		histories2, err := w.sql.histories(t.Context(), users)
		if err != nil || !maps.Equal(sums, sums2) || !maps.Equal(months, months2) || !reflect.DeepEqual(histories, histories2) {
			t.Errorf("SQL changed: %v", err)
		}
	})
}

func TestDaysThatVanishFromSQLRaiseTheAlarm(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"))
		users, c := inhabited(t, w, 6)
		w.finish(t, SnapshotRun, RunOptions{}) // after the one of the night
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
		exec("DELETE FROM checkins WHERE user_id = ? AND day < ?", users[0], int32(last)-3)                                                          // total falls
		exec("DELETE FROM checkins WHERE user_id = ?", users[1])                                                                                     // nothing is left
		exec("UPDATE checkin_totals SET streak = 1 WHERE user_id = ?", users[2])                                                                     // a streak rises without days
		exec("UPDATE checkin_totals SET streak = 1 WHERE user_id = ?", users[3])                                                                     // the same …
		exec("INSERT INTO checkins (user_id, day, at, kind, words, minutes, req) VALUES (?, 1, ?, 2, 0, 0, 0)", users[3], w.clock.now().UnixMilli()) // … with a day made up
		dry := w.finish(t, ReconcileRun, RunOptions{DryRun: true})
		r := w.finish(t, ReconcileRun, RunOptions{})
		if dry.Summary.Abnormal != 3 || r.Summary.Abnormal != 3 {
			t.Errorf("%d and %d abnormal changes, want 3", dry.Summary.Abnormal, r.Summary.Abnormal)
		}
		if r := w.finish(t, ReconcileRun, RunOptions{}); r.Summary.Abnormal != 0 {
			t.Errorf("told again: %+v", r.Summary)
		}
	})
}

func TestRunsComeRoundByThemselves(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"))
		w.rules.ReconcileEvery = 168 * time.Hour
		count := func() map[runs.Kind]int {
			t.Helper()
			for range 20 {
				if _, err := w.runner.Step(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			all, err := w.runs.List(t.Context(), 0, 100)
			if err != nil {
				t.Fatal(err)
			}
			n := map[runs.Kind]int{}
			for _, r := range all {
				if r.State == runs.Done {
					n[r.Kind]++
				}
			}
			return n
		}
		for _, tt := range []struct {
			at         time.Duration
			snapshots  int
			reconciled int
		}{{0, 1, 1}, {time.Hour, 1, 1}, {24 * time.Hour, 2, 1}, {169 * time.Hour, 3, 2}} {
			w.clock.set(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC).Add(tt.at))
			if n := count(); n[SnapshotRun] != tt.snapshots || n[ReconcileRun] != tt.reconciled {
				t.Errorf("after %s: %v, want %d snapshots and %d reconciliations", tt.at, n, tt.snapshots, tt.reconciled)
			}
		}
	})
}

func TestEveryNodeShowsTheLastReconciliation(t *testing.T) {
	t.Parallel()
	worlds(t, func(t *testing.T, w *world) {
		users, _ := inhabited(t, w, 14)
		want := vandalise(t, w, users)
		if len(want) == 0 {
			t.Fatal("nothing is wrong")
		}
		gauge := func() float64 {
			reg := prometheus.NewRegistry()
			reg.MustRegister(w.metrics.differing)
			families, err := reg.Gather()
			if err != nil {
				t.Fatal(err)
			}
			return families[0].GetMetric()[0].GetGauge().GetValue()
		}
		// As if another node had done both: this one's metrics are left alone.
		bad := w.finish(t, ReconcileRun, RunOptions{})
		w.metrics.reconciled(&Run{})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); w.showReconciliations(ctx) }()
		defer func() { stop(); <-done }()
		eventually.True(t, "the other node's figures", func() bool { return gauge() == float64(bad.Summary.Differing) })
		w.finish(t, ReconcileRun, RunOptions{User: users[0]})
		if r, err := w.runs.LastDone(ctx, ReconcileRun, ofMany); err != nil || r.ID != bad.ID {
			t.Errorf("one user's run counts as everybody's: %+v, %v", r, err)
		}
		good := w.finish(t, ReconcileRun, RunOptions{})
		if r, err := w.runs.LastDone(ctx, ReconcileRun, ofMany); err != nil || r.ID != good.ID || gauge() != 0 {
			t.Errorf("got %+v, %v, and %v differing", r, err, gauge())
		}
	})
}

func TestRunsAreListedAndWithdrawn(t *testing.T) {
	t.Parallel()
	db := sqldbtest.SQLite(t)
	x := NewAdmin(db)
	var asked []int64
	for _, o := range []RunOptions{{}, {Part: 2, Parts: 3, DryRun: true}, {Boards: true}, {Days: 7}} {
		r, err := x.Request(t.Context(), ReconcileRun, o)
		if err != nil {
			t.Fatal(err)
		}
		asked = append(asked, r.ID)
	}
	list := func(before int64, n int) (out []string) {
		all, err := x.Runs.List(t.Context(), before, n)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range all {
			out = append(out, r.Options.String())
		}
		return out
	}
	if got, want := list(0, 3), []string{"records --days 7", "boards", "--dry-run --part 2/3"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if done, err := x.Runs.Withdraw(t.Context(), asked[1]); err != nil || !done {
		t.Error(done, err)
	}
	if got, want := list(asked[2], 3), []string{""}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	r, err := x.Runs.Run(t.Context(), asked[0])
	if err != nil {
		t.Fatal(err)
	}
	r.State = runs.Running
	if err := x.Runs.Save(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if done, err := x.Runs.Withdraw(t.Context(), r.ID); err != nil || done {
		t.Error("a run that has begun was withdrawn", err)
	}
}

func TestASummaryNamesWhatIsNotZero(t *testing.T) {
	t.Parallel()
	if got, want := (Summary{Compared: 7, Repaired: 2, Persisted: 1}).String(), "7 compared, 2 repaired, 1 persisted"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := (Summary{}).String(); got != "" {
		t.Errorf("got %q of nothing", got)
	}
}
