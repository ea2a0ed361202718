package presence

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	changes, reads  *prometheus.CounterVec
	restored, swept prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, s *Service) *metrics {
	factory := promauto.With(reg)
	factory.NewGaugeFunc(prometheus.GaugeOpts{Name: "stoa_presence_connections",
		Help: "Open connections to this node: sockets and event streams."}, func() float64 {
		return float64(s.local.count())
	})
	return &metrics{
		changes: factory.NewCounterVec(prometheus.CounterOpts{Name: "stoa_presence_changes_total",
			Help: "Presence changes that this node published, by the new status."}, []string{"status"}),
		reads: factory.NewCounterVec(prometheus.CounterOpts{Name: "stoa_presence_reads_total",
			Help: "Presence reads, by source: redis, or node while Redis is unavailable (own connections only)."}, []string{"from"}),
		restored: factory.NewCounter(prometheus.CounterOpts{Name: "stoa_presence_put_back_total",
			Help: "Connections stored again because Redis may have lost them."}),
		swept: factory.NewCounter(prometheus.CounterOpts{Name: "stoa_presence_swept_total",
			Help: "Users whose connections to a dead node were removed."}),
	}
}
