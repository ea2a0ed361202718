package gateway

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	calls, closed, refused *prometheus.CounterVec
}

// Why a connection was refused.
const (
	refusedToken     = "token"     // it is nobody's, or has expired
	refusedAway      = "away"      // nobody could tell whose token it is
	refusedHousehold = "household" // too many were open from there
	refusedFull      = "full"      // the node has as many as it may
	refusedDraining  = "draining"  // the node sends its connections away
	refusedOrigin    = "origin"    // the page is of a foreign origin
)

func newMetrics(reg prometheus.Registerer, connections func() float64) *metrics {
	make := promauto.With(reg)
	make.NewGaugeFunc(prometheus.GaugeOpts{Name: "stoa_gateway_connections", Help: "Sockets that stand."}, connections)
	m := &metrics{
		calls: make.NewCounterVec(prometheus.CounterOpts{Name: "stoa_gateway_calls_total",
			Help: "Calls over sockets, by the status that HTTP would have; stoa_http_requests_total has them by operation, among the requests."}, []string{"code"}),
		closed: make.NewCounterVec(prometheus.CounterOpts{Name: "stoa_gateway_closed_total",
			Help: "Sockets that stood and were closed, by close code: 3000 the client left, 3001 the node stops, 3008 the client read too slowly, 3010 events may have been lost, 4500 logged out."}, []string{"code"}),
		refused: make.NewCounterVec(prometheus.CounterOpts{Name: "stoa_gateway_refused_total",
			Help: "Connections that were refused: token (it is nobody's, or has expired), away (nobody could tell whose it is), household (too many were open from there), full (the node has as many as it may), draining (the node sends its connections away) or origin (the page is of a foreign origin)."}, []string{"reason"}),
	}
	for _, reason := range []string{refusedToken, refusedAway, refusedHousehold, refusedFull, refusedDraining, refusedOrigin} {
		m.refused.WithLabelValues(reason) // from 0 on, so that the first one shows as an increase
	}
	return m
}
