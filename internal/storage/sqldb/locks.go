package sqldb

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"sync"
	"time"
)

const (
	// maxLockWaits is the largest number of lock waits per batch. A wait that fails takes two seconds; a batch has five.
	maxLockWaits = 2

	// heldFor is how long batches skip a row whose lock a batch could not get, counted from the start of that batch. It
	// is shorter than the ten seconds after which the server ends an idle transaction of a vanished node.
	heldFor = 8 * time.Second
)

// ErrHeld reports that another transaction still held a row when the lock wait of a statement timed out. It is not
// retryable: [DB.Tx] would wait for the same row again.
var ErrHeld = errors.New("sqldb: another transaction holds a row")

// Locks locks the rows of a batch that serves many callers. A batch waits for rows that are locked briefly. If another
// transaction holds a row for seconds, as the transaction of a vanished node does, the batch is written without that
// row, and the next batches do not wait for it either.
type Locks[ID comparable, Row any] struct {
	wait func(ctx context.Context, tx *Tx, list []ID) (map[ID]Row, error)
	skip func(ctx context.Context, tx *Tx, list []ID) (free map[ID]Row, locked []ID, err error)

	mu   sync.Mutex
	held map[ID]time.Time // row to the end of the time in which batches skip it
}

// NewLocks returns locks that use two functions. wait locks the rows of a list one after the other, in the order of the
// list. skip locks the rows that no other transaction has locked, and also returns the locked ones, in the same order.
func NewLocks[ID comparable, Row any](wait func(ctx context.Context, tx *Tx, list []ID) (map[ID]Row, error),
	skip func(ctx context.Context, tx *Tx, list []ID) (free map[ID]Row, locked []ID, err error)) *Locks[ID, Row] {
	return &Locks[ID, Row]{wait: wait, skip: skip, held: map[ID]time.Time{}}
}

// Lock locks the rows of a list until tx ends. It returns the rows that it locked and the ids of rows that another
// transaction holds. It returns [ErrHeld] if a wait timed out: the caller must end the transaction and call Lock in a
// new one. waited is the number of times that this has happened to the batch.
func (l *Locks[ID, Row]) Lock(ctx context.Context, tx *Tx, list []ID, waited int) (locked map[ID]Row, held []ID, err error) {
	if waited >= maxLockWaits {
		return l.skip(ctx, tx, list)
	}
	knownHeld, others := l.split(list, tx.Now())
	locked = make(map[ID]Row, len(list))
	if len(others) > 0 {
		if locked, err = l.wait(ctx, tx, others); IsLocked(err) {
			return nil, nil, l.markHeld(ctx, tx, others)
		}
	}
	if err != nil || len(knownHeld) == 0 {
		return locked, nil, err
	}
	free, held, err := l.skip(ctx, tx, knownHeld)
	l.mu.Lock()
	for id := range free {
		delete(l.held, id)
	}
	l.mu.Unlock()
	maps.Copy(locked, free)
	return locked, held, err
}

// split divides a list into rows that another transaction recently held, and the others.
func (l *Locks[ID, Row]) split(list []ID, now time.Time) (held, others []ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.held, func(_ ID, until time.Time) bool { return !now.Before(until) })
	for _, id := range list {
		if _, ok := l.held[id]; ok {
			held = append(held, id)
		} else {
			others = append(others, id)
		}
	}
	return held, others
}

// markHeld records the row of a list whose lock wait just timed out, and returns [ErrHeld]. The engine undid only the
// statement: tx holds the locks of the rows before that row, which is the first one that tx cannot lock.
func (l *Locks[ID, Row]) markHeld(ctx context.Context, tx *Tx, list []ID) error {
	_, held, err := l.skip(ctx, tx, list)
	if len(held) > 0 {
		l.mu.Lock()
		l.held[held[0]] = tx.Now().Add(heldFor)
		l.mu.Unlock()
	}
	return cmp.Or(err, ErrHeld)
}
