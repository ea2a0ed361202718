package ranking

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/internal/foundation/civil"
	"github.com/stoa-dev/stoa/internal/foundation/ids"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/leaderboard"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/logtest"
)

var errAway = errors.New("sql is away")

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

// world is one node's boards on their engines, and a log of check-ins of which Redis is
// told nothing.
type world struct {
	*Boards
	clock  *clock
	db     *sqldb.DB
	server *redistest.Instance
	redis  *redis.DB
	clocks map[accounts.ID]civil.Clock // UTC for a user who is not in it
}

func newWorld(t *testing.T, kind string) *world {
	t.Helper()
	var told logtest.Buffer
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the log:\n%s", told.String())
		}
	})
	w := &world{clock: &clock{t: bubble.Began}, db: sqldbtest.SQLite(t), server: redistest.Server(t), clocks: map[accounts.ID]civil.Clock{}}
	w.redis = redistest.Open(t, w.server.URL)
	w.Boards = New(Config{
		DB: w.db, Redis: w.redis, Projection: complete{}, Kind: kind, Away: errAway, Log: told.Logger(), Now: w.clock.now,
		Wait: 20 * time.Second, // the machine may stand still
		Clocks: func(context.Context, []accounts.ID) (map[accounts.ID]civil.Clock, error) {
			return w.clocks, nil
		},
		Record: func(ctx context.Context, user accounts.ID, year int) (*streak.Record, error) {
			histories, err := w.histories(ctx, []accounts.ID{user})
			return streak.RecordOf(year, histories[user]), err
		},
		Histories: w.histories, Logged: w.histories,
		Drain: func(context.Context) error { return nil },
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
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

// tell sends an entry to a board that Redis keeps.
func (w *world) tell(t *testing.T, b Board, e leaderboard.Entry) {
	t.Helper()
	for _, r := range w.redis.DoMulti(t.Context(), w.Of(b).Update([]leaderboard.Entry{e})) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
}

// rank is where a user stands on the board in Redis.
func (w *world) rank(t *testing.T, b Board, user accounts.ID) int {
	t.Helper()
	r, err := w.FromRedis(t.Context(), b, user, civil.Clock{}, 1, 0)
	if err != nil || r.Me == nil {
		t.Fatalf("%s: %+v, %v", b.Key(), r, err)
	}
	return r.Me.Rank
}

func newUsers(n int) (users []accounts.ID) {
	for range n {
		users = append(users, ids.New[accounts.User]())
	}
	return users
}
