package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-sql-driver/mysql"
)

const (
	// statementTime is the default of Config.StatementTime.
	statementTime = 30 * time.Second

	// endTime bounds a COMMIT or a ROLLBACK. It is longer than the ten seconds for which a server with semi-synchronous
	// replication waits for its replicas.
	endTime = 20 * time.Second

	// minEndTime is the minimum time of a COMMIT or a ROLLBACK, even if the request has no time left.
	minEndTime = 500 * time.Millisecond
)

// LimitKey is the context key of the limit, a [time.Duration].
type LimitKey struct{}

// WithLimit returns a context that bounds each statement, and each COMMIT, on MySQL and MariaDB. The limit survives
// [context.WithoutCancel]. Without a limit, the deadline of the context bounds a statement or, if there is none,
// Config.StatementTime. SQLite uses no network and ignores the limit.
func WithLimit(ctx context.Context, limit time.Duration) context.Context {
	return context.WithValue(ctx, LimitKey{}, limit)
}

// endLimit returns the time limit for the end of a transaction that began with ctx.
func endLimit(ctx context.Context) time.Duration {
	limit, set := ctx.Value(LimitKey{}).(time.Duration)
	if !set {
		return endTime // a batch or a job; its deadline bounds its statements
	}
	if end, ends := ctx.Deadline(); ends {
		limit = min(limit, time.Until(end))
	}
	return min(endTime, max(limit, minEndTime))
}

// unanswered returns the error of a statement that ran until its own limit. [IsUnavailable] is true for it, and
// database/sql does not retry the statement.
func unanswered(ctx context.Context, bounded bool, err error) error {
	if err != nil && !errors.Is(err, io.EOF) && bounded && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("the statement was not answered in time: %w", mysql.ErrInvalidConn)
	}
	return err
}

// driverConn lists the interfaces of a driver connection that database/sql uses.
type driverConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.NamedValueChecker
	driver.Pinger
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
}

// session is a connection that bounds each statement and each end of a transaction. The driver itself waits without
// limit.
type session struct {
	driverConn
	limit     time.Duration // see Config.StatementTime
	unlimited bool          // see withoutLimit
}

// withoutLimit removes the limits of a connection until its Close, because a migration may take an hour.
func withoutLimit(conn *sql.Conn) error {
	return conn.Raw(func(c any) error {
		if s, ok := c.(*session); ok {
			s.unlimited = true
		}
		return nil
	})
}

// limited returns the context of one statement. bounded reports whether it ends before ctx.
func (s *session) limited(ctx context.Context) (_ context.Context, cancel context.CancelFunc, bounded bool) {
	limit, set := ctx.Value(LimitKey{}).(time.Duration)
	switch end, ends := ctx.Deadline(); {
	case s.unlimited, ends && (!set || time.Until(end) <= limit):
		return ctx, func() {}, false
	case !set:
		limit = s.limit
	}
	ctx, cancel = context.WithTimeout(ctx, limit)
	return ctx, cancel, true
}

// ResetSession implements [driver.SessionResetter].
func (s *session) ResetSession(ctx context.Context) error {
	s.unlimited = false
	return s.driverConn.ResetSession(ctx)
}

// ExecContext implements [driver.ExecerContext].
func (s *session) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	own, cancel, bounded := s.limited(ctx)
	defer cancel()
	res, err := s.driverConn.ExecContext(own, query, args)
	return res, unanswered(own, bounded, err)
}

// QueryContext implements [driver.QueryerContext].
func (s *session) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	own, cancel, bounded := s.limited(ctx)
	rows, err := s.driverConn.QueryContext(own, query, args)
	return boundRows(own, cancel, bounded, rows, err)
}

// PrepareContext implements [driver.ConnPrepareContext].
func (s *session) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	own, cancel, bounded := s.limited(ctx)
	defer cancel()
	stmt, err := s.driverConn.PrepareContext(own, query)
	if err != nil {
		return nil, unanswered(own, bounded, err)
	}
	return statement{stmt.(driverStmt), s}, nil
}

// driverStmt lists the interfaces of a driver statement that database/sql uses.
type driverStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
	driver.NamedValueChecker
}

// statement is a prepared statement of a [session].
type statement struct {
	driverStmt
	on *session
}

// ExecContext implements [driver.StmtExecContext].
func (s statement) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	own, cancel, bounded := s.on.limited(ctx)
	defer cancel()
	res, err := s.driverStmt.ExecContext(own, args)
	return res, unanswered(own, bounded, err)
}

// QueryContext implements [driver.StmtQueryContext].
func (s statement) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	own, cancel, bounded := s.on.limited(ctx)
	rows, err := s.driverStmt.QueryContext(own, args)
	return boundRows(own, cancel, bounded, rows, err)
}

// driverRows lists the interfaces of driver rows that database/sql uses.
type driverRows interface {
	driver.RowsNextResultSet
	driver.RowsColumnTypeDatabaseTypeName
	driver.RowsColumnTypeNullable
	driver.RowsColumnTypePrecisionScale
	driver.RowsColumnTypeScanType
}

// rows are the rows of a bounded statement. Close ends the statement.
type rows struct {
	driverRows
	ctx    context.Context //nolint:containedctx // of the statement
	cancel context.CancelFunc
}

// boundRows wraps the rows of a statement, so that Close releases the context of the statement.
func boundRows(ctx context.Context, cancel context.CancelFunc, bounded bool, got driver.Rows, err error) (driver.Rows, error) {
	if err != nil || !bounded {
		defer cancel()
		return got, unanswered(ctx, bounded, err)
	}
	return rows{got.(driverRows), ctx, cancel}, nil
}

// Next implements [driver.Rows].
func (r rows) Next(dest []driver.Value) error {
	return unanswered(r.ctx, true, r.driverRows.Next(dest))
}

// Close implements [driver.Rows].
func (r rows) Close() error {
	defer r.cancel()
	return r.driverRows.Close()
}

// BeginTx implements [driver.ConnBeginTx]. It asks for a writing transaction, so that a read-only server refuses the
// first statement and database/sql uses another connection.
func (s *session) BeginTx(ctx context.Context, _ driver.TxOptions) (driver.Tx, error) {
	_, err := s.ExecContext(ctx, "START TRANSACTION READ WRITE", nil)
	if errors.Is(err, driver.ErrBadConn) {
		return nil, fmt.Errorf("the connection has ended, or the server takes no writes: %w", err)
	}
	if err != nil {
		return nil, err
	}
	return transaction{s.driverConn, ctx}, nil
}

// transaction is a [driver.Tx]. Its methods take no context, so it stores the context of its start.
type transaction struct {
	conn driver.ExecerContext
	ctx  context.Context //nolint:containedctx // see above
}

func (tx transaction) Commit() error   { return tx.end("COMMIT") }
func (tx transaction) Rollback() error { return tx.end("ROLLBACK") }

// end returns driver.ErrBadConn if the server does not answer in time. The driver has then closed the connection.
func (tx transaction) end(statement string) error {
	limit := endLimit(tx.ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tx.ctx), limit)
	defer cancel()
	_, err := tx.conn.ExecContext(ctx, statement, nil)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%s was not answered in %s: %w", statement, limit, driver.ErrBadConn)
	}
	return err
}
