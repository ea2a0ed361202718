package cacheprom_test

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/cache/cacheprom"
)

// A pedantic registry refuses metrics that are not described or are collected twice.
func TestCollector_DescribesItsMetrics(t *testing.T) {
	metrics := cacheprom.New()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(metrics)
	if _, err := registry.Gather(); err != nil {
		t.Errorf("without a runtime: %v", err)
	}
	rt, err := cache.Open(t.Context(), cache.Options{Config: cache.Config{Hooks: metrics.Hooks()}})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	metrics.Watch(rt)
	names := cache.Keyed(rt, "name", func(k string) string { return k }, func(_ context.Context, k string) (string, error) { return k, nil })
	if _, err := names.Get(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if err := names.Invalidate(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, f := range families {
		found[f.GetName()] = true
	}
	for _, name := range []string{"stoa_cache_load_seconds", "stoa_cache_dropped_keys_total", "stoa_cache_reads_total", "stoa_cache_entries",
		"stoa_cache_breakers_open"} {
		if !found[name] {
			t.Errorf("%s has no value", name)
		}
	}
}
