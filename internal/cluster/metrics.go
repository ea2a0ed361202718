package cluster

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct{ beats *prometheus.CounterVec }

func newMetrics(reg prometheus.Registerer, s *Service) *metrics {
	make := promauto.With(reg)
	make.NewGaugeFunc(prometheus.GaugeOpts{Name: "stoa_cluster_nodes_live",
		Help: "Nodes alive at the last check of this node; 0 before the first check."}, func() float64 {
		s.mu.Lock()
		defer s.mu.Unlock()
		return float64(len(s.live))
	})
	return &metrics{make.NewCounterVec(prometheus.CounterOpts{Name: "stoa_cluster_heartbeats_total",
		Help: "Heartbeats by result: ok or failed."}, []string{"result"})}
}

func (m *metrics) heartbeat(err error) {
	result := "ok"
	if err != nil {
		result = "failed"
	}
	m.beats.WithLabelValues(result).Inc()
}
