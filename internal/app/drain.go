package app

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/internal/cluster"
)

// drain is the state of draining: whether this node moves its connections and leases to other nodes. An operator orders
// a drain, or the node stops. A node that does not run yet serves.
type drain struct {
	whole context.Context //nolint:containedctx // never ends

	mu      sync.Mutex
	serving context.Context    //nolint:containedctx // ends when a drain begins; renewed when it is undone
	begin   context.CancelFunc // ends serving
	resumed chan struct{}      // closed when a drain is undone
	undo    context.CancelFunc // undoes the drain that runs or is complete; nil without a drain
	stops   bool               // the node stops after the drain
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

// running lets orders take effect until ctx ends; stop ends it. The caller calls ended when the run of the node ends.
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

// whileServing waits until the node does not drain. It returns a context that ends when a drain begins.
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

// stream returns a context that ends some time after a drain has begun. The delay is random, so that streams do not all
// end at once. It returns draining if an operator has ordered a drain. A node that stops accepts streams as long as it
// accepts connections.
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

// handingOver returns a context that ends some time after ctx. Until then, a stopping node accepts connections from
// proxies that have not yet seen it drain. For a node that has already drained, or has failed, the context ends
// together with ctx.
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

// openSockets returns the number of open sockets of this node.
func (a *App) openSockets() int {
	if a.gateway == nil {
		return 0
	}
	return a.gateway.Open()
}

// serves publishes that the node has started, unless it already drains.
func (a *App) serves() {
	d := a.drain
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.serving.Err() == nil {
		a.cluster.SetStatus(cluster.Serving)
	}
}

// ordered carries out an operator's order.
func (a *App) ordered(o cluster.Order) {
	d := a.drain
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.base == nil || d.base.Err() != nil: // the node stops anyway
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

// sendAway moves the sockets to other nodes, unless ctx ends. It lasts for at least DrainOver: streams end during this
// time, and proxies notice that this node is not ready.
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
	if ctx.Err() != nil { // the drain was undone, or the node stops
		return
	}
	d.drained = true
	a.cluster.SetStatus(cluster.Drained)
	a.log.Info("drained", "node", a.node, "sockets", a.openSockets(), "stops", d.stops)
	if d.stops {
		d.stop()
	}
}
