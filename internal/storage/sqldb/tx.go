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

// ErrOutcomeUnknown reports a COMMIT without a response: the changes may or may not be committed. It is never retried.
// A request id in the rows shows what happened.
var ErrOutcomeUnknown = errors.New("sqldb: outcome of the commit unknown")

// Undecided adds context.DeadlineExceeded to an [ErrOutcomeUnknown]: package cache keeps its fences for a change that
// ended with it, because the change may still be committed. It returns other errors, and nil, unchanged.
func Undecided(err error) error {
	if errors.Is(err, ErrOutcomeUnknown) {
		return errors.Join(err, context.DeadlineExceeded)
	}
	return err
}

// A transaction that lost a deadlock is retried after random waits, whose bound doubles up to maxWait. Ten tries take
// about a second.
const (
	maxTries  = 10
	firstWait = 2 * time.Millisecond
	maxWait   = 250 * time.Millisecond
)

// Tx is one transaction. Only one goroutine may use it, and it ends when the function that received it returns.
type Tx struct {
	bun      bun.Tx
	db       *DB
	now      time.Time
	after    []func()
	enqueued bool
}

// Tx runs fn in a transaction: READ COMMITTED on MySQL and MariaDB, exclusive on SQLite. An error of fn rolls back and
// is returned unchanged; a panic rolls back and continues.
//
// fn runs again from the start after a deadlock or a lock timeout, and after a COMMIT that lost against another node of
// a Galera cluster. It runs again if its connection had ended before the first statement. It also runs again once after
// a duplicate key, because another node may have added the row after fn read. So fn must have no effect outside tx; use
// [Tx.AfterCommit] for those. A COMMIT without a response is never retried, see [ErrOutcomeUnknown].
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

// Batch is [DB.Tx] for a batch of the writes of many callers. It may use the reserved connections, because few batches
// run at the same time.
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
		db.log.LogAttrs(ctx, slog.LevelDebug, "sql: transaction retried", slog.Int("try", try), slog.Any("err", err))
		select {
		case <-ctx.Done():
			return err
		case <-time.After(rand.N(wait)):
		}
		wait = min(2*wait, maxWait)
	}
}

// tryTx runs fn in a transaction, and once more if the connection had ended before, so that nothing was executed.
func (db *DB) tryTx(ctx context.Context, fn func(ctx context.Context, tx *Tx) error) (retry bool, err error) {
	start := &txStart{}
	if retry, err = db.txOnce(ctx, start, fn); start.neverSent(err) {
		return db.txOnce(ctx, &txStart{alone: true}, fn)
	}
	return retry, err
}

func (db *DB) txOnce(ctx context.Context, start *txStart, fn func(ctx context.Context, tx *Tx) error) (retry bool, err error) {
	btx, err := db.w.BeginTx(context.WithValue(ctx, txStartKey{}, start), nil)
	if err != nil {
		return IsRetryable(err), fmt.Errorf("sqldb: begin: %w", err)
	}
	tx := &Tx{bun: btx, db: db, now: db.Now()}
	open := true
	defer func() {
		if open { // fn failed or panicked; its error is reported, not the error of the rollback
			_ = btx.Tx.Rollback()
		}
	}()
	if err := fn(context.WithValue(ctx, turnKey{}, inTx), tx); err != nil {
		return IsRetryable(err), err
	}
	open = false
	if err := btx.Tx.Commit(); err != nil {
		_, later := errors.AsType[*refusedLater](err)
		retry := isConflict(err) || later && IsRetryable(err)
		if IsUnavailable(err) && !start.neverSent(err) {
			err = errors.Join(ErrOutcomeUnknown, err)
		}
		return retry, fmt.Errorf("sqldb: commit: %w", err)
	}
	for _, f := range tx.after {
		f()
	}
	return false, nil
}

// Now returns the time of the transaction in UTC, truncated to milliseconds. It is taken before the first
// statement, and never changes.
func (tx *Tx) Now() time.Time { return tx.now }

// AfterCommit registers f to run after a successful commit, in the goroutine that called [DB.Tx]. Several functions run
// in the order of registration.
func (tx *Tx) AfterCommit(f func()) { tx.after = append(tx.after, f) }

// Dialect returns the engine.
func (tx *Tx) Dialect() Dialect { return tx.db.dialect }

// SQL returns the raw transaction for hot paths, with the placeholders of the driver. The caller must neither commit
// nor roll it back.
func (tx *Tx) SQL() *sql.Tx { return tx.bun.Tx }

// NewRaw implements [Querier]. Its Exec(ctx) writes.
func (tx *Tx) NewRaw(query string, args ...any) *bun.RawQuery { return tx.bun.NewRaw(query, args...) }

// ExecContext implements [Querier]. RowsAffected counts the changed rows on MySQL and MariaDB, and the matched rows on
// SQLite.
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
