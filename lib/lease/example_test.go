package lease_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/lease"
	"github.com/stoa-dev/stoa/lib/redis"
	_ "github.com/stoa-dev/stoa/lib/redis/embedded"
)

var (
	schema  = keyspace.New("example")
	holders = keyspace.Def1[keyspace.Text](schema, "job:{{name}}:lease", keyspace.BytesOf("token nonce owner"), keyspace.Lease(10*time.Second),
		keyspace.Doc{Purpose: "which node does the job"})
	fences = keyspace.Def1[keyspace.Text](schema, "job:{{name}}:fence", keyspace.CounterKind(), keyspace.Forever("tokens must rise"),
		keyspace.Doc{Purpose: "the last token given"})
)

func Example() {
	ctx := context.Background()
	db, err := redis.Open(ctx, redis.Config{URL: "embedded"})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	name := keyspace.Text{S: "report"}
	keys := lease.Keys{Lease: holders.At(name), Fence: fences.At(name)}
	leases := lease.New(db)
	err = leases.Run(ctx, keys, "node-7", 5*time.Second, func(ctx context.Context, token int64) error {
		_, err := leases.Acquire(ctx, keys, "node-8", 5*time.Second)
		fmt.Println("another node may too:", err == nil)
		h, _, err := leases.Holder(ctx, keys)
		fmt.Println(h.Owner, "has the newest token:", h.Token == token)
		return err
	})
	fmt.Println("done:", err)
	// Output:
	// another node may too: false
	// node-7 has the newest token: true
	// done: <nil>
}

// A lease without declared families.
func ExampleNamed() {
	ctx := context.Background()
	db, err := redis.Open(ctx, redis.Config{URL: "embedded"})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	err = lease.New(db).Run(ctx, lease.Named("report"), "node-7", 5*time.Second, func(_ context.Context, token int64) error {
		fmt.Println("alone, with a token:", token > 0)
		return nil
	})
	fmt.Println(err)
	// Output:
	// alone, with a token: true
	// <nil>
}

// The holder itself decides when it renews and when the turn ends.
func ExampleLeases_Acquire() {
	ctx := context.Background()
	db, err := redis.Open(ctx, redis.Config{URL: "embedded"})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	leases, keys := lease.New(db), lease.Named("report")
	held, err := leases.Acquire(ctx, keys, "node-7", 5*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	_, err = leases.Acquire(ctx, keys, "node-8", 5*time.Second)
	fmt.Println("held by another:", errors.Is(err, lease.ErrHeld))
	fmt.Println("renewed:", held.Renew(ctx))

	if err := keys.Lease.Delete(ctx, db); err != nil { // simulates a Redis that lost its data
		log.Fatal(err)
	}
	fmt.Println("lost:", errors.Is(held.Renew(ctx), lease.ErrLost))

	_, err = leases.Acquire(ctx, keys, "node-7", 48*time.Hour)
	fmt.Println("too long a life:", errors.Is(err, lease.ErrLife))
	// Output:
	// held by another: true
	// renewed: <nil>
	// lost: true
	// too long a life: true
}
