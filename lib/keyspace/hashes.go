package keyspace

import (
	"context"
	"maps"
	"slices"
)

// AllCmd reads all fields and values, alternating.
func (h Hash) AllCmd() Cmd { return h.plainCmd("HGETALL") }

// All reads all fields; a missing key has none.
func (h Hash) All(ctx context.Context, db Executor) (map[string]string, error) {
	return db.Do(ctx, h.AllCmd()).Map()
}

// GetCmd reads one field; the reply is nil if it does not exist.
func (h Hash) GetCmd(field string) Cmd { return h.plainCmd("HGET", field) }

// Get reads one field; ok is false if it does not exist.
func (h Hash) Get(ctx context.Context, db Executor, field string) (v string, ok bool, err error) {
	return db.Do(ctx, h.GetCmd(field)).Text()
}

// GetSomeCmd reads fields; the reply is a list of values, nil for each missing field.
func (h Hash) GetSomeCmd(fields ...string) Cmd { return h.plainCmd("HMGET", fields...) }

// GetSome reads fields and returns those that exist.
func (h Hash) GetSome(ctx context.Context, db Executor, fields ...string) (map[string]string, error) {
	values, err := db.Do(ctx, h.GetSomeCmd(fields...)).Items()
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for i, v := range values {
		if s, ok, err := v.Text(); err != nil {
			return nil, err
		} else if ok {
			found[fields[i]] = s
		}
	}
	return found, nil
}

// SetCmd writes one field; the reply is 1 if it is new.
func (h Hash) SetCmd(field, value string) Cmd { return h.write("HSET", field, value) }

// Set writes one field and reports whether it is new.
func (h Hash) Set(ctx context.Context, db Executor, field, value string) (bool, error) {
	return db.Do(ctx, h.SetCmd(field, value)).Bool()
}

// SetSomeCmd writes fields, at least one, and does not change other fields; the reply is the number of new fields.
func (h Hash) SetSomeCmd(fields map[string]string) Cmd {
	args := make([]string, 0, 2*len(fields))
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		args = append(args, name, fields[name])
	}
	return h.write("HSET", args...)
}

// SetSome writes fields, at least one, and does not change other fields. It returns the number of new fields.
func (h Hash) SetSome(ctx context.Context, db Executor, fields map[string]string) (int64, error) {
	return db.Do(ctx, h.SetSomeCmd(fields)).Int()
}

// SetNewCmd writes one field unless it exists; the reply is 1 if it wrote.
func (h Hash) SetNewCmd(field, value string) Cmd { return h.write("HSETNX", field, value) }

// SetNew writes one field unless it exists, and reports whether it wrote.
func (h Hash) SetNew(ctx context.Context, db Executor, field, value string) (bool, error) {
	return db.Do(ctx, h.SetNewCmd(field, value)).Bool()
}

// AddCmd adds n to the whole number in a field; the reply is the new number.
func (h Hash) AddCmd(field string, n int64) Cmd { return h.write("HINCRBY", field, intText(n)) }

// Add adds n, which may be negative, to the whole number in a field, and returns the new number. A missing field is 0.
func (h Hash) Add(ctx context.Context, db Executor, field string, n int64) (int64, error) {
	return db.Do(ctx, h.AddCmd(field, n)).Int()
}

// AddFloatCmd adds f to the number in a field; the reply is the new number.
func (h Hash) AddFloatCmd(field string, f float64) Cmd {
	return h.write("HINCRBYFLOAT", field, floatText(f))
}

// AddFloat adds f to the number in a field and returns the new number. A missing field is 0.
func (h Hash) AddFloat(ctx context.Context, db Executor, field string, f float64) (float64, error) {
	sum, _, err := db.Do(ctx, h.AddFloatCmd(field, f)).Float()
	return sum, err
}

// RemoveCmd removes fields; the reply is the number of removed fields.
func (h Hash) RemoveCmd(fields ...string) Cmd { return h.plainCmd("HDEL", fields...) }

// Remove removes fields and returns the number of removed fields.
func (h Hash) Remove(ctx context.Context, db Executor, fields ...string) (int64, error) {
	return db.Do(ctx, h.RemoveCmd(fields...)).Int()
}

// HasCmd checks whether a field exists: 1 or 0.
func (h Hash) HasCmd(field string) Cmd { return h.plainCmd("HEXISTS", field) }

// Has reports whether a field exists.
func (h Hash) Has(ctx context.Context, db Executor, field string) (bool, error) {
	return db.Do(ctx, h.HasCmd(field)).Bool()
}

// FieldsCmd gets the names of all fields, in no particular order.
func (h Hash) FieldsCmd() Cmd { return h.plainCmd("HKEYS") }

// Fields returns the names of all fields, in no particular order.
func (h Hash) Fields(ctx context.Context, db Executor) ([]string, error) {
	return db.Do(ctx, h.FieldsCmd()).Texts()
}

// LenCmd gets the number of fields.
func (h Hash) LenCmd() Cmd { return h.plainCmd("HLEN") }

// Len returns the number of fields.
func (h Hash) Len(ctx context.Context, db Executor) (int64, error) {
	return db.Do(ctx, h.LenCmd()).Int()
}
