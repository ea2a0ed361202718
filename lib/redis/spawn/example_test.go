package spawn_test

import (
	"context"
	"fmt"

	"github.com/stoa-dev/stoa/lib/redis"
	_ "github.com/stoa-dev/stoa/lib/redis/spawn"
)

// The engine needs only the import, and redis-server in PATH.
func Example() {
	ctx := context.Background()
	db, err := redis.Open(ctx, redis.Config{URL: "spawn"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	fmt.Println(db.Mode(), db.Ping(ctx))
	// Output: spawn <nil>
}
