package sqldb

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// A transaction on MySQL and MariaDB needs few round trips. Its start is sent together with its first statement, and
// the statements of [Tx.ExecLater] are sent together with the next statement or with COMMIT. The server executes the
// statements of a packet in their order and stops at the first error. (PostgreSQL calls this pipelining.) Statements
// wait only in a session whose Config.URL does not have multiStatements=false, because some proxies cannot forward
// such packets.

// maxWaiting is the largest number of bytes of waiting statements. It is far below the limit of a packet, 16 MiB by
// default in MariaDB.
const maxWaiting = 1 << 20

const startTransaction = "START TRANSACTION READ WRITE"

// txStart is a context value that [DB.Tx] passes to the start of a transaction.
type txStart struct {
	alone   bool // send the start alone, so that database/sql replaces broken connections
	reached bool // the server may have executed a statement of the transaction
}

// neverSent reports whether the transaction failed with err because its connection had ended before the start.
func (s *txStart) neverSent(err error) bool { return !s.reached && errors.Is(err, driver.ErrBadConn) }

type (
	txStartKey struct{}
	laterKey   struct{} // marks the statement of an ExecLater
)

// ExecLater executes a statement whose result does not matter. On MySQL and MariaDB it is sent with the next statement
// or with COMMIT. An error is returned there, and the transaction then cannot be committed.
func (tx *Tx) ExecLater(ctx context.Context, query string, args ...any) error {
	_, err := tx.bun.ExecContext(context.WithValue(ctx, laterKey{}, true), query, args...)
	return err
}

// Query is a query of [Tx.Queries].
type Query struct {
	Text string
	Args []any
	Scan func(rows *sql.Rows) error // gets each row
}

// Queries executes queries in their order. On MySQL and MariaDB they share a packet.
func (tx *Tx) Queries(ctx context.Context, queries ...Query) error {
	if !tx.db.packets {
		for _, q := range queries {
			rows, err := tx.QueryContext(ctx, q.Text, q.Args...)
			if err := Each(rows, err, q.Scan); err != nil {
				return err
			}
		}
		return nil
	}
	var texts []string
	var args []any
	for _, q := range queries {
		texts, args = append(texts, q.Text), append(args, q.Args...)
	}
	rows, err := tx.QueryContext(ctx, strings.Join(texts, "; "), args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for i, q := range queries {
		if i > 0 && !rows.NextResultSet() {
			return cmp.Or(rows.Err(), errors.New("sqldb: a query has no result"))
		}
		for rows.Next() {
			if err := q.Scan(rows); err != nil {
				return err
			}
		}
		if err := rows.Err(); err != nil {
			return err
		}
	}
	return nil
}

// waiting are the statements of a transaction that are not sent yet.
type waiting struct {
	text  strings.Builder
	start *txStart // of the running transaction; nil if there is none
	begun bool     // the start of the transaction was sent
	later bool     // text has a statement of an ExecLater
	lost  error    // an error that the transaction cannot survive
}

func (w *waiting) reset(start *txStart) { *w = waiting{start: start} }

func (w *waiting) add(statement string) {
	if w.text.Len() > 0 {
		w.text.WriteString("; ")
	}
	w.text.WriteString(statement)
}

// send calls fn with the waiting statements and the next one, which may be empty. If the start of the transaction or a
// statement of an ExecLater may have failed, or the server has ended the transaction, all later statements return that
// error.
func (w *waiting) send(statement string, fn func(packet string) error) error {
	if w.lost != nil {
		return w.lost
	}
	unsure := w.later
	if w.text.Len() > 0 {
		if statement != "" {
			w.add(statement)
		}
		statement = w.text.String()
		w.text.Reset()
	}
	w.later = false
	err := fn(statement)
	if w.start == nil {
		return err
	}
	if !w.begun {
		w.begun, unsure = true, unsure || !IsRowError(err) && !IsLocked(err) // those are never errors of the start
	}
	if err != nil && unsure {
		w.lost = err
	}
	w.ended(err)
	if !errors.Is(err, driver.ErrBadConn) {
		w.start.reached = true
	}
	return err
}

// ended remembers err if the server has ended the transaction with it, because a later statement would be committed alone.
func (w *waiting) ended(err error) {
	if w.start != nil && isConflict(err) {
		w.lost = err
	}
}

// flush sends the waiting statements alone, before a statement that cannot share a packet: one with arguments, or a
// prepared one.
func (s *session) flush(ctx context.Context) error {
	if s.waiting.text.Len() == 0 {
		return s.waiting.lost
	}
	_, err := s.exec(ctx, "", nil)
	return err
}

// exec sends a statement and those that wait.
func (s *session) exec(ctx context.Context, query string, args []driver.NamedValue) (res driver.Result, err error) {
	ctx, cancel, bounded := s.limited(ctx)
	defer cancel()
	err = s.waiting.send(query, func(packet string) (err error) {
		res, err = s.driverConn.ExecContext(ctx, packet, args)
		return unanswered(ctx, bounded, err)
	})
	return res, err
}

// BeginTx implements [driver.ConnBeginTx]. It asks for a writing transaction, so that a read-only server refuses it,
// and the driver closes the connection.
func (s *session) BeginTx(ctx context.Context, _ driver.TxOptions) (driver.Tx, error) {
	start, _ := ctx.Value(txStartKey{}).(*txStart)
	if start == nil { // not of [DB.Tx]
		start = &txStart{alone: true}
	}
	s.waiting.reset(start)
	s.waiting.add(startTransaction)
	if s.pipelined && !start.alone {
		return transaction{s, ctx}, nil
	}
	err := s.flush(ctx)
	if errors.Is(err, driver.ErrBadConn) {
		return nil, fmt.Errorf("the connection has ended, or the server takes no writes: %w", err)
	}
	if err != nil {
		return nil, err
	}
	return transaction{s, ctx}, nil
}

// transaction is a [driver.Tx]. Its methods take no context, so it stores the context of its start.
type transaction struct {
	session *session
	ctx     context.Context //nolint:containedctx // see above
}

// Commit implements [driver.Tx]. It returns the error of a waiting statement if there was one.
func (tx transaction) Commit() error {
	w := &tx.session.waiting
	later, lost := w.later, w.lost
	switch {
	case lost != nil:
		return errors.Join(lost, tx.Rollback())
	case !w.begun && !later: // nothing was executed
		w.reset(nil)
		return nil
	}
	err := tx.end("COMMIT")
	if refused, ok := errors.AsType[*mysql.MySQLError](err); ok { // a waiting statement may have failed, before COMMIT
		if later {
			err = &refusedLater{refused}
		}
		err = errors.Join(err, tx.rollback())
	}
	return err
}

// refusedLater is the error of a COMMIT that was sent together with other statements. One of these may have failed.
type refusedLater struct{ *mysql.MySQLError }

// Unwrap returns the response of the server.
func (e *refusedLater) Unwrap() error { return e.MySQLError }

// Rollback implements [driver.Tx].
func (tx transaction) Rollback() error {
	begun := tx.session.waiting.begun
	tx.session.waiting.reset(nil)
	if !begun {
		return nil
	}
	return tx.rollback()
}

// rollback returns driver.ErrBadConn if the transaction may be open afterwards.
func (tx transaction) rollback() error {
	err := tx.end("ROLLBACK")
	if err != nil {
		err = errors.Join(driver.ErrBadConn, err)
	}
	return err
}

// end returns driver.ErrBadConn if the server does not answer in time. The driver has then closed the connection.
func (tx transaction) end(statement string) error {
	limit := endLimit(tx.ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tx.ctx), limit)
	defer cancel()
	err := tx.session.waiting.send(statement, func(packet string) error {
		_, err := tx.session.driverConn.ExecContext(ctx, packet, nil)
		return err
	})
	tx.session.waiting.reset(nil)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%s was not answered in %s: %w", statement, limit, driver.ErrBadConn)
	}
	return err
}
