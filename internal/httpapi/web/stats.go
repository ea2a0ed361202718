package web

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type stats struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec

	refused, acceptErrors prometheus.Counter // connections
}

func newStats(reg prometheus.Registerer, a *API) *stats {
	s := &stats{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stoa_http_requests_total",
			Help: "HTTP requests answered, by operation, method and status; status 499 means that the client disconnected.",
		}, []string{"route", "method", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "stoa_http_request_duration_seconds",
			Help: "Time from the request's header to the end of the response, by operation; streams and sockets are excluded.",
			// A request to the embedded engines takes well under a millisecond, a password hash 25.
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}, []string{"route"}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "stoa_http_connections_refused_total",
			Help: "Connections closed at once because too many were open, in total or from one client network.",
		}),
		acceptErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "stoa_http_accept_errors_total",
			Help: "Connections that could not be accepted, for example because the process reached its limit of open files.",
		}),
	}
	if reg != nil {
		open, limit := gauge("stoa_http_connections", "Open connections: lasting ones (sockets and streams) and other ones."),
			gauge("stoa_http_connections_max", "The largest number of open connections that the limit of open files allows.")
		reg.MustRegister(s.requests, s.duration, s.refused, s.acceptErrors,
			open("lasting", func() int { return a.lasting.open() }), open("other", func() int { return a.conns.open() - a.lasting.open() }),
			limit("lasting", func() int {
				return a.cfg.Capacity.Lasting
			}), limit("other", func() int { return a.cfg.Capacity.Conns - a.lasting.open() }))
	}
	return s
}

// gauge returns a function that creates the gauge of one kind of connection.
func gauge(name, help string) func(kind string, value func() int) prometheus.Collector {
	return func(kind string, value func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: prometheus.Labels{"kind": kind}},
			func() float64 { return float64(value()) })
	}
}

func (s *stats) observer(route string) prometheus.Observer { return s.duration.WithLabelValues(route) }

func (s *stats) count(c *call) {
	rt, status := c.route, c.status
	if status == 0 {
		status = http.StatusOK // the server sends 200 if a handler writes nothing
	}
	s.requests.WithLabelValues(rt.name(), knownMethod(c.r.Method), codeText(status)).Inc()
	if rt != nil && rt.listen == nil && !rt.longLived {
		rt.duration.Observe(time.Since(c.start).Seconds())
	}
}

// knownMethod maps a method to a label value; clients cannot add label values.
func knownMethod(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return m
	}
	if isWrite(m) {
		return m
	}
	return "other"
}

func codeText(status int) string {
	switch status { // the frequent ones, without an allocation
	case 200:
		return "200"
	case 201:
		return "201"
	case 204:
		return "204"
	}
	return strconv.Itoa(status)
}
