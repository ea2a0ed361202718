package collection

import (
	"context"

	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

// keyed is a collection with keys of K.
type keyed[K comparable] struct{ c *collection }

// Name returns the family's pattern, which is also the cache's name in metrics.
func (k keyed[K]) Name() string { return k.c.Name() }

// Family returns the family's declaration.
func (k keyed[K]) Family() *keyspace.Family { return k.c.Family() }

// Stats returns the counts.
func (k keyed[K]) Stats() cache.Stats { return k.c.Stats() }

// Target returns the whole collection at a key, for [cache.Runtime.Change] and [cache.Runtime.Drop]. The collection is
// dropped, and loaded again by the next read.
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

// ClearEverywhere drops all collections of the family. The method of [cache.Cache] with that name describes its
// guarantee and cost.
func (k keyed[K]) ClearEverywhere(ctx context.Context) error { return k.c.ClearEverywhere(ctx) }
