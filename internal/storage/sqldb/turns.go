package sqldb

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// maxChangesPerRow is the number of concurrent changes per row in this process: one holds the row, and the next one already waits
// for its lock, so that the row is never idle between two changes.
const maxChangesPerRow = 2

// connsPerReserved is the number of connections per reserved one. [DB.Tx] cannot use a reserved connection.
const connsPerReserved = 4

// turns limits transactions that would occupy all connections while they wait for locks. SQLite needs no limit, because
// its writer is one connection and its readers have their own.
type turns struct {
	conns  chan struct{} // holds one element per transaction of [DB.Tx]; nil on SQLite
	waits  atomic.Int64  // for a place in conns
	waited atomic.Int64  // total, in nanoseconds

	mu      sync.Mutex
	rows    map[any]*row
	waiting atomic.Int64 // changes that wait for a row
}

// row is a row with changes under way.
type row struct {
	busy  chan struct{} // holds one element per change under way
	users int           // changes under way or waiting
}

func newTurns(conns int) turns {
	return turns{conns: make(chan struct{}, conns-conns/connsPerReserved), rows: map[any]*row{}}
}

// turn is what the caller of a nested function already has. A nested call does not wait again, because the holder that
// it waits for might wait for the caller.
type turn int

const (
	inRowTurn turn = iota + 1
	inTx
)

type turnKey struct{}

func turnOf(ctx context.Context) turn {
	state, _ := ctx.Value(turnKey{}).(turn)
	return state
}

// InTurn runs fn, whose transaction starts with the lock of a row with many concurrent writers, such as a room that
// many users join at once. This process runs two changes of a row at a time. The others wait in order of arrival,
// without a connection. row is any value that identifies the row, such as its typed id. InTurn returns the error of fn,
// or the error of ctx if ctx ends first; then fn has not run. In a transaction, in the turn of another row, and on
// SQLite, fn runs at once.
func (db *DB) InTurn(ctx context.Context, row any, fn func(ctx context.Context) error) error {
	if db.turns.conns == nil || turnOf(ctx) != 0 {
		return fn(ctx)
	}
	leave, err := db.turns.enter(ctx, row)
	if err != nil {
		return err
	}
	defer leave()
	return fn(context.WithValue(ctx, turnKey{}, inRowTurn))
}

func (t *turns) enter(ctx context.Context, key any) (leave func(), err error) {
	t.mu.Lock()
	r := t.rows[key]
	if r == nil {
		r = &row{busy: make(chan struct{}, maxChangesPerRow)}
		t.rows[key] = r
	}
	r.users++
	t.mu.Unlock()
	part := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if r.users--; r.users == 0 {
			delete(t.rows, key)
		}
	}
	t.waiting.Add(1)
	defer t.waiting.Add(-1)
	select {
	case r.busy <- struct{}{}:
		return func() { <-r.busy; part() }, nil
	case <-ctx.Done():
		part()
		return nil, ctx.Err()
	}
}

// connect waits until a transaction may use one of the connections that are not reserved.
func (t *turns) connect(ctx context.Context) (leave func(), err error) {
	if t.conns == nil || turnOf(ctx) == inTx {
		return func() {}, nil
	}
	leave = func() { <-t.conns }
	select {
	case t.conns <- struct{}{}:
		return leave, nil
	default:
	}
	began := time.Now()
	t.waits.Add(1)
	defer func() { t.waited.Add(int64(time.Since(began))) }()
	select {
	case t.conns <- struct{}{}:
		return leave, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
