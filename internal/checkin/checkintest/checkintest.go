package checkintest

import (
	"sync"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// Complete is a projection whose Redis is always complete.
type Complete struct{}

// Up always returns true.
func (Complete) Up() bool { return true }

// Writable always returns true.
func (Complete) Writable() bool { return true }

// Suspect does nothing.
func (Complete) Suspect() {}

// Clock advances by a millisecond at each call of Now, and otherwise only by Set. It is safe for concurrent use.
type Clock struct {
	mu sync.Mutex
	t  time.Time
}

// NewClock returns a clock that begins at the start time of a bubble's clock.
func NewClock() *Clock { return &Clock{t: bubble.Began} }

// Now returns a later time at each call.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(time.Millisecond)
	return c.t
}

// Set sets the time of the clock to t.
func (c *Clock) Set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = t
}

// NewUsers returns n new ids.
func NewUsers(n int) (users []accounts.ID) {
	for range n {
		users = append(users, ids.New[accounts.User]())
	}
	return users
}
