package bus_test

import (
	"context"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/lib/bus"
	"github.com/stoa-dev/stoa/lib/redis"
	_ "github.com/stoa-dev/stoa/lib/redis/embedded"
)

func Example() {
	ctx, stop := context.WithCancel(context.Background())
	db, err := redis.Open(ctx, redis.Config{URL: "embedded"})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	// Two nodes, which normally are two processes.
	keys := bus.Named("cluster")
	here, there := bus.New(db, keys, bus.Config{Node: "here"}), bus.New(db, keys, bus.Config{Node: "there"})
	dropped := make(chan string)
	started := make(chan struct{}, 1)
	there.Handle("rooms", bus.Handler{
		Event: func(e bus.Event) { dropped <- e.Node + ": " + e.Name + " " + e.Data },
		Lost:  func() { started <- struct{}{} }, // nothing to drop yet
	})
	var running sync.WaitGroup
	running.Go(func() { _ = there.Run(ctx, func() {}) })
	<-started

	if err := here.Publish(ctx, "rooms", "room.closed", "V1StGXR8_Z5j"); err != nil {
		log.Fatal(err)
	}
	fmt.Println(<-dropped)
	stop()
	running.Wait()
	// Output: here: room.closed V1StGXR8_Z5j
}

// Before a cache trusts its copies, it checks how fresh this node's knowledge is: Seen does not advance while Redis is
// unavailable.
func ExampleBus_Seen() {
	ctx, stop := context.WithCancel(context.Background())
	db, err := redis.Open(ctx, redis.Config{URL: "embedded"})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	events, err := bus.Open(db, bus.Named("cluster"), bus.Config{Node: "here"})
	if err != nil {
		log.Fatal(err) // for example, a name with a space
	}
	var running sync.WaitGroup
	running.Go(func() { _ = events.Run(ctx, func() {}) })
	if err := events.Wait(ctx); err != nil {
		log.Fatal(err)
	}

	stored := events.Seen() // a value that is read from here on includes all earlier changes
	fresh := func(now bus.Moment) bool { return time.Duration(now-stored) < time.Hour }
	fmt.Println(fresh(bus.Now()), fresh(bus.Now()+bus.Moment(2*time.Hour)))
	var s bus.Stats = events.Stats()
	fmt.Println(s.Beats > 0, s.Lost)
	stop()
	running.Wait()
	// Output:
	// true false
	// true 0
}
