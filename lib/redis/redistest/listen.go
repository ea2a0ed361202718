package redistest

import (
	"context"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
)

// Listener is a subscription of a test.
type Listener struct {
	Got  chan string   // the messages
	Up   chan struct{} // an event for each time the subscription took effect, except the first
	Stop func() error  // ends the subscription, and returns why it ended
}

// Listen subscribes to a channel until the test ends, or Stop is called. It returns when the subscription has taken
// effect.
func Listen(t testing.TB, db *redis.DB, ch keyspace.Channel) *Listener {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &Listener{Got: make(chan string, 1000), Up: make(chan struct{}, 100)}
	ended := make(chan error, 1)
	go func() {
		ended <- db.Subscribe(ctx, ch, redis.Handler{
			Message:    func(s string) { l.Got <- s },
			Subscribed: func() { l.Up <- struct{}{} },
		})
	}()
	l.Stop = func() error { cancel(); return <-ended }
	t.Cleanup(cancel)
	Wait(t, l.Up)
	return l
}

// Wait receives a value, and fails the test after a minute without one.
func Wait[T any](t testing.TB, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(time.Minute):
		t.Fatal("nothing received in a minute")
		panic("unreachable")
	}
}
