package gateway

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	calls, closed, refused *prometheus.CounterVec
}

// Reasons for refusing a connection.
const (
	refusedToken       = "token"     // the token is unknown or has expired
	refusedUnavailable = "away"      // the token could not be checked
	refusedNetwork     = "household" // the client network has too many connections
	refusedFull        = "full"      // the node has reached its maximum
	refusedDraining    = "draining"  // the node is draining
	refusedOrigin      = "origin"    // the page has a foreign origin
)

func newMetrics(reg prometheus.Registerer, connections func() float64) *metrics {
	make := promauto.With(reg)
	make.NewGaugeFunc(prometheus.GaugeOpts{Name: "stoa_gateway_connections", Help: "Open sockets."}, connections)
	m := &metrics{
		calls: make.NewCounterVec(prometheus.CounterOpts{Name: "stoa_gateway_calls_total",
			Help: "Calls over sockets, by their HTTP status; stoa_http_requests_total counts them by operation, together with requests."},
			[]string{"code"}),
		closed: make.NewCounterVec(prometheus.CounterOpts{Name: "stoa_gateway_closed_total",
			Help: "Closed sockets, by close code: 3000 the client disconnected, 3001 the node stops, 3008 the client read too slowly, 3010 " +
				"events may have been lost, 4500 logged out."}, []string{"code"}),
		refused: make.NewCounterVec(prometheus.CounterOpts{Name: "stoa_gateway_refused_total",
			Help: "Refused connections, by reason: token (unknown or expired), away (token not checked), household (too many from one client " +
				"network), full (the node's maximum), draining (the node is draining) or origin (the page has a foreign origin)."}, []string{"reason"}),
	}
	for _, reason := range []string{refusedToken, refusedUnavailable, refusedNetwork, refusedFull, refusedDraining, refusedOrigin} {
		m.refused.WithLabelValues(reason) // export 0 at once, so that the first refusal shows as an increase
	}
	return m
}
