package cache

import (
	"testing"

	"github.com/stoa-dev/stoa/lib/bus"
)

// One caller's command has failed and another one's is answered: what the two note may come in any order.
func TestABreakerThatOpensBesideAnAnswerClosesAtTheNextAnswer(t *testing.T) {
	rt := &Runtime{bus: &bus.Bus{}}
	b := &rt.reads.breakers[0]
	b.failures.Add(breakAfter)
	b.worked()
	b.until.Store(int64(bus.Now())) // the second step of the failure; its time is over
	if !b.allows() || rt.Health().Open != 1 {
		t.Fatal("the breaker is not open, or lets no command try")
	}
	b.worked()
	if open := rt.Health().Open; open != 0 {
		t.Errorf("%d breakers are open after an answer", open)
	}
}
