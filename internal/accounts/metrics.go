package accounts

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/internal/accounts/trail"
)

// metrics show attacks to the operator.
type metrics struct {
	events    *prometheus.CounterVec
	notesLost prometheus.Counter
}

// newMetrics registers with reg, unless it is nil.
func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		events: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stoa_accounts_security_events_total",
			Help: "Security events of accounts, including failures for unknown addresses."}, []string{"kind"}),
		notesLost: prometheus.NewCounter(prometheus.CounterOpts{Name: "stoa_accounts_security_events_lost_total",
			Help: "Failures that were counted but not stored, because too many were waiting."}),
	}
	for _, kind := range trail.Kinds {
		m.events.WithLabelValues(string(kind))
	}
	if reg != nil {
		reg.MustRegister(m.events, m.notesLost)
	}
	return m
}
