package app

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/internal/cluster"
)

// drain is whether this node sends its users and its work to others, by the word of an operator or because it stops.
// One that is not running yet serves.
type drain struct {
	whole context.Context //nolint:containedctx // never ends

	mu      sync.Mutex
	serving context.Context    //nolint:containedctx // ends when a drain begins; renewed when it is undone
	begin   context.CancelFunc // ends serving
	resumed chan struct{}      // closed when a drain is undone
	undo    context.CancelFunc // ends the drain that is under way, or over; nil: none
	stops   bool               // the node ends once it is drained
	drained bool

	base context.Context //nolint:containedctx // ends when the node stops
	stop context.CancelFunc
	runs sync.WaitGroup
}

func newDrain(ctx context.Context) *drain {
	d := &drain{whole: context.WithoutCancel(ctx), resumed: make(chan struct{})}
	d.serving, d.begin = context.WithCancel(d.whole)
	return d
}

// running has orders obeyed until ctx ends, which stop brings about. The caller calls what it returns as the node's run ends.
func (d *drain) running(ctx context.Context, stop context.CancelFunc) (ended func()) {
	d.mu.Lock()
	d.base, d.stop = ctx, stop
	d.mu.Unlock()
	stopped := context.AfterFunc(ctx, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.begin()
	})
	return func() {
		stop()
		stopped()
		d.runs.Wait()
	}
}

// on reports whether the node drains, is drained, or stops.
func (d *drain) on() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.serving.Err() != nil
}

// whileServing waits until the node does not drain, and returns ctx, which ends when it does.
func (d *drain) whileServing(ctx context.Context) (context.Context, context.CancelFunc, error) {
	for {
		d.mu.Lock()
		serving, resumed := d.serving, d.resumed
		d.mu.Unlock()
		if serving.Err() == nil {
			ctx, cancel := context.WithCancel(ctx)
			end := context.AfterFunc(serving, cancel)
			return ctx, func() { end(); cancel() }, nil
		}
		select {
		case <-ctx.Done():
			return ctx, nil, ctx.Err()
		case <-resumed:
		}
	}
}

// stream returns ctx, which ends some time after a drain has begun, for no two streams after the same time. draining: an operator
// has ordered one. A node that stops takes streams as long as it takes connections.
func (d *drain) stream(ctx context.Context, over time.Duration) (_ context.Context, ended context.CancelFunc, draining bool) {
	d.mu.Lock()
	serving, ordered := d.serving, d.undo != nil
	d.mu.Unlock()
	if ordered {
		return ctx, nil, true
	}
	ctx, cancel := context.WithCancel(ctx)
	end := context.AfterFunc(serving, func() {
		select {
		case <-time.After(rand.N(max(over, time.Millisecond))):
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, func() { end(); cancel() }, false
}

// handingOver returns a context that ends some time after ctx: until then a node that was told to stop takes connections from
// proxies that have not yet seen it drain. One that has drained before, or fails, ends at once.
func (d *drain) handingOver(ctx context.Context, over time.Duration) (_ context.Context, end context.CancelFunc) {
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.drained || d.base.Err() == nil {
			over = 0
		}
		time.AfterFunc(over, end)
	})
	return serving, end
}

// openSockets is how many connections of apps this node has.
func (a *App) openSockets() int {
	if a.gateway == nil {
		return 0
	}
	return a.gateway.Open()
}

// serves has others know that the node has started, unless an operator has had it drain meanwhile.
func (a *App) serves() {
	d := a.drain
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.serving.Err() == nil {
		a.cluster.SetStatus(cluster.Serving)
	}
}

// ordered does what an operator says.
func (a *App) ordered(o cluster.Order) {
	d := a.drain
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.base == nil || d.base.Err() != nil: // it stops anyway
	case o.Drain && d.undo == nil:
		d.begin()
		ctx, undo := context.WithCancel(d.base)
		d.undo, d.stops = undo, o.Stop
		if a.gateway != nil {
			a.gateway.Refuse()
		}
		a.cluster.SetStatus(cluster.Draining)
		d.runs.Go(func() { a.sendAway(ctx) })
	case o.Drain:
		if d.stops = o.Stop; d.stops && d.drained {
			d.stop()
		}
	case d.undo != nil:
		d.undo()
		d.undo, d.stops, d.drained = nil, false, false
		d.serving, d.begin = context.WithCancel(d.whole)
		close(d.resumed)
		d.resumed = make(chan struct{})
		if a.gateway != nil {
			a.gateway.Resume()
		}
		a.cluster.SetStatus(cluster.Serving)
		a.log.Info("the drain is undone; this node serves again", "node", a.node)
	}
}

// sendAway has the sockets go to other nodes, unless ctx ends. It lasts for DrainOver at least: for so long streams go away,
// and proxies come to see that this node is not ready.
func (a *App) sendAway(ctx context.Context) {
	end := time.Now().Add(a.cfg.Gateway.DrainOver)
	a.log.Info("draining: sockets and leases go to other nodes", "node", a.node, "sockets", a.openSockets())
	if a.gateway != nil {
		within, cancel := context.WithTimeout(ctx, a.cfg.Gateway.DrainWithin)
		defer cancel()
		a.gateway.Drain(within, a.cfg.Gateway.DrainOver)
	}
	if left := time.Until(end); left > 0 {
		select {
		case <-ctx.Done():
		case <-time.After(left):
		}
	}
	d := a.drain
	d.mu.Lock()
	defer d.mu.Unlock()
	if ctx.Err() != nil { // it was undone, or the node stops
		return
	}
	d.drained = true
	a.cluster.SetStatus(cluster.Drained)
	a.log.Info("drained", "node", a.node, "sockets", a.openSockets(), "stops", d.stops)
	if d.stops {
		d.stop()
	}
}
