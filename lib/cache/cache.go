package cache

import (
	"context"
	"fmt"
	"hash/maphash"
	"iter"
	"time"

	"github.com/stoa-dev/stoa/lib/bus"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

// Cache keeps values of one family: in process, in Redis, and from a source. It is safe for concurrent use. Callers
// share the returned values and must not change them.
//
// The compiler generates the methods of Cache for each pair of types, in each package that uses it. They are therefore
// thin: they search for a local copy, which has to be fast, and leave the rest to core, which has no types.
type Cache[K comparable, V any] struct {
	keyed[K]
	core *core
}

// typedCopy is a local copy with its key and value.
type typedCopy[K comparable, V any] struct {
	localCopy
	key   K
	value V
}

func newCopy[K comparable, V any](k K) *typedCopy[K, V] {
	e := &typedCopy[K, V]{key: k}
	e.typed = e
	return e
}

// New returns the cache of a family with one argument.
func New[A keyspace.Segment, V any](rt *Runtime, f keyspace.F1[A, keyspace.Cached[V]], p Policy, s Source[A, V]) *Cache[A, V] {
	return newCache(rt, f.Family, func(a A) keyspace.Key { return f.At(a).Key }, p, s)
}

// New0 returns the cache of a family without arguments: its single value has the key struct{}{}.
func New0[V any](rt *Runtime, f keyspace.F0[keyspace.Cached[V]], p Policy, s Source[struct{}, V]) *Cache[struct{}, V] {
	return newCache(rt, f.Family, func(struct{}) keyspace.Key { return f.At().Key }, p, s)
}

// New2 returns the cache of a family with two arguments.
func New2[A, B keyspace.Segment, V any](rt *Runtime, f keyspace.F2[A, B, keyspace.Cached[V]], p Policy,
	s Source[keyspace.Args2[A, B], V]) *Cache[keyspace.Args2[A, B], V] {
	return newCache(rt, f.Family, func(k keyspace.Args2[A, B]) keyspace.Key { return f.At(k.A, k.B).Key }, p, s)
}

// New3 returns the cache of a family with three arguments.
func New3[A, B, C keyspace.Segment, V any](rt *Runtime, f keyspace.F3[A, B, C, keyspace.Cached[V]], p Policy,
	s Source[keyspace.Args3[A, B, C], V]) *Cache[keyspace.Args3[A, B, C], V] {
	return newCache(rt, f.Family, func(k keyspace.Args3[A, B, C]) keyspace.Key { return f.At(k.A, k.B, k.C).Key }, p, s)
}

func newCache[K comparable, V any](rt *Runtime, fam *keyspace.Family, key func(K) keyspace.Key, p Policy, s Source[K, V]) *Cache[K, V] {
	if s.Load == nil {
		panic(fmt.Sprintf("cache: %s has no source", fam.Pattern))
	}
	codec := codecOr(s.Codec, fam.Pattern)
	of := func(e *localCopy) *typedCopy[K, V] { return e.typed.(*typedCopy[K, V]) }
	types := typeFuncs{
		hash:    func(k any) uint64 { return maphash.Comparable(rt.seed, k.(K)) },
		newCopy: func(k any) *localCopy { return &newCopy[K, V](k.(K)).localCopy },
		isOf:    func(e *localCopy, k any) bool { return of(e).key == k.(K) },
		load: func(ctx context.Context, e *localCopy) (err error) {
			of(e).value, err = s.Load(ctx, of(e).key)
			return err
		},
		codec:  codec.Name(),
		encode: func(e *localCopy) ([]byte, error) { return codec.Append(nil, of(e).value) },
		decode: func(e *localCopy, body []byte) error { return codec.Decode(body, &of(e).value) },
	}
	if s.LoadMany != nil {
		types.loadMany = func(ctx context.Context, es []*localCopy) error {
			ks := make([]K, len(es))
			for i, e := range es {
				ks[i] = of(e).key
			}
			values, err := s.LoadMany(ctx, ks)
			for i, e := range es {
				v, ok := values[ks[i]]
				of(e).value, e.missing = v, !ok
			}
			return err
		}
	}
	if s.Weigh != nil {
		types.weigh = func(e *localCopy) uint32 { return s.Weigh(of(e).key, of(e).value) }
	}
	if s.OnRemoval != nil {
		types.removed = func(e *localCopy, why Removal) { s.OnRemoval(of(e).key, of(e).value, why) }
	}
	if s.Life != nil {
		types.life = func(e *localCopy) time.Duration { return s.Life(of(e).value) }
	}
	if s.Tags != nil {
		types.tags = func(k any) []Tag { return s.Tags(k.(K)) }
	}
	c := newCore(rt, fam, func(k any) keyspace.Key { return key(k.(K)) }, p, types)
	return &Cache[K, V]{keyed[K]{&c.family}, c}
}

// local returns the local copy of k, or nil if there is none that a read begun at now may use.
func (c *Cache[K, V]) local(k K, now bus.Moment) *typedCopy[K, V] {
	e := c.core.localAt(maphash.Comparable(c.core.seed, k), now)
	if e == nil {
		return nil
	}
	if t := e.typed.(*typedCopy[K, V]); t.key == k {
		return t
	}
	return nil
}

// hit returns the local copy like local, and counts it as a hit.
func (c *Cache[K, V]) hit(k K, now bus.Moment) *typedCopy[K, V] {
	if !c.core.trusted(now) {
		return nil
	}
	t := c.local(k, now)
	if t != nil {
		c.core.countHit(&t.localCopy, now)
	}
	return t
}

// Get returns the value of k, or an error that is [ErrNotFound].
func (c *Cache[K, V]) Get(ctx context.Context, k K) (V, error) {
	now := bus.Now()
	if t := c.hit(k, now); t != nil {
		if t.missing {
			return *new(V), ErrNotFound
		}
		return t.value, nil
	}
	found, err := c.core.readThrough(ctx, k, now, 0)
	if err == nil && found.Missing {
		err = ErrNotFound
	}
	return valueOf[K, V](found.Value), err
}

// GetFresh is [Cache.Get] for a caller that accepts only values loaded at most maxAge ago, measured as [Entry].Age. If
// no tier has such a value, it is loaded now and stored, and all callers of this node get it from then on. With a
// maxAge of 0 or less, the value is always loaded. If the source fails, GetFresh returns the error of the load instead
// of an older value. Concurrent calls on one node share a load. GetFresh is not needed to see a change:
// [Policy].MaxStale bounds that delay, not the age of the value. The age of a value that another node loaded is as
// exact as the servers' clock is known, to about a millisecond.
func (c *Cache[K, V]) GetFresh(ctx context.Context, k K, maxAge time.Duration) (V, error) {
	if maxAge <= 0 {
		maxAge = -1
	}
	now := bus.Now()
	if c.core.trusted(now) {
		if t := c.local(k, now); t != nil && !tooOld(&t.localCopy, now, maxAge) {
			c.core.countHit(&t.localCopy, now)
			if t.missing {
				return *new(V), ErrNotFound
			}
			return t.value, nil
		}
	}
	found, err := c.core.readThrough(ctx, k, now, maxAge)
	if err == nil && found.Missing {
		err = ErrNotFound
	}
	return valueOf[K, V](found.Value), err
}

// valueOf returns the value of a copy, or the zero value if e is nil.
func valueOf[K comparable, V any](e *localCopy) (v V) {
	if e != nil {
		v = e.typed.(*typedCopy[K, V]).value
	}
	return v
}

// Lookup returns the value of k with its tier, age and version. A missing value is not an error here.
func (c *Cache[K, V]) Lookup(ctx context.Context, k K) (Entry[V], error) {
	now := bus.Now()
	var found Entry[*localCopy]
	var err error
	if t := c.hit(k, now); t != nil {
		found = t.entry(now, Process)
	} else {
		found, err = c.core.readThrough(ctx, k, now, 0)
	}
	return Entry[V]{Value: valueOf[K, V](found.Value), Missing: found.Missing, Tier: found.Tier, Age: found.Age, Stale: found.Stale,
		Version: found.Version}, err
}

// GetMany returns the values of keys; missing values are absent from the map. It needs one round trip to Redis for all
// keys without a local copy. Keys that are not in Redis need two more round trips around one call of the source.
func (c *Cache[K, V]) GetMany(ctx context.Context, ks []K) (map[K]V, error) {
	out := make(map[K]V, len(ks))
	err := c.many(ctx, ks, func(i int, v *V) { out[ks[i]] = *v })
	return out, err
}

// GetAll is [Cache.GetMany] in the order of ks, with nil for missing values. It does not copy values, which makes it
// the fastest way to read many: all callers share them, so do not change them.
func (c *Cache[K, V]) GetAll(ctx context.Context, ks []K) ([]*V, error) {
	all := make([]*V, len(ks))
	if err := c.many(ctx, ks, func(i int, v *V) { all[i] = v }); err != nil {
		return nil, err
	}
	return all, nil
}

// many calls found with the index and value of each key that exists.
func (c *Cache[K, V]) many(ctx context.Context, ks []K, found func(i int, v *V)) error {
	now := bus.Now()
	trusted, sampled := c.core.trusted(now), c.core.sampled(now)
	var missed []int
	for i, k := range ks {
		var t *typedCopy[K, V]
		if trusted {
			t = c.local(k, now)
		}
		if t == nil {
			missed = append(missed, i)
			continue
		}
		if sampled {
			c.core.reportAge(Process, time.Duration(now-t.loaded))
		}
		if !t.missing {
			found(i, &t.value)
		}
	}
	c.core.stats.hits.add(now, uint64(len(ks)-len(missed)))
	if len(missed) == 0 {
		return nil
	}
	rest := make([]any, len(missed))
	for j, i := range missed {
		rest[j] = ks[i]
	}
	answers, err := c.core.missMany(ctx, rest)
	for j, e := range answers {
		if e != nil {
			found(missed[j], &e.typed.(*typedCopy[K, V]).value)
		}
	}
	return err
}

// Warm reads keys so that they are in process. If there are more keys than fit, put the most important last. It ends
// with the first error, or with ctx.
func (c *Cache[K, V]) Warm(ctx context.Context, keys iter.Seq[K], w Warming) error {
	untyped := func(yield func(any) bool) {
		for k := range keys {
			if !yield(k) {
				return
			}
		}
	}
	return c.core.warm(ctx, untyped, w, func(ctx context.Context, part []any) error {
		ks := make([]K, len(part))
		for i, k := range part {
			ks[i] = k.(K)
		}
		_, err := c.GetAll(ctx, ks)
		return err
	})
}

// Mutate calls change, which commits a new value of k to the source. It then loads that value, stores it and returns
// it. See [Runtime.Change]. If change succeeds and the load fails, Mutate returns the error of the load.
func (c *Cache[K, V]) Mutate(ctx context.Context, k K, change func(ctx context.Context) error) (V, error) {
	e, err := c.core.mutate(ctx, k, change)
	return valueOf[K, V](e), err
}

// Set stores v as the value of k on every level and drops the copies of all other nodes: write-through, for a value
// that the caller has just committed. The last caller wins. If changes of one key can be concurrent, use
// [Cache.Mutate], which stores the value of the source. While a change is under way, v is not stored. If v reaches
// Redis only after Set has given up, v is not stored either: Set returns an error that is [ErrQueued], and the key is
// dropped.
func (c *Cache[K, V]) Set(ctx context.Context, k K, v V) error {
	t := newCopy[K, V](k)
	t.value = v
	return c.core.set(ctx, k, &t.localCopy)
}

// Peek returns the value of k if this process has a usable copy whose life has not ended. It asks neither Redis nor the
// source, does not count in [Stats], and does not keep the copy in memory longer. ok is also false for a value that is
// known to be missing.
func (c *Cache[K, V]) Peek(k K) (v V, ok bool) {
	e := c.core.peek(k, bus.Now())
	if e == nil || e.missing {
		return v, false
	}
	return valueOf[K, V](e), true
}

// Refresh loads the value of k now, even if it is cached, and returns it. After its return, no read on this node
// returns the earlier value, and no read on another node that begins more than [Policy.MaxStale] later. If the load
// fails, Refresh returns its error and the cached value stays; if the value does not exist, the error is [ErrNotFound].
// Until then readers get the cached value. Concurrent calls on one node share a load, which may have begun before some
// of them. After a change of the source call [Cache.Mutate] or Invalidate instead. A change during the load takes
// precedence, as with any load.
func (c *Cache[K, V]) Refresh(ctx context.Context, k K) (V, error) {
	found, err := c.core.reload(ctx, k, bus.Now())
	if err == nil && found.Missing {
		err = ErrNotFound
	}
	return valueOf[K, V](found.Value), err
}

// Len returns the number of copies in process.
func (c *Cache[K, V]) Len() int { return c.family.len() }

// Clear drops all copies of this process. Redis and other nodes keep their values: see ClearEverywhere.
func (c *Cache[K, V]) Clear() { c.core.clear() }
