// Package danmaku stores the comments that are moving over a room's picture, for viewers who join at that time. It is
// bounded and uses only memory. SQL stores all comments by their position in the item.
package danmaku

import "slices"

const (
	// Life is the duration of a shown comment, in ms.
	Life = 10_000
	// MaxComments is the largest number of stored comments of a room.
	MaxComments = 100
)

// Ring has the latest comments of a room, the oldest first. The zero Ring is empty. It is not safe for concurrent use.
type Ring[T any] struct{ all []entry[T] }

type entry[T any] struct {
	at int64 // Unix ms
	v  T
}

// Add stores a comment that was sent at a time, and deletes the comments that have expired then.
func (r *Ring[T]) Add(at int64, v T) {
	if r.expire(at); len(r.all) == MaxComments {
		r.all = slices.Delete(r.all, 0, 1)
	}
	r.all = append(r.all, entry[T]{at, v})
}

// Recent returns the comments that are shown at a time.
func (r *Ring[T]) Recent(now int64) []T {
	r.expire(now)
	out := make([]T, len(r.all))
	for i, e := range r.all {
		out[i] = e.v
	}
	return out
}

// Clear deletes all comments.
func (r *Ring[T]) Clear() { r.all = nil }

func (r *Ring[T]) expire(now int64) {
	r.all = slices.DeleteFunc(r.all, func(e entry[T]) bool { return e.at <= now-Life })
}
