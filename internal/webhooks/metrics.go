package webhooks

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct{ asked, posted *prometheus.CounterVec }

func newMetrics(reg prometheus.Registerer) *metrics {
	factory := promauto.With(reg)
	return &metrics{
		asked: factory.NewCounterVec(prometheus.CounterOpts{Name: "stoa_webhooks_asked_total",
			Help: "Questions to the app's own backend before the fact, by result; away: the policy decided; crowded: the queue was full and the " +
				"user got 503."}, []string{"event", "verdict"}),
		posted: factory.NewCounterVec(prometheus.CounterOpts{Name: "stoa_webhooks_posted_total",
			Help: "Deliveries to the app's own backend after the fact, by result."}, []string{"event", "outcome"}),
	}
}
