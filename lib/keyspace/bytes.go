package keyspace

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// Bytes is a string key that holds bytes in the owner's own format.
type Bytes struct{ Key }

// BytesOf is the [Kind] of [Bytes]; form describes the format in the catalogue.
func BytesOf(form literal) Kind[Bytes] {
	return Kind[Bytes]{typ: "string", form: string(form), bind: func(k Key) Bytes { return Bytes{k} }}
}

// Get reads the value; ok is false if there is none.
func (h Bytes) Get(ctx context.Context, db Executor) (v string, ok bool, err error) {
	return db.Do(ctx, Cmd{Name: "GET", Key: h.Key}).Text()
}

// Set writes v with the family's TTL.
func (h Bytes) Set(ctx context.Context, db Executor, v string) error {
	return db.Do(ctx, h.SetCmd(v, h.fam.TTL.Draw())).Err
}

// SetFor writes v with the TTL d. The family must be declared with [UpTo], and d must be within its bounds.
func (h Bytes) SetFor(ctx context.Context, db Executor, v string, d time.Duration) error {
	if !h.fam.TTL.Variable || d < time.Millisecond || d > h.fam.TTL.Base {
		return fmt.Errorf("keyspace: %s cannot have the TTL %s", h.fam.Pattern, d)
	}
	return db.Do(ctx, h.SetCmd(v, d)).Err
}

// SetCmd is the command of Set, for a pipeline. The TTL is rounded down to whole milliseconds; 0 means that the key
// never expires.
func (h Bytes) SetCmd(v string, life time.Duration) Cmd {
	if life == 0 {
		return Cmd{Name: "SET", Key: h.Key, Args: []string{v}}
	}
	return Cmd{Name: "SET", Key: h.Key, Args: []string{v, "PX", Millis(life)}}
}

// Millis returns d in milliseconds, as an argument of a command.
func Millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// setWith is SET with the family's TTL and further options.
func (h Bytes) setWith(v string, options ...string) Cmd {
	cmd := h.SetCmd(v, h.fam.TTL.Draw())
	cmd.Args = append(cmd.Args, options...)
	return cmd
}

// GetCmd reads the value; the reply is nil if there is none.
func (h Bytes) GetCmd() Cmd { return h.plainCmd("GET") }

// AddCmd writes v unless the key exists. The reply is nil if the key exists.
func (h Bytes) AddCmd(v string) Cmd { return h.setWith(v, "NX") }

// Add writes v with the family's TTL unless the key exists, and reports whether it wrote.
func (h Bytes) Add(ctx context.Context, db Executor, v string) (bool, error) {
	return db.Do(ctx, h.AddCmd(v)).Bool()
}

// SwapCmd writes v; the reply is the former value, or nil if there was none. It needs Redis 6.2.
func (h Bytes) SwapCmd(v string) Cmd { return h.setWith(v, "GET") }

// Swap writes v with the family's TTL and returns the former value; ok is false if there was none. It needs Redis 6.2.
func (h Bytes) Swap(ctx context.Context, db Executor, v string) (was string, ok bool, err error) {
	return db.Do(ctx, h.SwapCmd(v)).Text()
}

// TakeCmd reads the value and deletes the key; the reply is nil if there is none. It needs Redis 6.2.
func (h Bytes) TakeCmd() Cmd { return h.plainCmd("GETDEL") }

// Take reads the value and deletes the key, so that only one caller gets the value. ok is false if there is none. It
// needs Redis 6.2.
func (h Bytes) Take(ctx context.Context, db Executor) (v string, ok bool, err error) {
	return db.Do(ctx, h.TakeCmd()).Text()
}

// AppendCmd appends v to the value; the reply is the new length in bytes.
func (h Bytes) AppendCmd(v string) Cmd { return h.write("APPEND", v) }

// Append appends v to the value and returns the new length in bytes.
func (h Bytes) Append(ctx context.Context, db Executor, v string) (int64, error) {
	return db.Do(ctx, h.AppendCmd(v)).Int()
}

// LenCmd gets the length in bytes, 0 if there is no value.
func (h Bytes) LenCmd() Cmd { return h.plainCmd("STRLEN") }

// Len returns the length in bytes, 0 if there is no value.
func (h Bytes) Len(ctx context.Context, db Executor) (int64, error) {
	return db.Do(ctx, h.LenCmd()).Int()
}
