package reconcile

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/background/runs"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/checkin/checkintest"
	"github.com/stoa-dev/stoa/internal/checkin/ranking"
	"github.com/stoa-dev/stoa/internal/checkin/records"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/internal/checkin/transfer"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/testing/logtest"
)

// world is a reconciler on its engines, and a log of check-ins that only the test applies to Redis. All users live in
// UTC, and all have an account.
type world struct {
	*Reconciler
	checkintest.Log

	flushSome func(cursor string) (n int, next string) // nil: SQL has everything
	renewed   map[accounts.ID]bool                     // the users that Renew got, and whether with boards
}

func newWorld(t *testing.T, rdb *redis.DB) *world {
	t.Helper()
	var told logtest.Buffer
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the log:\n%s", told.String())
		}
	})
	const patience = 20 * time.Second // the machine may pause
	w := &world{Log: checkintest.Log{DB: sqldbtest.SQLite(t), Clock: checkintest.NewClock()}, renewed: map[accounts.ID]bool{}}
	clocks := func(context.Context, []accounts.ID) (map[accounts.ID]civil.Clock, error) { return nil, nil }
	boards := ranking.New(ranking.Config{
		DB: w.DB, Redis: rdb, Projection: checkintest.Complete{}, Away: transfer.ErrStore, Log: told.Logger(), Now: w.Clock.Now, Wait: patience,
		Clocks: clocks, Histories: w.Histories, Logged: w.Histories,
		Record: w.Record,
		Drain:  func(context.Context) error { return nil },
	})
	w.Reconciler = New(Config{
		DB: w.DB, Records: records.New(records.Config{Redis: rdb, Budget: patience, ScanPage: 50}), Boards: boards,
		RecheckAfter: time.Millisecond,
		Node:         "here", Metrics: prometheus.NewRegistry(), Log: told.Logger(), Now: w.Clock.Now,
		Up: checkintest.Complete{}.Up, Clocks: clocks, Histories: w.Histories, Logged: w.Histories,
		Flush: func(context.Context, []accounts.ID) error { return nil },
		FlushSome: func(_ context.Context, cursor string) (n int, next string, err error) {
			if w.flushSome != nil {
				n, next = w.flushSome(cursor)
			}
			return n, next, nil
		},
		Renew: func(_ context.Context, user accounts.ID, boards bool) error {
			w.renewed[user] = boards
			return nil
		},
		EraseLate: func(_ context.Context, users []accounts.ID) ([]accounts.ID, error) { return users, nil },
	})
	return w
}

// damaged creates users with a streak of two, whose data in Redis has one day more than SQL. It returns them in their
// order, and the lines that a reconciliation must find, like [world.found].
func damaged(t *testing.T, w *world, n int) (users []accounts.ID, want []string) {
	t.Helper()
	users = checkintest.NewUsers(n)
	slices.SortFunc(users, accounts.ID.Compare)
	today := civil.Clock{}.Today(w.Clock.Now())
	w.Write(t, users, today-1, today)
	histories, err := w.Histories(t.Context(), users)
	if err != nil {
		t.Fatal(err)
	}
	var keys []records.Key
	var recs []*streak.Record
	for _, user := range users {
		rec := streak.RecordOf(today.Year(), histories[user])
		rec.Set(today-20, streak.Tapped)
		keys, recs = append(keys, records.Key{User: user, Year: today.Year()}), append(recs, rec)
		want = append(want, user.String()+": record 2026: surplus days")
	}
	if err := w.records.Load(t.Context(), keys, recs); err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	return users, want
}

// stray adds a record of a user who is not in the log.
func (w *world) stray(t *testing.T, user accounts.ID) {
	t.Helper()
	rec := streak.RecordOf(2026, streak.History{})
	rec.Set(civil.DayOf(2026, 1, 4), streak.Tapped)
	if err := w.records.Load(t.Context(), []records.Key{{User: user, Year: 2026}}, []*streak.Record{rec}); err != nil {
		t.Fatal(err)
	}
}

func (w *world) request(t *testing.T, kind runs.Kind, o Options) *Run {
	t.Helper()
	r, err := w.Runs.Request(t.Context(), kind, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// finish works on a run until it is done.
func (w *world) finish(t *testing.T, r *Run) *Run {
	t.Helper()
	for range 1000 {
		if _, err := w.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		is, err := w.Runs.Run(t.Context(), r.ID)
		if err != nil {
			t.Fatal(err)
		}
		if is.State == runs.Done {
			return is
		}
	}
	t.Fatalf("the run is not done: %+v", r)
	return nil
}

// stored returns a run as the next node reads it.
func (w *world) stored(t *testing.T, r *Run) *Run {
	t.Helper()
	if err := w.Runs.Save(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	next, err := w.Runs.Run(t.Context(), r.ID)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// found returns the run's lines of the repair log as "user: what", in their order.
func (w *world) found(t *testing.T, r *Run) (out []string) {
	t.Helper()
	lines, err := w.Runs.Repairs(t.Context(), 0, r.ID, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		out = append(out, l.User+": "+l.What)
	}
	slices.Sort(out)
	return out
}
