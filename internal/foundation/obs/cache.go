package obs

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/cache"
)

// Caches is a prometheus.Collector of what the caches of this process do. Give
// [Caches.Hooks] to their runtime, and then the runtime to [Caches.Watch].
type Caches struct {
	reg     prometheus.Registerer
	rt      *cache.Runtime
	seconds *prometheus.HistogramVec
	age     *prometheus.HistogramVec
	dropped prometheus.Counter
}

var _ prometheus.Collector = (*Caches)(nil)

// NewCaches returns a collector that will be in reg.
func NewCaches(reg prometheus.Registerer) *Caches {
	c := &Caches{
		reg: reg,
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "stoa_cache_load_seconds",
			Help: "Time of one load from the source, of one key or several.", Buckets: prometheus.ExponentialBuckets(0.0002, 4, 9)}, []string{"cache"}),
		age: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "stoa_cache_age_seconds",
			Help: "Age of answered values, by where they were: of one in 64 from process, of each from redis.", Buckets: prometheus.ExponentialBuckets(0.01, 4, 11)}, []string{"cache", "tier"}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{Name: "stoa_cache_dropped_keys_total",
			Help: "Keys that changes on this node have dropped everywhere."}),
	}
	reg.MustRegister(c.seconds, c.age, c.dropped)
	return c
}

// Hooks feed the collector.
func (c *Caches) Hooks() cache.Hooks {
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

// Watch collects from the caches of rt.
func (c *Caches) Watch(rt *cache.Runtime) {
	c.rt = rt
	c.reg.MustRegister(c)
}

func cacheDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("stoa_cache_"+name, help, labels, nil)
}

var (
	cacheReads     = cacheDesc("reads_total", "Keys read, by where the answer was: process (its memory), redis, load (the source was asked), or stale (a value past its life, for the source failed or was slow).", "cache", "result")
	cacheMissing   = cacheDesc("missing_total", "Loads that found nothing; with stoa_cache_load_seconds_count, the loads, their share.", "cache")
	cacheErrors    = cacheDesc("load_errors_total", "Loads that failed.", "cache")
	cacheFallbacks = cacheDesc("fallbacks_total", "Reads that did without Redis, and asked the source: redis (it failed) or behind (changes may have been missed).", "cache", "reason")
	cacheUnstored  = cacheDesc("unstored_total", "Loaded keys that were not stored: fenced (a change was under way) or overtaken (one came between).", "cache", "reason")
	cacheRenewals  = cacheDesc("renewals_total", "Values that did not reach the end of their life: loaded (again, early) or extended (by chance).", "cache", "how")
	cacheEntries   = cacheDesc("entries", "Values in this process' memory.", "cache")
	cacheBehind    = cacheDesc("behind_seconds", "For how long this node may have missed changes; beyond the setting cache.max_stale, reads go to the source.")
	cacheBreakers  = cacheDesc("breakers_open", "Parts of Redis that failed and are left alone for half a second at a time.")
)

var cacheKinds = map[*prometheus.Desc]string{cacheReads: "counter", cacheMissing: "counter", cacheErrors: "counter", cacheFallbacks: "counter", cacheUnstored: "counter",
	cacheRenewals: "counter", cacheEntries: "gauge", cacheBehind: "gauge", cacheBreakers: "gauge"}

// kinds has the type of every metric that may have no value yet.
func (*Caches) kinds() map[*prometheus.Desc]string { return cacheKinds }

// Describe implements prometheus.Collector.
func (c *Caches) Describe(ch chan<- *prometheus.Desc) {
	for desc := range cacheKinds {
		ch <- desc
	}
}

// Collect implements prometheus.Collector.
func (c *Caches) Collect(ch chan<- prometheus.Metric) {
	for name, s := range c.rt.Stats() {
		for _, m := range []struct {
			desc  *prometheus.Desc
			label string
			n     uint64
		}{
			{cacheReads, "process", s.Hits}, {cacheReads, "redis", s.RedisHits}, {cacheReads, "load", s.Loaded}, {cacheReads, "stale", s.Stale},
			{cacheFallbacks, "redis", s.Failed}, {cacheFallbacks, "behind", s.Bypassed},
			{cacheUnstored, "fenced", s.Fenced}, {cacheUnstored, "overtaken", s.Refused},
			{cacheRenewals, "loaded", s.Refreshed}, {cacheRenewals, "extended", s.Renewed},
		} {
			counter(ch, m.desc, m.n, name, m.label)
		}
		counter(ch, cacheMissing, s.NotFound, name)
		counter(ch, cacheErrors, s.Errors, name)
		gauge(ch, cacheEntries, float64(s.Entries), name)
	}
	h := c.rt.Health()
	gauge(ch, cacheBehind, h.Behind.Seconds())
	gauge(ch, cacheBreakers, float64(h.Open))
}
