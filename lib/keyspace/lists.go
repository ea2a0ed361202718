package keyspace

import (
	"context"
	"strconv"
)

// PushCmd appends texts at the end; the reply is the new length.
func (h List) PushCmd(texts ...string) Cmd { return h.write("RPUSH", texts...) }

// Push appends texts at the end and returns the new length.
func (h List) Push(ctx context.Context, db Executor, texts ...string) (int64, error) {
	return db.Do(ctx, h.PushCmd(texts...)).Int()
}

// PushFrontCmd puts texts before the first, one after the other: the last of them is
// the first then. The reply is the new length.
func (h List) PushFrontCmd(texts ...string) Cmd { return h.write("LPUSH", texts...) }

// PushFront puts texts before the first, one after the other: the last of them is the
// first then. It returns the new length.
func (h List) PushFront(ctx context.Context, db Executor, texts ...string) (int64, error) {
	return db.Do(ctx, h.PushFrontCmd(texts...)).Int()
}

// PopCmd takes up to n texts from the front; the reply is nil when there are none.
func (h List) PopCmd(n int) Cmd { return h.ask("LPOP", strconv.Itoa(n)) }

// Pop takes up to n texts from the front, one at least, and returns them. It needs
// Redis 6.2.
func (h List) Pop(ctx context.Context, db Executor, n int) ([]string, error) {
	return db.Do(ctx, h.PopCmd(n)).Texts()
}

// PopBackCmd takes up to n texts from the end, the last one first; the reply is nil when
// there are none.
func (h List) PopBackCmd(n int) Cmd { return h.ask("RPOP", strconv.Itoa(n)) }

// PopBack takes up to n texts from the end, one at least, and returns them, the last one
// first. It needs Redis 6.2.
func (h List) PopBack(ctx context.Context, db Executor, n int) ([]string, error) {
	return db.Do(ctx, h.PopBackCmd(n)).Texts()
}

// MoveCmd moves the first text to the end of another list, which must share the hash tag;
// the reply is the text, nil when there is none. The other list gets its life.
func (h List) MoveCmd(to List) Cmd {
	return placed([]Key{h.Key, to.Key}, 2, 0, "LMOVE", "LEFT", "RIGHT")
}

// Move moves the first text to the end of another list, which must share the hash tag and
// gets its life, and returns the text: a worker that dies leaves it there. ok is false
// when there is none. It needs Redis 6.2.
func (h List) Move(ctx context.Context, db Executor, to List) (text string, ok bool, err error) {
	return db.Do(ctx, h.MoveCmd(to)).Text()
}

// RangeCmd asks for the texts from one place to another, both included; negative places
// count from the end.
func (h List) RangeCmd(first, last int) Cmd {
	return h.ask("LRANGE", strconv.Itoa(first), strconv.Itoa(last))
}

// Range returns the texts from one place to another, both included; negative places count
// from the end, so that 0 and -1 are all.
func (h List) Range(ctx context.Context, db Executor, first, last int) ([]string, error) {
	return db.Do(ctx, h.RangeCmd(first, last)).Texts()
}

// IndexCmd asks for the text at a place; the reply is nil when there is none.
func (h List) IndexCmd(at int) Cmd { return h.ask("LINDEX", strconv.Itoa(at)) }

// Index returns the text at a place, which counts from the end if it is negative; ok is
// false when there is none.
func (h List) Index(ctx context.Context, db Executor, at int) (text string, ok bool, err error) {
	return db.Do(ctx, h.IndexCmd(at)).Text()
}

// SetCmd puts another text at a place, which must be there.
func (h List) SetCmd(at int, text string) Cmd { return h.write("LSET", strconv.Itoa(at), text) }

// Set puts another text at a place, which counts from the end if it is negative. It fails
// when there is no such place.
func (h List) Set(ctx context.Context, db Executor, at int, text string) error {
	return db.Do(ctx, h.SetCmd(at, text)).Err
}

// RemoveCmd takes out every text that is equal; the reply is how many there were.
func (h List) RemoveCmd(text string) Cmd { return h.ask("LREM", "0", text) }

// Remove takes out every text that is equal, and returns how many there were.
func (h List) Remove(ctx context.Context, db Executor, text string) (int64, error) {
	return db.Do(ctx, h.RemoveCmd(text)).Int()
}

// TrimCmd keeps the texts from one place to another, as RangeCmd has them.
func (h List) TrimCmd(first, last int) Cmd {
	return h.ask("LTRIM", strconv.Itoa(first), strconv.Itoa(last))
}

// Trim keeps the texts from one place to another, as Range has them.
func (h List) Trim(ctx context.Context, db Executor, first, last int) error {
	return db.Do(ctx, h.TrimCmd(first, last)).Err
}

// LenCmd asks how many texts there are.
func (h List) LenCmd() Cmd { return h.ask("LLEN") }

// Len returns how many texts there are.
func (h List) Len(ctx context.Context, db Executor) (int64, error) {
	return db.Do(ctx, h.LenCmd()).Int()
}
