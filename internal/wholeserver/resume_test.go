package wholeserver

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// The events that a client missed are larger than the queue of its connection.
func TestResume_LargeEventsLoadTheState(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := deploy(t, 2)
		bob, eve := p.join(0, "Bob"), p.join(1, "Eve")
		befriend(t, bob.c, eve.c)
		bubble.Sleep(time.Second)
		began := len(eve.all())
		eve.line.harm(nil)
		for i := range 100 {
			bob.says(t, eve, fmt.Sprint(i), strings.Repeat("文", 4000))
			bubble.Sleep(100 * time.Millisecond)
		}
		eve.line.harm(p.nodes[1])
		bubble.Sleep(20 * time.Second)
		if got := eve.all()[began:]; !slices.Equal(got, []string{"closed", "opened"}) {
			t.Errorf("after a break, the client has %d events, first %.80q; want closed and opened", len(got), got[:min(4, len(got))])
		}
	})
}
