package keyspace

import (
	"context"
	"time"
)

// DeleteCmd removes the key, whatever its type; the reply is 1 when it was there.
func (k Key) DeleteCmd() Cmd { return k.ask("UNLINK") }

// Delete removes the key, whatever its type.
func (k Key) Delete(ctx context.Context, db Executor) error { return db.Do(ctx, k.DeleteCmd()).Err }

// ExistsCmd asks whether the key is there: 1 or 0.
func (k Key) ExistsCmd() Cmd { return k.ask("EXISTS") }

// Exists reports whether the key is there.
func (k Key) Exists(ctx context.Context, db Executor) (bool, error) {
	return db.Do(ctx, k.ExistsCmd()).Bool()
}

// RenewCmd gives the key its family's life anew, or takes its life away where the family
// lives for ever; the reply is 1 when that changed something.
func (k Key) RenewCmd() Cmd { return renew(k) }

// Renew gives the key its family's life anew. A key that is not there stays so.
func (k Key) Renew(ctx context.Context, db Executor) error { return db.Do(ctx, k.RenewCmd()).Err }

// Left returns how long the key has to live, in whole milliseconds; 0 is for ever. ok is
// false when there is no key.
func (k Key) Left(ctx context.Context, db Executor) (left time.Duration, ok bool, err error) {
	ms, err := db.Do(ctx, k.ask("PTTL")).Int()
	if err != nil || ms == -2 {
		return 0, false, err
	}
	if ms == -1 {
		return 0, true, nil
	}
	return max(time.Duration(ms), 1) * time.Millisecond, true, nil
}

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

// GetCmd reads the value, for a pipeline; see Read.
func (h JSON[V]) GetCmd() Cmd { return Bytes(h).GetCmd() }

// AddCmd is the command behind Add, for a pipeline; the reply is nil when the key is
// there. It fails when v has no JSON.
func (h JSON[V]) AddCmd(v V) (Cmd, error) {
	cmd, err := h.SetCmd(v, h.fam.TTL.Draw())
	if err != nil {
		return Cmd{}, err
	}
	cmd.Args = append(cmd.Args, "NX")
	return cmd, nil
}

// Add writes v with the family's life unless the key is there, and reports whether it did.
func (h JSON[V]) Add(ctx context.Context, db Executor, v V) (bool, error) {
	cmd, err := h.AddCmd(v)
	if err != nil {
		return false, err
	}
	return db.Do(ctx, cmd).Bool()
}

// Take reads the value and removes the key: only one caller gets it. ok is false when
// there is none. It needs Redis 6.2.
func (h JSON[V]) Take(ctx context.Context, db Executor) (v V, ok bool, err error) {
	return h.Read(db.Do(ctx, Bytes(h).TakeCmd()))
}

// GetCmd reads the number; the reply is nil when there is none.
func (h Counter) GetCmd() Cmd { return h.ask("GET") }

// SetCmd writes the number.
func (h Counter) SetCmd(n int64) Cmd { return Bytes(h).set(intText(n)) }

// Set writes the number with the family's life.
func (h Counter) Set(ctx context.Context, db Executor, n int64) error {
	return db.Do(ctx, h.SetCmd(n)).Err
}

// AddCmd adds n, which may be negative; the reply is the new number.
func (h Counter) AddCmd(n int64) Cmd { return h.write("INCRBY", intText(n)) }

// Add adds n, which may be negative, and returns the new number.
func (h Counter) Add(ctx context.Context, db Executor, n int64) (int64, error) {
	return db.Do(ctx, h.AddCmd(n)).Int()
}

// TakeCmd reads the number and removes the key; the reply is nil when there is none. It
// needs Redis 6.2.
func (h Counter) TakeCmd() Cmd { return h.ask("GETDEL") }

// Take returns the number, 0 for a missing key, and removes the key. It needs Redis 6.2.
func (h Counter) Take(ctx context.Context, db Executor) (int64, error) {
	return db.Do(ctx, h.TakeCmd()).Int()
}
