package cache_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/lib/bus"
	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
	_ "github.com/stoa-dev/stoa/lib/redis/embedded"
)

// The declarations of a shop, in its keys.go.
var (
	shop  = keyspace.New("shop")
	carts = keyspace.Def1[keyspace.Int](shop, "cart:{uid}", keyspace.CachedOf[cart](),
		keyspace.Expire(time.Hour).Jitter(5*time.Minute).Negative(time.Minute),
		keyspace.Doc{Purpose: "what a customer has put aside", InvalidatedBy: []string{"cart changed"}})
	shopEvents = keyspace.DefChannel0(shop, "shop:events", keyspace.RawMessages("package bus"), keyspace.Doc{Purpose: "what happened"})
	shopLog    = keyspace.Def0(shop, "shop:events", keyspace.StreamOf("package bus"), keyspace.Forever("trimmed by package bus"),
		keyspace.Doc{Purpose: "what happened, to catch up from"})
)

type cart struct{ Items []string }

func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	db, err := redis.Open(ctx, redis.Config{}) // embedded; set a URL for a real Redis
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()

	var mu sync.Mutex
	table := map[int64]cart{} // your database

	events := bus.New(db, bus.Keys{Events: shopEvents.At(), Log: shopLog.At()}, bus.Config{Node: "node-1"})
	rt := cache.NewRuntime(db, events, cache.Config{})
	basket := cache.New(rt, carts, cache.Policy{}, cache.Source[keyspace.Int, cart]{
		Load: func(_ context.Context, uid keyspace.Int) (cart, error) {
			mu.Lock()
			defer mu.Unlock()
			fmt.Println("asking the database")
			c, ok := table[uid.N]
			if !ok {
				return c, cache.ErrNotFound
			}
			return c, nil
		},
	})
	go events.Run(ctx, func() {})
	if err := events.Wait(ctx); err != nil { // until then each read asks the database
		fmt.Println(err)
		return
	}

	ada := keyspace.Int{N: 1}
	_, err = basket.Get(ctx, ada)
	fmt.Println("nothing yet:", errors.Is(err, cache.ErrNotFound))

	c, err := basket.Mutate(ctx, ada, func(context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		table[1] = cart{Items: []string{"lamp"}}
		return nil
	})
	fmt.Println("changed:", c.Items, err)

	e, err := basket.Lookup(ctx, ada)
	fmt.Println("found in the", e.Tier, e.Value.Items, err)
	// Output:
	// asking the database
	// nothing yet: true
	// asking the database
	// changed: [lamp] <nil>
	// found in the process [lamp] <nil>
}
