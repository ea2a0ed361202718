package presence

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	changes, reads *prometheus.CounterVec
	putBack, swept prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, s *Service) *metrics {
	make := promauto.With(reg)
	make.NewGaugeFunc(prometheus.GaugeOpts{Name: "stoa_presence_connections", Help: "Connections to this node: sockets and streams of events."}, func() float64 { return float64(s.held.count()) })
	return &metrics{
		changes: make.NewCounterVec(prometheus.CounterOpts{Name: "stoa_presence_changes_total", Help: "Changes of users of which this node told, by what they are then."}, []string{"status"}),
		reads:   make.NewCounterVec(prometheus.CounterOpts{Name: "stoa_presence_reads_total", Help: "Questions about users, by what answered: redis, or while that did not the node, which knows its own connections alone."}, []string{"from"}),
		putBack: make.NewCounter(prometheus.CounterOpts{Name: "stoa_presence_put_back_total", Help: "Connections noted anew, because Redis had lost them, or may have."}),
		swept:   make.NewCounter(prometheus.CounterOpts{Name: "stoa_presence_swept_total", Help: "Users taken off nodes that had died."}),
	}
}
