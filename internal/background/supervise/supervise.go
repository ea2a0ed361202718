package supervise

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
)

// Default timeouts. A start may wait for a database that is starting itself. A stop must end before an orchestrator
// kills the process, usually after 30 s.
const (
	defaultStart = time.Minute
	defaultGrace = 10 * time.Second
)

var (
	// ErrEnded reports a part that returned without an error before it was stopped.
	ErrEnded = errors.New("ended before it was stopped")
	// ErrNotReady reports a part that was not ready in time.
	ErrNotReady = errors.New("not ready in time")
	// ErrStuck reports a part that did not return in time after its context ended. Its goroutine still runs, so the
	// process should exit.
	ErrStuck = errors.New("did not stop in time")
)

// A Part runs until its context ends. If it returns earlier, even without an error, the whole group stops.
type Part struct {
	// Name identifies the part in logs, errors and states. It is unique in its group.
	Name string

	// Run does the work. It calls ready, once or more, when the next part may start. Then it runs until ctx ends,
	// cleans up and returns. It may return the error of ctx or nil: neither is a failure.
	Run func(ctx context.Context, ready func()) error

	// Start bounds the time until the part is ready. Zero means the value of the group.
	Start time.Duration

	// Grace bounds the time from the end of the context until the part returns. Zero means the value of the group.
	Grace time.Duration
}

// State is the state of one part.
type State struct {
	Name     string `json:"name"`
	Ready    bool   `json:"ready"`              // started and not stopping
	Degraded string `json:"degraded,omitempty"` // the fault of a part that still runs; the readiness page sets it
}

// Group is an ordered set of parts. Later parts may depend on earlier ones. The zero Group is ready for use.
type Group struct {
	// Start bounds the time until each part is ready. Zero means one minute.
	Start time.Duration

	// Grace bounds the stop of each part. Zero means 10 s.
	Grace time.Duration

	// Log receives a line when a part becomes ready or stops. Nil discards it.
	Log *slog.Logger

	parts []Part

	mu     sync.Mutex
	states []State
	stop   bool
}

// Add appends parts. It panics if a name already exists. Do not call it after Run has begun.
func (g *Group) Add(parts ...Part) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range parts {
		if g.find(p.Name) != nil {
			panic("supervise: two parts named " + p.Name)
		}
		g.parts = append(g.parts, p)
		g.states = append(g.states, State{Name: p.Name})
	}
}

// States returns the state of each part in start order. While the group stops, no part is ready, so that load balancers
// send no new work. It is safe for concurrent use.
func (g *Group) States() []State {
	g.mu.Lock()
	defer g.mu.Unlock()
	states := append([]State(nil), g.states...)
	for i := range states {
		states[i].Ready = states[i].Ready && !g.stop
	}
	return states
}

// find returns the state of a part, or nil. The caller has locked mu.
func (g *Group) find(name string) *State {
	for i := range g.states {
		if g.states[i].Name == name {
			return &g.states[i]
		}
	}
	return nil
}

func (g *Group) log() *slog.Logger {
	if g.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return g.Log
}

// running is a started part. err is valid once done is closed.
type running struct {
	Part
	cancel context.CancelFunc
	ready  chan struct{}
	done   chan struct{}
	err    error
}

// Run starts the parts one after the other, waits until ctx ends or a part returns, and stops them in reverse order. It
// returns the errors joined, each with the name of its part. A stop because ctx ended is not an error. Call Run only
// once.
func (g *Group) Run(ctx context.Context) error {
	ended := make(chan struct{}, len(g.parts)) // one element per part that returned before it was stopped
	started, err := g.start(ctx, ended)
	if err == nil {
		select {
		case <-ctx.Done():
		case <-ended:
		}
	}
	g.mu.Lock()
	g.stop = true
	g.mu.Unlock()
	all := []error{err}
	for i := len(started) - 1; i >= 0; i-- {
		all = append(all, g.halt(started[i]))
	}
	return errors.Join(all...)
}

// start returns the started parts, even if it failed. Its own error reports a part that was not ready in time. halt
// returns the errors of parts that returned.
func (g *Group) start(ctx context.Context, ended chan struct{}) (started []*running, err error) {
	for i, p := range g.parts {
		began := time.Now()
		r := launch(ctx, p, ended)
		started = append(started, r)
		limit := first(p.Start, g.Start, defaultStart)
		select {
		case <-r.ready:
		case <-ended:
			ended <- struct{}{} // Run receives it again
			return started, nil
		case <-ctx.Done():
			return started, nil
		case <-time.After(limit):
			return started, fmt.Errorf("%s: %w (%v)", p.Name, ErrNotReady, limit)
		}
		g.mu.Lock()
		g.states[i].Ready = true
		g.mu.Unlock()
		g.log().Debug("supervise: part ready", slog.String("part", p.Name), slog.Duration("took", time.Since(began)))
	}
	return started, nil
}

// launch runs p in its own goroutine. halt waits for it.
func launch(ctx context.Context, p Part, ended chan<- struct{}) *running {
	// A part continues after ctx ends until its turn to stop.
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &running{Part: p, cancel: cancel, ready: make(chan struct{}), done: make(chan struct{})}
	go func() {
		err := protect(own, p.Run, sync.OnceFunc(func() { close(r.ready) }))
		stopped := own.Err() != nil
		switch {
		case stopped && errors.Is(err, context.Canceled):
			err = nil
		case !stopped && err == nil:
			err = ErrEnded
		}
		if err != nil {
			r.err = fmt.Errorf("%s: %w", p.Name, err)
		}
		close(r.done)
		if !stopped {
			ended <- struct{}{}
		}
	}()
	return r
}

// protect converts a panic of run into an error with the stack.
func protect(ctx context.Context, run func(context.Context, func()) error, ready func()) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	return run(ctx, ready)
}

// halt ends the context of r and waits for it, at most for its grace time.
func (g *Group) halt(r *running) error {
	began := time.Now()
	grace := first(r.Grace, g.Grace, defaultGrace)
	r.cancel()
	select {
	case <-r.done:
		g.log().Debug("supervise: part stopped", slog.String("part", r.Name), slog.Duration("took", time.Since(began)))
		return r.err
	case <-time.After(grace):
		return fmt.Errorf("%s: %w (%v)", r.Name, ErrStuck, grace)
	}
}

// first returns the first non-zero duration.
func first(ds ...time.Duration) time.Duration {
	for _, d := range ds {
		if d != 0 {
			return d
		}
	}
	return 0
}
