package redistest

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/redis"
	_ "github.com/stoa-dev/stoa/lib/redis/embedded" // registers the engine of that name
	_ "github.com/stoa-dev/stoa/lib/redis/spawn"    // registers the engine of that name
)

// An Engine is one kind of Redis.
type Engine struct {
	Name   string // as returned by [redis.DB.Mode]
	config func(testing.TB) redis.Config
}

// Config starts the engine and returns the configuration for an empty Redis of its kind. DBs with the same Config share
// one Redis, except for "embedded" and "spawn", which start one for each connection.
func (e Engine) Config(t testing.TB) redis.Config {
	t.Helper()
	return e.config(t)
}

// Open starts the engine and connects to it.
func (e Engine) Open(t testing.TB) *redis.DB {
	t.Helper()
	return OpenConfig(t, e.Config(t))
}

// Engines lists the engines for a conformance suite: embedded, spawn, standalone, sentinel and a cluster of three. Each
// starts with its Open.
func Engines(t testing.TB) []Engine {
	t.Helper()
	url := func(start func(testing.TB) string) func(testing.TB) redis.Config {
		return func(t testing.TB) redis.Config { return redis.Config{URL: start(t), Patience: patience} }
	}
	return []Engine{
		{"embedded", url(func(testing.TB) string { return "embedded" })},
		{"spawn", url(func(testing.TB) string { return "spawn" })},
		{"standalone", url(func(t testing.TB) string { return Server(t).URL })},
		{"sentinel", url(func(t testing.TB) string { return Sentinel(t).URL })},
		{"cluster", url(func(t testing.TB) string { return Cluster(t, 3, 0).URL })},
	}
}

const (
	// patience is longer than the stalls of a machine.
	patience = 20 * time.Second
	// longTimeout is the silence in milliseconds that makes a server count as dead in a test without failovers.
	longTimeout = "30000"
)

// Open connects, waits until the server answers, and closes when the test ends.
//
// A server only counts as unavailable after a long silence, because the machine of a test may stall for seconds. A test
// of silent servers sets its own [redis.Config.Patience].
func Open(t testing.TB, url string) *redis.DB {
	t.Helper()
	return OpenConfig(t, redis.Config{URL: url, Patience: patience})
}

// OpenConfig is [Open] with all settings. An unset Log goes to the test's output.
func OpenConfig(t testing.TB, cfg redis.Config) *redis.DB {
	t.Helper()
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	db, err := redis.Open(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	for err = db.Ping(ctx); err != nil; err = db.Ping(ctx) {
		if ctx.Err() != nil {
			t.Fatalf("Ping: %v", err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return db
}
