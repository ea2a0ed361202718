package events

import (
	"context"
	"sync"
)

// subscriptionQueue is the largest number of undelivered events; beyond it, a subscription is closed.
const subscriptionQueue = 64

// Subscription is one listener's queue.
type Subscription struct {
	// C delivers the user's events. It is closed when the listener is too slow, when events were missed, or by Close.
	// A listener that subscribes again loads the current state first.
	C chan Event

	leave func()
	mu    sync.Mutex
	ended bool
}

// Subscribe subscribes to one user's events until Close.
func (b *Bus) Subscribe(ctx context.Context, user string) *Subscription {
	s := &Subscription{C: make(chan Event, subscriptionQueue)}
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

// Close ends the subscription. Further calls do nothing.
func (s *Subscription) Close() {
	s.leave()
	s.end()
}
