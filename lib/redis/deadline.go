package redis

import (
	"context"
	"sync/atomic"
	"time"
)

// A deadline is a context that ends at a fixed time. Calls that begin at about the same time share one, because a
// separate context with a timer would add a tenth to the duration of a read.
type deadline struct {
	at    time.Time
	fresh time.Duration // of clock: end of the time in which further calls may share it
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

// Deadlines returns contexts for commands whose callers all wait for about the same time, whatever their own contexts:
// for example, the reads of a cache. The zero value is ready.
type Deadlines struct{ now atomic.Pointer[deadline] }

// Within returns a context that ends after d, or up to an eighth of d later. Use one Deadlines for each d, because
// contexts are shared.
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
