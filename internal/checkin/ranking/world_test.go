package ranking

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/checkin/checkintest"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/leaderboard"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/logtest"
)

var errAway = errors.New("sql is away")

// world is one node's boards on their engines, and a log of check-ins that is not applied to Redis.
type world struct {
	*Boards
	checkintest.Log
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
	w := &world{Log: checkintest.Log{DB: sqldbtest.SQLite(t), Clock: checkintest.NewClock()}, server: redistest.Server(t),
		clocks: map[accounts.ID]civil.Clock{}}
	w.redis = redistest.Open(t, w.server.URL)
	w.Boards = New(Config{
		DB: w.DB, Redis: w.redis, Projection: checkintest.Complete{}, Kind: kind, Away: errAway, Log: told.Logger(), Now: w.Clock.Now,
		Wait: 20 * time.Second, // the machine may pause
		Clocks: func(context.Context, []accounts.ID) (map[accounts.ID]civil.Clock, error) {
			return w.clocks, nil
		},
		Record:    w.Record,
		Histories: w.Histories, Logged: w.Histories,
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

// update sends an entry to a board in Redis.
func (w *world) update(t *testing.T, b Board, e leaderboard.Entry) {
	t.Helper()
	for _, r := range w.redis.DoMulti(t.Context(), w.Of(b).Update([]leaderboard.Entry{e})) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
}

// rank returns a user's rank on the board in Redis.
func (w *world) rank(t *testing.T, b Board, user accounts.ID) int {
	t.Helper()
	r, err := w.FromRedis(t.Context(), b, user, civil.Clock{}, 1, 0)
	if err != nil || r.Me == nil {
		t.Fatalf("%s: %+v, %v", b.Key(), r, err)
	}
	return r.Me.Rank
}
