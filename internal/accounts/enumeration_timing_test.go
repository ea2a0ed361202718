//go:build timing

package accounts

import (
	"slices"
	"testing"
	"time"
)

// Nobody may learn from how long an answer takes whether an address has an account.
//
// Tries at known and unknown addresses take turns, so that whatever else the
// machine does falls on both alike, and their medians must be within a twentieth.
// Somebody else's load may still spoil a round; a difference that is there shows
// in all three. Passwords cost little here, which is the harder test: there is
// less work for a difference to hide behind. With -costly they cost what they cost
// outside.
func TestTimingTellsNobodyWhoHasAnAccount(t *testing.T) {
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
