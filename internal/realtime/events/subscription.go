package events

import (
	"context"
	"sync"
)

// queued is how many events a subscriber may be behind before it is cut off.
const queued = 64

// Subscription is one listener's queue.
type Subscription struct {
	// C has the user's events. It is closed when the listener fell behind, when events were
	// missed on the way, or when the listener closed the subscription: whoever comes again
	// looks at the truth first.
	C chan Event

	leave func()
	mu    sync.Mutex
	ended bool
}

// Subscribe listens to one user's events until Close.
func (b *Bus) Subscribe(ctx context.Context, user string) *Subscription {
	s := &Subscription{C: make(chan Event, queued)}
	_, s.leave = b.Listen(ctx, user, &Listener{Event: s.add, Lost: s.end})
	return s
}

func (s *Subscription) add(e Event, _ Position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	select {
	case s.C <- e:
	default:
		s.ended = true
		close(s.C)
	}
}

func (s *Subscription) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.ended = true
		close(s.C)
	}
}

// Close ends the subscription. It may be called again.
func (s *Subscription) Close() {
	s.leave()
	s.end()
}
