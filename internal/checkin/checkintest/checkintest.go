package checkintest

import (
	"sync"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// Complete is a Redis that has everything.
type Complete struct{}

// Up is always true.
func (Complete) Up() bool { return true }

// Writable is always true.
func (Complete) Writable() bool { return true }

// Suspect does nothing.
func (Complete) Suspect() {}

// Clock goes on by a millisecond for each look, and otherwise only when told to. It is safe
// for concurrent use.
type Clock struct {
	mu sync.Mutex
	t  time.Time
}

// NewClock returns a clock that stands where a bubble's clock begins.
func NewClock() *Clock { return &Clock{t: bubble.Began} }

// Now is later at each call.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(time.Millisecond)
	return c.t
}

// Set has the clock go on from t.
func (c *Clock) Set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = t
}

// NewUsers returns ids that are new.
func NewUsers(n int) (users []accounts.ID) {
	for range n {
		users = append(users, ids.New[accounts.User]())
	}
	return users
}
