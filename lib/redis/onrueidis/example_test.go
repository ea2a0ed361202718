package onrueidis_test

import (
	"context"
	"fmt"
	"log"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/onrueidis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

// A cache on an existing client, whose own commands still work.
func ExampleNew() {
	ctx := context.Background()
	addr, end := redistest.ForExample() // such as localhost:6379
	defer end()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	db, err := onrueidis.New(client, redis.WrapConfig{Prefix: "shop"})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	rt, err := cache.Open(ctx, cache.Options{DB: db})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	users := cache.Keyed(rt, "user", strconv.Itoa, func(context.Context, int) (string, error) { return "Ada", nil }, cache.TTL(time.Hour))

	fmt.Println(users.Get(ctx, 7))
	fmt.Println(client.Do(ctx, client.B().Exists().Key("shop:user:7").Build()).AsInt64())
	// Output:
	// Ada <nil>
	// 1 <nil>
}
