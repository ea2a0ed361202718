package events

import "github.com/prometheus/client_golang/prometheus"

var (
	channelsDesc = prometheus.NewDesc("stoa_events_channels", "Channels with listeners on this node, such as those of connected users.", nil,
		nil)
	sentDesc = prometheus.NewDesc("stoa_events_sent_total",
		"Events published by this node, by reach: redis (all nodes), or here (only this node's listeners, because Redis did not reply).",
		[]string{"to"}, nil)
	caughtDesc = prometheus.NewDesc("stoa_events_caught_up_total",
		"Events read from a channel's stream, because their message was late or lost.", nil, nil)
	lostDesc = prometheus.NewDesc("stoa_events_lost_total",
		"Times that a channel's listeners were notified of possibly missed events, so that they load the current state.", nil, nil)
	unsentDesc = prometheus.NewDesc("stoa_events_unsent_total",
		"Channels of events that could not be sent; those with subscribers begin a new epoch, and their listeners are notified.", nil, nil)
)

type collector struct{ b *Bus }

// Metrics returns a collector of stoa_events_*: the delivery of events, and possible losses.
func (b *Bus) Metrics() prometheus.Collector { return collector{b} }

// Describe implements [prometheus.Collector].
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{channelsDesc, sentDesc, caughtDesc, lostDesc, unsentDesc} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (c collector) Collect(ch chan<- prometheus.Metric) {
	s := c.b.Stats()
	count := func(d *prometheus.Desc, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	ch <- prometheus.MustNewConstMetric(channelsDesc, prometheus.GaugeValue, float64(s.Channels))
	count(sentDesc, s.Sent, "redis")
	count(sentDesc, s.Local, "here")
	count(caughtDesc, s.CaughtUp)
	count(lostDesc, s.Lost)
	count(unsentDesc, s.Unsent)
}
