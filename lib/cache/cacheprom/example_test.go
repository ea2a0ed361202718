package cacheprom_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/cache/cacheprom"
	_ "github.com/stoa-dev/stoa/lib/redis/embedded"
)

func Example() {
	ctx := context.Background()
	metrics := cacheprom.New()
	rt, err := cache.Open(ctx, cache.Options{Config: cache.Config{Hooks: metrics.Hooks()}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	metrics.Watch(rt)
	registry := prometheus.NewRegistry() // or prometheus.MustRegister(metrics)
	registry.MustRegister(metrics)

	load := func(_ context.Context, id int) (string, error) { return "lamp " + strconv.Itoa(id), nil }
	products := cache.Keyed(rt, "product", strconv.Itoa, load)
	for range 3 {
		if _, err := products.Get(ctx, 7); err != nil {
			fmt.Println(err)
		}
	}

	families, err := registry.Gather() // the output of promhttp.HandlerFor
	if err != nil {
		fmt.Println(err)
	}
	for _, f := range families {
		if f.GetName() != "stoa_cache_reads_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			fmt.Println(strings.Join(labels, " "), m.GetCounter().GetValue())
		}
	}
	// Output:
	// cache=product:{key} result=load 1
	// cache=product:{key} result=process 2
	// cache=product:{key} result=redis 0
	// cache=product:{key} result=stale 0
}

// Types lists every metric before there are values, for dashboards and references.
func ExampleCollector_Types() {
	metrics := cacheprom.New()
	types := map[string]int{}
	for _, kind := range metrics.Types() {
		types[kind]++
	}
	fmt.Println(types)
	// Output: map[counter:7 gauge:3 histogram:2]
}
