package bus

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/keyspace"
	"github.com/stoa-dev/stoa/redis"
	"github.com/stoa-dev/stoa/redis/redistest"
)

var (
	schema  = keyspace.New("bus")
	channel = keyspace.DefChannel0(schema, "cluster:events", "previous entry, entry, event", keyspace.Doc{Purpose: "events of other nodes, now"})
	stream  = keyspace.Def0(schema, "cluster:events", keyspace.StreamOf("e: event"), keyspace.Forever("the latest 10,000"), keyspace.Doc{Purpose: "events, to catch up from"})
	keys    = Keys{channel.At(), stream.At()}
)

func run(t *testing.T, db *redis.DB, node string, h Handler) *Bus {
	t.Helper()
	b := New(db, keys, Config{Node: node})
	b.Handle("t", h)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- b.Run(ctx, func() {}) }()
	t.Cleanup(func() { cancel(); <-ended })
	for b.Seen() == 0 {
		time.Sleep(time.Millisecond)
	}
	return b
}

func TestBus(t *testing.T) {
	for _, engine := range redistest.Engines(t) {
		t.Run(engine.Name, func(t *testing.T) {
			db := engine.Open(t)
			got := make(chan string, 1000)
			a := run(t, db, "a", Handler{Event: func(Event) { t.Error("own event") }})
			run(t, db, "b", Handler{Event: func(e Event) { got <- e.Name + e.Data }})
			for i := range 100 {
				if err := a.Publish(t.Context(), "t", "n", fmt.Sprint(i)); err != nil {
					t.Fatal(err)
				}
			}
			for i := range 100 {
				if g := <-got; g != fmt.Sprint("n", i) {
					t.Fatal(g, i)
				}
			}
		})
	}
}
