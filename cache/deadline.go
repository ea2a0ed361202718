package cache

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/stoa-dev/stoa/bus"
)

// A deadline is a context that ends at a moment. Calls that begin at about the same
// time share one: a context of its own, with its timer, costs a read of Redis a
// tenth of its time.
type deadline struct {
	at    time.Time
	fresh bus.Moment // until when further calls may share it
	done  chan struct{}
}

var _ context.Context = (*deadline)(nil)

func (d *deadline) Deadline() (time.Time, bool) { return d.at, true }
func (d *deadline) Done() <-chan struct{}       { return d.done }
func (d *deadline) Value(any) any               { return nil }

func (d *deadline) Err() error {
	select {
	case <-d.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// deadlines hands out deadlines.
type deadlines struct{ now atomic.Pointer[deadline] }

// within returns a context that ends after d, or an eighth of d later.
func (s *deadlines) within(d time.Duration) context.Context {
	now := bus.Now()
	shared := s.now.Load()
	if shared != nil && now < shared.fresh {
		return shared
	}
	long := d + d/8
	next := &deadline{at: time.Now().Add(long), fresh: now + bus.Moment(d/8), done: make(chan struct{})}
	if !s.now.CompareAndSwap(shared, next) {
		return s.within(d) // somebody else was faster
	}
	time.AfterFunc(long, func() { close(next.done) })
	return next
}
