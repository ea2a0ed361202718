// Command report writes a report every second, always in only one of its processes. The number of a report shows its
// reader which report is the newest.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/stoa-dev/stoa/lib/lease"
	"github.com/stoa-dev/stoa/lib/redis"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	db, err := redis.Open(ctx, redis.Config{URL: os.Getenv("REDIS")})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	err = lease.New(db).Run(ctx, lease.Named("report"), os.Getenv("NODE"), 3*time.Second, func(ctx context.Context, token int64) error {
		for every := time.NewTicker(time.Second); ; {
			fmt.Println(os.Getenv("NODE"), "writes the report, with number", token)
			select {
			case <-every.C:
			case <-ctx.Done(): // the lease is lost, or the program ends
				return ctx.Err()
			}
		}
	})
	log.Print(err)
}
