package keyspace

import (
	"context"
	"encoding/json"
	"errors"
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

// JSON is a string key that holds one V as JSON.
type JSON[V any] struct{ Key }

// JSONOf is the [Kind] of [JSON].
func JSONOf[V any]() Kind[JSON[V]] {
	return Kind[JSON[V]]{typ: "string", form: jsonForm[V](), bind: func(k Key) JSON[V] { return JSON[V]{k} },
		check: func(v []byte) error { return json.Unmarshal(v, new(V)) }}
}

// Get reads the value; ok is false when there is none.
func (h JSON[V]) Get(ctx context.Context, db Executor) (v V, ok bool, err error) {
	return h.Read(db.Do(ctx, h.GetCmd()))
}

// Read returns the value in the reply to GetCmd; ok is false when there is none.
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

// Set writes v with the family's life.
func (h JSON[V]) Set(ctx context.Context, db Executor, v V) error {
	cmd, err := h.SetCmd(v, h.fam.TTL.Draw())
	if err != nil {
		return err
	}
	return db.Do(ctx, cmd).Err
}

// SetCmd is the command behind Set, for a pipeline; life 0 means for ever. It
// fails when v has no JSON.
func (h JSON[V]) SetCmd(v V, life time.Duration) (Cmd, error) {
	s, err := json.Marshal(v)
	if err != nil {
		return Cmd{}, fmt.Errorf("keyspace: %s: %w", h.fam.Pattern, err)
	}
	return Bytes(h).SetCmd(string(s), life), nil
}

// Counter is a string key that holds a whole number.
type Counter struct{ Key }

// CounterKind is the [Kind] of [Counter].
func CounterKind() Kind[Counter] {
	return Kind[Counter]{typ: "string", form: "int", bind: func(k Key) Counter { return Counter{k} },
		check: func(v []byte) error {
			if _, err := strconv.ParseInt(string(v), 10, 64); err != nil {
				return errors.New("not a whole number")
			}
			return nil
		}}
}

// Get reads the number; a missing key is 0.
func (h Counter) Get(ctx context.Context, db Executor) (int64, error) {
	return db.Do(ctx, Cmd{Name: "GET", Key: h.Key}).Int()
}

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

// renew must not send PEXPIRE 0 for a key that lives for ever: it deletes.
func renew(k Key) Cmd {
	life := k.fam.TTL.Draw()
	if life == 0 {
		return Cmd{Name: "PERSIST", Key: k}
	}
	return Cmd{Name: "PEXPIRE", Key: k, Args: []string{millis(life)}}
}

// Hash is a hash key; its owner says what the fields are.
type Hash struct{ Key }

// HashOf is the [Kind] of [Hash]; form names the fields for the catalogue.
func HashOf(form literal) Kind[Hash] {
	return Kind[Hash]{typ: "hash", form: string(form), bind: func(k Key) Hash { return Hash{k} }}
}

// ZSet is a sorted set whose members are texts of the owner's choice.
type ZSet struct{ Key }

// ZSetOf is the [Kind] of [ZSet]; form names member and score for the catalogue.
func ZSetOf(form literal) Kind[ZSet] {
	return Kind[ZSet]{typ: "zset", form: string(form), bind: func(k Key) ZSet { return ZSet{k} }}
}

// Set is a set whose members are texts of the owner's choice.
type Set struct{ Key }

// SetOf is the [Kind] of [Set]; form names the members for the catalogue.
func SetOf(form literal) Kind[Set] {
	return Kind[Set]{typ: "set", form: string(form), bind: func(k Key) Set { return Set{k} }}
}

// List is a list of texts.
type List struct{ Key }

// ListOf is the [Kind] of [List]; form names the elements for the catalogue.
func ListOf(form literal) Kind[List] {
	return Kind[List]{typ: "list", form: string(form), bind: func(k Key) List { return List{k} }}
}

// Stream is a stream of entries.
type Stream struct{ Key }

// StreamOf is the [Kind] of [Stream]; form names the fields for the catalogue.
func StreamOf(form literal) Kind[Stream] {
	return Kind[Stream]{typ: "stream", form: string(form), bind: func(k Key) Stream { return Stream{k} }}
}
