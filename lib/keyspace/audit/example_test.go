package audit_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/keyspace/audit"
	"github.com/stoa-dev/stoa/lib/redis"
	_ "github.com/stoa-dev/stoa/lib/redis/embedded"
)

func Example() {
	library := keyspace.New("library")
	loans := keyspace.Def1[keyspace.Int](library, "loan:{reader}", keyspace.CounterKind(), keyspace.Expire(time.Hour),
		keyspace.Doc{Purpose: "how many books a reader has"})

	ctx := context.Background()
	db, err := redis.Open(ctx, redis.Config{URL: "embedded", Prefix: "city"})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	key := loans.At(keyspace.Int{N: 42}).Key
	db.Do(ctx, keyspace.Cmd{Name: "SET", Key: key, Args: []string{"three"}}) // two mistakes

	report, err := audit.Run(ctx, db, []*keyspace.Schema{library}, audit.Options{Full: true})
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range report.Findings {
		fmt.Printf("%s: %d of %d, %s: %s\n", f.Fault, f.Count, f.Of, f.Examples[0].Key, f.Examples[0].Detail)
	}
	// Output:
	// no_life: 1 of 1, city:loan:42: declared are 1h0m0s at most
	// undecodable: 1 of 1, city:loan:42: not a whole number
}
