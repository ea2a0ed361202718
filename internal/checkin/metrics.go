package checkin

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/lib/groupcommit"
)

// metrics has the metrics of this package for operators.
type metrics struct {
	rows    *prometheus.CounterVec
	size    prometheus.Histogram
	commits prometheus.Histogram
	redis   prometheus.Histogram
	reads   struct{ redis, sql prometheus.Counter }
}

func newMetrics(reg prometheus.Registerer, up func() bool) *metrics {
	stage := []float64{.0002, .0005, .001, .002, .005, .01, .02, .05, .1, .5, 2}
	m := &metrics{
		rows: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stoa_checkin_requests_total",
			Help: "Check-ins that went through a commit, by result."}, []string{"result"}),
		size: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "stoa_checkin_batch_size", Help: "Check-ins that shared one commit.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 10)}),
		commits: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "stoa_checkin_commit_seconds", Help: "Time of one commit to SQL.",
			Buckets: stage}),
		redis: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "stoa_checkin_apply_seconds",
			Help: "Time of bringing Redis up to date after one commit.", Buckets: stage}),
	}
	reads := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stoa_checkin_reads_total", Help: "Records read, by where they came from."},
		[]string{"from"})
	m.reads.redis, m.reads.sql = reads.WithLabelValues("redis"), reads.WithLabelValues("sql")
	complete := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "stoa_checkin_redis_complete",
		Help: "1 while Redis has everything that was acknowledged, 0 while SQL answers."}, func() float64 {
		if up() {
			return 1
		}
		return 0
	})
	reg.MustRegister(m.rows, m.size, m.commits, m.redis, reads, complete)
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
