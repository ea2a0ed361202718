package library

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/leaderboard"
	"github.com/stoa-dev/stoa/lib/lease"
	"github.com/stoa-dev/stoa/lib/ratelimit"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

// The recipes of docs/library/recipes.md, in the same order.

type orderKey struct{ Tenant, ID string }

func open(t *testing.T) *cache.Runtime {
	t.Helper()
	rt, err := cache.Open(t.Context(), cache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rt.Close() })
	return rt
}

// table is a fake database.
type table struct {
	mu    sync.Mutex
	rows  map[string]int
	asked int
}

func (t *table) get(key string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked++
	return t.rows[key]
}

func (t *table) add(key string, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rows[key] += n
}

func TestATenantsValuesAreDroppedTogether(t *testing.T) {
	rt, db := open(t), &table{rows: map[string]int{}}
	orders := cache.KeyedFrom(rt, "order", func(o orderKey) string { return o.Tenant + "/" + o.ID }, cache.Source[orderKey, int]{
		Load: func(_ context.Context, o orderKey) (int, error) { return db.get(o.Tenant + "/" + o.ID), nil },
		Tags: func(o orderKey) []cache.Tag { return []cache.Tag{cache.TagOf("tenant", o.Tenant)} },
	})
	all := []orderKey{{"acme", "1"}, {"acme", "2"}, {"other", "1"}}
	if _, err := orders.GetMany(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	err := rt.Change(t.Context(), func(context.Context) error {
		db.add("acme/1", 7)
		db.add("other/1", 7)
		return nil
	}, cache.TagOf("tenant", "acme").Target())
	if err != nil {
		t.Fatal(err)
	}
	got, err := orders.GetMany(t.Context(), all)
	if err != nil || got[all[0]] != 7 || got[all[1]] != 0 || got[all[2]] != 0 {
		t.Errorf("got %v, %v: want the tenant's new one and the other's old one", got, err)
	}
}

func TestTwoBalancesChangeInOneTransaction(t *testing.T) {
	rt, db := open(t), &table{rows: map[string]int{"ada": 10}}
	balances := cache.Keyed(rt, "balance", func(k string) string {
		return k
	}, func(_ context.Context, k string) (int, error) { return db.get(k), nil })
	names := []string{"ada", "bob"}
	if _, err := balances.GetMany(t.Context(), names); err != nil {
		t.Fatal(err)
	}
	err := rt.Change(t.Context(), func(context.Context) error {
		db.add("ada", -5)
		db.add("bob", 5)
		return nil
	}, balances.Target("ada"), balances.Target("bob"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := balances.GetMany(t.Context(), names); err != nil || got["ada"] != 5 || got["bob"] != 5 {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestAValueKnowsItsLifeAndIsWarmed(t *testing.T) {
	rt, db := open(t), &table{rows: map[string]int{"a": 1, "b": 2}}
	tokens := cache.KeyedFrom(rt, "token", func(k string) string { return k }, cache.Source[string, int]{
		Load: func(_ context.Context, k string) (int, error) { return db.get(k), nil },
		Life: func(n int) time.Duration { return time.Duration(n) * time.Hour },
	})
	if err := tokens.Warm(t.Context(), slices.Values([]string{"a", "b"}), cache.Warming{Batch: 100}); err != nil {
		t.Fatal(err)
	}
	if _, err := tokens.Get(t.Context(), "b"); err != nil || db.asked != 2 {
		t.Errorf("%v; the database was asked %d times", err, db.asked)
	}
}

func TestABoardIsLoadedAfterALoss(t *testing.T) {
	shared := redistest.Open(t, "embedded")
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "points.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	exec := func(query string, args ...any) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), query, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec("CREATE TABLE points (season INTEGER, player TEXT, points INTEGER, at TIMESTAMP, PRIMARY KEY (season, player))")
	now := time.Now()
	for player, points := range map[string]int64{"ada": 7, "bob": 9} {
		exec("INSERT INTO points VALUES (11, ?, ?, ?)", player, points, now)
	}
	board := func(season int) leaderboard.Board {
		return leaderboard.Exact(shared, leaderboard.Named(fmt.Sprint("season-", season)))
	}
	ensure := func(season int) (bool, error) {
		return leaderboard.Ensure(t.Context(), board(season), now, leaderboard.FromRows(
			func() (*sql.Rows, error) {
				return db.QueryContext(t.Context(), "SELECT player, points, at FROM points WHERE season = ?", season)
			},
			func(rows *sql.Rows, e *leaderboard.Entry) error { return rows.Scan(&e.Member, &e.Value, &e.At) }))
	}
	for season, want := range map[int]int{11: 2, 12: 0} {
		if loaded, err := ensure(season); !loaded || err != nil {
			t.Fatal(loaded, err)
		}
		if best, err := board(season).Top(t.Context(), now, 10); err != nil || len(best) != want || want > 0 && best[0].Member != "bob" {
			t.Errorf("season %d: %v, %v", season, best, err)
		}
	}
	if loaded, err := ensure(11); loaded || err != nil {
		t.Errorf("loaded again: %v, %v", loaded, err)
	}
}

func TestAJobIsFencedInItsTable(t *testing.T) {
	db := redistest.Open(t, "embedded")
	var greatest int64
	for range 2 {
		err := lease.New(db).Run(t.Context(), lease.Named("billing"), "node-7", 10*time.Second, func(_ context.Context, token int64) error {
			if token <= greatest {
				t.Errorf("token %d after %d", token, greatest)
			}
			greatest = token
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestALimitForEachAndForAll(t *testing.T) {
	limiter := ratelimit.New(redistest.Open(t, "embedded"))
	ask := func(address string) bool {
		res, err := limiter.AllowAll(t.Context(), []ratelimit.Ask{
			{Key: ratelimit.Named("login", address), Limit: ratelimit.Limit{Max: 2, Window: time.Minute}},
			{Key: ratelimit.Named("login", "everybody"), Limit: ratelimit.Limit{Max: 3, Window: time.Minute}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return res.Allowed
	}
	for i, step := range []struct {
		address string
		want    bool
	}{{"a", true}, {"a", true}, {"a", false}, {"b", true}, {"b", false}} {
		if got := ask(step.address); got != step.want {
			t.Errorf("call %d: %t, want %t", i, got, step.want)
		}
	}
}
