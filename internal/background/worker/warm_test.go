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

func TestWarmingWaitsAndSaysHowItGoes(t *testing.T) {
	broken := errors.New("broken")
	for name, tt := range map[string]struct {
		n            int
		waited, read error
		there        int
		did, logged  []string
	}{
		"rooms":              {n: 5, there: 3, did: []string{"waits", "reads"}, logged: []string{`being warmed up" with=rooms done=2 of=3`, "are warm", "with=rooms n=3 took=2.7s"}},
		"none there":         {n: 5, did: []string{"waits", "reads"}},
		"none wanted":        {n: 0},
		"one cannot wait":    {n: 5, waited: broken, did: []string{"waits"}, logged: []string{"could not be warmed up", "with=rooms err=broken"}},
		"they are not there": {n: 5, read: broken, did: []string{"waits", "reads"}, logged: []string{"could not be warmed up", "with=rooms err=broken"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				var log logtest.Buffer
				var did []string
				wait := func(context.Context) error { did = append(did, "waits"); return tt.waited }
				worker.Warm(t.Context(), log.Logger(), "rooms", wait, tt.n, func(_ context.Context, n int, progress func(done, total int)) (int, error) {
					did = append(did, "reads")
					if n != tt.n {
						t.Errorf("got %d, want %d", n, tt.n)
					}
					for done := range tt.there {
						progress(done, tt.there)
						bubble.Sleep(900 * time.Millisecond)
					}
					return tt.there, tt.read
				})
				if !slices.Equal(did, tt.did) {
					t.Errorf("it %q, want %q", did, tt.did)
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
