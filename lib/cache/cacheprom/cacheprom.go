// Package cacheprom exports metrics of a process' caches to Prometheus: the tier that answered reads, the cost of
// loads, the age of values. It needs three lines in addition to the runtime's:
//
//	metrics := cacheprom.New()
//	rt, err := cache.Open(ctx, cache.Options{Config: cache.Config{Hooks: metrics.Hooks()}})
//	metrics.Watch(rt)
//	prometheus.MustRegister(metrics)
//
// The label "cache" contains the pattern of the family: "user:{key}" for a cache that [cache.Keyed] made with the name
// "user". No event is counted twice. Most values come from [cache.Stats] when Prometheus scrapes, so a hit in process
// has no extra cost.
package cacheprom

import (
	"maps"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/lib/cache"
)

// Collector is a prometheus.Collector of the caches of one runtime. For a second runtime in the same registry, add a
// label with [prometheus.WrapRegistererWith].
type Collector struct {
	rt      atomic.Pointer[cache.Runtime]
	seconds *prometheus.HistogramVec
	age     *prometheus.HistogramVec
	dropped prometheus.Counter
}

var _ prometheus.Collector = (*Collector)(nil)

// New returns a collector. It has no values before [Collector.Watch].
func New() *Collector {
	return &Collector{
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "stoa_cache_load_seconds",
			Help: "Time of one load from the source, of one key or several.", Buckets: prometheus.ExponentialBuckets(0.0002, 4, 9)},
			[]string{"cache"}),
		age: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "stoa_cache_age_seconds",
			Help:    "Age of returned values by tier: one in 64 from process, each one from redis.",
			Buckets: prometheus.ExponentialBuckets(0.01, 4, 11)}, []string{"cache", "tier"}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{Name: "stoa_cache_dropped_keys_total",
			Help: "Keys dropped on all nodes by changes on this node."}),
	}
}

// Hooks returns the hooks that feed the collector; combine them with others by [cache.Hooks.And].
func (c *Collector) Hooks() cache.Hooks {
	return cache.Hooks{
		Loaded: func(name string, _ int, took time.Duration, _ error) {
			c.seconds.WithLabelValues(name).Observe(took.Seconds())
		},
		Answered: func(name string, from cache.Tier, age time.Duration) {
			c.age.WithLabelValues(name, string(from)).Observe(age.Seconds())
		},
		Dropped: func(keys int) { c.dropped.Add(float64(keys)) },
	}
}

// Watch sets the runtime whose caches the collector reads.
func (c *Collector) Watch(rt *cache.Runtime) { c.rt.Store(rt) }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("stoa_cache_"+name, help, labels, nil)
}

var (
	reads = desc("reads_total", "Keys read, by result: process (its memory), redis, load (from the source), or stale (past its life, "+
		"because the source failed or was slow).", "cache", "result")
	missing   = desc("missing_total", "Loads that found nothing; divide by stoa_cache_load_seconds_count for their share.", "cache")
	failures  = desc("load_errors_total", "Loads that failed.", "cache")
	fallbacks = desc("fallbacks_total", "Reads that bypassed Redis and asked the source: redis (it failed) or behind (changes may have "+
		"been missed).", "cache", "reason")
	unstored = desc("unstored_total", "Loaded keys that were not stored: fenced (a change was under way) or overtaken (a change happened "+
		"in between).", "cache", "reason")
	renewals = desc("renewals_total", "Values renewed before the end of their life: loaded (again, early) or extended (at random).", "cache",
		"how")
	entries = desc("entries", "Values in this process' memory.", "cache")
	behind  = desc("behind_seconds", "How long this node may have missed changes; "+
		"beyond the setting cache.max_stale, reads go to the source.")
	breakers = desc("breakers_open", "Parts of Redis (slot ranges) that failed and are bypassed for half a second at a time.")
)

var types = map[*prometheus.Desc]string{reads: "counter", missing: "counter", failures: "counter", fallbacks: "counter",
	unstored: "counter",
	renewals: "counter", entries: "gauge", behind: "gauge", breakers: "gauge"}

// Types returns the type of every metric, for lists that include metrics without a value.
func (c *Collector) Types() map[*prometheus.Desc]string {
	all := maps.Clone(types)
	for of, what := range map[prometheus.Collector]string{c.seconds: "histogram", c.age: "histogram", c.dropped: "counter"} {
		described := make(chan *prometheus.Desc, 1)
		of.Describe(described)
		all[<-described] = what
	}
	return all
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for d := range c.Types() {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	c.seconds.Collect(ch)
	c.age.Collect(ch)
	c.dropped.Collect(ch)
	rt := c.rt.Load()
	if rt == nil {
		return
	}
	send := func(d *prometheus.Desc, v float64, labels ...string) {
		kind := prometheus.CounterValue
		if types[d] == "gauge" {
			kind = prometheus.GaugeValue
		}
		ch <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	for name, s := range rt.Stats() {
		for _, m := range []struct {
			desc  *prometheus.Desc
			label string
			n     uint64
		}{
			{reads, "process", s.Hits}, {reads, "redis", s.RedisHits}, {reads, "load", s.Loaded}, {reads, "stale", s.Stale},
			{fallbacks, "redis", s.Failed}, {fallbacks, "behind", s.Bypassed},
			{unstored, "fenced", s.Fenced}, {unstored, "overtaken", s.Refused},
			{renewals, "loaded", s.Refreshed}, {renewals, "extended", s.Renewed},
		} {
			send(m.desc, float64(m.n), name, m.label)
		}
		send(missing, float64(s.NotFound), name)
		send(failures, float64(s.Errors), name)
		send(entries, float64(s.Entries), name)
	}
	h := rt.Health()
	send(behind, h.Behind.Seconds())
	send(breakers, float64(h.Open))
}
