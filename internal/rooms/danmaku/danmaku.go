// Package danmaku keeps the comments that fly over a room's picture, for whoever joins while they still
// do. It is memory alone, and bounded: what flew is in SQL as well, by its place in the medium.
package danmaku

import "slices"

const (
	// Life is how long a comment flies, in ms.
	Life = 10_000
	// Most is how many of a room's are kept.
	Most = 100
)

// Ring has the latest comments of a room, the oldest first. The zero Ring is empty. It is not safe for
// concurrent use.
type Ring[T any] struct{ all []entry[T] }

type entry[T any] struct {
	at int64 // Unix ms
	v  T
}

// Add keeps a comment that was made at a moment, and forgets those that have flown by then.
func (r *Ring[T]) Add(at int64, v T) {
	if r.expire(at); len(r.all) == Most {
		r.all = slices.Delete(r.all, 0, 1)
	}
	r.all = append(r.all, entry[T]{at, v})
}

// Flying returns what flies at a moment.
func (r *Ring[T]) Flying(now int64) []T {
	r.expire(now)
	out := make([]T, len(r.all))
	for i, e := range r.all {
		out[i] = e.v
	}
	return out
}

// Clear forgets all.
func (r *Ring[T]) Clear() { r.all = nil }

func (r *Ring[T]) expire(now int64) {
	r.all = slices.DeleteFunc(r.all, func(e entry[T]) bool { return e.at <= now-Life })
}
