package rooms

import "github.com/prometheus/client_golang/prometheus"

// metrics are the counters of this package.
type metrics struct {
	commands *prometheus.CounterVec
	rebuilt  prometheus.Counter
	watched  prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		commands: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stoa_rooms_commands_total",
			Help: "Playback commands, by result: done, or refused because the sender had seen another state."}, []string{"result"}),
		rebuilt: prometheus.NewCounter(prometheus.CounterOpts{Name: "stoa_rooms_revived_total",
			Help: "Playback registers rebuilt after Redis lost or reverted them."}),
		watched: prometheus.NewGauge(prometheus.GaugeOpts{Name: "stoa_rooms_watched", Help: "Rooms with viewers on this node."}),
	}
	if reg != nil {
		reg.MustRegister(m.commands, m.rebuilt, m.watched)
	}
	return m
}
