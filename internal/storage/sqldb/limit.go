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
	pipelined bool          // a packet may have several statements
	waiting   waiting
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
	s.waiting.reset(nil)
	return s.driverConn.ResetSession(ctx)
}

// ExecContext implements [driver.ExecerContext].
func (s *session) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	later := s.pipelined && s.waiting.start != nil && len(args) == 0 && ctx.Value(laterKey{}) != nil
	if later {
		s.waiting.add(query)
		s.waiting.later = true
		if s.waiting.text.Len() < maxWaiting {
			return driver.ResultNoRows, nil
		}
		query = ""
	}
	if len(args) > 0 {
		if err := s.flush(ctx); err != nil {
			return nil, err
		}
	}
	return s.exec(ctx, query, args)
}

// QueryContext implements [driver.QueryerContext].
func (s *session) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if len(args) > 0 {
		if err := s.flush(ctx); err != nil {
			return nil, err
		}
	}
	var rows driver.Rows
	own, cancel, bounded := s.limited(ctx)
	err := s.waiting.send(query, func(packet string) (err error) {
		rows, err = s.driverConn.QueryContext(own, packet, args)
		return err
	})
	return s.boundRows(own, cancel, bounded, rows, err)
}

// PrepareContext implements [driver.ConnPrepareContext].
func (s *session) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	if err := s.flush(ctx); err != nil {
		return nil, err
	}
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
	if err := s.on.flush(ctx); err != nil {
		return nil, err
	}
	own, cancel, bounded := s.on.limited(ctx)
	defer cancel()
	res, err := s.driverStmt.ExecContext(own, args)
	s.on.waiting.ended(err)
	return res, unanswered(own, bounded, err)
}

// QueryContext implements [driver.StmtQueryContext].
func (s statement) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	if err := s.on.flush(ctx); err != nil {
		return nil, err
	}
	own, cancel, bounded := s.on.limited(ctx)
	rows, err := s.driverStmt.QueryContext(own, args)
	return s.on.boundRows(own, cancel, bounded, rows, err)
}

// driverRows lists the interfaces of driver rows that database/sql uses.
type driverRows interface {
	driver.RowsNextResultSet
	driver.RowsColumnTypeDatabaseTypeName
	driver.RowsColumnTypeNullable
	driver.RowsColumnTypePrecisionScale
	driver.RowsColumnTypeScanType
}

// rows are the rows of a statement. Close ends the statement.
type rows struct {
	driverRows
	on      *session
	ctx     context.Context //nolint:containedctx // of the statement
	cancel  context.CancelFunc
	bounded bool // see [session.limited]
}

// boundRows wraps the rows of a statement, so that Close releases the context of the statement.
func (s *session) boundRows(ctx context.Context, cancel context.CancelFunc, bounded bool, got driver.Rows, err error) (driver.Rows, error) {
	if err != nil {
		defer cancel()
		s.waiting.ended(err)
		return got, unanswered(ctx, bounded, err)
	}
	return rows{got.(driverRows), s, ctx, cancel, bounded}, nil
}

// Next implements [driver.Rows].
func (r rows) Next(dest []driver.Value) error {
	err := r.driverRows.Next(dest)
	r.on.waiting.ended(err)
	return unanswered(r.ctx, r.bounded, err)
}

// NextResultSet implements [driver.RowsNextResultSet].
func (r rows) NextResultSet() error {
	err := r.driverRows.NextResultSet()
	r.on.waiting.ended(err)
	return unanswered(r.ctx, r.bounded, err)
}

// Close implements [driver.Rows]. It reads the rest of the response.
func (r rows) Close() error {
	defer r.cancel()
	err := r.driverRows.Close()
	r.on.waiting.ended(err)
	return err
}
