package collection

import (
	"context"

	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/cache/internal/shapes"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

// Set keeps sets of M in Redis, each loaded as a whole, such as the users whom a user blocks. The documentation of
// [Hash] applies to it too.
type Set[K, M comparable] struct {
	keyed[K]
	members codec[M]
}

// SetSource loads the sets of a [Set].
type SetSource[K, M comparable] struct {
	// Load returns all members of k; an empty result is not an error. See [cache.Source] for its context.
	Load func(ctx context.Context, k K) ([]M, error)
	// Pick returns those of ms that are members. See [HashSource].
	Pick func(ctx context.Context, k K, ms []M) ([]M, error)
}

// NewSet returns the cached sets of a family with one argument. It panics when M
// cannot be written as text: see [encoding/json] on the keys of maps.
func NewSet[A keyspace.Segment, M comparable](rt *cache.Runtime, f keyspace.F1[A, keyspace.CachedSet[M]], p Policy,
	src SetSource[A, M]) *Set[A, M] {
	s := &Set[A, M]{members: codecOf[M]()}
	from := shapes.Source{}
	if src.Load != nil {
		from.Load = func(ctx context.Context, k any) (shapes.Held, error) { return s.hold(src.Load(ctx, k.(A))) }
	}
	if src.Pick != nil {
		from.Pick = func(ctx context.Context, k any, texts []string) (shapes.Held, error) {
			ms, err := s.members.members(texts)
			if err != nil {
				return nil, err
			}
			return s.hold(src.Pick(ctx, k.(A), ms))
		}
	}
	s.keyed = keyed[A]{newCollection(rt, f.Family, func(k any) keyspace.Key { return f.At(k.(A)).Key }, p, from)}
	return s
}

// hold converts the result of the source.
func (s *Set[K, M]) hold(ms []M, err error) (shapes.Held, error) {
	if err != nil {
		return nil, err
	}
	texts, err := s.members.texts(ms)
	if err != nil {
		return nil, err
	}
	out := make(shapes.Held, len(ms))
	for _, t := range texts {
		out[t] = ""
	}
	return out, nil
}

// Has reports whether m is in k's set.
func (s *Set[K, M]) Has(ctx context.Context, k K, m M) (bool, error) {
	text, err := s.members.text(m)
	if err != nil {
		return false, err
	}
	return s.c.contains(ctx, k, text)
}

// HasMany returns those of ms that are in k's set, in one round trip.
func (s *Set[K, M]) HasMany(ctx context.Context, k K, ms []M) (map[M]bool, error) {
	return has(ctx, s.c, k, &s.members, ms)
}

// Members returns about n members of k's set, in any order: 0 means 100, and at most 1,000 are requested. Pass next as
// the cursor of the following page; it is "" at the end, like the first cursor. A member that exists all the time is in
// at least one page.
func (s *Set[K, M]) Members(ctx context.Context, k K, cursor string, n int) (ms []M, next string, err error) {
	next, err = s.c.scan(ctx, k, cursor, n, func(pairs []pair) error {
		ms = make([]M, len(pairs))
		for i, p := range pairs {
			if ms[i], err = s.members.parse(p.member); err != nil {
				return err
			}
		}
		return nil
	})
	return ms, next, err
}

// Len returns the number of members in k's set.
func (s *Set[K, M]) Len(ctx context.Context, k K) (int, error) { return s.c.count(ctx, k, "", nil) }

// SetEdit is what a change does to a set.
type SetEdit[M comparable] struct {
	changes
	members codec[M]
}

// Add adds members.
func (e *SetEdit[M]) Add(ms ...M) {
	for _, m := range ms {
		text, err := e.members.text(m)
		e.put(text, "", err)
	}
}

// Remove removes members.
func (e *SetEdit[M]) Remove(ms ...M) {
	for _, m := range ms {
		text, err := e.members.text(m)
		e.remove(text, err)
	}
}

// Edit returns a target that applies edit to k's set. See [Hash.Edit].
func (s *Set[K, M]) Edit(k K, edit func(e *SetEdit[M])) cache.Target {
	return s.c.Edit(k, func() ([]string, []string, error) {
		e := &SetEdit[M]{members: s.members}
		edit(e)
		return e.texts(s.c.shape)
	})
}

// Mutate calls change, which commits something to the source, and applies edit to
// k's set. See [cache.Runtime.Change] and [Hash.Edit].
func (s *Set[K, M]) Mutate(ctx context.Context, k K, change func(ctx context.Context) error, edit func(e *SetEdit[M])) error {
	return s.c.Runtime().Change(ctx, change, s.Edit(k, edit))
}
