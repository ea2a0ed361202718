package push

import "github.com/prometheus/client_golang/prometheus"

type metrics struct{ sent *prometheus.CounterVec }

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stoa_push_total",
		Help: "Pushes by what became of them: sent, needless (somebody was on line, or nothing waited any more), ended (the subscription has), postponed (the host hangs or is busy, or somebody looked on line as a notice came), failed, given_up."}, []string{"outcome"})}
	if reg != nil {
		reg.MustRegister(m.sent)
	}
	return m
}
