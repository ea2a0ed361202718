// Command stoa is a program with only a cache of package cache over one real Redis, to measure its size.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/redis"
)

type user struct{ Name string }

func main() {
	ctx := context.Background()
	rt, err := cache.Open(ctx, cache.Options{Redis: redis.Config{URL: os.Args[1]}})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	users := cache.Keyed(rt, "user", func(id int64) string { return strconv.FormatInt(id, 10) },
		func(_ context.Context, id int64) (user, error) { return user{fmt.Sprint("user ", id)}, nil },
		cache.TTL(time.Hour))
	fmt.Println(users.Get(ctx, 7))
	fmt.Println(users.Mutate(ctx, 7, func(context.Context) error { return nil }))
}
