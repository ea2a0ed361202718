package cache

import (
	"context"
	"fmt"
	"time"

	"github.com/stoa-dev/stoa/lib/cache/internal/slots"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

// family has the fields common to caches and collections of one family.
type family struct {
	rt            *Runtime
	fam           *keyspace.Family
	key           func(k any) keyspace.Key
	changeTimeout time.Duration
	loadTimeout   time.Duration
	wait          time.Duration // LeaseWait as configured
	unfenced      Unfenced
	stats         counters
	copies        func() int // counts the local copies; nil: there are none
}

// Name returns the family's pattern, which is also the cache's name in metrics.
func (f *family) Name() string { return f.fam.Pattern }

// Family returns the family's declaration.
func (f *family) Family() *keyspace.Family { return f.fam }

// Stats returns the counts.
func (f *family) Stats() Stats {
	s := f.stats.read()
	s.Entries = f.len()
	return s
}

// len returns the number of local copies.
func (f *family) len() int {
	if f.copies == nil {
		return 0
	}
	return f.copies()
}

// era returns the servers' era as values of the family carry it, or 0 while it is unknown.
func (f *family) era() uint64 { return slots.EraOf(f.fam, f.rt.bus.Era()) }

func (f *family) target(k any) Target {
	return Target{key: f.key(k), timeout: f.changeTimeout, unfenced: f.unfenced}
}

// clearEverywhere is [keyed.ClearEverywhere].
func (f *family) clearEverywhere(ctx context.Context) error {
	refused, err := f.rt.forgetFamily(ctx, f.fam)
	switch {
	case err == nil && len(refused) > 0:
		f.rt.enqueueDrops(ctx, refused)
		return fmt.Errorf("%w: Redis refuses %d keys, such as %s", ErrQueued, len(refused), refused[0])
	case err == nil:
		return nil
	}
	f.rt.undropped.addFamily(f.fam)
	f.rt.forgetAll()
	return fmt.Errorf("%w: %w", ErrQueued, err)
}

// keyed is a family with keys of K.
type keyed[K comparable] struct{ family *family }

// Name returns the family's pattern, which is also the cache's name in metrics.
func (c keyed[K]) Name() string { return c.family.Name() }

// Family returns the family's declaration.
func (c keyed[K]) Family() *keyspace.Family { return c.family.fam }

// Stats returns the counts.
func (c keyed[K]) Stats() Stats { return c.family.Stats() }

// Target returns the value cached at k, for [Runtime.Change] and [Runtime.Drop]. The value is dropped, and loaded again
// by the next read.
func (c keyed[K]) Target(k K) Target { return c.family.target(k) }

// Invalidate drops the values cached at keys after their source has changed. See [Runtime.Drop].
func (c keyed[K]) Invalidate(ctx context.Context, ks ...K) error {
	targets := make([]Target, len(ks))
	for i, k := range ks {
		targets[i] = c.Target(k)
	}
	return c.family.rt.Drop(ctx, targets...)
}

// ClearEverywhere drops the values of all keys: in Redis and on all nodes. After its return, no read on this node
// returns an earlier value, and no read on another node that begins more than MaxStale later. It scans all keys of
// Redis, a thousand at a time, and the cache works meanwhile. It is for operators and for changes of everything, such
// as an import; values that belong together have a [Tag], whose drop is one command. It returns an error that is
// [ErrQueued] if Redis failed or ctx ended: the drop is retried, and this node reads from the source until it succeeds.
func (c keyed[K]) ClearEverywhere(ctx context.Context) error { return c.family.clearEverywhere(ctx) }
