package transfers

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	received, sent, orphans prometheus.Counter
	ended                   *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	make := promauto.With(reg)
	return &metrics{
		received: make.NewCounter(prometheus.CounterOpts{Name: "stoa_transfers_received_bytes_total",
			Help: "Bytes of files that were uploaded to this node and stored."}),
		sent: make.NewCounter(prometheus.CounterOpts{Name: "stoa_transfers_sent_bytes_total",
			Help: "Bytes of files that this node has read for downloads."}),
		orphans: make.NewCounter(prometheus.CounterOpts{Name: "stoa_transfers_orphans_total",
			Help: "Parts of files that belonged to no transfer and were removed."}),
		ended: make.NewCounterVec(prometheus.CounterOpts{Name: "stoa_transfers_changed_total",
			Help: "Transfers that this node brought to a final status, or whose file it removed, by that status."}, []string{"status"}),
	}
}
