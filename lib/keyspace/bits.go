package keyspace

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/stoa-dev/stoa/lib/keyspace/internal/commands"
)

// Bitmap is a string key that is read and written bit by bit. As in SETBIT, bit 0 is the most significant bit of byte
// 0.
type Bitmap struct{ Key }

// BitmapOf is the [Kind] of [Bitmap]; form describes the layout in the catalogue.
func BitmapOf(form literal) Kind[Bitmap] {
	return Kind[Bitmap]{typ: "string", form: string(form), bind: func(k Key) Bitmap { return Bitmap{k} }}
}

// GetCmd reads the whole string, for a pipeline.
func (h Bitmap) GetCmd() Cmd { return Cmd{Name: "GET", Key: h.Key} }

// GetRenewCmd reads the whole string and renews the family's TTL, for a pipeline. It needs Redis 6.2.
func (h Bitmap) GetRenewCmd() Cmd {
	life := h.fam.TTL.Draw()
	if life == 0 {
		return Cmd{Name: "GETEX", Key: h.Key, Args: []string{"PERSIST"}}
	}
	return Cmd{Name: "GETEX", Key: h.Key, Args: []string{"PX", Millis(life)}}
}

// AddCmd writes the whole string unless the key exists, for a pipeline. The reply is nil if the key exists.
func (h Bitmap) AddCmd(v string) Cmd {
	cmd := Bytes(h).SetCmd(v, h.fam.TTL.Draw())
	cmd.Args = append(cmd.Args, "NX")
	return cmd
}

// Get reads the whole string. Bit 0 is the most significant bit of byte 0. ok is false if the key does not exist.
func (h Bitmap) Get(ctx context.Context, db Executor) (v string, ok bool, err error) {
	return db.Do(ctx, h.GetCmd()).Text()
}

// Add writes the whole string with the family's TTL unless the key exists, and reports whether it wrote.
func (h Bitmap) Add(ctx context.Context, db Executor, v string) (bool, error) {
	return db.Do(ctx, h.AddCmd(v)).Bool()
}

// SetBitCmd sets bit n; the reply is the bit's former value.
func (h Bitmap) SetBitCmd(n int) Cmd { return h.write("SETBIT", strconv.Itoa(n), "1") }

// SetBit sets bit n and returns its former value. A bit that was never written is 0; the
// string grows to n/8+1 bytes.
func (h Bitmap) SetBit(ctx context.Context, db Executor, n int) (was bool, err error) {
	return db.Do(ctx, h.SetBitCmd(n)).Bool()
}

// SetBitBareCmd is SetBitCmd without the TTL, for a pipeline that sets it; see RenewCmd and GetRenewCmd.
func (h Bitmap) SetBitBareCmd(n int) Cmd { return h.plainCmd("SETBIT", strconv.Itoa(n), "1") }

// ClearBitCmd clears bit n; the reply is the bit's former value.
func (h Bitmap) ClearBitCmd(n int) Cmd { return h.write("SETBIT", strconv.Itoa(n), "0") }

// ClearBit clears bit n and returns its former value.
func (h Bitmap) ClearBit(ctx context.Context, db Executor, n int) (was bool, err error) {
	return db.Do(ctx, h.ClearBitCmd(n)).Bool()
}

// BitCmd gets bit n: 1 or 0.
func (h Bitmap) BitCmd(n int) Cmd { return h.plainCmd("GETBIT", strconv.Itoa(n)) }

// Bit returns bit n.
func (h Bitmap) Bit(ctx context.Context, db Executor, n int) (bool, error) {
	return db.Do(ctx, h.BitCmd(n)).Bool()
}

// CountCmd gets the number of bits that are 1.
func (h Bitmap) CountCmd() Cmd { return h.plainCmd("BITCOUNT") }

// Count returns the number of bits that are 1.
func (h Bitmap) Count(ctx context.Context, db Executor) (int64, error) {
	return db.Do(ctx, h.CountCmd()).Int()
}

// FirstCmd gets the number of the first bit that is 1; the reply is -1 if there is none.
func (h Bitmap) FirstCmd() Cmd { return h.plainCmd("BITPOS", "1") }

// First returns the number of the first bit that is 1, or -1 if there is none.
func (h Bitmap) First(ctx context.Context, db Executor) (int64, error) {
	return db.Do(ctx, h.FirstCmd()).Int()
}

// StoreAndCmd stores in this key the bits that are 1 in each of others. All keys must share a hash tag. The reply is
// the length of the result in bytes; it is 0, and the key is deleted, if none of others exists.
func (h Bitmap) StoreAndCmd(others ...Bitmap) Cmd { return h.storeBits("AND", others) }

// StoreAnd stores in this key the bits that are 1 in each of others, and returns the length of the result in bytes. All
// keys must share a hash tag. If none of others exists, the length is 0 and the key is deleted.
func (h Bitmap) StoreAnd(ctx context.Context, db Executor, others ...Bitmap) (int64, error) {
	return db.Do(ctx, h.StoreAndCmd(others...)).Int()
}

// StoreOrCmd is [Bitmap.StoreAndCmd] for the bits that are 1 in at least one of others.
func (h Bitmap) StoreOrCmd(others ...Bitmap) Cmd { return h.storeBits("OR", others) }

// StoreOr is [Bitmap.StoreAnd] for the bits that are 1 in at least one of others.
func (h Bitmap) StoreOr(ctx context.Context, db Executor, others ...Bitmap) (int64, error) {
	return db.Do(ctx, h.StoreOrCmd(others...)).Int()
}

// StoreXorCmd is [Bitmap.StoreAndCmd] for the bits that are 1 in an odd number of others.
func (h Bitmap) StoreXorCmd(others ...Bitmap) Cmd { return h.storeBits("XOR", others) }

// StoreXor is [Bitmap.StoreAnd] for the bits that are 1 in an odd number of others.
func (h Bitmap) StoreXor(ctx context.Context, db Executor, others ...Bitmap) (int64, error) {
	return db.Do(ctx, h.StoreXorCmd(others...)).Int()
}

func (h Bitmap) storeBits(how string, others []Bitmap) Cmd {
	return multiKey(append([]Key{h.Key}, keysOf(others, func(o Bitmap) Key { return o.Key })...), 1, 1, "BITOP", how)
}

// HyperLogLog is a string key that estimates the number of different members that were added to it. The standard error
// is about 0.8 %; the size is at most 12 KiB.
type HyperLogLog struct{ Key }

// HyperLogLogOf is the [Kind] of [HyperLogLog]; form describes the members in the catalogue.
func HyperLogLogOf(form literal) Kind[HyperLogLog] {
	return Kind[HyperLogLog]{typ: "string", form: commands.LogForm + string(form), bind: func(k Key) HyperLogLog { return HyperLogLog{k} },
		check: func(v []byte) error {
			if !strings.HasPrefix(string(v[:min(len(v), 4)]), "HYLL") {
				return errors.New("not a HyperLogLog")
			}
			return nil
		}}
}

// AddCmd counts members; the reply is 1 if the estimate has changed.
func (h HyperLogLog) AddCmd(members ...string) Cmd { return h.write("PFADD", members...) }

// Add counts members and reports whether the estimate has changed.
func (h HyperLogLog) Add(ctx context.Context, db Executor, members ...string) (bool, error) {
	return db.Do(ctx, h.AddCmd(members...)).Bool()
}

// CountCmd gets the estimate for all members of this key and of others, which must share its hash tag.
func (h HyperLogLog) CountCmd(others ...HyperLogLog) Cmd {
	return Cmd{Name: "PFCOUNT", Key: h.Key, More: keysOf(others, func(o HyperLogLog) Key { return o.Key })}
}

// Count returns the estimate for all members of this key and of others, which must share its hash tag.
func (h HyperLogLog) Count(ctx context.Context, db Executor, others ...HyperLogLog) (int64, error) {
	return db.Do(ctx, h.CountCmd(others...)).Int()
}

// MergeCmd adds the members of others, which must share the hash tag, to this key.
func (h HyperLogLog) MergeCmd(others ...HyperLogLog) Cmd {
	return multiKey(append([]Key{h.Key}, keysOf(others, func(o HyperLogLog) Key { return o.Key })...), 1, 0, "PFMERGE")
}

// Merge adds the members of others, which must share the hash tag, to this key.
func (h HyperLogLog) Merge(ctx context.Context, db Executor, others ...HyperLogLog) error {
	return db.Do(ctx, h.MergeCmd(others...)).Err
}

// keysOf returns the keys of handles.
func keysOf[H any](handles []H, key func(H) Key) []Key {
	keys := make([]Key, len(handles))
	for i, h := range handles {
		keys[i] = key(h)
	}
	return keys
}
