package messaging

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics are the metrics of this package.
type metrics struct{ fromRedis, fromSQL prometheus.Counter }

func newMetrics(reg prometheus.Registerer) *metrics {
	reads := promauto.With(reg).NewCounterVec(prometheus.CounterOpts{Name: "stoa_chats_reads_total",
		Help: "Reads of lists of chats, single chats and pages of messages, by source."}, []string{"from"})
	return &metrics{reads.WithLabelValues("redis"), reads.WithLabelValues("sql")}
}

// read counts a read from Redis or from SQL.
func (m *metrics) read(fromRedis bool) {
	if fromRedis {
		m.fromRedis.Inc()
	} else {
		m.fromSQL.Inc()
	}
}
