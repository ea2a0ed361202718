package obs

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/bus"
	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

var (
	cacheKeys = keyspace.New("obs")
	things    = keyspace.Def1[keyspace.Int](cacheKeys, "obs:thing:{id}", keyspace.CachedOf[string](),
		keyspace.Expire(time.Hour).Negative(time.Minute), keyspace.Doc{})
	news    = keyspace.Def1[keyspace.Int](cacheKeys, "obs:news:{id}", keyspace.CachedOf[string](), keyspace.Expire(time.Hour), keyspace.Doc{})
	busKeys = bus.Keys{
		Events: keyspace.DefChannel0(cacheKeys, "obs:events", keyspace.RawMessages("bus"), keyspace.Doc{}).At(),
		Log:    keyspace.Def0(cacheKeys, "obs:events", keyspace.StreamOf("bus"), keyspace.Forever("a test's"), keyspace.Doc{}).At(),
	}
)

func TestCaches_ExportCounts(t *testing.T) {
	server := redistest.Server(t)
	db := redistest.Open(t, server.URL)
	nodes := bus.New(db, busKeys, bus.Config{Node: "a", Beat: 10 * time.Millisecond, Log: slog.New(slog.DiscardHandler)})
	r := NewRegistry()
	counts := NewCaches(r)
	rt := cache.NewRuntime(db, nodes, cache.Config{Hooks: counts.Hooks(), Budget: 5 * time.Second})
	counts.Watch(rt)
	boom := errors.New("boom")
	// The first read precedes the bus; it counts as "behind" in a process that is older than MaxStale.
	c := cache.New(rt, things, cache.Policy{MaxStale: time.Hour},
		cache.Source[keyspace.Int, string]{Load: func(_ context.Context, id keyspace.Int) (string, error) {
			switch id.N {
			case 404:
				return "", cache.ErrNotFound
			case 500:
				return "", boom
			}
			return "thing", nil
		}})
	// A cache that accepts no value older than a moment.
	fresh := cache.New(rt, news, cache.Policy{MaxStale: 20 * time.Millisecond},
		cache.Source[keyspace.Int, string]{Load: func(context.Context, keyspace.Int) (string, error) {
			return "new", nil
		}})
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()

	// Before the bus has connected to Redis, values there are not trusted.
	read := func(n int64, want error) {
		t.Helper()
		if _, err := c.Get(ctx, keyspace.Int{N: n}); !errors.Is(err, want) {
			t.Errorf("Get(%d): got %v, want %v", n, err, want)
		}
	}
	read(1, nil)
	if _, err := fresh.Get(ctx, keyspace.Int{N: 1}); err != nil {
		t.Fatal(err)
	}
	all.Go(func() { _ = nodes.Run(ctx, func() {}) })
	if err := nodes.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	read(1, nil) // loaded and stored
	read(1, nil)
	read(1, nil)
	c.Clear()
	read(1, nil)     // from Redis
	for range 2000 { // about 30 of them are sampled
		read(1, nil)
	}
	read(404, cache.ErrNotFound)
	read(500, boom)
	if err := c.Invalidate(ctx, keyspace.Int{N: 1}, keyspace.Int{N: 2}); err != nil {
		t.Fatal(err)
	}
	rt.Wait()
	got := scrape(t, r)
	for name, want := range map[string]float64{
		`stoa_cache_reads_total{cache="obs:thing:{id}",result="process"}`:      2002,
		`stoa_cache_reads_total{cache="obs:thing:{id}",result="redis"}`:        1,
		`stoa_cache_reads_total{cache="obs:thing:{id}",result="load"}`:         4,
		`stoa_cache_reads_total{cache="obs:thing:{id}",result="stale"}`:        0,
		`stoa_cache_missing_total{cache="obs:thing:{id}"}`:                     1,
		`stoa_cache_load_errors_total{cache="obs:thing:{id}"}`:                 1,
		`stoa_cache_load_seconds_count{cache="obs:thing:{id}"}`:                4,
		`stoa_cache_fallbacks_total{cache="obs:thing:{id}",reason="behind"}`:   0,
		`stoa_cache_fallbacks_total{cache="obs:news:{id}",reason="behind"}`:    1,
		`stoa_cache_fallbacks_total{cache="obs:thing:{id}",reason="redis"}`:    0,
		`stoa_cache_unstored_total{cache="obs:thing:{id}",reason="fenced"}`:    0,
		`stoa_cache_unstored_total{cache="obs:thing:{id}",reason="overtaken"}`: 0,
		`stoa_cache_dropped_keys_total`:                                        2,
		`stoa_cache_breakers_open`:                                             0,
	} {
		expect(t, got, name, is(want))
	}
	expect(t, got, "stoa_cache_behind_seconds", func(v float64) bool { return v > 0 && v < 5 })
	expect(t, got, `stoa_cache_age_seconds_count{cache="obs:thing:{id}",tier="redis"}`, is(1))
	expect(t, got, `stoa_cache_age_seconds_count{cache="obs:thing:{id}",tier="process"}`, func(n float64) bool { return n > 0 && n < 500 })
	expect(t, got, `stoa_cache_age_seconds_sum{cache="obs:thing:{id}",tier="redis"}`, func(s float64) bool { return s >= 0 && s < 60 })
	expect(t, got, `stoa_cache_entries{cache="obs:thing:{id}"}`, positive)

	// B11: a read whose Redis call fails falls back, and is counted.
	server.Kill()
	for range 4 { // the breaker opens
		read(3, nil)
	}
	got = scrape(t, r)
	expect(t, got, `stoa_cache_fallbacks_total{cache="obs:thing:{id}",reason="redis"}`, positive)
	expect(t, got, "stoa_cache_breakers_open", is(1))

	ms, err := Describe(r)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/cache.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range ms {
		if strings.HasPrefix(m.Name, "stoa_cache_") && !strings.Contains(string(page), "| `"+m.Name+"` |") {
			t.Errorf("docs/cache.md lacks the OpenTelemetry name of %s", m.Name)
		}
		if len(m.Name) > 11 && m.Name[:11] == "stoa_cache_" && !slices.Contains([]string{"counter", "gauge", "histogram"}, m.Type) {
			t.Errorf("%s is %s", m.Name, m.Type)
		}
	}
}
