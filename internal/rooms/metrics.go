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
		commands: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stoa_rooms_commands_total", Help: "Commands to rooms' playback, done and refused because its sender had seen another state."}, []string{"result"}),
		rebuilt:  prometheus.NewCounter(prometheus.CounterOpts{Name: "stoa_rooms_revived_total", Help: "Registers of playback made anew from SQL."}),
		watched:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "stoa_rooms_watched", Help: "Rooms that somebody watches by this node."}),
	}
	if reg != nil {
		reg.MustRegister(m.commands, m.rebuilt, m.watched)
	}
	return m
}
