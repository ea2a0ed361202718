package sqldb

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// perRow is how many changes of one row this process has under way: one has the row, and the next one has begun and waits
// for it, so that nothing lies idle when the first one ends.
const perRow = 2

// keptOf is of how many connections one is kept from the transactions of [DB.Tx].
const keptOf = 4

// turns are those of transactions that would wait with a connection in hand, until no other one were left. SQLite has none:
// its writer is one connection, and readers have their own.
type turns struct {
	conns  chan struct{} // has one element for each transaction of [DB.Tx]; nil on SQLite
	waits  atomic.Int64  // of these for room
	waited atomic.Int64  // ns

	mu      sync.Mutex
	rows    map[any]*row
	waiting atomic.Int64 // changes, for their rows
}

// row is one that is being changed.
type row struct {
	busy  chan struct{} // has one element for each change that is under way
	users int           // and those that wait
}

func newTurns(conns int) turns {
	return turns{conns: make(chan struct{}, conns-conns/keptOf), rows: map[any]*row{}}
}

// turn is what the caller of a nested function has already. It waits for nothing more then: what it waited for might wait
// for it.
type turn int

const (
	ofRow turn = iota + 1
	ofTx
)

type turnKey struct{}

func turnOf(ctx context.Context) turn {
	has, _ := ctx.Value(turnKey{}).(turn)
	return has
}

// InTurn runs fn, whose transaction begins with the lock of a row that many change at the same moment, such as that of a
// room into which everybody comes. Two of this process run at once for each row; the others wait in the order in which they
// came, and have no connection. row is any value that stands for the row, its typed id for instance. The error is fn's, or ctx's where that
// ends before it is fn's turn: fn has not run then. Within a transaction, or in another row's turn, fn runs at once, and so it
// does on SQLite.
func (db *DB) InTurn(ctx context.Context, row any, fn func(ctx context.Context) error) error {
	if db.turns.conns == nil || turnOf(ctx) != 0 {
		return fn(ctx)
	}
	leave, err := db.turns.enter(ctx, row)
	if err != nil {
		return err
	}
	defer leave()
	return fn(context.WithValue(ctx, turnKey{}, ofRow))
}

func (t *turns) enter(ctx context.Context, key any) (leave func(), err error) {
	t.mu.Lock()
	r := t.rows[key]
	if r == nil {
		r = &row{busy: make(chan struct{}, perRow)}
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

// connect waits until a transaction may take one of the connections that are for all of them.
func (t *turns) connect(ctx context.Context) (leave func(), err error) {
	if t.conns == nil || turnOf(ctx) == ofTx {
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
