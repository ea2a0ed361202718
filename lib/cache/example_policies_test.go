package cache_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
	_ "github.com/stoa-dev/stoa/lib/redis/embedded"
)

// A value of this cache lives for a minute and is served for an hour while its source fails. While this node cannot
// receive changes, reads return copies as if nothing were wrong.
func ExampleWith() {
	ctx := context.Background()
	rt, err := cache.Open(ctx, cache.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	load := func(_ context.Context, id int) (string, error) { return "article " + strconv.Itoa(id), nil }
	articles := cache.Keyed(rt, "article", strconv.Itoa, load,
		cache.Lives(keyspace.Expire(time.Minute).StaleIfError(time.Hour)),
		cache.With(cache.Policy{Entries: 100_000, MaxStale: 2 * time.Second, CutOff: cache.ServeStale}))

	fmt.Println(articles.Get(ctx, 7))
	var s cache.Stats = articles.Stats()
	fmt.Println(s.Loads, s.Hits, s.Entries)
	// Output:
	// article 7 <nil>
	// 1 0 1
}

// Reads on a node that has lost its connection: [cache.Bypass] asks the source, [cache.Fail] returns an error.
func ExampleCutOff() {
	ctx := context.Background()
	db, err := redis.Open(ctx, redis.Config{URL: "embedded"})
	if err != nil {
		fmt.Println(err)
		return
	}
	rt, err := cache.Open(ctx, cache.Options{DB: db})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	load := func(context.Context, int) (int, error) { return 42, nil }
	balances := cache.Keyed(rt, "balance", strconv.Itoa, load, cache.With(cache.Policy{MaxStale: time.Second / 2, CutOff: cache.Fail}))
	likes := cache.Keyed(rt, "like", strconv.Itoa, load, cache.With(cache.Policy{MaxStale: time.Second / 2, CutOff: cache.Bypass}))

	db.Close() // simulates an outage of Redis
	for range time.Tick(10 * time.Millisecond) {
		if rt.Health().Behind >= time.Second {
			break
		}
	}
	_, err = balances.Get(ctx, 7)
	fmt.Println(errors.Is(err, cache.ErrCutOff))
	fmt.Println(likes.Get(ctx, 7))
	// Output:
	// true
	// 42 <nil>
}

// drops is a RetryQueue. In a program it is a table, so that a drop survives the process.
type drops struct{ keys []keyspace.Key }

func (d *drops) Add(_ context.Context, keys []keyspace.Key) error {
	d.keys = append(d.keys, keys...)
	return nil
}

// Changes while Redis does not accept fences: [cache.Refuse] changes nothing, [cache.Proceed] makes the change and
// retries the drop.
func ExampleUnfenced() {
	ctx := context.Background()
	db, err := redis.Open(ctx, redis.Config{URL: "embedded"})
	if err != nil {
		fmt.Println(err)
		return
	}
	var queue cache.RetryQueue = &drops{}
	rt, err := cache.Open(ctx, cache.Options{DB: db, Config: cache.Config{Retries: queue}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	load := func(context.Context, int) (int, error) { return 42, nil }
	balances := cache.Keyed(rt, "balance", strconv.Itoa, load, cache.With(cache.Policy{Unfenced: cache.Refuse}))
	likes := cache.Keyed(rt, "like", strconv.Itoa, load, cache.With(cache.Policy{Unfenced: cache.Proceed}))

	db.Close() // simulates an outage of Redis
	_, err = balances.Mutate(ctx, 7, func(context.Context) error {
		fmt.Println("not called")
		return nil
	})
	fmt.Println(errors.Is(err, cache.ErrUnfenced))

	_, err = likes.Mutate(ctx, 7, func(ctx context.Context) error {
		fmt.Println("UPDATE …; and, in the same transaction, a note to drop it:", cache.FenceFailed(ctx), len(cache.UnfencedKeys(ctx)))
		return nil
	})
	fmt.Println(err)

	err = likes.Invalidate(ctx, 8) // another program has changed something
	fmt.Println(errors.Is(err, cache.ErrQueued), rt.Health().Queued > 0)
	// Output:
	// true
	// UPDATE …; and, in the same transaction, a note to drop it: true 1
	// <nil>
	// true true
}

// A change whose connection breaks before the reply may have been committed, or may be in a moment. If its error is
// [cache.ErrUndecided], every node asks the source until the commit must be over.
func ExampleCache_Mutate() {
	ctx := context.Background()
	rt, err := cache.Open(ctx, cache.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	name := "Bob" // in your database
	people := cache.Keyed(rt, "person", strconv.Itoa, func(context.Context, int) (string, error) { return name, nil })

	errBroken := errors.New("invalid connection")                           // of your driver
	update := func(context.Context, int, string) error { return errBroken } // the server continues
	_, err = people.Mutate(ctx, 7, func(ctx context.Context) error {
		err := update(ctx, 7, "Ada")
		if errors.Is(err, errBroken) {
			err = errors.Join(err, cache.ErrUndecided)
		}
		return err
	})
	fmt.Println(errors.Is(err, errBroken))
	fmt.Println(people.Get(ctx, 7))
	name = "Ada" // the server has committed
	fmt.Println(people.Get(ctx, 7))
	// Output:
	// true
	// Bob <nil>
	// Ada <nil>
}

// A tag drops values that belong together by one command, whatever their number.
func ExampleTag() {
	ctx := context.Background()
	rt, err := cache.Open(ctx, cache.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	price := 100
	shelf := func(product int) cache.Tag { return cache.TagOf("shelf", strconv.Itoa(product/100)) }
	prices := cache.KeyedFrom(rt, "price", strconv.Itoa, cache.Source[int, int]{
		LoadMany: func(_ context.Context, products []int) (map[int]int, error) { // one query for all products
			found := map[int]int{}
			for _, p := range products {
				found[p] = price
			}
			return found, nil
		},
		Load: func(context.Context, int) (int, error) { return price, nil },
		Tags: func(product int) []cache.Tag { return []cache.Tag{shelf(product)} },
	})
	fmt.Println(prices.GetMany(ctx, []int{701, 702, 801}))
	err = rt.Change(ctx, func(context.Context) error { price = 80; return nil }, shelf(701).Target())
	fmt.Println(err)
	fmt.Println(prices.GetMany(ctx, []int{701, 702, 801}))
	// Output:
	// map[701:100 702:100 801:100] <nil>
	// <nil>
	// map[701:80 702:80 801:100] <nil>
}

// Before a node accepts traffic, Warm loads the most requested values into its memory.
func ExampleCache_Warm() {
	ctx := context.Background()
	rt, err := cache.Open(ctx, cache.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	load := func(_ context.Context, id int) (string, error) { return "article " + strconv.Itoa(id), nil }
	articles := cache.Keyed(rt, "article", strconv.Itoa, load)
	err = articles.Warm(ctx, slices.Values([]int{3, 2, 1}), cache.Warming{Batch: 2, AtOnce: 1, Progress: func(done int) {
		fmt.Println(done, "read")
	}})
	fmt.Println(articles.Len(), err)
	// Output:
	// 2 read
	// 3 read
	// 3 <nil>
}

// Include the schema of the tags' keys in the program's schema test and tools.
func Example_lint() {
	fmt.Println(keyspace.Lint(shop, cache.Keys))
	// Output: <nil>
}
