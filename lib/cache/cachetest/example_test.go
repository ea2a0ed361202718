package cachetest_test

import (
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/cache/cachetest"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

// The optional methods of an adapter are tried as well.
var (
	_ cachetest.Many   = (*node)(nil)
	_ cachetest.Beside = (*node)(nil)
	_ cachetest.Tagged = (*node)(nil)
	_ cachetest.Named  = (*node)(nil)
)

// A library without clients for clusters reports that, and does not fail.
func TestJudge_NotOfferedIsNoFault(t *testing.T) {
	t.Parallel()
	l := cachetest.Library{Name: "single", Open: func(testing.TB, cachetest.Node) (cachetest.Adapter, error) {
		return nil, cachetest.ErrNotOffered
	}}
	var verdicts []cachetest.Verdict = cachetest.Judge(t, l, "failover of a cluster")
	for _, v := range verdicts {
		if v.Held || !v.Not {
			t.Errorf("%s: %s", v.Hazard, v.Why)
		}
	}
	if len(verdicts) != 1 {
		t.Errorf("%d hazards were tried", len(verdicts))
	}
}

// Two programs, each with its own client, on a slow connection that is cut at times.
func TestNothingStale_BadConnection(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	wire := redistest.NewWire(t, server.Addr)
	wire.Delay(5 * time.Millisecond)
	cachetest.NothingStale(t, [2]*redis.DB{redistest.Open(t, server.URL), redistest.OpenConfig(t, wire.Config())})
}

// The deprecated names have the same functions.
var (
	_ func(testing.TB, string) *cachetest.Proxy = cachetest.NewProxy
	_ [2]cachetest.Direction                    = [2]cachetest.Direction{cachetest.ToServer, cachetest.ToNode}
)
