package reconcile

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/checkin/ranking"
	"github.com/stoa-dev/stoa/internal/checkin/records"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/internal/checkin/transfer"
	"github.com/stoa-dev/stoa/internal/foundation/civil"
	"github.com/stoa-dev/stoa/internal/foundation/ids"
	"github.com/stoa-dev/stoa/internal/foundation/runs"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/logtest"
)

// complete is a Redis that has everything.
type complete struct{}

func (complete) Up() bool       { return true }
func (complete) Writable() bool { return true }
func (complete) Suspect()       {}

// clock goes on by a millisecond for each look, and otherwise only when told to.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(time.Millisecond)
	return c.t
}

func (c *clock) set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = t
}

// world is a reconciler on its engines, and a log of check-ins of which Redis is told
// nothing but by the test. All users live in UTC, and all have an account.
type world struct {
	*Reconciler
	clock *clock
	db    *sqldb.DB

	flushSome func(cursor string) (n int, next string) // nil: SQL has everything
	renewed   map[accounts.ID]bool                     // who was handed to Renew, and whether with boards
}

func newWorld(t *testing.T, rdb *redis.DB) *world {
	t.Helper()
	var told logtest.Buffer
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the log:\n%s", told.String())
		}
	})
	const patience = 20 * time.Second // the machine may stand still
	w := &world{clock: &clock{t: bubble.Began}, db: sqldbtest.SQLite(t), renewed: map[accounts.ID]bool{}}
	clocks := func(context.Context, []accounts.ID) (map[accounts.ID]civil.Clock, error) { return nil, nil }
	boards := ranking.New(ranking.Config{
		DB: w.db, Redis: rdb, Projection: complete{}, Away: transfer.ErrStore, Log: told.Logger(), Now: w.clock.now, Wait: patience,
		Clocks: clocks, Histories: w.histories, Logged: w.histories,
		Record: func(ctx context.Context, user accounts.ID, year int) (*streak.Record, error) {
			histories, err := w.histories(ctx, []accounts.ID{user})
			return streak.RecordOf(year, histories[user]), err
		},
		Drain: func(context.Context) error { return nil },
	})
	w.Reconciler = New(Config{
		DB: w.db, Records: records.New(records.Config{Redis: rdb, Budget: patience, ScanPage: 50}), Boards: boards, SecondLook: time.Millisecond,
		Node: "here", Metrics: prometheus.NewRegistry(), Log: told.Logger(), Now: w.clock.now,
		Up: complete{}.Up, Clocks: clocks, Histories: w.histories, Logged: w.histories,
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

func (w *world) histories(ctx context.Context, users []accounts.ID) (map[accounts.ID]streak.History, error) {
	out := map[accounts.ID]streak.History{}
	for _, user := range users {
		rows, err := w.db.QueryContext(ctx, "SELECT day, at, kind FROM checkins WHERE user_id = ? ORDER BY day", user)
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		var h streak.History
		for rows.Next() {
			var m streak.Mark
			var at int64
			if err := rows.Scan(&m.Day, &at, &m.Kind); err != nil {
				return nil, err
			}
			m.At = time.UnixMilli(at)
			h.Marks = append(h.Marks, m)
		}
		if err := rows.Err(); err != nil {
			return nil, err
		}
		out[user] = h
	}
	return out, nil
}

// logged writes days into SQL.
func (w *world) logged(t *testing.T, users []accounts.ID, days ...civil.Day) {
	t.Helper()
	in := w.db.Inserter(sqldb.Upsert{Table: "checkins", Columns: []string{"user_id", "day", "at", "kind", "words", "minutes", "req"}, Key: []string{"user_id", "day"}})
	var args []any
	for i, user := range users {
		for _, d := range days {
			args = append(args, user.String(), int64(d), w.clock.now().UnixMilli(), int64(streak.Tapped), int64(0), int64(0), int64(i))
		}
	}
	if _, err := in.Insert(t.Context(), args); err != nil {
		t.Fatal(err)
	}
}

// damaged has users with a streak of two, of whom Redis holds what SQL has, and one day more.
// It returns them in their order, and, as [world.found] does, what a reconciliation has to find.
func damaged(t *testing.T, w *world, n int) (users []accounts.ID, want []string) {
	t.Helper()
	users = newUsers(n)
	slices.SortFunc(users, accounts.ID.Compare)
	today := civil.Clock{}.Today(w.clock.now())
	w.logged(t, users, today-1, today)
	histories, err := w.histories(t.Context(), users)
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

// stray is a record of a user whom the log does not know.
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

// finish has a run done.
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

func newUsers(n int) (users []accounts.ID) {
	for range n {
		users = append(users, ids.New[accounts.User]())
	}
	return users
}
