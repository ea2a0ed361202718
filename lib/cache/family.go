package cache

import (
	"context"
	"fmt"
	"time"

	"github.com/stoa-dev/stoa/lib/cache/internal/slots"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

// family is what caches and collections of one family have in common.
type family struct {
	rt            *Runtime
	fam           *keyspace.Family
	key           func(k any) keyspace.Key
	changeTimeout time.Duration
	loadTimeout   time.Duration
	wait          time.Duration // LeaseWait as it was set
	unfenced      Unfenced
	stats         counters
	copies        func() int // local ones; nil: there are none
}

// Name is the family's pattern, which is what metrics call the cache.
func (f *family) Name() string { return f.fam.Pattern }

// Family returns the family's declaration.
func (f *family) Family() *keyspace.Family { return f.fam }

// Stats returns the counts.
func (f *family) Stats() Stats {
	s := f.stats.read()
	s.Entries = f.len()
	return s
}

// len is how many local copies there are.
func (f *family) len() int {
	if f.copies == nil {
		return 0
	}
	return f.copies()
}

// era is the servers' era as values of the family carry it, 0 while it is unknown.
func (f *family) era() uint64 { return slots.EraOf(f.fam, f.rt.bus.Era()) }

func (f *family) target(k any) Target {
	return Target{key: f.key(k), timeout: f.changeTimeout, unfenced: f.unfenced}
}

// clearEverywhere is ClearEverywhere.
func (f *family) clearEverywhere(ctx context.Context) error {
	refused, err := f.rt.forgetFamily(ctx, f.fam)
	switch {
	case err == nil && len(refused) > 0:
		f.rt.later(ctx, refused)
		return fmt.Errorf("%w: it refuses %d keys, such as %s", ErrQueued, len(refused), refused[0])
	case err == nil:
		return nil
	}
	f.rt.undropped.addFamily(f.fam)
	f.rt.forgetAll()
	return fmt.Errorf("%w: %w", ErrQueued, err)
}

// keyed is a family with keys of K.
type keyed[K comparable] struct{ family *family }

// Name is the family's pattern, which is what metrics call the cache.
func (c keyed[K]) Name() string { return c.family.Name() }

// Family returns the family's declaration.
func (c keyed[K]) Family() *keyspace.Family { return c.family.fam }

// Stats returns the counts.
func (c keyed[K]) Stats() Stats { return c.family.Stats() }

// Target is the value that is cached at k, for [Runtime.Change] and [Runtime.Drop]. It is
// dropped, and loaded when it is asked for.
func (c keyed[K]) Target(k K) Target { return c.family.target(k) }

// Invalidate drops what is cached at keys after its source has changed. See
// [Runtime.Drop].
func (c keyed[K]) Invalidate(ctx context.Context, ks ...K) error {
	targets := make([]Target, len(ks))
	for i, k := range ks {
		targets[i] = c.Target(k)
	}
	return c.family.rt.Drop(ctx, targets...)
}

// ClearEverywhere drops everything that is cached at any key: in Redis and on all nodes.
// Once it has returned, no read on this node returns what was cached before, and none on
// another node that begins later than MaxStale. It looks through all keys of Redis, a
// thousand at a time, and the cache works meanwhile. It is for operators and for changes of
// everything, such as an import: what belongs together has a [Tag], whose drop is one
// command. An error that is [ErrQueued] says that Redis did not do it, or that ctx ended: it
// will be tried again, and this node asks the source until it is done.
func (c keyed[K]) ClearEverywhere(ctx context.Context) error { return c.family.clearEverywhere(ctx) }
