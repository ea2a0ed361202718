package activity

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct{ sent, resent, refused prometheus.Counter }

func newMetrics(reg prometheus.Registerer, s *Service) *metrics {
	factory := promauto.With(reg)
	factory.NewGaugeFunc(prometheus.GaugeOpts{Name: "stoa_activity_today",
		Help: "Active users of today on all nodes, as of this node's last read of Redis (at most a minute ago); 0 before the first read."},
		func() float64 {
			return float64(s.todayCount.Load())
		})
	factory.NewGaugeFunc(prometheus.GaugeOpts{Name: "stoa_activity_waiting", Help: "Users recorded by this node and not yet sent to Redis."},
		func() (all float64) {
			for _, day := range s.days.Load().all() {
				_, waiting := day.count()
				all += float64(waiting)
			}
			return all
		})
	return &metrics{
		sent: factory.NewCounter(prometheus.CounterOpts{Name: "stoa_activity_sent_total",
			Help: "Users sent to Redis by this node, each once a day unless Redis lost them."}),
		resent: factory.NewCounter(prometheus.CounterOpts{Name: "stoa_activity_put_back_total",
			Help: "Users sent again because Redis may have lost them."}),
		refused: factory.NewCounter(prometheus.CounterOpts{Name: "stoa_activity_refused_total",
			Help: "Requests not recorded because too many users were waiting for Redis, and users who waited for more than a day."}),
	}
}
