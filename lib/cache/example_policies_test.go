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

// A cache of which a value lives for a minute, is served for an hour while its source fails, and whose reads
// go on as if nothing were wrong while this node cannot know what the others change.
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

// What reads do on a node that is cut off. [cache.Bypass] asks the source, [cache.Fail] says so.
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

	db.Close() // as if Redis were gone
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

// drops is a RetryQueue. In a program it is a table, so that a drop outlives the process.
type drops struct{ keys []keyspace.Key }

func (d *drops) Add(_ context.Context, keys []keyspace.Key) error {
	d.keys = append(d.keys, keys...)
	return nil
}

// What changes do that Redis cannot be told of: [cache.Refuse] changes nothing, [cache.Proceed] goes on
// and has the drop tried again.
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

	db.Close() // as if Redis were gone
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

	err = likes.Invalidate(ctx, 8) // something was changed elsewhere
	fmt.Println(errors.Is(err, cache.ErrQueued), rt.Health().Queued > 0)
	// Output:
	// true
	// UPDATE …; and, in the same transaction, a note to drop it: true 1
	// <nil>
	// true true
}

// A change whose connection breaks before the answer may have been committed, or may be in a moment. Where its error says
// so, every node asks the source until that must be over.
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
	update := func(context.Context, int, string) error { return errBroken } // its server goes on by itself
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

// A tag drops what belongs together by one command, however much there is.
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
		LoadMany: func(_ context.Context, products []int) (map[int]int, error) { // one query for all
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

// Before a node takes traffic, what is wanted most is brought into its memory.
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
	err = articles.Warm(ctx, slices.Values([]int{3, 2, 1}), cache.Warming{Batch: 2, AtOnce: 1, Progress: func(done int) { fmt.Println(done, "read") }})
	fmt.Println(articles.Len(), err)
	// Output:
	// 2 read
	// 3 read
	// 3 <nil>
}

// The schema of the keys of tags goes with those of the program into its test and its tools.
func Example_lint() {
	fmt.Println(keyspace.Lint(shop, cache.Keys))
	// Output: <nil>
}
