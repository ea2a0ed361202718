package redis

import (
	"context"
	"sync/atomic"
	"time"
)

// A deadline is a context that ends at a moment. Calls that begin at about the same
// time share one: a context of its own, with its timer, costs a read of Redis a
// tenth of its time.
type deadline struct {
	at    time.Time
	fresh time.Duration // of clock: until when further calls may share it
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

// Deadlines hands out contexts for commands whose callers wait for about the same
// time and not for longer, whatever their own contexts say: reads of a cache, for
// instance. The zero value is ready.
type Deadlines struct{ now atomic.Pointer[deadline] }

// Within returns a context that ends after d, or up to an eighth of d later. One
// Deadlines is for one d: contexts are shared.
func (s *Deadlines) Within(d time.Duration) context.Context {
	now := clock()
	shared := s.now.Load()
	if shared != nil && now < shared.fresh {
		return shared
	}
	long := d + d/8
	next := &deadline{at: time.Now().Add(long), fresh: now + d/8, done: make(chan struct{})}
	if !s.now.CompareAndSwap(shared, next) {
		return s.Within(d) // another goroutine was faster
	}
	time.AfterFunc(long, func() { close(next.done) })
	return next
}
