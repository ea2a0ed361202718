package leaderboard_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/leaderboard"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

// kinds returns a board of each kind under one name.
func kinds(db *redis.DB, name string) map[string]leaderboard.Board {
	return map[string]leaderboard.Board{
		"exact":   leaderboard.Exact(db, leaderboard.Named(name)),
		"compact": leaderboard.Compact(db, leaderboard.NamedCompact(name)),
	}
}

func TestPut_WithEnsure(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	db := redistest.Open(t, server.URL)
	for _, kind := range []string{"exact", "compact"} {
		board := kinds(db, "season-12")[kind]
		t.Run(kind, func(t *testing.T) {
			ctx, began := t.Context(), time.Now().Add(-time.Second)
			points, asked := map[string]int64{"ada": 7}, 0
			everybody := func(yield func(leaderboard.Entry, error) bool) {
				asked++
				for player, n := range points {
					if !yield(leaderboard.Entry{Member: player, Value: n, At: began}, nil) {
						return
					}
				}
			}
			ensure := func(want bool) {
				t.Helper()
				if loaded, err := leaderboard.Ensure(ctx, board, time.Now(), everybody); loaded != want || err != nil {
					t.Errorf("loaded: %t, %v", loaded, err)
				}
			}
			top := func(want ...string) {
				t.Helper()
				best, err := board.Top(ctx, time.Now(), 10)
				if err != nil || len(best) != len(want) {
					t.Fatalf("got %+v, %v, want %v", best, err, want)
				}
				for i, r := range best {
					if r.Member != want[i] || r.At.Before(began.Add(-2*time.Second)) || r.At.After(time.Now().Add(2*time.Second)) {
						t.Errorf("place %d: %+v, want %s, reached now", i+1, r, want[i])
					}
				}
			}
			ensure(true)
			ensure(false)
			if err := board.Put(ctx, leaderboard.Entry{Member: "bob", Value: 9}, leaderboard.Entry{Member: "eve", Value: 8}); err != nil {
				t.Fatal(err)
			}
			points["bob"], points["eve"] = 9, 8
			top("bob", "eve", "ada")
			if err := board.Put(ctx, leaderboard.Entry{Member: "bob", Value: leaderboard.MaxValue + 1}); !errors.Is(err, leaderboard.ErrValue) {
				t.Errorf("too many points: %v", err)
			}
			if err := board.Put(ctx); err != nil {
				t.Errorf("Put without entries: %v", err)
			}
			top("bob", "eve", "ada")
			server.FlushAll()
			if _, err := board.Top(ctx, time.Now(), 10); !errors.Is(err, leaderboard.ErrNotLoaded) {
				t.Errorf("emptied: %v", err)
			}
			ensure(true)
			top("bob", "eve", "ada")
			if asked != 2 {
				t.Errorf("the source was read %d times, want 2", asked)
			}
			if leaderboard.CheckValue(-1) == nil || leaderboard.CheckValue(leaderboard.MaxValue) != nil {
				t.Error("CheckValue accepts or refuses the wrong values")
			}
		})
	}
}
