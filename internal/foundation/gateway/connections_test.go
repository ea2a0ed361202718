package gateway

import "testing"

// Whoever finds that a subscription did not come about may be late: the connection may have the next one by then.
func TestASubscriptionEndsItselfAndNotTheNextOne(t *testing.T) {
	t.Parallel()
	var cs connections
	c := &connection{}
	first := cs.enter(c, "room", nil)
	if !cs.leave(c, "room", nil) {
		t.Fatal("the connection had nothing to leave")
	}
	second := cs.enter(c, "room", []string{"ann"})
	if cs.leave(c, "room", first) || cs.has(c, "room", first) || !cs.has(c, "room", second) || len(cs.having("room")) != 1 {
		t.Errorf("the end of the first subscription left %v, and on the channel %d", cs.subscribed(c), len(cs.having("room")))
	}
	if !cs.leave(c, "room", second) || cs.leave(c, "room", second) || len(cs.having("room")) != 0 || len(cs.subscribed(c)) != 0 {
		t.Errorf("the end of the second subscription left %v, and on the channel %d", cs.subscribed(c), len(cs.having("room")))
	}
}
