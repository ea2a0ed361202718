package checkin

import (
	"context"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/foundation/civil"
	"github.com/stoa-dev/stoa/internal/foundation/events"
	"github.com/stoa-dev/stoa/internal/foundation/ids"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/redis/redistest"
)

func TestWithoutLogRedisHasAllAndSQLNothing(t *testing.T) {
	w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"))
	w.stop()
	s := NewWithoutLog(Config{DB: w.db, Redis: w.redis, Users: w.users, Bus: events.NewBus(w.redis, "bench", slog.New(slog.DiscardHandler)), Node: "bench",
		Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler), Now: w.clock.now})
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan struct{})
	go func() { defer close(ended); _ = s.Run(ctx, func() { close(ready) }) }()
	<-ready
	defer func() { cancel(); <-ended }()

	user := ids.New[accounts.User]()
	for day := range 3 {
		w.clock.set(w.clock.now().AddDate(0, 0, min(day, 1)))
		res, err := s.Mark(t.Context(), user, civil.Clock{}, Activity{}, uint64(day))
		if err != nil || !res.New || res.Status.Streak != day+1 {
			t.Fatalf("day %d: got %+v, %v", day, res, err)
		}
	}
	if status, err := s.Status(t.Context(), user, civil.Clock{}); err != nil || status.Total != 3 {
		t.Errorf("status: got %+v, %v", status, err)
	}
	if history, err := s.store.histories(t.Context(), []accounts.ID{user}); err != nil || len(history[user].Marks) != 0 {
		t.Errorf("the log has %v, %v", history, err)
	}
}
