package cachetest

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrNotFound is returned by a [Source] if the row does not exist. Adapters return it, too.
var ErrNotFound = errors.New("cachetest: the row does not exist")

// Source is the database behind the caches: rows, each with a text. It is safe for concurrent use.
type Source struct {
	mu    sync.Mutex
	rows  map[string]string
	loads []time.Time // start of each load
	delay time.Duration
	last  time.Duration // duration of the latest slow load, because machines can be late
	hold  *Held
	panic bool
}

// Held is a load that was stopped after it had read its row.
type Held struct {
	Reached chan struct{} // closed when the load has stopped
	release chan struct{}
	once    sync.Once
}

// Release resumes the load.
func (h *Held) Release() { h.once.Do(func() { close(h.release) }) }

// Load returns a row's text. A load that is held ignores ctx, as a driver may.
func (s *Source) Load(ctx context.Context, key string) (string, error) {
	s.mu.Lock()
	s.loads = append(s.loads, time.Now())
	text, ok := s.rows[key]
	delay, hold, panics := s.delay, s.hold, s.panic
	s.hold, s.panic = nil, false
	s.mu.Unlock()
	if panics {
		panic("cachetest: PanicNext")
	}
	if hold != nil {
		close(hold.Reached)
		<-hold.release
	}
	if delay > 0 {
		began := time.Now()
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
		s.mu.Lock()
		s.last = time.Since(began)
		s.mu.Unlock()
	}
	if !ok {
		return "", ErrNotFound
	}
	return text, nil
}

// Set commits a row.
func (s *Source) Set(key, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rows == nil {
		s.rows = map[string]string{}
	}
	s.rows[key] = text
}

func (s *Source) row(key string) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, ok := s.rows[key]
	return text, ok
}

// HoldNext stops the next load.
func (s *Source) HoldNext() *Held {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hold = &Held{Reached: make(chan struct{}), release: make(chan struct{})}
	return s.hold
}

// PanicNext makes the next load panic.
func (s *Source) PanicNext() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.panic = true
}

// Slow makes each load take d.
func (s *Source) Slow(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delay = d
}

// Loads returns the start time of each load so far.
func (s *Source) Loads() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]time.Time(nil), s.loads...)
}
