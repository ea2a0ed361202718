package cache

import (
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/bus"
)

// The failure of one command and the reply of another may be recorded in any order.
func TestBreaker_ClosesAtReplyAfterConcurrentFailure(t *testing.T) {
	rt := &Runtime{bus: &bus.Bus{}}
	b := &rt.reads.breakers[0]
	b.weight.Add(breakAt)
	b.worked()
	b.until.Store(int64(bus.Now())) // the second step of the failure, already in the past
	if !b.allows() || rt.Health().Open != 1 {
		t.Fatal("the breaker is closed, or lets no command through")
	}
	b.worked()
	if open := rt.Health().Open; open != 0 {
		t.Errorf("%d breakers are open after a reply", open)
	}
}

func TestBreaker_OpensForSilenceNotForStarvation(t *testing.T) {
	const budget = 100 * time.Millisecond
	type failure struct {
		sent, late time.Duration
		concurrent int
	}
	repeat := func(n int, every, late time.Duration) (failures []failure) {
		for i := range n {
			failures = append(failures, failure{sent: time.Duration(i+1) * every, late: late, concurrent: 50})
		}
		return failures
	}
	for name, c := range map[string]struct {
		failures []failure
		opens    bool
	}{
		"one pause of the process":        {failures: repeat(1, time.Second, 600*time.Millisecond)},
		"a pause that ends in time":       {failures: repeat(1, time.Second, 0)},
		"two pauses in a row":             {failures: repeat(2, time.Second, 0)},
		"overlapping commands in a pause": {failures: repeat(10, budget/10, budget)},
		"five starved commands in a row":  {failures: repeat(5, time.Second, budget/2)},
		"a silent Redis":                  {failures: repeat(3, time.Second, 0), opens: true},
		"a silent Redis, a busy machine":  {failures: repeat(3, time.Second, budget/5), opens: true},
		"a silent Redis, a starved node":  {failures: repeat(12, 2*time.Second, 10*budget), opens: true},
		"a Redis that fails at once":      {failures: repeat(3, time.Second, -budget), opens: true},
	} {
		t.Run(name, func(t *testing.T) {
			var b breaker
			for _, f := range c.failures {
				deadline := bus.Moment(f.sent + budget)
				for range f.concurrent {
					b.failed(budget, deadline, deadline+bus.Moment(f.late))
				}
			}
			if got := b.until.Load() != 0; got != c.opens {
				t.Errorf("the breaker is open: %v, want %v", got, c.opens)
			}
		})
	}
}
