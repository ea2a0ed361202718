package keyspace

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/stoa-dev/stoa/lib/keyspace/internal/commands"
)

// Bitmap is a string key read and written bit by bit; bit 0 is the most
// significant bit of byte 0, as SETBIT has it.
type Bitmap struct{ Key }

// BitmapOf is the [Kind] of [Bitmap]; form names the layout for the catalogue.
func BitmapOf(form literal) Kind[Bitmap] {
	return Kind[Bitmap]{typ: "string", form: string(form), bind: func(k Key) Bitmap { return Bitmap{k} }}
}

// GetCmd reads the whole string, for a pipeline.
func (h Bitmap) GetCmd() Cmd { return Cmd{Name: "GET", Key: h.Key} }

// GetRenewCmd reads the whole string and gives the key its family's life anew,
// for a pipeline. It needs Redis 6.2.
func (h Bitmap) GetRenewCmd() Cmd {
	life := h.fam.TTL.Draw()
	if life == 0 {
		return Cmd{Name: "GETEX", Key: h.Key, Args: []string{"PERSIST"}}
	}
	return Cmd{Name: "GETEX", Key: h.Key, Args: []string{"PX", millis(life)}}
}

// AddCmd writes the whole string unless the key is there, for a pipeline; the
// reply is nil then.
func (h Bitmap) AddCmd(v string) Cmd {
	cmd := Bytes(h).SetCmd(v, h.fam.TTL.Draw())
	cmd.Args = append(cmd.Args, "NX")
	return cmd
}

// Get reads the whole string, in which bit 0 is the most significant one of byte 0; ok is
// false when there is none.
func (h Bitmap) Get(ctx context.Context, db Executor) (v string, ok bool, err error) {
	return db.Do(ctx, h.GetCmd()).Text()
}

// Add writes the whole string with the family's life unless the key is there, and reports
// whether it did.
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

// SetBitBareCmd is SetBitCmd without the life, for a pipeline that gives it: see RenewCmd
// and GetRenewCmd.
func (h Bitmap) SetBitBareCmd(n int) Cmd { return h.ask("SETBIT", strconv.Itoa(n), "1") }

// ClearBitCmd clears bit n; the reply is the bit's former value.
func (h Bitmap) ClearBitCmd(n int) Cmd { return h.write("SETBIT", strconv.Itoa(n), "0") }

// ClearBit clears bit n and returns its former value.
func (h Bitmap) ClearBit(ctx context.Context, db Executor, n int) (was bool, err error) {
	return db.Do(ctx, h.ClearBitCmd(n)).Bool()
}

// BitCmd asks for bit n: 1 or 0.
func (h Bitmap) BitCmd(n int) Cmd { return h.ask("GETBIT", strconv.Itoa(n)) }

// Bit returns bit n.
func (h Bitmap) Bit(ctx context.Context, db Executor, n int) (bool, error) {
	return db.Do(ctx, h.BitCmd(n)).Bool()
}

// CountCmd asks how many bits are 1.
func (h Bitmap) CountCmd() Cmd { return h.ask("BITCOUNT") }

// Count returns how many bits are 1.
func (h Bitmap) Count(ctx context.Context, db Executor) (int64, error) {
	return db.Do(ctx, h.CountCmd()).Int()
}

// FirstCmd asks for the first bit that is 1; the reply is -1 when there is none.
func (h Bitmap) FirstCmd() Cmd { return h.ask("BITPOS", "1") }

// First returns the number of the first bit that is 1, -1 when there is none.
func (h Bitmap) First(ctx context.Context, db Executor) (int64, error) {
	return db.Do(ctx, h.FirstCmd()).Int()
}

// StoreAndCmd makes this key hold the bits that are 1 in each of others, which must share its hash tag; the
// reply is its length in bytes, 0 where it is gone because there is none of them.
func (h Bitmap) StoreAndCmd(others ...Bitmap) Cmd { return h.storeBits("AND", others) }

// StoreAnd makes this key hold the bits that are 1 in each of others, which must share its hash tag, and
// returns its length in bytes; it is gone where that is 0, because there is none of them.
func (h Bitmap) StoreAnd(ctx context.Context, db Executor, others ...Bitmap) (int64, error) {
	return db.Do(ctx, h.StoreAndCmd(others...)).Int()
}

// StoreOrCmd is [Bitmap.StoreAndCmd] of the bits that are 1 in one of others at least.
func (h Bitmap) StoreOrCmd(others ...Bitmap) Cmd { return h.storeBits("OR", others) }

// StoreOr is [Bitmap.StoreAnd] of the bits that are 1 in one of others at least.
func (h Bitmap) StoreOr(ctx context.Context, db Executor, others ...Bitmap) (int64, error) {
	return db.Do(ctx, h.StoreOrCmd(others...)).Int()
}

// StoreXorCmd is [Bitmap.StoreAndCmd] of the bits that are 1 in an odd number of others: of two, in one alone.
func (h Bitmap) StoreXorCmd(others ...Bitmap) Cmd { return h.storeBits("XOR", others) }

// StoreXor is [Bitmap.StoreAnd] of the bits that are 1 in an odd number of others: of two, in one alone.
func (h Bitmap) StoreXor(ctx context.Context, db Executor, others ...Bitmap) (int64, error) {
	return db.Do(ctx, h.StoreXorCmd(others...)).Int()
}

func (h Bitmap) storeBits(how string, others []Bitmap) Cmd {
	return placed(append([]Key{h.Key}, bare(others, func(o Bitmap) Key { return o.Key })...), 1, 1, "BITOP", how)
}

// HyperLogLog is a string key that estimates how many different members it was given,
// within about 0.8 %, in 12 KiB at most.
type HyperLogLog struct{ Key }

// HyperLogLogOf is the [Kind] of [HyperLogLog]; form names the members for the catalogue.
func HyperLogLogOf(form literal) Kind[HyperLogLog] {
	return Kind[HyperLogLog]{typ: "string", form: commands.LogForm + string(form), bind: func(k Key) HyperLogLog { return HyperLogLog{k} },
		check: func(v []byte) error {
			if !strings.HasPrefix(string(v[:min(len(v), 4)]), "HYLL") {
				return errors.New("not a HyperLogLog")
			}
			return nil
		}}
}

// AddCmd counts members; the reply is 1 when the estimate has changed.
func (h HyperLogLog) AddCmd(members ...string) Cmd { return h.write("PFADD", members...) }

// Add counts members, and reports whether the estimate has changed.
func (h HyperLogLog) Add(ctx context.Context, db Executor, members ...string) (bool, error) {
	return db.Do(ctx, h.AddCmd(members...)).Bool()
}

// CountCmd asks for the estimate, of all members of this key and of others, which must
// share its hash tag.
func (h HyperLogLog) CountCmd(others ...HyperLogLog) Cmd {
	return Cmd{Name: "PFCOUNT", Key: h.Key, More: bare(others, func(o HyperLogLog) Key { return o.Key })}
}

// Count returns the estimate, of all members of this key and of others, which must share
// its hash tag.
func (h HyperLogLog) Count(ctx context.Context, db Executor, others ...HyperLogLog) (int64, error) {
	return db.Do(ctx, h.CountCmd(others...)).Int()
}

// MergeCmd counts the members of others, which must share the hash tag, in this key, too.
func (h HyperLogLog) MergeCmd(others ...HyperLogLog) Cmd {
	return placed(append([]Key{h.Key}, bare(others, func(o HyperLogLog) Key { return o.Key })...), 1, 0, "PFMERGE")
}

// Merge counts the members of others, which must share the hash tag, in this key, too.
func (h HyperLogLog) Merge(ctx context.Context, db Executor, others ...HyperLogLog) error {
	return db.Do(ctx, h.MergeCmd(others...)).Err
}

// bare returns the keys of handles.
func bare[H any](handles []H, key func(H) Key) []Key {
	keys := make([]Key, len(handles))
	for i, h := range handles {
		keys[i] = key(h)
	}
	return keys
}
