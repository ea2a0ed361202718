package reconcile

import "github.com/prometheus/client_golang/prometheus"

// metrics has the metrics of this package for operators.
type metrics struct {
	// Of the last reconciliation, on any node.
	compared, differing, repaired, agreement, reconciledAt prometheus.Gauge

	abnormal prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "stoa_checkin_" + name, Help: help})
	}
	m := &metrics{
		compared:     gauge("reconcile_users_compared", "Users whom the last reconciliation compared; the same on all nodes."),
		differing:    gauge("reconcile_users_differing", "Users of those for whom Redis and SQL differed."),
		repaired:     gauge("reconcile_repairs", "Records and board entries that it repaired."),
		reconciledAt: gauge("reconcile_last_timestamp_seconds", "Unix time at which it was done; 0 when none was."),
		agreement:    gauge("agreement_ratio", "Users for whom Redis and SQL agreed, of those compared; 1 when none were."),
		abnormal: prometheus.NewCounter(prometheus.CounterOpts{Name: "stoa_checkin_abnormal_streaks_total",
			Help: "Users whose days in SQL became fewer, or whose streak rose by more than the days added."}),
	}
	m.agreement.Set(1)
	reg.MustRegister(m.compared, m.differing, m.repaired, m.reconciledAt, m.agreement, m.abnormal)
	return m
}

func (m *metrics) reconciled(r *Run) {
	compared, differing := float64(r.Summary.Compared), float64(r.Summary.Differing)
	m.compared.Set(compared)
	m.differing.Set(differing)
	m.repaired.Set(float64(r.Summary.Repaired))
	m.reconciledAt.Set(float64(r.Ended.UnixMilli()) / 1000)
	m.agreement.Set(max(0, 1-differing/max(1, compared)))
}
