package keyspace

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// JSON is a string key that holds one V as JSON.
type JSON[V any] struct{ Key }

// JSONOf is the [Kind] of [JSON].
func JSONOf[V any]() Kind[JSON[V]] {
	return Kind[JSON[V]]{typ: "string", form: jsonForm[V](), bind: func(k Key) JSON[V] { return JSON[V]{k} },
		check: func(v []byte) error { return json.Unmarshal(v, new(V)) }}
}

// Get reads the value; ok is false if there is none.
func (h JSON[V]) Get(ctx context.Context, db Executor) (v V, ok bool, err error) {
	return h.Read(db.Do(ctx, h.GetCmd()))
}

// Read returns the value in the reply to GetCmd; ok is false if there is none.
func (h JSON[V]) Read(r Reply) (v V, ok bool, err error) {
	s, ok, err := r.Text()
	if !ok || err != nil {
		return v, false, err
	}
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		return *new(V), false, fmt.Errorf("keyspace: %s: %w", h.fam.Pattern, err)
	}
	return v, true, nil
}

// Set writes v with the family's TTL.
func (h JSON[V]) Set(ctx context.Context, db Executor, v V) error {
	cmd, err := h.SetCmd(v, h.fam.TTL.Draw())
	if err != nil {
		return err
	}
	return db.Do(ctx, cmd).Err
}

// SetCmd is the command of Set, for a pipeline; life 0 means that the key never expires. It returns an error if v
// cannot be encoded as JSON.
func (h JSON[V]) SetCmd(v V, life time.Duration) (Cmd, error) {
	s, err := json.Marshal(v)
	if err != nil {
		return Cmd{}, fmt.Errorf("keyspace: %s: %w", h.fam.Pattern, err)
	}
	return Bytes(h).SetCmd(string(s), life), nil
}

// GetCmd reads the value, for a pipeline; see Read.
func (h JSON[V]) GetCmd() Cmd { return Bytes(h).GetCmd() }

// AddCmd is the command of Add, for a pipeline. The reply is nil if the key exists. It returns an error if v cannot be
// encoded as JSON.
func (h JSON[V]) AddCmd(v V) (Cmd, error) {
	cmd, err := h.SetCmd(v, h.fam.TTL.Draw())
	if err != nil {
		return Cmd{}, err
	}
	cmd.Args = append(cmd.Args, "NX")
	return cmd, nil
}

// Add writes v with the family's TTL unless the key exists, and reports whether it wrote.
func (h JSON[V]) Add(ctx context.Context, db Executor, v V) (bool, error) {
	cmd, err := h.AddCmd(v)
	if err != nil {
		return false, err
	}
	return db.Do(ctx, cmd).Bool()
}

// Take reads the value and deletes the key, so that only one caller gets the value. ok is false if there is none. It
// needs Redis 6.2.
func (h JSON[V]) Take(ctx context.Context, db Executor) (v V, ok bool, err error) {
	return h.Read(db.Do(ctx, Bytes(h).TakeCmd()))
}
