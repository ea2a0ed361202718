package keyspace

import (
	"context"
	"strconv"
)

// AddCmd adds members; the reply is the number of new members.
func (h Set) AddCmd(members ...string) Cmd { return h.write("SADD", members...) }

// Add adds members and returns the number of new members.
func (h Set) Add(ctx context.Context, db Executor, members ...string) (int64, error) {
	return db.Do(ctx, h.AddCmd(members...)).Int()
}

// RemoveCmd removes members; the reply is the number of removed members.
func (h Set) RemoveCmd(members ...string) Cmd { return h.plainCmd("SREM", members...) }

// Remove removes members and returns the number of removed members.
func (h Set) Remove(ctx context.Context, db Executor, members ...string) (int64, error) {
	return db.Do(ctx, h.RemoveCmd(members...)).Int()
}

// HasCmd checks whether a member exists: 1 or 0.
func (h Set) HasCmd(member string) Cmd { return h.plainCmd("SISMEMBER", member) }

// Has reports whether a member exists.
func (h Set) Has(ctx context.Context, db Executor, member string) (bool, error) {
	return db.Do(ctx, h.HasCmd(member)).Bool()
}

// HasEachCmd checks for each member whether it exists; the reply is a list of 1 and 0. It needs Redis 6.2.
func (h Set) HasEachCmd(members ...string) Cmd { return h.plainCmd("SMISMEMBER", members...) }

// HasEach reports for each member whether it exists. It needs Redis 6.2.
func (h Set) HasEach(ctx context.Context, db Executor, members ...string) ([]bool, error) {
	return db.Do(ctx, h.HasEachCmd(members...)).bools()
}

// AllCmd gets all members, in no particular order.
func (h Set) AllCmd() Cmd { return h.plainCmd("SMEMBERS") }

// All returns all members, in no particular order.
func (h Set) All(ctx context.Context, db Executor) ([]string, error) {
	return db.Do(ctx, h.AllCmd()).Texts()
}

// LenCmd gets the number of members.
func (h Set) LenCmd() Cmd { return h.plainCmd("SCARD") }

// Len returns the number of members.
func (h Set) Len(ctx context.Context, db Executor) (int64, error) {
	return db.Do(ctx, h.LenCmd()).Int()
}

// PopCmd removes and returns up to n random members.
func (h Set) PopCmd(n int) Cmd { return h.plainCmd("SPOP", strconv.Itoa(n)) }

// Pop removes and returns up to n random members.
func (h Set) Pop(ctx context.Context, db Executor, n int) ([]string, error) {
	return db.Do(ctx, h.PopCmd(n)).Texts()
}

// RandomCmd gets up to n different random members.
func (h Set) RandomCmd(n int) Cmd { return h.plainCmd("SRANDMEMBER", strconv.Itoa(max(n, 0))) }

// Random returns up to n different random members.
func (h Set) Random(ctx context.Context, db Executor, n int) ([]string, error) {
	return db.Do(ctx, h.RandomCmd(n)).Texts()
}

// MoveCmd moves a member to another set, which must share the hash tag; the reply is 1 if the member existed. The other
// set gets its TTL.
func (h Set) MoveCmd(to Set, member string) Cmd {
	return multiKey([]Key{h.Key, to.Key}, 2, 0, "SMOVE", member)
}

// Move moves a member to another set and reports whether the member existed. The other set must share the hash tag, and
// gets its TTL.
func (h Set) Move(ctx context.Context, db Executor, to Set, member string) (bool, error) {
	return db.Do(ctx, h.MoveCmd(to, member)).Bool()
}

// keys returns the keys of this set and of others.
func (h Set) keys(others []Set) []Key {
	return append([]Key{h.Key}, keysOf(others, func(o Set) Key { return o.Key })...)
}

// UnionCmd gets the members of this set and of others, which must share the hash tag.
func (h Set) UnionCmd(others ...Set) Cmd { return multiKey(h.keys(others), 0, 0, "SUNION") }

// Union returns the members of this set and of others, which must share the hash tag.
func (h Set) Union(ctx context.Context, db Executor, others ...Set) ([]string, error) {
	return db.Do(ctx, h.UnionCmd(others...)).Texts()
}

// InterCmd gets the members that are in this set and in all others, which must share the hash tag.
func (h Set) InterCmd(others ...Set) Cmd { return multiKey(h.keys(others), 0, 0, "SINTER") }

// Inter returns the members that are in this set and in all others, which must share the hash tag.
func (h Set) Inter(ctx context.Context, db Executor, others ...Set) ([]string, error) {
	return db.Do(ctx, h.InterCmd(others...)).Texts()
}

// DiffCmd gets the members of this set that are in none of others, which must share the hash tag.
func (h Set) DiffCmd(others ...Set) Cmd { return multiKey(h.keys(others), 0, 0, "SDIFF") }

// Diff returns the members of this set that are in none of others, which must share the hash tag.
func (h Set) Diff(ctx context.Context, db Executor, others ...Set) ([]string, error) {
	return db.Do(ctx, h.DiffCmd(others...)).Texts()
}

// StoreUnionCmd replaces this set with the union of others, which must share the hash tag; the reply is the number of
// members.
func (h Set) StoreUnionCmd(others ...Set) Cmd { return multiKey(h.keys(others), 1, 0, "SUNIONSTORE") }

// StoreUnion replaces this set with the union of others, which must share the hash tag, and returns the number of
// members. An empty result deletes the key.
func (h Set) StoreUnion(ctx context.Context, db Executor, others ...Set) (int64, error) {
	return db.Do(ctx, h.StoreUnionCmd(others...)).Int()
}

// StoreInterCmd replaces this set with the intersection of others, which must share the hash tag; the reply is the
// number of members.
func (h Set) StoreInterCmd(others ...Set) Cmd { return multiKey(h.keys(others), 1, 0, "SINTERSTORE") }

// StoreInter replaces this set with the intersection of others, which must share the hash tag, and returns the number
// of members. An empty result deletes the key.
func (h Set) StoreInter(ctx context.Context, db Executor, others ...Set) (int64, error) {
	return db.Do(ctx, h.StoreInterCmd(others...)).Int()
}
