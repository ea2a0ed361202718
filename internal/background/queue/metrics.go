package queue

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are stoa_queue_*. The label queue is the name of the store. The gauges cover the whole queue, so all
// consuming nodes report the same values.
type metrics struct {
	handled                       *prometheus.CounterVec
	seconds                       *prometheus.HistogramVec
	depth, inFlight, dead, oldest *prometheus.GaugeVec
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	var faults []error
	topic := []string{"queue", "topic"}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return shared(reg, &faults, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "stoa_queue_" + name, Help: help}, topic))
	}
	m := &metrics{
		handled: shared(reg, &faults, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stoa_queue_handled_total",
			Help: "Tries at messages by outcome: done, retry, dead, postponed (a dependency is unavailable), released (at a stop, or not started)."},
			[]string{"queue", "topic", "outcome"})),
		seconds: shared(reg, &faults, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "stoa_queue_seconds",
			Help: "Duration of a try, or of a batch under its first topic.", Buckets: prometheus.ExponentialBuckets(0.001, 4, 9)}, topic)),
		depth:    gauge("depth", "Messages not yet handled, of all nodes."),
		inFlight: gauge("in_flight", "Messages being handled, on all nodes."),
		dead:     gauge("dead", "Dead letters: failed messages that are not yet replayed or dropped."),
		oldest:   gauge("oldest_seconds", "Age of the oldest message not yet handled; 0 if there is none."),
	}
	return m, errors.Join(faults...)
}

// shared registers c, or returns the collector that a consumer of another store registered.
func shared[C prometheus.Collector](reg prometheus.Registerer, faults *[]error, c C) C {
	if reg == nil {
		return c
	}
	err := reg.Register(c)
	if taken, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if existing, ok := taken.ExistingCollector.(C); ok {
			return existing
		}
	}
	if err != nil {
		*faults = append(*faults, err)
	}
	return c
}

// measure sets the gauges at an interval until ctx ends.
func (c *Consumer) measure(ctx context.Context) {
	tick := time.NewTicker(countInterval)
	defer tick.Stop()
	for {
		countCtx, cancel := context.WithTimeout(ctx, countInterval)
		stats, err := c.store.Stats(countCtx)
		cancel()
		if err == nil { // otherwise the next claim logs the error
			c.set(stats)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// set sets the gauges of this consumer's topics. It sums all other topics as "other", because their number is
// unbounded.
func (c *Consumer) set(stats []Stat) {
	byTopic := map[string]Stat{"other": {}}
	for topic := range c.topics {
		byTopic[topic] = Stat{}
	}
	for _, s := range stats {
		name := s.Topic
		if !c.topics[name] {
			name = "other"
		}
		t := byTopic[name]
		t.Depth, t.InFlight, t.Dead = t.Depth+s.Depth, t.InFlight+s.InFlight, t.Dead+s.Dead
		t.Age = max(t.Age, s.Age)
		byTopic[name] = t
	}
	for name, t := range byTopic {
		for g, v := range map[*prometheus.GaugeVec]float64{
			c.depth: float64(t.Depth), c.inFlight: float64(t.InFlight), c.dead: float64(t.Dead), c.oldest: t.Age.Seconds(),
		} {
			g.WithLabelValues(c.store.Name(), name).Set(v)
		}
	}
}
