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

// Times that hold where neither the part nor the group says otherwise. A start
// may have to wait for a database that is itself starting; a stop must be over
// before the usual 30 s after which orchestrators kill.
const (
	defaultStart = time.Minute
	defaultGrace = 10 * time.Second
)

var (
	// ErrEnded reports a part that returned without an error while it was still
	// wanted.
	ErrEnded = errors.New("ended although it was still wanted")
	// ErrNotReady reports a part that was not ready in time.
	ErrNotReady = errors.New("not ready in time")
	// ErrStuck reports a part that did not return in time after its context had
	// ended. Its goroutine is left behind; the process had better exit.
	ErrStuck = errors.New("did not stop in time")
)

// A Part runs until its context ends. Returning earlier, even without an
// error, brings the whole group down.
type Part struct {
	// Name says in logs, errors and states which part this is. It is unique in
	// its group.
	Name string

	// Run does the work. It calls ready, once or more often, when the parts
	// after it may start; then it stays until ctx ends, tidies up and returns.
	// The end of ctx is not an error, whether Run returns it or nil.
	Run func(ctx context.Context, ready func()) error

	// Start bounds how long the part may take until ready. Zero means the
	// group's.
	Start time.Duration

	// Grace bounds how long the part may take to return after its context has
	// ended. Zero means the group's.
	Grace time.Duration
}

// State is how one part is.
type State struct {
	Name     string `json:"name"`
	Ready    bool   `json:"ready"`              // started, and not about to stop
	Degraded string `json:"degraded,omitempty"` // what is wrong while it goes on, for a readiness page to fill in
}

// Group is an ordered set of parts. Later ones may depend on earlier ones.
// The zero Group is ready for use.
type Group struct {
	// Start bounds how long each part may take until it is ready. Zero means
	// one minute.
	Start time.Duration

	// Grace bounds how long each part may take to stop. Zero means 10 s.
	Grace time.Duration

	// Log gets a line when a part becomes ready or stops. Nil discards.
	Log *slog.Logger

	parts []Part

	mu     sync.Mutex
	states []State
	stop   bool
}

// Add appends parts. It panics on a name that is there already, and must not
// be called once Run has begun.
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

// States returns how each part is, in the order in which they start. While
// the group stops no part is ready, so that load balancers send no new work. It is safe
// for concurrent use.
func (g *Group) States() []State {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := append([]State(nil), g.states...)
	for i := range out {
		out[i].Ready = out[i].Ready && !g.stop
	}
	return out
}

// find is called with mu held.
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

// running is a part that was started. err is there once done is closed.
type running struct {
	Part
	cancel context.CancelFunc
	ready  chan struct{}
	done   chan struct{}
	err    error
}

// Run starts the parts one after the other, waits until ctx ends or a part
// returns, stops them last first and returns what went wrong, joined, each
// error with the name of its part. A stop because ctx ended is not an error.
// Run is called once.
func (g *Group) Run(ctx context.Context) error {
	ended := make(chan struct{}, len(g.parts)) // one for each part that returned unasked
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

// start returns the parts that were started, also when not all could be. Its
// own error is a part that was not ready in time; the errors of parts that
// returned are left to halt.
func (g *Group) start(ctx context.Context, ended chan struct{}) (started []*running, err error) {
	for i, p := range g.parts {
		begun := time.Now()
		r := launch(ctx, p, ended)
		started = append(started, r)
		limit := first(p.Start, g.Start, defaultStart)
		select {
		case <-r.ready:
		case <-ended:
			ended <- struct{}{} // Run wants to know as well
			return started, nil
		case <-ctx.Done():
			return started, nil
		case <-time.After(limit):
			return started, fmt.Errorf("%s: %w (%v)", p.Name, ErrNotReady, limit)
		}
		g.mu.Lock()
		g.states[i].Ready = true
		g.mu.Unlock()
		g.log().Debug("part ready", slog.String("part", p.Name), slog.Duration("took", time.Since(begun)))
	}
	return started, nil
}

// launch runs p in a goroutine of its own, which halt waits for.
func launch(ctx context.Context, p Part, ended chan<- struct{}) *running {
	// A part outlives ctx until its turn to stop has come.
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &running{Part: p, cancel: cancel, ready: make(chan struct{}), done: make(chan struct{})}
	go func() {
		err := protect(own, p.Run, sync.OnceFunc(func() { close(r.ready) }))
		asked := own.Err() != nil
		switch {
		case asked && errors.Is(err, context.Canceled):
			err = nil
		case !asked && err == nil:
			err = ErrEnded
		}
		if err != nil {
			r.err = fmt.Errorf("%s: %w", p.Name, err)
		}
		close(r.done)
		if !asked {
			ended <- struct{}{}
		}
	}()
	return r
}

// protect turns a panic of run into an error that carries the stack.
func protect(ctx context.Context, run func(context.Context, func()) error, ready func()) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	return run(ctx, ready)
}

// halt ends r's context and waits for it, within its grace.
func (g *Group) halt(r *running) error {
	begun := time.Now()
	grace := first(r.Grace, g.Grace, defaultGrace)
	r.cancel()
	select {
	case <-r.done:
		g.log().Debug("part stopped", slog.String("part", r.Name), slog.Duration("took", time.Since(begun)))
		return r.err
	case <-time.After(grace):
		return fmt.Errorf("%s: %w (%v)", r.Name, ErrStuck, grace)
	}
}

// first returns the first of ds that is not zero.
func first(ds ...time.Duration) time.Duration {
	for _, d := range ds {
		if d != 0 {
			return d
		}
	}
	return 0
}
