package leaderboard_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
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

	// At start the truth is streamed in; here it is still empty.
	if err := board.Load(ctx, time.Now(), func(func(leaderboard.Entry, error) bool) {}); err != nil {
		log.Fatal(err)
	}

	morning := time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	dies := time.Date(2026, 3, 3, 0, 0, 0, 0, time.UTC)
	batch := []leaderboard.Entry{
		{Member: "ada", Value: 7, At: morning.Add(time.Hour), Dies: dies},
		{Member: "bob", Value: 7, At: morning, Dies: dies}, // reached it first
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

// A board of either kind without declared families.
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
		if err := board.Load(ctx, now, func(func(leaderboard.Entry, error) bool) {}); err != nil { // no member has played yet
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

// A board that Redis has lost is loaded again from the truth; until then it returns ErrNotLoaded.
func ExampleEnsure() {
	ctx := context.Background()
	db, err := redis.Open(ctx, redis.Config{URL: "embedded"})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	now := time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	board := leaderboard.Exact(db, leaderboard.Named("season-12"))
	_, err = board.Top(ctx, now, leaderboard.MaxTop)
	fmt.Println("not loaded:", errors.Is(err, leaderboard.ErrNotLoaded))

	fromSQL := func(yield func(leaderboard.Entry, error) bool) { // SELECT member, points, reached FROM …
		yield(leaderboard.Entry{Member: "ada", Value: 7, At: now}, nil)
	}
	loaded, err := leaderboard.Ensure(ctx, board, now, fromSQL) // at start, and every few seconds
	if errors.Is(err, leaderboard.ErrEmptied) {
		fmt.Println("Redis was emptied meanwhile: the next call loads it")
	}
	fmt.Println(loaded, err)
	best, err := board.Top(ctx, now, leaderboard.MaxTop)
	fmt.Println(best[0].Member, err)
	// Output:
	// not loaded: true
	// true <nil>
	// ada <nil>
}

// Check a value before the truth is committed, because larger values are refused.
func ExampleCheckValue() {
	fmt.Println(leaderboard.CheckValue(leaderboard.MaxValue))
	fmt.Println(errors.Is(leaderboard.CheckValue(leaderboard.MaxValue+1), leaderboard.ErrValue))
	// Output:
	// <nil>
	// true
}

// A compact board does not know members below the best by name, so the update contains the previous standing.
func ExampleCompact() {
	ctx := context.Background()
	db, err := redis.Open(ctx, redis.Config{URL: "embedded"})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	now := time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	board := leaderboard.Compact(db, leaderboard.NamedCompact("season-12"))
	if _, err := leaderboard.Ensure(ctx, board, now, func(func(leaderboard.Entry, error) bool) {}); err != nil {
		log.Fatal(err)
	}
	was := leaderboard.Entry{Member: "ada", Value: 7, At: now}
	is := leaderboard.Entry{Member: "ada", Value: 9, At: now.Add(time.Minute), From: leaderboard.Standing{Value: was.Value, Dies: was.Dies}}
	for _, e := range []leaderboard.Entry{was, is} {
		if err := board.Put(ctx, e); err != nil {
			log.Fatal(err)
		}
	}
	mine, ok, err := board.Rank(ctx, now.Add(time.Hour), is)
	fmt.Println(mine.Rank, mine.Value, ok, err)
	// Output:
	// 1 9 true <nil>
}

// The points of a season, from a table with a row for each player; at is a TIMESTAMP.
func ExampleFromRows() {
	var db *sql.DB
	everybody := func(ctx context.Context, season int) iter.Seq2[leaderboard.Entry, error] {
		return leaderboard.FromRows(
			func() (*sql.Rows, error) {
				return db.QueryContext(ctx, "SELECT player, points, at FROM points WHERE season = ?", season)
			},
			func(rows *sql.Rows, e *leaderboard.Entry) error { return rows.Scan(&e.Member, &e.Value, &e.At) })
	}
	_ = everybody // for Ensure and Load
	var _ leaderboard.Rows = (*sql.Rows)(nil)
}
