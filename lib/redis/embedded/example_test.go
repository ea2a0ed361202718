package embedded_test

import (
	"context"
	"fmt"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
	_ "github.com/stoa-dev/stoa/lib/redis/embedded"
)

var (
	schema   = keyspace.New("greeting")
	greeting = keyspace.Def1[keyspace.Text](schema, "greeting:{name}", keyspace.BytesOf("text"),
		keyspace.Expire(time.Hour), keyspace.Doc{Purpose: "what to say to whom"})
)

// The server needs only the import.
func Example() {
	ctx := context.Background()
	db, err := redis.Open(ctx, redis.Config{URL: "embedded"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()

	ada := greeting.At(keyspace.Text{S: "Ada"})
	if err := ada.Set(ctx, db, "Good morning"); err != nil {
		fmt.Println(err)
	}
	fmt.Println(ada.Get(ctx, db))
	// Output: Good morning true <nil>
}
