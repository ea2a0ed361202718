package runs

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

type options struct {
	Part int `json:"part,omitempty"`
}

type summary struct {
	Steps int `json:"steps,omitempty"`
}

type run = Run[options, summary]

// office is a worker with one kind of run that a test controls, and one that is always ready.
type office struct {
	*Worker[options, summary]
	now   time.Time
	slice func(r *run) (bool, error)
	ready bool
}

func newOffice(t *testing.T) *office {
	t.Helper()
	o := &office{now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), ready: true}
	store := NewStore[options, summary](sqldbtest.SQLite(t),
		Tables{Runs: "checkin_runs", Repairs: "checkin_repairs", Away: errors.New("sql: unavailable")})
	o.Worker = NewWorker(Config[options, summary]{
		Store: store, Node: "here", Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return o.now },
		Kinds: map[Kind]Work[options, summary]{
			"steered": {
				Slice: func(_ context.Context, r *run, _ time.Time) (bool, error) { return o.slice(r) },
				Ready: func() bool { return o.ready },
			},
			"free": {Slice: func(context.Context, *run, time.Time) (bool, error) { return true, nil }},
		},
	})
	return o
}

func (o *office) request(t *testing.T, kind Kind) *run {
	t.Helper()
	r, err := o.Store.Request(t.Context(), kind, options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (o *office) is(t *testing.T, r *run, want State) *run {
	t.Helper()
	got, err := o.Store.Run(t.Context(), r.ID)
	if err != nil || got.State != want {
		t.Fatalf("got %+v, %v, want it %s", got, err, want)
	}
	return got
}

func TestWaiting_FindsUnfinishedRunsOfItsKinds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		o := newOffice(t)
		defer sqldbtest.Watch(t, o.Store.db)()
		var waits atomic.Bool
		o.Store.db.AddProbe(*o.Waiting(), func(found bool, _ time.Time) { waits.Store(found) })
		expect := func(want bool) {
			t.Helper()
			if bubble.Sleep(sqldb.WatchWithin); waits.Load() != want {
				t.Errorf("a run waits: %t, want %t", !want, want)
			}
		}
		expect(false)
		o.request(t, "of a newer version")
		expect(false)
		r := o.request(t, "steered")
		expect(true)
		o.slice = func(r *run) (bool, error) { r.Summary.Steps++; return r.Summary.Steps == 2, nil }
		for _, want := range []State{Running, Done} {
			if _, err := o.Step(t.Context()); err != nil {
				t.Fatal(err)
			}
			o.is(t, r, want)
			expect(want == Running)
		}
	})
}

func TestWorker_ContinuesAfterTheLastSlice(t *testing.T) {
	o := newOffice(t)
	r := o.request(t, "steered")
	o.slice = func(r *run) (bool, error) {
		r.Summary.Steps++
		r.Resume.Cursor += "x"
		return r.Resume.Cursor == "xxx", nil
	}
	for i, want := range []State{Running, Running, Done} {
		if more, err := o.Step(t.Context()); err != nil || !more {
			t.Fatalf("step %d: %t, %v", i, more, err)
		}
		o.Worker = NewWorker(o.Config) // another node
		if got := o.is(t, r, want); got.Summary.Steps != i+1 || got.Node != "here" {
			t.Errorf("after step %d: %+v", i, got)
		}
	}
	if more, err := o.Step(t.Context()); more || err != nil {
		t.Error("Step wants more work than was requested:", err)
	}
}

func TestWorker_RunFailsAfterFiveFailedSlices(t *testing.T) {
	o := newOffice(t)
	r := o.request(t, "steered")
	fails := 4
	o.slice = func(*run) (bool, error) {
		if fails--; fails >= 0 {
			return false, errors.New("broken")
		}
		return false, nil
	}
	for range 5 {
		_, _ = o.Step(t.Context())
	}
	if got := o.is(t, r, Running); got.Error != "" || got.Resume.Fails != 0 {
		t.Errorf("after a good slice: %+v", got)
	}
	fails = 5
	for range 5 {
		if more, err := o.Step(t.Context()); more || err == nil {
			t.Fatalf("a slice that fails: %t, %v", more, err)
		}
	}
	if got := o.is(t, r, Failed); got.Error == "" || got.Ended.IsZero() {
		t.Errorf("got %+v", got)
	}
}

func TestWorker_WaitingRunDelaysNoOther(t *testing.T) {
	o := newOffice(t)
	waits, free := o.request(t, "steered"), o.request(t, "free")
	o.slice = func(*run) (bool, error) { return false, NotReady("waiting for better days") }
	for range 10 {
		if more, err := o.Step(t.Context()); more || err != nil {
			t.Fatal(more, err)
		}
	}
	if got := o.is(t, waits, Running); got.Error != "waiting for better days" {
		t.Errorf("got %+v", got)
	}
	o.is(t, free, Waiting)
	o.ready = false
	if _, err := o.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	o.is(t, free, Done)
}

func TestWorker_OneOfTwoNodesContinues(t *testing.T) {
	o := newOffice(t)
	mine := o.request(t, "steered")
	theirs, err := o.Store.Run(t.Context(), mine.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Store.Save(t.Context(), mine, Repair{User: "a", What: "b"}); err != nil {
		t.Fatal(err)
	}
	if err := o.Store.Save(t.Context(), theirs, Repair{User: "a", What: "c"}); !errors.Is(err, ErrOvertaken) {
		t.Errorf("got %v, want %v", err, ErrOvertaken)
	}
	if lines, err := o.Store.Repairs(t.Context(), 0, mine.ID, 10); err != nil || len(lines) != 1 || lines[0].What != "b" {
		t.Errorf("the repair log has %+v, %v", lines, err)
	}
	o.slice = func(r *run) (bool, error) { // another node continues in the meantime
		other := *r
		return false, o.Store.Save(t.Context(), &other)
	}
	if more, err := o.Step(t.Context()); more || err != nil {
		t.Errorf("an overtaken node continues: %t, %v", more, err)
	}
}

func TestWorker_RetriesAScheduledRunAfterAnHour(t *testing.T) {
	o := newOffice(t)
	work := o.Kinds["steered"]
	work.Due = func(now time.Time) time.Time { return now.Add(-168 * time.Hour) }
	o.Kinds["steered"] = work
	began := o.now
	for i, tt := range []struct {
		after time.Duration
		state State // of the newest run afterwards
		want  int
	}{{0, Failed, 1}, {50 * time.Minute, Failed, 1}, {70 * time.Minute, Done, 2}, {5 * time.Hour, Done, 2}, {170 * time.Hour, Done, 3}} {
		o.now = began.Add(tt.after)
		if err := o.requestDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		all, err := o.Store.List(t.Context(), 0, 10)
		if err != nil || len(all) != tt.want {
			t.Fatalf("%d: there are %d, %v, want %d", i, len(all), err, tt.want)
		}
		all[0].State = tt.state
		if err := o.Store.Save(t.Context(), &all[0]); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWithdraw_KeepsARunThatHasBegun(t *testing.T) {
	o := newOffice(t)
	first, second := o.request(t, "steered"), o.request(t, "free")
	if done, err := o.Store.Withdraw(t.Context(), first.ID); err != nil || !done {
		t.Error(done, err)
	}
	if _, err := o.Store.Run(t.Context(), first.ID); !errors.Is(err, ErrUnknown) {
		t.Errorf("got %v, want %v", err, ErrUnknown)
	}
	if _, err := o.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	if done, err := o.Store.Withdraw(t.Context(), second.ID); err != nil || done {
		t.Error("a run that was begun was withdrawn", err)
	}
	if r, err := o.Store.LastDone(t.Context(), "free", nil); err != nil || r == nil || r.ID != second.ID {
		t.Errorf("the last one done is %+v, %v", r, err)
	}
}
