package app

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// Concurrent callers share one check. A caller that gives up does not decide the result for the others.
func TestAPartIsAskedOnceForAllWhoAsk(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var h health
		asked, fault := 0, error(nil)
		ask := func(ctx context.Context) error {
			asked++
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(100 * time.Millisecond):
				return fault
			}
		}
		gone, leave := context.WithCancel(t.Context())
		leave()
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if err := h.of(gone, ask); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if err := h.of(t.Context(), ask); err != nil {
			t.Error(err)
		}
		if asked != 1 {
			t.Errorf("the part was asked %d times, want once", asked)
		}
		fault = errors.New("away")
		time.Sleep(healthLife)
		if err := h.of(t.Context(), ask); !errors.Is(err, fault) || asked != 2 {
			t.Errorf("later: got %v after %d times", err, asked)
		}
	})
}
