package attempts

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

var (
	schema    = keyspace.New("example")
	loginKeys = keyspace.Def1[keyspace.Hashed](schema, "limit:login:{who}", keyspace.CounterKind(), keyspace.UpTo(time.Hour),
		keyspace.Doc{Purpose: "tries of a test"})
)

func meter(who string, most int) Meter {
	return Meter{Key: loginKeys.At(keyspace.Hashed{S: who}).Key, Cap: most, Life: time.Hour}
}

// onMemory runs test with Redis, and then while Redis is unavailable.
func onMemory(t *testing.T, test func(t *testing.T, c *Counter, when string)) {
	t.Helper()
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		db := server.Open(t)
		c := New(db, slog.New(slog.DiscardHandler))
		test(t, c, "with Redis")
		redistest.KeysDeclared(t, db, schema)
		server.Kill()
		test(t, c, "without Redis")
	})
}

func TestCount_AllMetersOrNone(t *testing.T) {
	onMemory(t, func(t *testing.T, c *Counter, when string) {
		narrow, wide := meter(when+" narrow", 2), meter(when+" wide", 5)
		count := func(what string, want bool, meters ...Meter) {
			t.Helper()
			allowed, left, err := c.Count(t.Context(), meters, time.Now())
			if err != nil || allowed != want || (left > 0) == want || left > time.Hour {
				t.Errorf("%s, %s: got %t, %s, %v, want %t", when, what, allowed, left, err, want)
			}
		}
		count("the first", true, narrow, wide)
		count("the second", true, narrow, wide)
		for range 5 {
			count("beyond the narrow one", false, wide, narrow)
		}
		for range 3 {
			count("what the wide one has left", true, wide)
		}
		count("beyond the wide one", false, wide)

		c.Settle(t.Context(), []Meter{narrow}, []Meter{wide})
		count("one that was given back", true, narrow, wide)
		count("another one", false, wide)
		count("one after the first was forgotten", true, narrow)
		count("beyond it", false, narrow)
	})
}

// Tries that SQL counts as well work without Redis.
func TestAllows_TrueWithoutRedis(t *testing.T) {
	onMemory(t, func(t *testing.T, c *Counter, when string) {
		for i := range 3 {
			if got, want := c.Allows(t.Context(), meter("a code", 1)), i == 0 || when == "without Redis"; got != want {
				t.Errorf("%s, try %d: got %t, want %t", when, i, got, want)
			}
		}
	})
}
