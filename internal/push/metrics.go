package push

import "github.com/prometheus/client_golang/prometheus"

type metrics struct{ sent *prometheus.CounterVec }

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stoa_push_total",
		Help: "Pushes by outcome: sent, needless (the user was online or nothing was unread), ended (the subscription), postponed (the host " +
			"hangs or is busy, or the user seemed online), failed, given_up."}, []string{"outcome"})}
	if reg != nil {
		reg.MustRegister(m.sent)
	}
	return m
}
