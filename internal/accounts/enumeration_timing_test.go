//go:build timing

package accounts

import (
	"slices"
	"testing"
	"time"
)

// The duration of a response does not reveal whether an address has an account.
//
// Tries at known and unknown addresses alternate, so that other load affects both equally, and their medians must be
// within a twentieth. Other load may still spoil a round, but a real difference appears in all three rounds. Passwords
// are cheap here, which makes the test stricter, because less work hides a difference. With -costly they have the real
// cost.
func TestTiming_DoesNotRevealAccounts(t *testing.T) {
	const tries, apart = 1000, 0.05
	s := newAsker(t)
	for _, a := range askings {
		t.Run(a.name, func(t *testing.T) {
			least := 1.0
			for range 3 {
				took := s.ask(t, a, tries)
				unknown, known := median(took[0]), median(took[1])
				differs := max(float64(known)/float64(unknown), float64(unknown)/float64(known)) - 1
				t.Logf("%s: unknown %s, known %s, %.1f %% apart", a.body, unknown, known, 100*differs)
				if least = min(least, differs); least <= apart {
					return
				}
			}
			t.Errorf("known and unknown addresses are %.0f %% apart at least, want %.0f at most", 100*least, 100*apart)
		})
	}
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}
