package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/uptrace/bun"

	"github.com/stoa-dev/stoa/internal/base/errs"
)

// ErrOutcomeUnknown reports a COMMIT that was sent and not answered: the work
// may be there or not. Nothing retries it; a request id in the rows tells.
var ErrOutcomeUnknown = errors.New("sqldb: outcome of the commit unknown")

// Undecided adds to an [ErrOutcomeUnknown] what package cache takes for one: a change
// that ended with context.DeadlineExceeded may still happen, so its fences stand.
// Other errors, and nil, it returns as they are.
func Undecided(err error) error {
	if errors.Is(err, ErrOutcomeUnknown) {
		return errors.Join(err, context.DeadlineExceeded)
	}
	return err
}

// A transaction that lost a deadlock is tried again at once, then after
// random waits that double up to a limit; ten tries last about a second.
const (
	maxTries  = 10
	firstWait = 2 * time.Millisecond
	maxWait   = 250 * time.Millisecond
)

// Tx is one transaction. It is for one goroutine and ends with the function
// that got it.
type Tx struct {
	bun      bun.Tx
	db       *DB
	now      time.Time
	after    []func()
	enqueued bool
}

// Tx runs fn in a transaction: READ COMMITTED on MySQL and MariaDB, alone on
// SQLite. fn's error rolls back and is returned as it is; so does a panic,
// which goes on. When the engine chose the transaction as a deadlock's victim
// or a lock timed out, fn runs again from the start, so that it must not
// touch anything but tx; what belongs after the commit goes into
// [Tx.AfterCommit]. So it does when the COMMIT lost against a transaction of another node of a Galera cluster, and once
// after a duplicate key, which such a node may have added since fn looked. A COMMIT without an answer is never retried, see
// [ErrOutcomeUnknown].
//
// Transactions that wait for locks leave a quarter of the connections to reads and to [DB.Batch].
func (db *DB) Tx(ctx context.Context, fn func(ctx context.Context, tx *Tx) error) error {
	return db.tx(ctx, func() (bool, error) {
		leave, err := db.turns.connect(ctx)
		if err != nil {
			return false, fmt.Errorf("sqldb: begin: %w", err)
		}
		defer leave()
		return db.tryTx(ctx, fn)
	})
}

// Batch is [DB.Tx] for a batch of what many callers write, of which few are under way at once: it takes a
// connection though as many other transactions as may are under way.
func (db *DB) Batch(ctx context.Context, fn func(ctx context.Context, tx *Tx) error) error {
	return db.tx(ctx, func() (bool, error) { return db.tryTx(ctx, fn) })
}

func (db *DB) tx(ctx context.Context, run func() (retry bool, err error)) error {
	wait := firstWait
	for try := 1; ; try++ {
		retry, err := run()
		retry = retry || try == 1 && db.dialect != SQLite && errs.KindOf(err) == errs.Internal && IsDuplicate(err)
		if err == nil || !retry || try == maxTries || ctx.Err() != nil {
			return err
		}
		db.log.LogAttrs(ctx, slog.LevelDebug, "transaction is retried", slog.Int("try", try), slog.Any("err", err))
		select {
		case <-ctx.Done():
			return err
		case <-time.After(rand.N(wait)):
		}
		wait = min(2*wait, maxWait)
	}
}

func (db *DB) tryTx(ctx context.Context, fn func(ctx context.Context, tx *Tx) error) (retry bool, err error) {
	btx, err := db.w.BeginTx(ctx, nil)
	if err != nil {
		return IsRetryable(err), fmt.Errorf("sqldb: begin: %w", err)
	}
	tx := &Tx{bun: btx, db: db, now: db.Now()}
	open := true
	defer func() {
		if open { // fn failed or panicked; its error matters, not the rollback's
			_ = btx.Tx.Rollback()
		}
	}()
	if err := fn(context.WithValue(ctx, turnKey{}, ofTx), tx); err != nil {
		return IsRetryable(err), err
	}
	open = false
	if err := btx.Tx.Commit(); err != nil {
		if IsUnavailable(err) {
			err = errors.Join(ErrOutcomeUnknown, err)
		}
		return isConflict(err), fmt.Errorf("sqldb: commit: %w", err)
	}
	for _, f := range tx.after {
		f()
	}
	return false, nil
}

// Now is the transaction's time: UTC, cut to the millisecond, the same at
// every call, taken after the transaction began.
func (tx *Tx) Now() time.Time { return tx.now }

// AfterCommit has f called by the goroutine that called [DB.Tx] when the
// commit has succeeded, and not otherwise; several are called in order.
func (tx *Tx) AfterCommit(f func()) { tx.after = append(tx.after, f) }

// Dialect says which engine this is.
func (tx *Tx) Dialect() Dialect { return tx.db.dialect }

// SQL is the raw transaction, for hot paths; question marks are the driver's
// there. It must be neither committed nor rolled back.
func (tx *Tx) SQL() *sql.Tx { return tx.bun.Tx }

// NewRaw implements [Querier]; its Exec(ctx) writes.
func (tx *Tx) NewRaw(query string, args ...any) *bun.RawQuery { return tx.bun.NewRaw(query, args...) }

// ExecContext implements [Querier]. RowsAffected counts the rows that changed
// on MySQL and MariaDB, the rows that matched on SQLite.
func (tx *Tx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return tx.bun.ExecContext(ctx, query, args...)
}

// QueryContext implements [Querier].
func (tx *Tx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return tx.bun.QueryContext(ctx, query, args...)
}

// QueryRowContext implements [Querier].
func (tx *Tx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return tx.bun.QueryRowContext(ctx, query, args...)
}
