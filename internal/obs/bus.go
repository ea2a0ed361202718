package obs

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/lib/bus"
)

var (
	busEvents = prometheus.NewDesc("stoa_bus_events_total",
		"Events of other nodes, by path: message, log (the message was late or lost), or passed (not in the log).", []string{"by"}, nil)
	busLost = prometheus.NewDesc("stoa_bus_lost_total",
		"Times that events may have been missed, so that caches were dropped; the start of a node does not count.", nil, nil)
	busBeats  = prometheus.NewDesc("stoa_bus_beats_total", "Reads of the event log, by result: ok or failed.", []string{"result"}, nil)
	busBehind = prometheus.NewDesc("stoa_bus_behind_seconds", "Age of the newest time up to which this node has received every event.", nil,
		nil)
)

type busCollector struct{ b *bus.Bus }

// NewBus returns a collector for b.
func NewBus(b *bus.Bus) prometheus.Collector { return busCollector{b} }

// Describe implements [prometheus.Collector].
func (c busCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{busEvents, busLost, busBeats, busBehind} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (c busCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.b.Stats()
	for _, m := range []struct {
		desc  *prometheus.Desc
		value uint64
		label []string
	}{
		{busEvents, s.Events - s.FromLog, []string{"message"}},
		{busEvents, s.FromLog, []string{"log"}},
		{busEvents, s.Passed, []string{"passed"}},
		{busLost, s.Lost, nil},
		{busBeats, s.Beats - s.Failed, []string{"ok"}},
		{busBeats, s.Failed, []string{"failed"}},
	} {
		ch <- prometheus.MustNewConstMetric(m.desc, prometheus.CounterValue, float64(m.value), m.label...)
	}
	ch <- prometheus.MustNewConstMetric(busBehind, prometheus.GaugeValue, float64(bus.Now()-c.b.Seen())/1e9)
}
