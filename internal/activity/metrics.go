package activity

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct{ sent, putBack, refused prometheus.Counter }

func newMetrics(reg prometheus.Registerer, s *Service) *metrics {
	make := promauto.With(reg)
	make.NewGaugeFunc(prometheus.GaugeOpts{Name: "stoa_activity_today", Help: "Users active today on all nodes, according to Redis at the last check of this node, at most a minute ago; 0 before the first check."}, func() float64 { return float64(s.now.Load()) })
	make.NewGaugeFunc(prometheus.GaugeOpts{Name: "stoa_activity_waiting", Help: "Users recorded by this node who are not in Redis yet."}, func() (all float64) {
		for _, n := range s.days.Load().all() {
			_, waiting := n.count()
			all += float64(waiting)
		}
		return all
	})
	return &metrics{
		sent:    make.NewCounter(prometheus.CounterOpts{Name: "stoa_activity_sent_total", Help: "Users sent to Redis by this node, once a day each unless Redis lost them."}),
		putBack: make.NewCounter(prometheus.CounterOpts{Name: "stoa_activity_put_back_total", Help: "Users sent again, because Redis had lost them or may have."}),
		refused: make.NewCounter(prometheus.CounterOpts{Name: "stoa_activity_refused_total", Help: "Requests of users who could not be recorded because too many were waiting for Redis, and users who waited for more than a day."}),
	}
}
