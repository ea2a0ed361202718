package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/ratelimit"
	"github.com/stoa-dev/stoa/lib/redis"
	_ "github.com/stoa-dev/stoa/lib/redis/embedded"
)

var (
	schema     = keyspace.New("example")
	loginPerIP = keyspace.Def1[keyspace.Hashed](schema, "limit:login:{ip}", keyspace.CounterKind(), keyspace.UpTo(time.Hour),
		keyspace.Doc{Purpose: "log-ins tried from an address"})
)

func Example() {
	ctx := context.Background()
	db, err := redis.Open(ctx, redis.Config{URL: "embedded"})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	limiter := ratelimit.New(db)
	lim := ratelimit.Limit{Max: 2, Window: time.Minute}
	for range 3 {
		res, err := limiter.Allow(ctx, loginPerIP.At(keyspace.Hashed{S: "192.0.2.1"}), lim)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(res.Allowed, res.Remaining, res.Reset > 0)
	}
	// Output:
	// true 1 true
	// true 0 true
	// false 0 true
}

// A limit without a declared family.
func ExampleNamed() {
	ctx := context.Background()
	db, err := redis.Open(ctx, redis.Config{URL: "embedded"})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	limiter, once := ratelimit.New(db), ratelimit.Limit{Max: 1, Window: time.Minute}
	for _, address := range []string{"192.0.2.1", "192.0.2.1", "192.0.2.2"} {
		res, err := limiter.Allow(ctx, ratelimit.Named("login", address), once)
		fmt.Println(res.Allowed, err)
	}
	// Output:
	// true <nil>
	// false <nil>
	// true <nil>
}

// Several limits at once: a call counts for all of them or for none.
func ExampleLimiter_AllowAll() {
	ctx := context.Background()
	db, err := redis.Open(ctx, redis.Config{URL: "embedded"})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	limiter := ratelimit.New(db)
	asks := []ratelimit.Ask{
		{Key: ratelimit.Named("login-account", "ada"), Limit: ratelimit.Limit{Max: 2, Window: time.Hour}},
		{Key: ratelimit.Named("login-address", "192.0.2.1"), Limit: ratelimit.Limit{Max: 100, Window: time.Minute}},
	}
	for range 3 {
		res, err := limiter.AllowAll(ctx, asks)
		fmt.Println(res.Allowed, err)
	}
	asks[0].Limit.Window = 0
	_, err = limiter.AllowAll(ctx, asks)
	fmt.Println("a limit without a window:", errors.Is(err, ratelimit.ErrLimit))
	// Output:
	// true <nil>
	// true <nil>
	// false <nil>
	// a limit without a window: true
}
