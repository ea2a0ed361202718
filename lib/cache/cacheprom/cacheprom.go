// Package cacheprom shows Prometheus what the caches of a process do: where reads were
// answered, what loads cost, how old values are. It needs three lines beside the runtime's:
//
//	metrics := cacheprom.New()
//	rt, err := cache.Open(ctx, cache.Options{Config: cache.Config{Hooks: metrics.Hooks()}})
//	metrics.Watch(rt)
//	prometheus.MustRegister(metrics)
//
// A cache is called by the pattern of its family in the label "cache": "user:{key}" of one that
// [cache.Keyed] has made with the name "user". Nothing is counted twice: most of it is read from
// [cache.Stats] when Prometheus asks, and a hit in process costs nothing more.
package cacheprom

import (
	"maps"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/lib/cache"
)

// Collector is a prometheus.Collector of the caches of one runtime. Metrics of another runtime
// in the same registry need a wrapper with a label of its own:
// [prometheus.WrapRegistererWith].
type Collector struct {
	rt      atomic.Pointer[cache.Runtime]
	seconds *prometheus.HistogramVec
	age     *prometheus.HistogramVec
	dropped prometheus.Counter
}

var _ prometheus.Collector = (*Collector)(nil)

// New returns a collector that has nothing to tell until [Collector.Watch].
func New() *Collector {
	return &Collector{
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "stoa_cache_load_seconds",
			Help: "Time of one load from the source, of one key or several.", Buckets: prometheus.ExponentialBuckets(0.0002, 4, 9)}, []string{"cache"}),
		age: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "stoa_cache_age_seconds",
			Help: "Age of answered values, by where they were: of one in 64 from process, of each from redis.", Buckets: prometheus.ExponentialBuckets(0.01, 4, 11)}, []string{"cache", "tier"}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{Name: "stoa_cache_dropped_keys_total",
			Help: "Keys that changes on this node have dropped everywhere."}),
	}
}

// Hooks feed the collector; see [cache.Hooks.And] for more than one set of hooks.
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

// Watch has the collector ask rt.
func (c *Collector) Watch(rt *cache.Runtime) { c.rt.Store(rt) }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("stoa_cache_"+name, help, labels, nil)
}

var (
	reads     = desc("reads_total", "Keys read, by where the answer was: process (its memory), redis, load (the source was asked), or stale (a value past its life, for the source failed or was slow).", "cache", "result")
	missing   = desc("missing_total", "Loads that found nothing; with stoa_cache_load_seconds_count, the loads, their share.", "cache")
	failures  = desc("load_errors_total", "Loads that failed.", "cache")
	fallbacks = desc("fallbacks_total", "Reads that did without Redis, and asked the source: redis (it failed) or behind (changes may have been missed).", "cache", "reason")
	unstored  = desc("unstored_total", "Loaded keys that were not stored: fenced (a change was under way) or overtaken (one came between).", "cache", "reason")
	renewals  = desc("renewals_total", "Values that did not reach the end of their life: loaded (again, early) or extended (by chance).", "cache", "how")
	entries   = desc("entries", "Values in this process' memory.", "cache")
	behind    = desc("behind_seconds", "For how long this node may have missed changes; beyond the setting cache.max_stale, reads go to the source.")
	breakers  = desc("breakers_open", "Parts of Redis that failed and are left alone for half a second at a time.")
)

var types = map[*prometheus.Desc]string{reads: "counter", missing: "counter", failures: "counter", fallbacks: "counter", unstored: "counter",
	renewals: "counter", entries: "gauge", behind: "gauge", breakers: "gauge"}

// Types returns the type of every metric, for lists of those that have no value yet.
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
