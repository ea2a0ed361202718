package reconcile

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/background/runs"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/checkin/checkintest"
	"github.com/stoa-dev/stoa/internal/checkin/ranking"
	"github.com/stoa-dev/stoa/internal/checkin/records"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/internal/checkin/transfer"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

func TestParts_ContainEachIDOnce(t *testing.T) {
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

// Package checkin merges missing days into Redis while check-ins run.
func TestReconcile_ReplacesWrongAndPassesOnMissing(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, redistest.Open(t, "embedded"))
		users, today := checkintest.NewUsers(4), civil.Clock{}.Today(w.Clock.Now())
		lacking, surplus, offBoard := users[0], users[1], users[2] // the fourth one is correct
		w.Write(t, users, today-1, today)
		for _, b := range ranking.Current(w.Clock.Now()) {
			if err := w.boards.Rebuild(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		}
		histories, err := w.Histories(t.Context(), users)
		if err != nil {
			t.Fatal(err)
		}
		keys := mapped(users, func(user accounts.ID) records.Key { return records.Key{User: user, Year: today.Year()} })
		right := func(k records.Key) *streak.Record { return streak.RecordOf(k.Year, histories[k.User]) }
		recs := mapped(keys, right)
		recs[0].Clear(today, streak.Tapped)
		recs[1].Set(today-20, streak.Tapped)
		if err := w.records.Load(t.Context(), keys, recs); err != nil {
			t.Fatal(err)
		}
		if err := w.boards.Remove(t.Context(), ranking.TotalBoard, offBoard.String()); err != nil {
			t.Fatal(err)
		}
		w.Clock.Set(w.Clock.Now().Add(2 * Settled)) // else a missing day may be on its way
		want := []string{lacking.String() + ": record 2026: missing days", surplus.String() + ": record 2026: surplus days",
			offBoard.String() + ": board total_days"}
		slices.Sort(want)
		held := func() []*streak.Record {
			t.Helper()
			is, err := w.records.ReadAll(t.Context(), keys)
			if err != nil {
				t.Fatal(err)
			}
			return is
		}
		dry := w.finish(t, w.request(t, ReconcileRun, Options{DryRun: true}))
		if got := w.found(t, dry); !slices.Equal(got, want) || dry.Summary != (Summary{Compared: 4, Differing: 3, Differences: 3}) ||
			len(w.renewed) > 0 || *held()[1] != *recs[1] {
			t.Errorf("looking alone: %+v, %q, renewed %v, want %q and nothing changed", dry.Summary, got, w.renewed, want)
		}
		r := w.finish(t, w.request(t, ReconcileRun, Options{}))
		if got := w.found(t, r); !slices.Equal(got, want) || r.Summary.Repaired != 3 {
			t.Errorf("got %+v, %q, want %q", r.Summary, got, want)
		}
		if !maps.Equal(w.renewed, map[accounts.ID]bool{lacking: false, offBoard: true}) {
			t.Errorf("renewed are %v, want %s without boards and %s with them", w.renewed, lacking, offBoard)
		}
		if is := held(); *is[1] != *right(keys[1]) || *is[0] != *recs[0] {
			t.Errorf("got %v and %v, want the surplus gone and the rest left alone", is[1], is[0])
		}
	})
}

func TestRebuild_ReplacesBoardsAndRecords(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, redistest.Open(t, "embedded"))
		users, today := checkintest.NewUsers(3), civil.Clock{}.Today(w.Clock.Now())
		w.Write(t, users[:2], today-1, today)
		w.Write(t, users[2:], today-defaultActive-1) // inactive for long: only on the board of all days
		r := w.finish(t, w.request(t, RebuildRun, Options{}))
		if r.Summary != (Summary{Placed: 4*2 + 1, Loaded: 2}) || r.Done != 2 || r.Total != 2 {
			t.Errorf("got %+v, want two on four boards and one on one, and two records", r)
		}
		for i, user := range users {
			rec, err := w.records.Read(t.Context(), records.Key{User: user, Year: today.Year()})
			if err != nil || (rec != nil) != (i < 2) {
				t.Errorf("user %d: got %v, %v", i, rec, err)
			}
		}
		if all, _, err := w.boards.Members(t.Context(), ranking.TotalBoard, "0", 10); err != nil || len(all) != 3 {
			t.Errorf("the board has %v, %v", all, err)
		}
	})
}

// A load that has read SQL long ago may lack rows that were imported since.
func TestRebuild_AbandonsLongLoad(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, redistest.Open(t, "embedded"))
		users, today := checkintest.NewUsers(warmAtOnce+1), civil.Clock{}.Today(w.Clock.Now())
		w.Write(t, users, today)
		loaded := func() (n int) {
			t.Helper()
			for _, user := range users {
				rec, err := w.records.Read(t.Context(), records.Key{User: user, Year: today.Year()})
				if err != nil {
					t.Fatal(err)
				}
				if rec != nil {
					n++
				}
			}
			return n
		}
		histories := w.cfg.Histories
		w.cfg.Histories = func(ctx context.Context, users []accounts.ID) (map[accounts.ID]streak.History, error) {
			out, err := histories(ctx, users)
			time.Sleep(transfer.LoadWithin + time.Second)
			return out, errors.Join(err, ctx.Err())
		}
		if err := w.warm(t.Context(), users); !errors.Is(err, context.DeadlineExceeded) || loaded() != 0 {
			t.Errorf("a slow load: %v, %d records, want it given up", err, loaded())
		}
		w.cfg.Histories = histories
		if err := w.warm(t.Context(), users); err != nil || loaded() != len(users) {
			t.Errorf("afterwards: %v, %d records, want %d", err, loaded(), len(users))
		}
	})
}

func TestSnapshot_LostDaysAreAbnormal(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, redistest.Open(t, "embedded"))
		users, today := checkintest.NewUsers(2), civil.Clock{}.Today(w.Clock.Now())
		w.Write(t, users, today-1, today)
		if r := w.finish(t, w.request(t, SnapshotRun, Options{})); r.Summary != (Summary{Persisted: 2}) {
			t.Fatalf("the snapshot: %+v", r.Summary)
		}
		if _, err := w.DB.ExecContext(t.Context(), "DELETE FROM checkins WHERE user_id = ? AND day = ?", users[0].String(),
			int32(today)); err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			o    Options
			want int
		}{{Options{DryRun: true}, 1}, {Options{}, 1}, {Options{}, 0}} { // each difference is counted once only
			if r := w.finish(t, w.request(t, ReconcileRun, tt.o)); r.Summary.Abnormal != tt.want {
				t.Errorf("%+v: %d abnormal changes, want %d", tt.o, r.Summary.Abnormal, tt.want)
			}
		}
	})
}

func TestReconcile_WaitsUntilRedisIsComplete(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, redistest.Open(t, "embedded"))
		users, _ := damaged(t, w, 1)
		w.cfg.Up = func() bool { return false }
		for name, slice := range map[string]func(context.Context, *Run, time.Time) (bool, error){"reconcile": w.reconcileSlice,
			"rebuild": w.rebuildSlice} {
			r := &Run{Options: Options{User: users[0]}}
			if finished, err := slice(t.Context(), r, time.Now().Add(time.Hour)); finished || !errors.Is(err, errNotNow) || r.Done != 0 {
				t.Errorf("%s: got %v, %v, %+v, want %v", name, finished, err, r, errNotNow)
			}
		}
	})
}

func TestRun_ResumesAfterNodeDeath(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, redistest.Open(t, "embedded"))
		users, want := damaged(t, w, 14)
		r := w.request(t, ReconcileRun, Options{})
		// A node has claimed the run, has done one half of the users, and has died.
		r.State, r.Node, r.Started = runs.Running, "gone", w.now()
		r.Resume, r.Total = runs.Resume{Stage: "users", Cursor: ""}, 14
		if err := w.reconcileUsers(t.Context(), r, users[:7]); err != nil {
			t.Fatal(err)
		}
		r.Resume.Cursor = users[6].String()
		r = w.finish(t, w.stored(t, r))
		if got := w.found(t, r); !slices.Equal(got, want) || r.Summary.Compared != 14 || r.Done != 14 || r.Node == "gone" {
			t.Errorf("%+v\n%q\nwant\n%q", r, got, want)
		}
	})
}

// Otherwise a node that restarts during a long stage would always begin it again.
func TestStrayRecords_SearchResumes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Open(t, redistest.Server(t).URL))
	ghosts := checkintest.NewUsers(400)
	for _, user := range ghosts {
		w.stray(t, user)
	}
	r := w.request(t, ReconcileRun, Options{})
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
	if found := slices.Compact(w.found(t, w.stored(t, r))); len(found) != len(ghosts) {
		t.Errorf("%d strays were found, want %d", len(found), len(ghosts))
	}
}

func TestSnapshot_ResumesAmongClaims(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, redistest.Open(t, "embedded"))
		users, today := checkintest.NewUsers(400), civil.Clock{}.Today(w.Clock.Now())
		w.flushSome = func(cursor string) (n int, next string) {
			from, _ := strconv.Atoi(cursor)
			to := from + 100
			w.Write(t, users[from:to], today)
			if to < len(users) {
				next = strconv.Itoa(to)
			}
			return 100, next
		}
		r, steps := w.request(t, SnapshotRun, Options{}), 0
		for r.State, r.Resume.Stage = runs.Running, fromTheClaims; r.Resume.Stage == fromTheClaims; steps++ {
			if err := w.claimsOfSnapshot(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			r = w.stored(t, r)
		}
		if steps != 4 || r.Resume.Stage != everybodyAnew || r.Total != 400 || r.Done != 0 {
			t.Errorf("after %d steps the run is %+v, want four and that everybody follows", steps, r)
		}
		if _, err := w.snapshotSlice(t.Context(), r, time.Now().Add(time.Hour)); err != nil || r.Done != 400 {
			t.Errorf("the rest: %+v, %v", r, err)
		}
	})
}

func TestRuns_StartBySchedule(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, redistest.Open(t, "embedded"))
		w.cfg.Every = 168 * time.Hour
		count := func() map[runs.Kind]int {
			t.Helper()
			for range 20 {
				if _, err := w.Step(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			all, err := w.Runs.List(t.Context(), 0, 100)
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
			w.Clock.Set(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC).Add(tt.at))
			if n := count(); n[SnapshotRun] != tt.snapshots || n[ReconcileRun] != tt.reconciled {
				t.Errorf("after %s: %v, want %d snapshots and %d reconciliations", tt.at, n, tt.snapshots, tt.reconciled)
			}
		}
	})
}

func TestLastReconciliation_ShownByAllNodes(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, redistest.Open(t, "embedded"))
		users, want := damaged(t, w, 3)
		gauge := func() float64 {
			reg := prometheus.NewRegistry()
			reg.MustRegister(w.metrics.differing)
			families, err := reg.Gather()
			if err != nil {
				t.Fatal(err)
			}
			return families[0].GetMetric()[0].GetGauge().GetValue()
		}
		// This run counts as another node's: the metrics of this node do not change.
		bad := w.finish(t, w.request(t, ReconcileRun, Options{}))
		if bad.Summary.Differing != len(want) {
			t.Fatalf("the run: %+v, want %d who differ", bad, len(want))
		}
		w.metrics.reconciled(&Run{})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); w.Run(ctx) }()
		defer func() { stop(); <-done }()
		eventually.True(t, "the other node's figures", func() bool { return gauge() == float64(bad.Summary.Differing) })
		w.finish(t, w.request(t, ReconcileRun, Options{User: users[0]}))
		if r, err := w.Runs.LastDone(ctx, ReconcileRun, ofMany); err != nil || r.ID != bad.ID {
			t.Errorf("one user's run counts as everybody's: %+v, %v", r, err)
		}
		good := w.finish(t, w.request(t, ReconcileRun, Options{}))
		if r, err := w.Runs.LastDone(ctx, ReconcileRun, ofMany); err != nil || r.ID != good.ID || gauge() != 0 {
			t.Errorf("got %+v, %v, and %v differing", r, err, gauge())
		}
	})
}

// After a snapshot and some time, the table of touched users no longer needs them.
func TestTouchedUsers_DeletedSomeTimeAfterSnapshot(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, redistest.Open(t, "embedded"))
		now := time.Now().UTC()
		users := checkintest.NewUsers(2101)
		old := w.DB.Dialect().Compile(sqldb.Upsert{Table: "checkin_touched", Columns: []string{"user_id", "at"}, Key: []string{"user_id"}})
		var args []any
		for i, user := range users {
			at := now.Add(-touchedKept - time.Hour).UnixMilli()
			switch i {
			case 0:
				at = now.Add(-touchedKept + time.Hour).UnixMilli()
			case 1:
				at = transfer.Tombstone
			}
			args = append(args, user.String(), at)
		}
		if _, err := w.DB.Writer().ExecContext(t.Context(), old.For(len(users)), args...); err != nil {
			t.Fatal(err)
		}
		count := func() (n int) {
			t.Helper()
			if err := w.forgetTouched(t.Context(), now.Add(-touchedKept)); err != nil {
				t.Fatal(err)
			}
			if err := w.DB.NewRaw("SELECT COUNT(*) FROM checkin_touched").Scan(t.Context(), &n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		if n := count(); n != len(users) {
			t.Errorf("%d are left before a snapshot, want all", n)
		}
		w.Clock.Set(now.Add(-touchedKept - 2*time.Hour))
		w.finish(t, w.request(t, SnapshotRun, Options{}))
		if n := count(); n != len(users) {
			t.Errorf("%d are left before a snapshot has seen them, want all", n)
		}
		w.Clock.Set(now)
		w.finish(t, w.request(t, SnapshotRun, Options{}))
		if n := count(); n != 2 {
			t.Errorf("%d are left, want the one of a while ago and the tombstone", n)
		}
	})
}

func TestSave_RefusesRunOfAnotherNode(t *testing.T) {
	t.Parallel()
	store := NewStore(sqldbtest.SQLite(t))
	r, err := store.Request(t.Context(), SnapshotRun, Options{})
	if err != nil {
		t.Fatal(err)
	}
	mine, theirs := *r, *r
	mine.Done, theirs.Done = 1, 2
	if err := store.Save(t.Context(), &mine, runs.Repair{User: "a", What: "b"}); err != nil {
		t.Fatal(err)
	}
	if err := store.Save(t.Context(), &theirs, runs.Repair{User: "a", What: "c"}); err == nil {
		t.Error("the second one stored its state as well")
	}
	if lines, err := store.Repairs(t.Context(), 0, r.ID, 10); err != nil || len(lines) != 1 || lines[0].What != "b" {
		t.Errorf("the log has %v, %v", lines, err)
	}
}

func TestRuns_ListAndWithdraw(t *testing.T) {
	t.Parallel()
	store := NewStore(sqldbtest.SQLite(t))
	var asked []int64
	for _, o := range []Options{{}, {Part: 2, Parts: 3, DryRun: true}, {Boards: true}, {Days: 7}} {
		r, err := store.Request(t.Context(), ReconcileRun, o)
		if err != nil {
			t.Fatal(err)
		}
		asked = append(asked, r.ID)
	}
	list := func(before int64, n int) (out []string) {
		all, err := store.List(t.Context(), before, n)
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
	if done, err := store.Withdraw(t.Context(), asked[1]); err != nil || !done {
		t.Error(done, err)
	}
	if got, want := list(asked[2], 3), []string{""}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	r, err := store.Run(t.Context(), asked[0])
	if err != nil {
		t.Fatal(err)
	}
	r.State = runs.Running
	if err := store.Save(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if done, err := store.Withdraw(t.Context(), r.ID); err != nil || done {
		t.Error("a run that has begun was withdrawn", err)
	}
}

func TestSummary_OmitsZeroCounts(t *testing.T) {
	t.Parallel()
	if got, want := (Summary{Compared: 7, Repaired: 2, Persisted: 1}).String(), "7 compared, 2 repaired, 1 persisted"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := (Summary{}).String(); got != "" {
		t.Errorf("got %q of nothing", got)
	}
}
