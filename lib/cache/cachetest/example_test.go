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

// What an adapter can do beside reading and changing is tried as well, if it says so by its methods.
var (
	_ cachetest.Many   = (*node)(nil)
	_ cachetest.Beside = (*node)(nil)
	_ cachetest.Tagged = (*node)(nil)
	_ cachetest.Named  = (*node)(nil)
)

// A library that has no clients for clusters says so, and is not blamed.
func TestWhatALibraryDoesNotOfferIsNoFault(t *testing.T) {
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

// Two programs, each with a client of its own, on a line that is slow and cut now and then.
func TestTwoProgramsOnABadLineShowNothingStale(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	line := cachetest.NewProxy(t, server.Addr)
	line.Delay(5 * time.Millisecond)
	cachetest.NothingStale(t, [2]*redis.DB{redistest.Open(t, server.URL), redistest.Open(t, "redis://"+line.Addr)})
}

// One's own test of a fault: a command whose answer is held back was carried out.
func TestACommandWithoutAnAnswerWasCarriedOut(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	var line *cachetest.Proxy = cachetest.NewProxy(t, server.Addr)
	near, far := redistest.Open(t, "redis://"+line.Addr), redistest.Open(t, server.URL)
	var deaf cachetest.Direction = cachetest.ToNode
	line.Hold(deaf)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := near.Ping(ctx); !errors.Is(err, redis.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a held answer: %v", err)
	}
	if err := far.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	line.Heal()
	if err := near.Ping(t.Context()); err != nil {
		t.Errorf("after it: %v", err)
	}
}
