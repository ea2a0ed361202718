package sqldb

import (
	"context"
	"database/sql/driver"
	"errors"
	"net"
	"slices"

	"github.com/go-sql-driver/mysql"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Error codes of MySQL and MariaDB, grouped by what a caller may do.
var (
	mysqlDuplicate = []uint16{1062, 1586}
	mysqlRetryable = []uint16{
		mysqlLockWait,
		mysqlDeadlock,
		mysqlRolledBack,
		1020, // record has changed since last read (snapshot isolation)
	}
	mysqlRow = []uint16{
		1048,             // column cannot be null
		1264,             // out of range
		1265, 1366, 1292, // truncated, incorrect value
		1406,       // data too long
		1364,       // no default
		1216, 1217, // foreign key, old codes
		1451, 1452, // foreign key
		1690,       // arithmetic out of range
		3819, 4025, // check constraint, MySQL and MariaDB
		3140, // invalid JSON
	}
	mysqlUnavailable = []uint16{
		1021, 1114, // the disk or a table is full; InnoDB reports a full disk as a full table
		1026, // a file cannot be written, such as the binary log or a sort file on a full disk
		1040, // too many connections
		mysqlDenied,
		1047,       // a Galera node without quorum
		3100,       // a group replication member without quorum
		1053,       // shutdown in progress
		1665,       // the binary log has the statement format; see ErrStatementLog
		1203, 1226, // connection limit of the user reached
		1927,             // connection was killed
		2006, 2013, 2014, // connection lost
	}
)

const (
	mysqlLockWait   = 1205
	mysqlDeadlock   = 1213 // Galera also reports a conflict of two nodes with this code
	mysqlRolledBack = 3101 // the code for a conflict in group replication
	mysqlDenied     = 1045
)

// isConflict reports whether the server rolled back a transaction because of another one. Then COMMIT committed
// nothing.
func isConflict(err error) bool {
	e, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && (e.Number == mysqlDeadlock || e.Number == mysqlRolledBack)
}

// IsDenied reports whether the credentials are wrong. [IsUnavailable] is also true then, because the password may be
// changed while nodes run.
func IsDenied(err error) bool {
	e, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && e.Number == mysqlDenied
}

// IsLocked reports whether the lock wait of a statement timed out after two seconds. [IsRetryable] is also true then.
func IsLocked(err error) bool {
	e, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && e.Number == mysqlLockWait
}

// IsDuplicate reports whether a primary or unique key was violated.
func IsDuplicate(err error) bool {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return slices.Contains(mysqlDuplicate, e.Number)
	}
	switch sqliteCode(err) {
	case sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_ROWID:
		return true
	}
	return false
}

// IsRetryable reports whether the engine undid a transaction that may succeed when it runs again: after a deadlock, a
// lock timeout or a busy file.
func IsRetryable(err error) bool {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return slices.Contains(mysqlRetryable, e.Number)
	}
	switch sqliteCode(err) & 0xff {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return true
	}
	return false
}

// IsRowError reports whether the database refused a value: too long, out of range, null, or a violated check, foreign
// or unique key. The other rows of a batch may be valid.
func IsRowError(err error) bool {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		// SQLSTATE class 22 is "data exception".
		return slices.Contains(mysqlRow, e.Number) || slices.Contains(mysqlDuplicate, e.Number) ||
			e.SQLState[0] == '2' && e.SQLState[1] == '2'
	}
	switch code := sqliteCode(err); code & 0xff {
	case sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG:
		return true
	}
	return false
}

// IsUnavailable reports whether the database is unreachable, shutting down, full or read-only, or refuses connections.
// It is false for a query that ended with the context of its caller.
func IsUnavailable(err error) bool {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return slices.Contains(mysqlUnavailable, e.Number)
	}
	switch sqliteCode(err) & 0xff {
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN:
		return true
	}
	if errors.Is(err, driver.ErrBadConn) || errors.Is(err, mysql.ErrInvalidConn) || errors.Is(err, ErrNoWrites) ||
		errors.Is(err, ErrStatementLog) {
		return true
	}
	if errors.Is(err, context.Canceled) {
		return false
	}
	// This checks for net.OpError and not for net.Error, which context.DeadlineExceeded implements. A dial that timed
	// out is a net.OpError.
	_, ok := errors.AsType[*net.OpError](err)
	return ok
}

// IsUnanswered reports whether a commit or a single statement may or may not be committed, because no response arrived
// in time. For several joined tries one such error is enough: a refused connection at the last try proves nothing about
// the earlier tries.
func IsUnanswered(err error) bool {
	if tries, ok := err.(interface{ Unwrap() []error }); ok {
		return slices.ContainsFunc(tries.Unwrap(), IsUnanswered)
	}
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" || errors.Is(err, ErrNoWrites) ||
		errors.Is(err, ErrStatementLog) {
		return false // the statement never reached a server
	}
	return errors.Is(err, ErrOutcomeUnknown) || errors.Is(err, context.DeadlineExceeded) || IsUnavailable(err)
}

// tooManyStatements reports whether the server has reached its limit of prepared statements. database/sql prepares a
// statement once on each connection that uses it.
func tooManyStatements(err error) bool {
	e, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && e.Number == 1461
}

// sqliteCode returns the extended result code of SQLite, or 0.
func sqliteCode(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code()
	}
	return 0
}
