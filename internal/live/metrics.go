package live

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the counters of this package.
type metrics struct {
	publishers, viewers, relays prometheus.Gauge
	bytesIn                     prometheus.Counter
	joins                       *prometheus.HistogramVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		publishers: prometheus.NewGauge(prometheus.GaugeOpts{Name: "stoa_live_publishers", Help: "Streams that are published to this node."}),
		viewers:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "stoa_live_viewers", Help: "Viewers of live streams at this node."}),
		relays: prometheus.NewGauge(prometheus.GaugeOpts{Name: "stoa_live_relays",
			Help: "Live streams that this node fetches from other nodes."}),
		bytesIn: prometheus.NewCounter(prometheus.CounterOpts{Name: "stoa_live_received_bytes_total",
			Help: "Bytes of media that publishers have sent to this node."}),
		joins: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "stoa_live_join_seconds",
			Help:    "Time from a viewer's offer to the first packet, by whether a group of pictures was kept for them.",
			Buckets: []float64{.05, .1, .25, .5, 1, 2.5, 5, 10}}, []string{"kept"}),
	}
	if reg != nil {
		reg.MustRegister(m.publishers, m.viewers, m.relays, m.bytesIn, m.joins)
	}
	return m
}

func (m *metrics) joined(kept bool, after time.Duration) {
	label := "no"
	if kept {
		label = "yes"
	}
	m.joins.WithLabelValues(label).Observe(after.Seconds())
}
