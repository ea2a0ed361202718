package obs

import (
	"context"
	"sync"
	"testing"

	"github.com/stoa-dev/stoa/lib/bus"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

func TestBus_CountsEventsByPath(t *testing.T) {
	db := redistest.Open(t, "embedded")
	schema := keyspace.New("test")
	keys := bus.Keys{
		Events: keyspace.DefChannel0(schema, "test:events", keyspace.RawMessages("text"), keyspace.Doc{}).At(),
		Log:    keyspace.Def0(schema, "test:events", keyspace.StreamOf("e"), keyspace.Forever("a test's"), keyspace.Doc{}).At(),
	}
	here, there := bus.New(db, keys, bus.Config{Node: "here"}), bus.New(db, keys, bus.Config{Node: "there"})
	r := NewRegistry()
	r.MustRegister(NewBus(there))
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = there.Run(ctx, func() {}) })
	t.Cleanup(func() { cancel(); running.Wait() })

	reached := func(name string, do func() error) {
		t.Helper()
		eventually.True(t, name, func() bool {
			if scrape(t, r)[name] > 0 {
				return true
			}
			if err := do(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return false
		})
	}
	nothing := func() error { return nil }
	reached(`stoa_bus_beats_total{result="ok"}`, nothing)
	reached(`stoa_bus_events_total{by="passed"}`, func() error { return here.Pass(ctx, "topic", "name", "") }) // it is subscribed
	// a beat may find the first one, too
	reached(`stoa_bus_events_total{by="message"}`, func() error { return here.Publish(ctx, "topic", "name", "") })
	unsaid := keyspace.Cmd{Name: "XADD", Key: keys.Log.Key, Args: []string{"*", "e", "id here topic name 1 data"}}
	if err := db.Do(ctx, unsaid).Err; err != nil {
		t.Fatal(err)
	}
	reached(`stoa_bus_events_total{by="log"}`, nothing)
	if err := db.Do(ctx, keyspace.Cmd{Name: "DEL", Key: keys.Log.Key}).Err; err != nil {
		t.Fatal(err)
	}
	reached("stoa_bus_lost_total", nothing)
	got := scrape(t, r)
	expect(t, got, "stoa_bus_lost_total", is(1))
	expect(t, got, "stoa_bus_behind_seconds", func(v float64) bool { return v > 0 && v < 5 })
	expect(t, got, `stoa_bus_beats_total{result="failed"}`, func(v float64) bool { return v < got[`stoa_bus_beats_total{result="ok"}`] })
}
