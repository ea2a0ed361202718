package keyspace

import (
	"context"
	"strconv"
)

// PushCmd appends texts to the list; the reply is the new length.
func (h List) PushCmd(texts ...string) Cmd { return h.write("RPUSH", texts...) }

// Push appends texts to the list and returns the new length.
func (h List) Push(ctx context.Context, db Executor, texts ...string) (int64, error) {
	return db.Do(ctx, h.PushCmd(texts...)).Int()
}

// PushFrontCmd inserts texts at the front, one after the other, so that the last of them becomes the first element. The
// reply is the new length.
func (h List) PushFrontCmd(texts ...string) Cmd { return h.write("LPUSH", texts...) }

// PushFront inserts texts at the front, one after the other, so that the last of them becomes the first element. It
// returns the new length.
func (h List) PushFront(ctx context.Context, db Executor, texts ...string) (int64, error) {
	return db.Do(ctx, h.PushFrontCmd(texts...)).Int()
}

// PopCmd removes and returns up to n elements from the front; the reply is nil if the list is empty.
func (h List) PopCmd(n int) Cmd { return h.plainCmd("LPOP", strconv.Itoa(n)) }

// Pop removes and returns up to n elements from the front. n must be at least 1. It needs Redis 6.2.
func (h List) Pop(ctx context.Context, db Executor, n int) ([]string, error) {
	return db.Do(ctx, h.PopCmd(n)).Texts()
}

// PopBackCmd removes and returns up to n elements from the end, the last one first; the reply is nil if the list is
// empty.
func (h List) PopBackCmd(n int) Cmd { return h.plainCmd("RPOP", strconv.Itoa(n)) }

// PopBack removes and returns up to n elements from the end, the last one first. n must be at least 1. It needs Redis
// 6.2.
func (h List) PopBack(ctx context.Context, db Executor, n int) ([]string, error) {
	return db.Do(ctx, h.PopBackCmd(n)).Texts()
}

// MoveCmd moves the first element to the end of another list, which must share the hash tag. The other list gets its
// TTL. The reply is the element, or nil if the list is empty.
func (h List) MoveCmd(to List) Cmd {
	return multiKey([]Key{h.Key, to.Key}, 2, 0, "LMOVE", "LEFT", "RIGHT")
}

// Move moves the first element to the end of another list and returns it. If a worker crashes, the element is still in
// the other list. That list must share the hash tag, and gets its TTL. ok is false if the list is empty. It needs Redis
// 6.2.
func (h List) Move(ctx context.Context, db Executor, to List) (text string, ok bool, err error) {
	return db.Do(ctx, h.MoveCmd(to)).Text()
}

// RangeCmd gets the elements from one index to another, both included. Negative indexes count from the end.
func (h List) RangeCmd(first, last int) Cmd {
	return h.plainCmd("LRANGE", strconv.Itoa(first), strconv.Itoa(last))
}

// Range returns the elements from one index to another, both included. Negative indexes count from the end, so 0 and -1
// return all.
func (h List) Range(ctx context.Context, db Executor, first, last int) ([]string, error) {
	return db.Do(ctx, h.RangeCmd(first, last)).Texts()
}

// IndexCmd gets the element at an index; the reply is nil if there is none.
func (h List) IndexCmd(at int) Cmd { return h.plainCmd("LINDEX", strconv.Itoa(at)) }

// Index returns the element at an index. Negative indexes count from the end. ok is false if there is none.
func (h List) Index(ctx context.Context, db Executor, at int) (text string, ok bool, err error) {
	return db.Do(ctx, h.IndexCmd(at)).Text()
}

// SetCmd replaces the element at an index, which must exist.
func (h List) SetCmd(at int, text string) Cmd { return h.write("LSET", strconv.Itoa(at), text) }

// Set replaces the element at an index. Negative indexes count from the end. It returns an error if there is no such
// element.
func (h List) Set(ctx context.Context, db Executor, at int, text string) error {
	return db.Do(ctx, h.SetCmd(at, text)).Err
}

// RemoveCmd removes all elements that are equal to text; the reply is their number.
func (h List) RemoveCmd(text string) Cmd { return h.plainCmd("LREM", "0", text) }

// Remove removes all elements that are equal to text, and returns their number.
func (h List) Remove(ctx context.Context, db Executor, text string) (int64, error) {
	return db.Do(ctx, h.RemoveCmd(text)).Int()
}

// TrimCmd removes all elements except those from first to last; see RangeCmd.
func (h List) TrimCmd(first, last int) Cmd {
	return h.plainCmd("LTRIM", strconv.Itoa(first), strconv.Itoa(last))
}

// Trim removes all elements except those from first to last; see Range.
func (h List) Trim(ctx context.Context, db Executor, first, last int) error {
	return db.Do(ctx, h.TrimCmd(first, last)).Err
}

// LenCmd gets the number of elements.
func (h List) LenCmd() Cmd { return h.plainCmd("LLEN") }

// Len returns the number of elements.
func (h List) Len(ctx context.Context, db Executor) (int64, error) {
	return db.Do(ctx, h.LenCmd()).Int()
}
