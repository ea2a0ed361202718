package keyspace

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Record is a hash key that holds one struct T, a field of it in each field of the hash.
type Record[T any] struct {
	Key
	fields []field
}

// RecordOf is the [Kind] of [Record]. The exported fields of T are strings, whole or
// floating-point numbers, bools, []byte, or write themselves as text, as time.Time does.
// The tag `redis:"name"` names the hash's field, which otherwise has the name of T's, and
// `redis:"-"` leaves one out. It panics, while the program is initialised, for a T that
// has other fields.
//
// A field that is not in Redis reads as its zero value, and one that T does not have is
// left alone, so that T can grow while two versions of a program run.
func RecordOf[T any]() Kind[Record[T]] {
	fields, err := fieldsOf(reflect.TypeFor[T]())
	if err == nil && len(fields) == 0 {
		err = fmt.Errorf("%T has no field to keep", *new(T))
	}
	if err != nil {
		panic("keyspace: " + err.Error())
	}
	var form []string
	for _, f := range fields {
		form = append(form, f.name+" "+f.coding.name)
	}
	return Kind[Record[T]]{typ: "hash", form: "fields {" + strings.Join(form, ", ") + "}", bind: func(k Key) Record[T] { return Record[T]{k, fields} }}
}

// fault is an error about one field.
func (h Record[T]) fault(name, format string, args ...any) error {
	return fmt.Errorf("keyspace: %s: field %q "+format, append([]any{h.fam.Pattern, name}, args...)...)
}

// GetCmd reads every field, for a pipeline; see Read.
func (h Record[T]) GetCmd() Cmd { return h.ask("HGETALL") }

// Get reads the struct; ok is false when there is none. A text that is not of its
// field's type is an error that names the field, and is [ErrReply].
func (h Record[T]) Get(ctx context.Context, db Executor) (v T, ok bool, err error) {
	return h.Read(db.Do(ctx, h.GetCmd()))
}

// Read returns the struct in the reply to GetCmd; ok is false when there is none.
func (h Record[T]) Read(r Reply) (v T, ok bool, err error) {
	texts, err := r.Map()
	if err != nil || len(texts) == 0 {
		return v, false, err
	}
	to := reflect.ValueOf(&v).Elem()
	for _, f := range h.fields {
		if s, there := texts[f.name]; there {
			if err := h.read(f, s, to); err != nil {
				return *new(T), false, err
			}
		}
	}
	return v, true, nil
}

func (h Record[T]) read(f field, s string, to reflect.Value) error {
	if err := f.coding.read(s, to.FieldByIndex(f.index)); err != nil {
		return fmt.Errorf("%w: %w", ErrReply, h.fault(f.name, "has a text that is no %s: %w", f.typ, err))
	}
	return nil
}

// GetSome reads the fields of these names, as the hash has them; the others are zero, and
// so is what is not there.
func (h Record[T]) GetSome(ctx context.Context, db Executor, names ...string) (v T, err error) {
	for _, name := range names {
		if _, err := h.field(name); err != nil {
			return v, err
		}
	}
	items, err := db.Do(ctx, h.ask("HMGET", names...)).Items()
	if err != nil {
		return v, err
	}
	to := reflect.ValueOf(&v).Elem()
	for i, item := range items {
		s, there, err := item.Text()
		if err == nil && there {
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
		return field{}, h.fault(name, "is none of %T's", *new(T))
	}
	return h.fields[i], nil
}

// SetCmd writes every field of v, with the family's life. Its Err says which field has no
// text.
func (h Record[T]) SetCmd(v T) Cmd {
	cmd, _ := h.change(nil, &v)
	return cmd
}

// Set writes every field of v, with the family's life.
func (h Record[T]) Set(ctx context.Context, db Executor, v T) error {
	return send(ctx, db, h.SetCmd(v)).Err
}

// ChangeCmd writes the fields in which is differs from was; some is false when there are
// none, and there is no command then.
func (h Record[T]) ChangeCmd(was, is T) (cmd Cmd, some bool) { return h.change(&was, &is) }

// Change writes the fields in which is differs from was, with the family's life, so that
// what others have changed in the rest stays. Without a difference nothing is sent.
func (h Record[T]) Change(ctx context.Context, db Executor, was, is T) error {
	cmd, some := h.ChangeCmd(was, is)
	if !some {
		return nil
	}
	return send(ctx, db, cmd).Err
}

func (h Record[T]) change(was, is *T) (cmd Cmd, some bool) {
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

// AddCmd adds n to the whole number in the field of that name; the reply is the new one.
// Its Err says when there is no such field in T, or it is no whole number.
func (h Record[T]) AddCmd(name string, n int64) Cmd {
	f, err := h.field(name)
	if err == nil && !f.whole {
		err = h.fault(name, "is a %s and no whole number", f.typ)
	}
	if err != nil {
		return Cmd{Key: h.Key, Err: err}
	}
	return h.write("HINCRBY", name, intText(n))
}

// Add adds n, which may be negative, to the whole number in the field of that name, and
// returns the new one. A field that is not there begins at 0.
func (h Record[T]) Add(ctx context.Context, db Executor, name string, n int64) (int64, error) {
	return send(ctx, db, h.AddCmd(name, n)).Int()
}

// RemoveCmd removes fields of these names, as the hash has them; the reply is how many
// there were.
func (h Record[T]) RemoveCmd(names ...string) Cmd {
	for _, name := range names {
		if _, err := h.field(name); err != nil {
			return Cmd{Key: h.Key, Err: err}
		}
	}
	return h.ask("HDEL", names...)
}

// Remove removes fields of these names, as the hash has them, which are zero then. It
// returns how many there were.
func (h Record[T]) Remove(ctx context.Context, db Executor, names ...string) (int64, error) {
	return send(ctx, db, h.RemoveCmd(names...)).Int()
}

// send does not trouble the executor with what is no command.
func send(ctx context.Context, db Executor, cmd Cmd) Reply {
	if cmd.Err != nil {
		return Fail(cmd.Err)
	}
	return db.Do(ctx, cmd)
}
