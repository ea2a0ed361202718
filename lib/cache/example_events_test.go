package cache_test

import (
	"context"
	"fmt"
	"time"

	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

// PriceChanged is a kind of change; Drops and DropsBy declare the caches that it drops.
var PriceChanged = cache.NewEvent[keyspace.Int]("price changed")

func ExampleDrops() {
	ctx := context.Background()
	rt, err := cache.Open(ctx, cache.Options{}) // embedded; set a URL for a real Redis
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	keys, life := keyspace.New("shop"), keyspace.Expire(time.Hour)
	because := keyspace.Doc{Purpose: "an example", InvalidatedBy: []string{"price changed"}}
	price, loads := 100, 0
	load := func(context.Context, keyspace.Int) (int, error) {
		loads++
		return price, nil
	}
	prices := cache.New(rt, keyspace.Def1[keyspace.Int](keys, "price:{product}", keyspace.CachedOf[int](), life, because), cache.Policy{},
		cache.Source[keyspace.Int, int]{Load: load})
	offers := cache.New(rt, keyspace.Def1[keyspace.Int](keys, "offer:{shelf}", keyspace.CachedOf[int](), life, because), cache.Policy{},
		cache.Source[keyspace.Int, int]{Load: load})
	cache.Drops(rt, PriceChanged, prices)
	cache.DropsBy(rt, PriceChanged, func(product keyspace.Int) keyspace.Int { return keyspace.Int{N: product.N / 100} }, offers)
	fmt.Println(rt.Check()) // compares the families' declarations with the declared events

	product, shelf := keyspace.Int{N: 701}, keyspace.Int{N: 7}
	fmt.Println(prices.Get(ctx, product))
	fmt.Println(offers.Get(ctx, shelf))
	err = rt.Change(ctx, func(context.Context) error { price = 80; return nil }, PriceChanged.Of(rt, product)...)
	fmt.Println(err)
	fmt.Println(prices.Get(ctx, product))
	fmt.Println(offers.Get(ctx, shelf))
	fmt.Println(loads, "loads")
	// Output:
	// <nil>
	// 100 <nil>
	// 100 <nil>
	// <nil>
	// 80 <nil>
	// 80 <nil>
	// 4 loads
}
