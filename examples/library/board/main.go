// Command board is a leaderboard for each season of a game: board SEASON [PLAYER POINTS].
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/stoa-dev/stoa/lib/leaderboard"
	"github.com/stoa-dev/stoa/lib/redis"
)

func main() {
	ctx, now := context.Background(), time.Now()
	db, err := redis.Open(ctx, redis.Config{URL: os.Getenv("REDIS")})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	board := leaderboard.Exact(db, leaderboard.Named("season-"+os.Args[1]))
	// An app with the points in a database yields them here, because a new season or an emptied Redis needs them.
	everybody := func(func(leaderboard.Entry, error) bool) {}
	if _, err := leaderboard.Ensure(ctx, board, now, everybody); err != nil {
		log.Fatal(err)
	}
	if len(os.Args) > 3 {
		points, err := strconv.ParseInt(os.Args[3], 10, 64)
		if err != nil {
			log.Fatal(err)
		}
		if err := board.Put(ctx, leaderboard.Entry{Member: os.Args[2], Value: points}); err != nil {
			log.Fatal(err)
		}
	}
	best, err := board.Top(ctx, now, 10)
	for _, r := range best {
		fmt.Println(r.Rank, r.Member, r.Value)
	}
	if err != nil {
		log.Fatal(err)
	}
}
