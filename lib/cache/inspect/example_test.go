package inspect_test

import (
	"context"
	"fmt"
	"time"

	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/cache/inspect"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
	_ "github.com/stoa-dev/stoa/lib/redis/embedded"
)

var (
	shop     = keyspace.New("shop")
	priceKey = keyspace.Def1[keyspace.Int](shop, "price:{product}", keyspace.CachedOf[int](), keyspace.Expire(time.Hour),
		keyspace.Doc{Purpose: "a price"})
)

func ExampleParse() {
	ctx := context.Background()
	db, err := redis.Open(ctx, redis.Config{URL: "embedded"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	rt, err := cache.Open(ctx, cache.Options{DB: db})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	prices := cache.New(rt, priceKey, cache.Policy{}, cache.Source[keyspace.Int, int]{
		Load: func(context.Context, keyspace.Int) (int, error) { return 42, nil },
	})
	key := priceKey.At(keyspace.Int{N: 7}).Key
	look := func() {
		text, _, err := db.Do(ctx, keyspace.Cmd{Name: "GET", Key: key}).Text()
		s := inspect.Parse(text)
		fmt.Println(s.Kind, s.Payload, s.Hard.Sub(s.Stored).Round(time.Minute), err)
	}
	look()
	_, _ = prices.Get(ctx, keyspace.Int{N: 7})
	look()
	// Output:
	// nothing  0s <nil>
	// value 42 1h0m0s <nil>
}

// The argument of an operator's tool: shelf:7.
func ExampleParseTag() {
	tag, ok := inspect.ParseTag("shelf:7")
	fmt.Println(tag == cache.TagOf("shelf", "7"), ok, tag.Target().Key())
	_, ok = inspect.ParseTag("shelf")
	fmt.Println(ok)
	// Output:
	// true true cache:tag:shelf%3a7
	// false
}

// A value only counts while its era is the era of its family, which differs for each layout.
func ExampleEraOf() {
	next := keyspace.Def1[keyspace.Int](keyspace.New("next"), "price:{product}", keyspace.CachedOf[int64](), keyspace.Expire(time.Hour),
		keyspace.Doc{Purpose: "a price", Version: 2})
	const era = 7 // of the bus: events.Era()
	stored := inspect.Slot{Kind: inspect.Value, Era: inspect.EraOf(priceKey.Family, era)}
	fmt.Println(stored.Era == inspect.EraOf(priceKey.Family, era), stored.Era == inspect.EraOf(next.Family, era))
	// Output: true false
}
