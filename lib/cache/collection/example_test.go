package collection_test

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/lib/bus"
	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/cache/collection"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
	_ "github.com/stoa-dev/stoa/lib/redis/embedded"
)

var (
	shop       = keyspace.New("shop")
	shopEvents = keyspace.DefChannel0(shop, "shop:events", keyspace.RawMessages("package bus"),
		keyspace.Doc{Purpose: "what nodes tell each other, at once"})
	shopLog = keyspace.Def0(shop, "shop:events", keyspace.StreamOf("package bus"), keyspace.Forever("trimmed by package bus"),
		keyspace.Doc{Purpose: "what nodes tell each other"})
)

var members = keyspace.Def1[keyspace.Int](shop, "club:members:{club}", keyspace.CachedHashOf[string, string](),
	keyspace.Expire(time.Hour).Jitter(5*time.Minute).Negative(time.Minute),
	keyspace.Doc{Purpose: "who is in a club, by role", InvalidatedBy: []string{"club dissolved"}})

func ExampleHash() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	db, err := redis.Open(ctx, redis.Config{}) // embedded; set a URL for a real Redis
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()

	var mu sync.Mutex
	table := map[string]string{"ada": "owner"} // your database

	events := bus.New(db, bus.Keys{Events: shopEvents.At(), Log: shopLog.At()}, bus.Config{Node: "node-1"})
	rt := cache.NewRuntime(db, events, cache.Config{})
	clubs := collection.NewHash(rt, members, collection.Policy{}, collection.HashSource[keyspace.Int, string, string]{
		Load: func(context.Context, keyspace.Int) (map[string]string, error) {
			mu.Lock()
			defer mu.Unlock()
			fmt.Println("asking the database")
			return maps.Clone(table), nil
		},
	})
	go events.Run(ctx, func() {})
	if err := events.Wait(ctx); err != nil {
		fmt.Println(err)
		return
	}

	chess := keyspace.Int{N: 1}
	in, err := clubs.Has(ctx, chess, "bob")
	fmt.Println("bob is in:", in, err)

	err = clubs.Mutate(ctx, chess, func(context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		table["bob"] = "member"
		return nil
	}, func(e *collection.HashEdit[string, string]) { e.Set("bob", "member") })
	fmt.Println("changed:", err)

	roles, err := clubs.GetMany(ctx, chess, []string{"ada", "bob", "eve"}) // one command, no load
	fmt.Println(roles, err)
	// Output:
	// asking the database
	// bob is in: false <nil>
	// changed: <nil>
	// map[ada:owner bob:member] <nil>
}
