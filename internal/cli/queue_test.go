package cli

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/background/queue"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// In Redis, a dead letter that is replayed and fails at once becomes a new dead letter behind the others.
func TestDeadLettersThatDieAgainAreReplayedOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const letters = 3
		store := queue.NewRedis(redistest.Open(t, "embedded"))
		consumer, err := queue.NewConsumer(store, map[string]queue.Handler{
			"story": func(context.Context, queue.Delivery) error { return queue.ErrGiveUp },
		}, nil, queue.Config{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = consumer.Run(ctx) }()
		defer func() { cancel(); <-ended }()
		dead := func() {
			eventually.True(t, "all to be dead", func() bool {
				es, err := store.List(ctx, queue.Filter{Dead: true})
				return err == nil && len(es) == letters
			})
		}
		for n := range letters {
			if err := store.Publish(ctx, queue.Message{Topic: "story", Payload: []byte{byte(n)}}); err != nil {
				t.Fatal(err)
			}
		}
		dead()
		bubble.Sleep(time.Minute)
		var cmd several
		rounds := 0
		n, err := cmd.all(ctx, &console{err: io.Discard}, queue.Stores{store}, "replayed", func(ctx context.Context, ids ...string) (int, error) {
			if len(ids) == 0 {
				return 0, nil
			}
			if rounds++; rounds > 1 {
				return 0, fmt.Errorf("%v are replayed once more", ids)
			}
			n, err := store.Replay(ctx, ids...)
			dead()
			return n, err
		})
		if err != nil || n != letters {
			t.Errorf("got %d, %v, want %d", n, err, letters)
		}
	})
}
