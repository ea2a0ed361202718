package bus_test

import (
	"context"
	"fmt"
	"log"
	"sync"

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

	// Two nodes, which are two processes otherwise.
	keys := bus.Named("cluster")
	here, there := bus.New(db, keys, bus.Config{Node: "here"}), bus.New(db, keys, bus.Config{Node: "there"})
	dropped := make(chan string)
	started := make(chan struct{}, 1)
	there.Handle("rooms", bus.Handler{
		Event: func(e bus.Event) { dropped <- e.Node + ": " + e.Name + " " + e.Data },
		Lost:  func() { started <- struct{}{} }, // there is nothing to forget yet
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
