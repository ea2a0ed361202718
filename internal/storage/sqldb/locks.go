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
	// mostWaits is how often one batch waits for locks. Each wait takes two seconds where it is in vain, and a batch has five.
	mostWaits = 2

	// heldFor is how long no batch waits for a row, from the beginning of one that has waited for it in vain. It is less
	// than the ten seconds after which a server ends what a vanished node has left.
	heldFor = 8 * time.Second
)

// ErrHeld reports that another transaction has held a row for as long as a statement waits. It is no error of the engine,
// after which [DB.Tx] would run the transaction again, to wait for the same row.
var ErrHeld = errors.New("sqldb: another transaction holds a row")

// Locks locks the rows of batches, which many callers share. Where other transactions are busy with a row, a batch waits
// for its turn. A row that one holds for seconds, as that of a node that has vanished does, is left out: the batch is
// written without it, and those that follow do not wait for it again.
type Locks[ID comparable, Row any] struct {
	wait func(ctx context.Context, tx *Tx, list []ID) (map[ID]Row, error)
	skip func(ctx context.Context, tx *Tx, list []ID) (free map[ID]Row, locked []ID, err error)

	mu   sync.Mutex
	held map[ID]time.Time // until when no batch waits for a row
}

// NewLocks returns locks by two functions: wait locks the rows of a list one after the other, in the order of the list, and skip
// those that no other transaction has locked; it returns the others that there are as well, in this order.
func NewLocks[ID comparable, Row any](wait func(ctx context.Context, tx *Tx, list []ID) (map[ID]Row, error),
	skip func(ctx context.Context, tx *Tx, list []ID) (free map[ID]Row, locked []ID, err error)) *Locks[ID, Row] {
	return &Locks[ID, Row]{wait: wait, skip: skip, held: map[ID]time.Time{}}
}

// Lock locks the rows of a list until tx ends. It returns those that it has locked and those that another transaction
// holds. On [ErrHeld] it has waited in vain: the transaction is to end and another one to call it again; waited is how
// often that has happened to the batch.
func (l *Locks[ID, Row]) Lock(ctx context.Context, tx *Tx, list []ID, waited int) (locked map[ID]Row, held []ID, err error) {
	if waited >= mostWaits {
		return l.skip(ctx, tx, list)
	}
	apart, others := l.split(list, tx.Now())
	locked = make(map[ID]Row, len(list))
	if len(others) > 0 {
		if locked, err = l.wait(ctx, tx, others); IsLocked(err) {
			return nil, nil, l.blame(ctx, tx, others)
		}
	}
	if err != nil || len(apart) == 0 {
		return locked, nil, err
	}
	free, held, err := l.skip(ctx, tx, apart)
	l.mu.Lock()
	for id := range free {
		delete(l.held, id)
	}
	l.mu.Unlock()
	maps.Copy(locked, free)
	return locked, held, err
}

// split returns the rows of a list that another transaction was seen to hold of late, and the others.
func (l *Locks[ID, Row]) split(list []ID, now time.Time) (held, others []ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.held, func(_ ID, until time.Time) bool { return !now.Before(until) })
	for _, id := range list {
		if _, is := l.held[id]; is {
			held = append(held, id)
		} else {
			others = append(others, id)
		}
	}
	return held, others
}

// blame remembers the row of a list for which tx has just waited in vain, and returns [ErrHeld]. The engine undoes the
// statement alone: tx has the locks of the rows before that one, which is the first that it cannot have.
func (l *Locks[ID, Row]) blame(ctx context.Context, tx *Tx, list []ID) error {
	_, held, err := l.skip(ctx, tx, list)
	if len(held) > 0 {
		l.mu.Lock()
		l.held[held[0]] = tx.Now().Add(heldFor)
		l.mu.Unlock()
	}
	return cmp.Or(err, ErrHeld)
}
