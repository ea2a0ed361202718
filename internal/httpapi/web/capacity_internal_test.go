package web

import (
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/logtest"
)

func TestCapacity_LeavesFilesForEnginesAndRequests(t *testing.T) {
	for files, want := range map[int]Capacity{
		0:         {0, 50_000, 48_976},
		64:        {64, 16, 8},
		256:       {256, 160, 140},
		1_024:     {1_024, 832, 728},
		4_096:     {4_096, 3_520, 3_080},
		1_000_000: {1_000_000, 50_000, 48_976},
	} {
		if got := capacityOf(files, 16); got != want {
			t.Errorf("%d files: got %+v, want %+v", files, got, want)
		}
	}
}

// exhausted is a listener of a process without a free file; after some tries it is closed.
type exhausted struct {
	net.Listener
	tries int
}

func (l *exhausted) Accept() (net.Conn, error) {
	if l.tries--; l.tries < 0 {
		return nil, net.ErrClosed
	}
	return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
}

func (*exhausted) Close() error { return nil }

func TestServe_LogsAcceptErrorsOncePerMinute(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var log logtest.Buffer
		metrics := prometheus.NewRegistry()
		a := New(Config{Log: log.Logger(), Metrics: metrics})
		if err := a.Serve(t.Context(), &exhausted{tries: 80}); err == nil { // with pauses of up to 1 s: more than a minute
			t.Error("got no error, want that of the closed listener")
		}
		if got := log.Count("cannot be accepted"); got != 2 || !strings.Contains(log.String(), "level=WARN") {
			t.Errorf("got %d lines, want 2 warnings:\n%s", got, &log)
		}
		families, err := metrics.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if got := f.GetMetric()[0].GetCounter().GetValue(); f.GetName() == "stoa_http_accept_errors_total" && got != 80 {
				t.Errorf("got %v errors counted, want 80", got)
			}
		}
	})
}
