package collection

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/cache/internal/shapes"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

// Hash keeps collections of V by F in Redis, each loaded as a whole. Examples are the friends of a user with a remark
// for each, and the members of a group with their roles. One command reports whether one user, or a hundred, are
// friends, and a negative answer does not need the source. Hash is safe for concurrent use.
//
// A marker field of the cache shows that a collection is loaded, and in which era of the servers: content from before a
// failover does not count. An empty collection has the marker alone, for the family's empty life. The marker is never
// counted or returned; callers' fields may be any text.
//
// Loads and changes are synchronized like those of a [cache.Cache]: one node loads, the others wait, and a change in
// between drops what is being loaded. A change without a concurrent one is applied to the loaded collection, see
// [Hash.Edit]; overlapping changes drop it. There are no copies in process, so reads are as fresh as Redis; without
// Redis they ask the source.
type Hash[K, F comparable, V any] struct {
	keyed[K]
	fields codec[F]
}

// HashSource loads the collections of a [Hash].
type HashSource[K, F comparable, V any] struct {
	// Load returns all fields of k; an empty result is not an error. See [cache.Source] for its context.
	Load func(ctx context.Context, k K) (map[F]V, error)
	// Pick returns those of fields that exist. It avoids loading everything if the result cannot be stored: while Redis
	// is unavailable or a change is under way. Nil: Load is called.
	Pick func(ctx context.Context, k K, fields []F) (map[F]V, error)
}

// NewHash returns the cached hashes of a family with one argument. It panics when
// F cannot be written as text: see [encoding/json] on the keys of maps.
func NewHash[A keyspace.Segment, F comparable, V any](rt *cache.Runtime, f keyspace.F1[A, keyspace.CachedHash[F, V]], p Policy,
	s HashSource[A, F, V]) *Hash[A, F, V] {
	h := &Hash[A, F, V]{fields: codecOf[F]()}
	from := shapes.Source{}
	if s.Load != nil {
		from.Load = func(ctx context.Context, k any) (shapes.Held, error) { return h.hold(s.Load(ctx, k.(A))) }
	}
	if s.Pick != nil {
		from.Pick = func(ctx context.Context, k any, texts []string) (shapes.Held, error) {
			fields, err := h.fields.members(texts)
			if err != nil {
				return nil, err
			}
			return h.hold(s.Pick(ctx, k.(A), fields))
		}
	}
	h.keyed = keyed[A]{newCollection(rt, f.Family, func(k any) keyspace.Key { return f.At(k.(A)).Key }, p, from)}
	return h
}

// hold converts the result of the source.
func (h *Hash[K, F, V]) hold(values map[F]V, err error) (shapes.Held, error) {
	if err != nil {
		return nil, err
	}
	out := make(shapes.Held, len(values))
	for f, v := range values {
		field, value, err := h.write(f, v)
		if err != nil {
			return nil, err
		}
		out[field] = value
	}
	return out, nil
}

func (h *Hash[K, F, V]) write(f F, v V) (field, value string, err error) {
	if field, err = h.fields.text(f); err == nil {
		var b []byte
		b, err = json.Marshal(v)
		value = string(b)
	}
	if err != nil {
		err = fmt.Errorf("cache: %s: %w", h.Name(), err)
	}
	return field, value, err
}

func (h *Hash[K, F, V]) value(text string) (v V, err error) {
	if err = json.Unmarshal([]byte(text), &v); err != nil {
		err = fmt.Errorf("cache: %s: %w", h.Name(), err)
	}
	return v, err
}

// Has reports whether f is in k's collection.
func (h *Hash[K, F, V]) Has(ctx context.Context, k K, f F) (bool, error) {
	text, err := h.fields.text(f)
	if err != nil {
		return false, err
	}
	return h.c.contains(ctx, k, text)
}

// HasMany returns those of fields that are in k's collection, in one round trip.
func (h *Hash[K, F, V]) HasMany(ctx context.Context, k K, fields []F) (map[F]bool, error) {
	return has(ctx, h.c, k, &h.fields, fields)
}

// Get returns f of k's collection; ok is false if f is not in it.
func (h *Hash[K, F, V]) Get(ctx context.Context, k K, f F) (v V, ok bool, err error) {
	text, err := h.fields.text(f)
	if err != nil {
		return v, false, err
	}
	err = h.c.ask(ctx, k, oneMember(text, func(found *memberQuery) (err error) {
		if text, ok = found.at(0); ok {
			v, err = h.value(text)
		}
		return err
	}))
	return v, ok && err == nil, err
}

// GetMany returns those of fields that are in k's collection, in one round trip.
func (h *Hash[K, F, V]) GetMany(ctx context.Context, k K, fields []F) (map[F]V, error) {
	args, err := h.fields.args(fields)
	if err != nil {
		return nil, err
	}
	var out map[F]V
	err = h.c.ask(ctx, k, &memberQuery{args: args, use: func(found *memberQuery) error {
		out = make(map[F]V, len(fields))
		for i, f := range fields {
			text, ok := found.at(i)
			if !ok {
				continue
			}
			v, err := h.value(text)
			if err != nil {
				return err
			}
			out[f] = v
		}
		return nil
	}})
	return out, err
}

// All returns k's whole collection. Use [Hash.Page] for a collection that may be large.
func (h *Hash[K, F, V]) All(ctx context.Context, k K) (out map[F]V, err error) {
	err = h.c.whole(ctx, k, func(pairs []pair) error {
		out, err = h.decode(pairs)
		return err
	})
	return out, err
}

// Page returns about n fields of k's collection, in any order: 0 means 100, and at most 1,000 are requested. Pass next
// as the cursor of the following page; it is "" at the end, like the first cursor. A field that exists all the time is
// in at least one page.
func (h *Hash[K, F, V]) Page(ctx context.Context, k K, cursor string, n int) (out map[F]V, next string, err error) {
	next, err = h.c.scan(ctx, k, cursor, n, func(pairs []pair) error {
		out, err = h.decode(pairs)
		return err
	})
	return out, next, err
}

func (h *Hash[K, F, V]) decode(pairs []pair) (map[F]V, error) {
	out := make(map[F]V, len(pairs))
	for _, p := range pairs {
		f, err := h.fields.parse(p.member)
		if err != nil {
			return nil, err
		}
		if out[f], err = h.value(p.value); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Len returns the number of fields in k's collection.
func (h *Hash[K, F, V]) Len(ctx context.Context, k K) (int, error) {
	return h.c.count(ctx, k, "", nil)
}

// HashEdit is what a change does to a hash.
type HashEdit[F comparable, V any] struct {
	changes
	write  func(F, V) (string, string, error)
	fields codec[F]
}

// Set stores v at f.
func (e *HashEdit[F, V]) Set(f F, v V) {
	field, value, err := e.write(f, v)
	e.put(field, value, err)
}

// Delete removes fields.
func (e *HashEdit[F, V]) Delete(fs ...F) {
	for _, f := range fs {
		field, err := e.fields.text(f)
		e.remove(field, err)
	}
}

// Edit returns k's collection as a target for [cache.Runtime.Change]. edit is called after the change, and only if the
// collection is loaded and no other change of it is under way; otherwise the collection is dropped. edit has to make
// exactly the same change, so it may use what the change has read. One change can edit several collections, such as the
// friends of both users. For an edit of more than some hundred steps, the collection is dropped instead, which is
// cheaper.
func (h *Hash[K, F, V]) Edit(k K, edit func(e *HashEdit[F, V])) cache.Target {
	return h.c.Edit(k, func() ([]string, []string, error) {
		e := &HashEdit[F, V]{write: h.write, fields: h.fields}
		edit(e)
		return e.texts(h.c.shape)
	})
}

// Mutate calls change, which commits something to the source, and applies edit to
// k's collection. See [cache.Runtime.Change] and [Hash.Edit].
func (h *Hash[K, F, V]) Mutate(ctx context.Context, k K, change func(ctx context.Context) error, edit func(e *HashEdit[F, V])) error {
	return h.c.Runtime().Change(ctx, change, h.Edit(k, edit))
}
