package worker_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/background/worker"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/logtest"
)

func TestWarm_WaitsAndLogsProgress(t *testing.T) {
	broken := errors.New("broken")
	for name, tt := range map[string]struct {
		n             int
		waited, read  error
		there         int
		calls, logged []string
	}{
		"rooms": {n: 5, there: 3, calls: []string{"waits", "reads"},
			logged: []string{`warming up" with=rooms done=2 of=3`, "caches: warmed up", "with=rooms n=3 took=2.7s"}},
		"none there":      {n: 5, calls: []string{"waits", "reads"}},
		"none wanted":     {n: 0},
		"one cannot wait": {n: 5, waited: broken, calls: []string{"waits"}, logged: []string{"warm-up failed", "with=rooms err=broken"}},
		"they are not there": {n: 5, read: broken, calls: []string{"waits", "reads"},
			logged: []string{"warm-up failed", "with=rooms err=broken"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				var log logtest.Buffer
				var calls []string
				wait := func(context.Context) error { calls = append(calls, "waits"); return tt.waited }
				worker.Warm(t.Context(), log.Logger(), "rooms", wait, tt.n,
					func(_ context.Context, n int, progress func(done, total int)) (int, error) {
						calls = append(calls, "reads")
						if n != tt.n {
							t.Errorf("got %d, want %d", n, tt.n)
						}
						for done := range tt.there {
							progress(done, tt.there)
							bubble.Sleep(900 * time.Millisecond)
						}
						return tt.there, tt.read
					})
				if !slices.Equal(calls, tt.calls) {
					t.Errorf("got %q, want %q", calls, tt.calls)
				}
				for _, text := range tt.logged {
					if log.Count(text) != 1 {
						t.Errorf("got %s, want %s once", &log, text)
					}
				}
				if len(tt.logged) == 0 && log.String() != "" {
					t.Errorf("got %s", &log)
				}
			})
		})
	}
}
