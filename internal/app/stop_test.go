package app

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/internal/background/queue"
	"github.com/stoa-dev/stoa/internal/background/supervise"
	"github.com/stoa-dev/stoa/internal/background/worker"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// Loading a board of millions takes longer than a stop may take. The run is cancelled, and the process ends normally.
func TestAStopInTheMidstOfALongJobIsNoFailure(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var ended error
		pool, err := worker.NewPool(worker.PoolConfig{Metrics: prometheus.NewRegistry()}, worker.Job{
			Name: "long", Every: time.Second, Timeout: time.Hour,
			Run: func(ctx context.Context) error {
				<-ctx.Done()
				time.Sleep(time.Second) // to clean up
				ended = ctx.Err()
				return ended
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, stop)
		var group supervise.Group
		group.Add(supervise.Part{Name: "jobs", Run: func(ctx context.Context, ready func()) error { ready(); return pool.Run(ctx) }})
		if err := group.Run(ctx); err != nil || ended == nil {
			t.Errorf("the stop: %v, the run: %v", err, ended)
		}
	})
}

// A mail server may take longer to respond than a stop may last. The try is cancelled, and another node delivers the
// message at once.
func TestAStopInTheMidstOfASlowMessageIsNoFailure(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		store := queue.NewSQL(sqldbtest.SQLite(t))
		consumer, err := queue.NewConsumer(store, map[string]queue.Handler{"slow": func(ctx context.Context, _ queue.Delivery) error {
			<-ctx.Done()
			time.Sleep(time.Second) // to clean up
			return ctx.Err()
		}}, nil, queue.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Publish(t.Context(), queue.Message{Topic: "slow"}); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(30*time.Second, stop)
		var group supervise.Group
		group.Add(supervise.Part{Name: "queue", Run: func(ctx context.Context, ready func()) error { ready(); return consumer.Run(ctx) }})
		if err := group.Run(ctx); err != nil {
			t.Errorf("the stop: %v", err)
		}
		es, err := store.List(t.Context(), queue.Filter{Topic: "slow"})
		if err != nil || len(es) != 1 || es[0].State != queue.Waiting || es[0].Attempts != 0 {
			t.Errorf("after the stop: %+v, %v, want it waiting and not tried", es, err)
		}
	})
}
