package keyspace

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// Bytes is a string key that holds bytes of the owner's own format.
type Bytes struct{ Key }

// BytesOf is the [Kind] of [Bytes]; form names the format for the catalogue.
func BytesOf(form literal) Kind[Bytes] {
	return Kind[Bytes]{typ: "string", form: string(form), bind: func(k Key) Bytes { return Bytes{k} }}
}

// Get reads the value; ok is false when there is none.
func (h Bytes) Get(ctx context.Context, db Executor) (v string, ok bool, err error) {
	return db.Do(ctx, Cmd{Name: "GET", Key: h.Key}).Text()
}

// Set writes v with the family's life.
func (h Bytes) Set(ctx context.Context, db Executor, v string) error {
	return db.Do(ctx, h.SetCmd(v, h.fam.TTL.Draw())).Err
}

// SetFor writes v with the life d, which a family declared with [UpTo] allows.
func (h Bytes) SetFor(ctx context.Context, db Executor, v string, d time.Duration) error {
	if !h.fam.TTL.Variable || d < time.Millisecond || d > h.fam.TTL.Base {
		return fmt.Errorf("keyspace: %s may not live %s", h.fam.Pattern, d)
	}
	return db.Do(ctx, h.SetCmd(v, d)).Err
}

// SetCmd is the command behind Set, for a pipeline. Lives count in whole
// milliseconds; life 0 means for ever.
func (h Bytes) SetCmd(v string, life time.Duration) Cmd {
	if life == 0 {
		return Cmd{Name: "SET", Key: h.Key, Args: []string{v}}
	}
	return Cmd{Name: "SET", Key: h.Key, Args: []string{v, "PX", millis(life)}}
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// set is SET with the family's life and further words.
func (h Bytes) set(v string, words ...string) Cmd {
	cmd := h.SetCmd(v, h.fam.TTL.Draw())
	cmd.Args = append(cmd.Args, words...)
	return cmd
}

// GetCmd reads the value; the reply is nil when there is none.
func (h Bytes) GetCmd() Cmd { return h.ask("GET") }

// AddCmd writes v unless the key is there; the reply is nil then.
func (h Bytes) AddCmd(v string) Cmd { return h.set(v, "NX") }

// Add writes v with the family's life unless the key is there, and reports whether it did.
func (h Bytes) Add(ctx context.Context, db Executor, v string) (bool, error) {
	return db.Do(ctx, h.AddCmd(v)).Bool()
}

// SwapCmd writes v; the reply is the former value, nil when there was none. It needs
// Redis 6.2.
func (h Bytes) SwapCmd(v string) Cmd { return h.set(v, "GET") }

// Swap writes v with the family's life and returns the former value; ok is false when
// there was none. It needs Redis 6.2.
func (h Bytes) Swap(ctx context.Context, db Executor, v string) (was string, ok bool, err error) {
	return db.Do(ctx, h.SwapCmd(v)).Text()
}

// TakeCmd reads the value and removes the key; the reply is nil when there is none. It
// needs Redis 6.2.
func (h Bytes) TakeCmd() Cmd { return h.ask("GETDEL") }

// Take reads the value and removes the key: only one caller gets it. ok is false when
// there is none. It needs Redis 6.2.
func (h Bytes) Take(ctx context.Context, db Executor) (v string, ok bool, err error) {
	return db.Do(ctx, h.TakeCmd()).Text()
}

// AppendCmd puts v behind the value; the reply is the new length in bytes.
func (h Bytes) AppendCmd(v string) Cmd { return h.write("APPEND", v) }

// Append puts v behind the value and returns the new length in bytes.
func (h Bytes) Append(ctx context.Context, db Executor, v string) (int64, error) {
	return db.Do(ctx, h.AppendCmd(v)).Int()
}

// LenCmd asks for the length in bytes, 0 when there is no value.
func (h Bytes) LenCmd() Cmd { return h.ask("STRLEN") }

// Len returns the length in bytes, 0 when there is no value.
func (h Bytes) Len(ctx context.Context, db Executor) (int64, error) {
	return db.Do(ctx, h.LenCmd()).Int()
}
