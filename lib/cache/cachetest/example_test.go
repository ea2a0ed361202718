package cachetest_test

import (
	"context"
	"errors"
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
	line := cachetest.NewProxy(t, server.Addr)
	line.Delay(5 * time.Millisecond)
	cachetest.NothingStale(t, [2]*redis.DB{redistest.Open(t, server.URL), redistest.Open(t, "redis://"+line.Addr)})
}

// A test of one's own fault: a command whose reply is held back was executed.
func TestProxy_HeldReplyMeansExecutedCommand(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	var line *cachetest.Proxy = cachetest.NewProxy(t, server.Addr)
	near, far := redistest.Open(t, "redis://"+line.Addr), redistest.Open(t, server.URL)
	var deaf cachetest.Direction = cachetest.ToNode
	line.Hold(deaf)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := near.Ping(ctx); !errors.Is(err, redis.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a held reply: %v", err)
	}
	if err := far.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	line.Heal()
	if err := near.Ping(t.Context()); err != nil {
		t.Errorf("after the hold: %v", err)
	}
}
