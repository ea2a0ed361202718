package activity

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct{ sent, putBack, refused prometheus.Counter }

func newMetrics(reg prometheus.Registerer, s *Service) *metrics {
	make := promauto.With(reg)
	make.NewGaugeFunc(prometheus.GaugeOpts{Name: "stoa_activity_today", Help: "Users who were active today on all nodes, as Redis had them when this node looked last, a minute ago or less; 0 before the first look."}, func() float64 { return float64(s.now.Load()) })
	make.NewGaugeFunc(prometheus.GaugeOpts{Name: "stoa_activity_waiting", Help: "Users noted by this node who are not in Redis yet."}, func() (all float64) {
		for _, n := range s.days.Load().all() {
			_, waiting := n.count()
			all += float64(waiting)
		}
		return all
	})
	return &metrics{
		sent:    make.NewCounter(prometheus.CounterOpts{Name: "stoa_activity_sent_total", Help: "Users whom this node sent to Redis, once a day each unless Redis lost them."}),
		putBack: make.NewCounter(prometheus.CounterOpts{Name: "stoa_activity_put_back_total", Help: "Users noted anew, because Redis had lost them, or may have."}),
		refused: make.NewCounter(prometheus.CounterOpts{Name: "stoa_activity_refused_total", Help: "Requests of users who could not be noted, because too many waited for Redis to be back, and users who waited for more than a day."}),
	}
}
