package checkin

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/lib/groupcommit"
)

// metrics are what an operator sees of this package.
type metrics struct {
	rows    *prometheus.CounterVec
	size    prometheus.Histogram
	commits prometheus.Histogram
	redis   prometheus.Histogram
	reads   struct{ redis, sql prometheus.Counter }

	// Of the last reconciliation, on whatever node.
	compared, differing, repaired, agreement, reconciledAt prometheus.Gauge

	abnormal prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, up func() bool) *metrics {
	stage := []float64{.0002, .0005, .001, .002, .005, .01, .02, .05, .1, .5, 2}
	m := &metrics{
		rows:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stoa_checkin_requests_total", Help: "Check-ins that went through a commit, by result."}, []string{"result"}),
		size:    prometheus.NewHistogram(prometheus.HistogramOpts{Name: "stoa_checkin_batch_size", Help: "Check-ins that shared one commit.", Buckets: prometheus.ExponentialBuckets(1, 2, 10)}),
		commits: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "stoa_checkin_commit_seconds", Help: "Time of one commit to SQL.", Buckets: stage}),
		redis:   prometheus.NewHistogram(prometheus.HistogramOpts{Name: "stoa_checkin_apply_seconds", Help: "Time of bringing Redis up to date after one commit.", Buckets: stage}),
	}
	reads := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stoa_checkin_reads_total", Help: "Records read, by where they came from."}, []string{"from"})
	m.reads.redis, m.reads.sql = reads.WithLabelValues("redis"), reads.WithLabelValues("sql")
	complete := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "stoa_checkin_redis_complete", Help: "1 while Redis has everything that was acknowledged, 0 while SQL answers."}, func() float64 {
		if up() {
			return 1
		}
		return 0
	})
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "stoa_checkin_" + name, Help: help})
	}
	m.compared = gauge("reconcile_users_compared", "Users whom the last reconciliation compared; the same on all nodes.")
	m.differing = gauge("reconcile_users_differing", "Users of those for whom Redis and SQL differed.")
	m.repaired = gauge("reconcile_repairs", "Records and board entries that it repaired.")
	m.reconciledAt = gauge("reconcile_last_timestamp_seconds", "Unix time at which it was done; 0 when none was.")
	m.agreement = gauge("agreement_ratio", "Users for whom Redis and SQL agreed, of those compared; 1 when none were.")
	m.agreement.Set(1)
	m.abnormal = prometheus.NewCounter(prometheus.CounterOpts{Name: "stoa_checkin_abnormal_streaks_total", Help: "Users whose days in SQL became fewer, or whose streak rose by more than the days added."})
	reg.MustRegister(m.rows, m.size, m.commits, m.redis, reads, complete)
	reg.MustRegister(m.compared, m.differing, m.repaired, m.reconciledAt, m.agreement, m.abnormal)
	return m
}

func (m *metrics) batch(b groupcommit.Batch) {
	m.size.Observe(float64(b.Size))
	m.commits.Observe(b.Commit.Seconds())
	m.redis.Observe(b.After.Seconds())
	result := "committed"
	if b.Err != nil {
		result = "failed"
	}
	m.rows.WithLabelValues(result).Add(float64(b.Size))
}

func (m *metrics) reconciled(r *Run) {
	compared, differing := float64(r.Summary.Compared), float64(r.Summary.Differing)
	m.compared.Set(compared)
	m.differing.Set(differing)
	m.repaired.Set(float64(r.Summary.Repaired))
	m.reconciledAt.Set(float64(r.Ended.UnixMilli()) / 1000)
	m.agreement.Set(max(0, 1-differing/max(1, compared)))
}
