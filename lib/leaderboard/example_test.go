package leaderboard_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/leaderboard"
	"github.com/stoa-dev/stoa/lib/redis"
	_ "github.com/stoa-dev/stoa/lib/redis/embedded"
)

func Example() {
	ctx := context.Background()
	db, err := redis.Open(ctx, redis.Config{URL: "embedded"})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	board := leaderboard.Exact(db, leaderboard.Named("streaks"))

	// At start the truth is streamed in; here there is none yet.
	if err := board.Load(ctx, time.Now(), func(func(leaderboard.Entry, error) bool) {}); err != nil {
		log.Fatal(err)
	}

	morning := time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	dies := time.Date(2026, 3, 3, 0, 0, 0, 0, time.UTC)
	batch := []leaderboard.Entry{
		{Member: "ada", Value: 7, At: morning.Add(time.Hour), Dies: dies},
		{Member: "bob", Value: 7, At: morning, Dies: dies}, // was first
		{Member: "eve", Value: 1, At: morning, Dies: dies.AddDate(0, 0, 1), Restart: true},
	}
	if err := keyspace.FirstErr(db.DoMulti(ctx, board.Update(batch))); err != nil {
		log.Fatal(err)
	}

	for _, now := range []time.Time{morning, dies} {
		best, err := board.Top(ctx, now, 10)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(now.Format(time.DateOnly))
		for _, r := range best {
			fmt.Println(r.Rank, r.Member, r.Value, r.At.Format(time.TimeOnly))
		}
	}
	// Output:
	// 2026-03-01
	// 1 bob 7 08:00:00
	// 2 ada 7 09:00:00
	// 3 eve 1 08:00:00
	// 2026-03-03
	// 1 eve 1 08:00:00
}

// Without declared families, on a board of either kind.
func ExampleNamed() {
	ctx := context.Background()
	db, err := redis.Open(ctx, redis.Config{URL: "embedded"})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	now := time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	for _, board := range []leaderboard.Board{
		leaderboard.Exact(db, leaderboard.Named("season-12")),
		leaderboard.Compact(db, leaderboard.NamedCompact("season-12")),
	} {
		if err := board.Load(ctx, now, func(func(leaderboard.Entry, error) bool) {}); err != nil { // nobody has played yet
			log.Fatal(err)
		}
		if err := keyspace.FirstErr(db.DoMulti(ctx, board.Update([]leaderboard.Entry{{Member: "ada", Value: 7, At: now}}))); err != nil {
			log.Fatal(err)
		}
		best, err := board.Top(ctx, now, 10)
		fmt.Println(best[0].Member, best[0].Value, err)
	}
	// Output:
	// ada 7 <nil>
	// ada 7 <nil>
}
