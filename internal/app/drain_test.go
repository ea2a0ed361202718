package app

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/cluster"
	"github.com/stoa-dev/stoa/internal/obs"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// TestWhatANodeDoesForAllEndsWithADrainAndGoesOnAfterIt tests whileServing, which bounds how long a singleton job has
// its lease.
func TestWhatANodeDoesForAllEndsWithADrainAndGoesOnAfterIt(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		db, err := redis.Open(t.Context(), redistest.InMemory(t).Wire().Config()) // nothing runs that uses it
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		a := &App{log: slog.New(slog.DiscardHandler), drain: newDrain(t.Context())}
		a.cluster = cluster.New(cluster.Config{Redis: db, Bus: events.NewBus(db, "n", a.log), Node: ids.New[cluster.Node](),
			Metrics: obs.NewRegistry(), Log: a.log})
		ctx, stop := context.WithCancel(t.Context())
		ended := a.drain.running(ctx, stop)

		held, free, err := a.drain.whileServing(ctx)
		if err != nil || held.Err() != nil || a.drain.on() {
			t.Fatalf("while it serves: %v, %v", err, held.Err())
		}
		stream, close, draining := a.drain.stream(ctx, time.Minute)
		if draining {
			t.Fatal("a stream is refused while the node serves")
		}
		a.ordered(cluster.Order{ID: "1", Drain: true})
		synctest.Wait()
		if held.Err() == nil || !a.drain.on() {
			t.Error("a lease is held on although the node drains")
		}
		if stream.Err() != nil {
			t.Error("a stream ends at once, as all the others do")
		}
		time.Sleep(time.Minute)
		if synctest.Wait(); stream.Err() == nil {
			t.Error("a stream goes on although the node has drained")
		}
		if _, _, draining := a.drain.stream(ctx, time.Minute); !draining {
			t.Error("a drained node takes a stream")
		}
		free()
		close()

		got := make(chan error, 1)
		go func() {
			held, free, err := a.drain.whileServing(ctx)
			if err == nil {
				defer free()
				err = held.Err()
			}
			got <- err
		}()
		time.Sleep(time.Hour)
		select {
		case err := <-got:
			t.Fatalf("a drained node takes a lease: %v", err)
		default:
		}
		a.ordered(cluster.Order{ID: "2"})
		if err := <-got; err != nil || a.drain.on() {
			t.Errorf("after the undo: %v", err)
		}

		// When the node stops, its singleton jobs end and no call waits for ever.
		held, free, err = a.drain.whileServing(ctx)
		if err != nil {
			t.Fatal(err)
		}
		a.ordered(cluster.Order{ID: "3", Drain: true, Stop: true})
		if synctest.Wait(); ctx.Err() == nil || held.Err() == nil {
			t.Error("a node that is told to stop goes on")
		}
		if _, _, err := a.drain.whileServing(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("a lease of a node that stops: %v", err)
		}
		free()
		ended()
	})
}

// An order to drain may arrive while a node starts. The start must not overwrite that state.
func TestADrainWhileANodeStartsIsNotForgotten(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		db, err := redis.Open(t.Context(), redistest.InMemory(t).Wire().Config()) // nothing runs that uses it
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		a := &App{log: slog.New(slog.DiscardHandler), drain: newDrain(t.Context())}
		a.cluster = cluster.New(cluster.Config{Redis: db, Bus: events.NewBus(db, "n", a.log), Node: ids.New[cluster.Node](),
			Metrics: obs.NewRegistry(), Log: a.log})
		ctx, stop := context.WithCancel(t.Context())
		defer a.drain.running(ctx, stop)()
		a.ordered(cluster.Order{ID: "1", Drain: true})
		synctest.Wait()
		a.serves()
		if got := a.cluster.Self().Status; got != cluster.Drained {
			t.Errorf("it is %s", got)
		}
		a.ordered(cluster.Order{ID: "2"})
		if got := a.cluster.Self().Status; got != cluster.Serving {
			t.Errorf("once it is undone it is %s", got)
		}
	})
}
