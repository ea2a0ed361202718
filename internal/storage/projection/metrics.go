package projection

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// replays are statistics of the replays of the log.
type replays struct {
	failed atomic.Uint64
	// Of the successful replays:
	count atomic.Uint64
	ended atomic.Int64 // Unix ms of the last one; 0 if there is none
	took  atomic.Int64 // duration of the last one
}

func (r *replays) record(began time.Time) {
	r.took.Store(int64(time.Since(began)))
	r.ended.Store(time.Now().UnixMilli())
	r.count.Add(1)
}

// collector collects the state of a projection at each scrape.
type collector[Change, State any] struct {
	p *Projection[Change, State]

	up, missed, unsure, age, replays, failures, last, took *prometheus.Desc
}

func newCollector[Change, State any](p *Projection[Change, State], name string) *collector[Change, State] {
	desc := func(metric, help string) *prometheus.Desc {
		return prometheus.NewDesc("stoa_projection_"+metric, help, nil, prometheus.Labels{"projection": name})
	}
	return &collector[Change, State]{
		p:        p,
		up:       desc("up", "1 while Redis has everything that was acknowledged, 0 while SQL answers."),
		missed:   desc("missed_rows", "Rows that were acknowledged and are not in Redis yet; beyond 65,536 they are not counted."),
		unsure:   desc("unsure_rows", "Rows whose commit SQL did not answer, until they were checked twice."),
		age:      desc("mark_age_seconds", "Age of the mark: all earlier commits of this node are in Redis."),
		replays:  desc("replays_total", "Replays of the log, after Redis lost data or a node died."),
		failures: desc("replay_failures_total", "Failed replays of the log; SQL answers until one succeeds."),
		last:     desc("last_replay_timestamp_seconds", "Unix time of the end of the last replay; 0 before the first."),
		took:     desc("last_replay_seconds", "Duration of the last replay."),
	}
}

func (c *collector[Change, State]) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.up, c.missed, c.unsure, c.age, c.replays, c.failures, c.last, c.took} {
		ch <- d
	}
}

func (c *collector[Change, State]) Collect(ch chan<- prometheus.Metric) {
	p := c.p
	p.mu.Lock()
	missed, unsure := len(p.missed.rows), len(p.unsure.rows)
	for _, l := range p.rechecks {
		unsure += len(l.rows)
	}
	p.mu.Unlock()
	up := 0.0
	if p.Up() {
		up = 1
	}
	gauge := func(d *prometheus.Desc, v float64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
	gauge(c.up, up)
	gauge(c.missed, float64(missed))
	gauge(c.unsure, float64(unsure))
	gauge(c.age, time.Since(time.UnixMilli(p.applied.Load())).Seconds())
	gauge(c.last, float64(p.replays.ended.Load())/1000)
	gauge(c.took, time.Duration(p.replays.took.Load()).Seconds())
	ch <- prometheus.MustNewConstMetric(c.failures, prometheus.CounterValue, float64(p.replays.failed.Load()))
	ch <- prometheus.MustNewConstMetric(c.replays, prometheus.CounterValue, float64(p.replays.count.Load()))
}
