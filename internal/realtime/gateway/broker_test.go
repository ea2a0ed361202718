package gateway

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/centrifugal/centrifuge"

	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// delivered counts the events that the library gets.
type delivered struct {
	centrifuge.BrokerEventHandler
	n int
}

func (d *delivered) HandlePublication(string, *centrifuge.Publication, centrifuge.StreamPosition, bool, *centrifuge.Publication) error {
	d.n++
	return nil
}

// The library subscribes again without unsubscribing if a client comes back at once.
func TestBroker_SubscribedTwiceDeliversOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		bus := events.NewBus(redistest.InMemory(t).Open(t), "here", slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = bus.Run(ctx, func() {}) })
		defer running.Wait()
		defer cancel()
		heard := &delivered{}
		b := &broker{base: t.Context(), bus: bus, deliver: heard, leaves: map[string]func(){},
			before: func(context.Context, string, events.Event) {}, lost: func(string) {}}
		say := func() {
			e := events.New("said", "ann", time.Now(), json.RawMessage("{}"))
			e.Fleeting = true
			bus.Publish([]events.Event{e})
			bubble.Sleep(time.Second)
		}
		for range 3 {
			if err := b.Subscribe("ann"); err != nil {
				t.Fatal(err)
			}
		}
		say()
		if heard.n != 1 {
			t.Errorf("an event was delivered %d times", heard.n)
		}
		if err := b.Unsubscribe("ann"); err != nil {
			t.Fatal(err)
		}
		say()
		if heard.n != 1 {
			t.Errorf("after the last one has left, %d events were delivered", heard.n)
		}
	})
}

// Without a known position no client can resume, not even one that got such a position before.
func TestBroker_UnknownPositionHasItsOwnEpoch(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		wire := redistest.InMemory(t).Wire()
		bus := events.NewBus(redistest.OpenConfig(t, wire.Config()), "here", slog.New(slog.DiscardHandler))
		b := &broker{base: t.Context(), bus: bus}
		seen := map[string]bool{"": true}
		for _, harm := range []func(){func() {}, wire.Refuse} {
			harm()
			for range 2 {
				_, at, err := b.History("ann", centrifuge.HistoryOptions{})
				if err != nil || seen[at.Epoch] {
					t.Errorf("got the position %+v: %v", at, err)
				}
				seen[at.Epoch] = true
			}
		}
	})
}
