package keyspace

import (
	"context"
	"strconv"
)

// AddCmd puts members in; the reply is how many are new.
func (h Set) AddCmd(members ...string) Cmd { return h.write("SADD", members...) }

// Add puts members in and returns how many are new.
func (h Set) Add(ctx context.Context, db Executor, members ...string) (int64, error) {
	return db.Do(ctx, h.AddCmd(members...)).Int()
}

// RemoveCmd takes members out; the reply is how many were there.
func (h Set) RemoveCmd(members ...string) Cmd { return h.ask("SREM", members...) }

// Remove takes members out and returns how many were there.
func (h Set) Remove(ctx context.Context, db Executor, members ...string) (int64, error) {
	return db.Do(ctx, h.RemoveCmd(members...)).Int()
}

// HasCmd asks whether a member is there: 1 or 0.
func (h Set) HasCmd(member string) Cmd { return h.ask("SISMEMBER", member) }

// Has reports whether a member is there.
func (h Set) Has(ctx context.Context, db Executor, member string) (bool, error) {
	return db.Do(ctx, h.HasCmd(member)).Bool()
}

// HasEachCmd asks of each member whether it is there; the reply is a list of 1 and 0. It
// needs Redis 6.2.
func (h Set) HasEachCmd(members ...string) Cmd { return h.ask("SMISMEMBER", members...) }

// HasEach reports of each member whether it is there. It needs Redis 6.2.
func (h Set) HasEach(ctx context.Context, db Executor, members ...string) ([]bool, error) {
	return db.Do(ctx, h.HasEachCmd(members...)).bools()
}

// AllCmd asks for every member, in no order.
func (h Set) AllCmd() Cmd { return h.ask("SMEMBERS") }

// All returns every member, in no order.
func (h Set) All(ctx context.Context, db Executor) ([]string, error) {
	return db.Do(ctx, h.AllCmd()).Texts()
}

// LenCmd asks how many members there are.
func (h Set) LenCmd() Cmd { return h.ask("SCARD") }

// Len returns how many members there are.
func (h Set) Len(ctx context.Context, db Executor) (int64, error) {
	return db.Do(ctx, h.LenCmd()).Int()
}

// PopCmd takes up to n members out, chosen by chance; the reply is a list of them.
func (h Set) PopCmd(n int) Cmd { return h.ask("SPOP", strconv.Itoa(n)) }

// Pop takes up to n members out, chosen by chance, and returns them.
func (h Set) Pop(ctx context.Context, db Executor, n int) ([]string, error) {
	return db.Do(ctx, h.PopCmd(n)).Texts()
}

// RandomCmd asks for up to n different members, chosen by chance.
func (h Set) RandomCmd(n int) Cmd { return h.ask("SRANDMEMBER", strconv.Itoa(max(n, 0))) }

// Random returns up to n different members, chosen by chance.
func (h Set) Random(ctx context.Context, db Executor, n int) ([]string, error) {
	return db.Do(ctx, h.RandomCmd(n)).Texts()
}

// MoveCmd moves a member to another set, which must share the hash tag; the reply is 1
// when it was there. The other set gets its life.
func (h Set) MoveCmd(to Set, member string) Cmd {
	return placed([]Key{h.Key, to.Key}, 2, 0, "SMOVE", member)
}

// Move moves a member to another set, which must share the hash tag and gets its life,
// and reports whether it was there.
func (h Set) Move(ctx context.Context, db Executor, to Set, member string) (bool, error) {
	return db.Do(ctx, h.MoveCmd(to, member)).Bool()
}

// keys are those of this set and of others.
func (h Set) keys(others []Set) []Key {
	return append([]Key{h.Key}, bare(others, func(o Set) Key { return o.Key })...)
}

// UnionCmd asks for what is in this set or another, which must share the hash tag.
func (h Set) UnionCmd(others ...Set) Cmd { return placed(h.keys(others), 0, 0, "SUNION") }

// Union returns what is in this set or another, which must share the hash tag.
func (h Set) Union(ctx context.Context, db Executor, others ...Set) ([]string, error) {
	return db.Do(ctx, h.UnionCmd(others...)).Texts()
}

// InterCmd asks for what is in this set and in all others, which must share the hash tag.
func (h Set) InterCmd(others ...Set) Cmd { return placed(h.keys(others), 0, 0, "SINTER") }

// Inter returns what is in this set and in all others, which must share the hash tag.
func (h Set) Inter(ctx context.Context, db Executor, others ...Set) ([]string, error) {
	return db.Do(ctx, h.InterCmd(others...)).Texts()
}

// DiffCmd asks for what is in this set and in no other, which must share the hash tag.
func (h Set) DiffCmd(others ...Set) Cmd { return placed(h.keys(others), 0, 0, "SDIFF") }

// Diff returns what is in this set and in no other, which must share the hash tag.
func (h Set) Diff(ctx context.Context, db Executor, others ...Set) ([]string, error) {
	return db.Do(ctx, h.DiffCmd(others...)).Texts()
}

// StoreUnionCmd replaces this set by the union of others, which must share the hash tag;
// the reply is how many members it has.
func (h Set) StoreUnionCmd(others ...Set) Cmd { return placed(h.keys(others), 1, 0, "SUNIONSTORE") }

// StoreUnion replaces this set by the union of others, which must share the hash tag, and
// returns how many members it has. Without a member there is no key.
func (h Set) StoreUnion(ctx context.Context, db Executor, others ...Set) (int64, error) {
	return db.Do(ctx, h.StoreUnionCmd(others...)).Int()
}

// StoreInterCmd replaces this set by what is in all others, which must share the hash tag;
// the reply is how many members it has.
func (h Set) StoreInterCmd(others ...Set) Cmd { return placed(h.keys(others), 1, 0, "SINTERSTORE") }

// StoreInter replaces this set by what is in all others, which must share the hash tag,
// and returns how many members it has. Without a member there is no key.
func (h Set) StoreInter(ctx context.Context, db Executor, others ...Set) (int64, error) {
	return db.Do(ctx, h.StoreInterCmd(others...)).Int()
}
