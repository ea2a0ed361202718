package collection

import (
	"context"

	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

// keyed is a collection with keys of K.
type keyed[K comparable] struct{ c *collection }

// Name is the family's pattern, which is what metrics call the cache.
func (k keyed[K]) Name() string { return k.c.Name() }

// Family returns the family's declaration.
func (k keyed[K]) Family() *keyspace.Family { return k.c.Family() }

// Stats returns the counts.
func (k keyed[K]) Stats() cache.Stats { return k.c.Stats() }

// Target is the whole collection at, for [cache.Runtime.Change] and [cache.Runtime.Drop]. It is
// dropped, and loaded when it is asked for.
func (k keyed[K]) Target(at K) cache.Target { return k.c.Target(at) }

// Invalidate drops the collections at keys after their source has changed. See
// [cache.Runtime.Drop].
func (k keyed[K]) Invalidate(ctx context.Context, ks ...K) error {
	targets := make([]cache.Target, len(ks))
	for i, at := range ks {
		targets[i] = k.Target(at)
	}
	return k.c.Runtime().Drop(ctx, targets...)
}

// ClearEverywhere drops all collections of the family. See [cache.Cache]'s method of that name for
// what it promises and costs.
func (k keyed[K]) ClearEverywhere(ctx context.Context) error { return k.c.ClearEverywhere(ctx) }
