package keyspace

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Record is a hash key that holds one struct T. Each field of the hash is a field of T.
type Record[T any] struct {
	Key
	fields []field
}

// RecordOf is the [Kind] of [Record]. The exported fields of T are strings, whole or floating-point numbers, bools,
// []byte, or types that encode themselves as text, such as time.Time. The name of a hash field is the name of the
// struct field; the tag `redis:"name"` sets another name, and `redis:"-"` excludes a field. RecordOf panics during the
// initialisation of the program if T has fields of other types.
//
// A field that is missing in Redis has its zero value. Fields in Redis that T does not have are not changed. So T can
// get new fields while two versions of a program run.
func RecordOf[T any]() Kind[Record[T]] {
	fields, err := fieldsOf(reflect.TypeFor[T]())
	if err == nil && len(fields) == 0 {
		err = fmt.Errorf("%T has no field to store", *new(T))
	}
	if err != nil {
		panic("keyspace: " + err.Error())
	}
	var form []string
	for _, f := range fields {
		form = append(form, f.name+" "+f.coding.name)
	}
	return Kind[Record[T]]{typ: "hash", form: "fields {" + strings.Join(form, ", ") + "}", bind: func(k Key) Record[T] {
		return Record[T]{k, fields}
	}}
}

// fault returns an error about one field.
func (h Record[T]) fault(name, format string, args ...any) error {
	return fmt.Errorf("keyspace: %s: field %q "+format, append([]any{h.fam.Pattern, name}, args...)...)
}

// GetCmd reads all fields, for a pipeline; see Read.
func (h Record[T]) GetCmd() Cmd { return h.plainCmd("HGETALL") }

// Get reads the struct; ok is false if there is none. If a text is not valid for the type of its field, Get returns an
// error that names the field and is [ErrReply].
func (h Record[T]) Get(ctx context.Context, db Executor) (v T, ok bool, err error) {
	return h.Read(db.Do(ctx, h.GetCmd()))
}

// Read returns the struct in the reply to GetCmd; ok is false if there is none.
func (h Record[T]) Read(r Reply) (v T, ok bool, err error) {
	texts, err := r.Map()
	if err != nil || len(texts) == 0 {
		return v, false, err
	}
	to := reflect.ValueOf(&v).Elem()
	for _, f := range h.fields {
		if s, found := texts[f.name]; found {
			if err := h.read(f, s, to); err != nil {
				return *new(T), false, err
			}
		}
	}
	return v, true, nil
}

func (h Record[T]) read(f field, s string, to reflect.Value) error {
	if err := f.coding.read(s, to.FieldByIndex(f.index)); err != nil {
		return fmt.Errorf("%w: %w", ErrReply, h.fault(f.name, "has a text that is not a valid %s: %w", f.typ, err))
	}
	return nil
}

// GetSome reads the fields with these names in the hash. All other fields, and fields that do not exist, are zero.
func (h Record[T]) GetSome(ctx context.Context, db Executor, names ...string) (v T, err error) {
	for _, name := range names {
		if _, err := h.field(name); err != nil {
			return v, err
		}
	}
	items, err := db.Do(ctx, h.plainCmd("HMGET", names...)).Items()
	if err != nil {
		return v, err
	}
	to := reflect.ValueOf(&v).Elem()
	for i, item := range items {
		s, found, err := item.Text()
		if err == nil && found {
			f, _ := h.field(names[i])
			err = h.read(f, s, to)
		}
		if err != nil {
			return *new(T), err
		}
	}
	return v, nil
}

func (h Record[T]) field(name string) (field, error) {
	i := slices.IndexFunc(h.fields, func(f field) bool { return f.name == name })
	if i < 0 {
		return field{}, h.fault(name, "is not a field of %T", *new(T))
	}
	return h.fields[i], nil
}

// SetCmd writes all fields of v, with the family's TTL. Its Err names a field that cannot be encoded as text.
func (h Record[T]) SetCmd(v T) Cmd {
	cmd, _ := h.change(nil, &v)
	return cmd
}

// Set writes all fields of v, with the family's TTL.
func (h Record[T]) Set(ctx context.Context, db Executor, v T) error {
	return send(ctx, db, h.SetCmd(v)).Err
}

// ChangeCmd writes the fields that differ between was and is. changed is false, and there is no
// command, if none differs.
func (h Record[T]) ChangeCmd(was, is T) (cmd Cmd, changed bool) { return h.change(&was, &is) }

// Change writes the fields that differ between was and is, with the family's TTL. So the changes of others in the
// remaining fields are kept. If none differs, Change sends nothing.
func (h Record[T]) Change(ctx context.Context, db Executor, was, is T) error {
	cmd, changed := h.ChangeCmd(was, is)
	if !changed {
		return nil
	}
	return send(ctx, db, cmd).Err
}

func (h Record[T]) change(was, is *T) (cmd Cmd, changed bool) {
	var args []string
	for _, f := range h.fields {
		text, err := f.coding.write(reflect.ValueOf(is).Elem().FieldByIndex(f.index))
		if err == nil && was != nil {
			var before string
			if before, err = f.coding.write(reflect.ValueOf(was).Elem().FieldByIndex(f.index)); err == nil && before == text {
				continue
			}
		}
		if err != nil {
			return Cmd{Key: h.Key, Err: h.fault(f.name, "has no text: %w", err)}, true
		}
		args = append(args, f.name, text)
	}
	return h.write("HSET", args...), len(args) > 0
}

// AddCmd adds n to the whole number in the named field; the reply is the new number. Its Err is set if T has no such
// field or the field is not a whole number.
func (h Record[T]) AddCmd(name string, n int64) Cmd {
	f, err := h.field(name)
	if err == nil && !f.whole {
		err = h.fault(name, "is a %s, not a whole number", f.typ)
	}
	if err != nil {
		return Cmd{Key: h.Key, Err: err}
	}
	return h.write("HINCRBY", name, intText(n))
}

// Add adds n, which may be negative, to the whole number in the named field, and returns the new number. A missing
// field is 0.
func (h Record[T]) Add(ctx context.Context, db Executor, name string, n int64) (int64, error) {
	return send(ctx, db, h.AddCmd(name, n)).Int()
}

// RemoveCmd removes the fields with these names in the hash; the reply is the number of removed fields.
func (h Record[T]) RemoveCmd(names ...string) Cmd {
	for _, name := range names {
		if _, err := h.field(name); err != nil {
			return Cmd{Key: h.Key, Err: err}
		}
	}
	return h.plainCmd("HDEL", names...)
}

// Remove removes the fields with these names in the hash, so that they read as zero. It returns the number of removed
// fields.
func (h Record[T]) Remove(ctx context.Context, db Executor, names ...string) (int64, error) {
	return send(ctx, db, h.RemoveCmd(names...)).Int()
}

// send returns cmd.Err without calling the executor, or sends cmd.
func send(ctx context.Context, db Executor, cmd Cmd) Reply {
	if cmd.Err != nil {
		return Fail(cmd.Err)
	}
	return db.Do(ctx, cmd)
}
