package keyspace

import (
	"context"
	"errors"
	"strconv"
)

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

// GetCmd reads the number; the reply is nil if there is none.
func (h Counter) GetCmd() Cmd { return h.plainCmd("GET") }

// SetCmd writes the number.
func (h Counter) SetCmd(n int64) Cmd { return Bytes(h).setWith(intText(n)) }

// Set writes the number with the family's TTL.
func (h Counter) Set(ctx context.Context, db Executor, n int64) error {
	return db.Do(ctx, h.SetCmd(n)).Err
}

// AddCmd adds n, which may be negative; the reply is the new number.
func (h Counter) AddCmd(n int64) Cmd { return h.write("INCRBY", intText(n)) }

// Add adds n, which may be negative, and returns the new number.
func (h Counter) Add(ctx context.Context, db Executor, n int64) (int64, error) {
	return db.Do(ctx, h.AddCmd(n)).Int()
}

// TakeCmd reads the number and deletes the key; the reply is nil if there is none. It needs Redis 6.2.
func (h Counter) TakeCmd() Cmd { return h.plainCmd("GETDEL") }

// Take returns the number and deletes the key. A missing key is 0. It needs Redis 6.2.
func (h Counter) Take(ctx context.Context, db Executor) (int64, error) {
	return db.Do(ctx, h.TakeCmd()).Int()
}
