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

// Codes of MySQL and MariaDB, by what a caller may do about them.
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
		1021, 1114, // the disk is full, or a table, which is how InnoDB says so
		1026, // a file cannot be written: the binary log, or what a sort puts aside, on a full disk
		1040, // too many connections
		mysqlDenied,
		1047,       // a node of a Galera cluster that has lost the others
		3100,       // a member of a replication group that has lost the others
		1053,       // shutdown in progress
		1665,       // the binary log is written by statement; see ErrStatementLog
		1203, 1226, // the user's connections are used up
		1927,             // connection was killed
		2006, 2013, 2014, // gone away, lost
	}
)

const (
	mysqlLockWait   = 1205
	mysqlDeadlock   = 1213 // Galera reports a conflict of two nodes so
	mysqlRolledBack = 3101 // group replication does
	mysqlDenied     = 1045
)

// isConflict reports that the server rolled a transaction back because of another one. A COMMIT that fails so has
// committed nothing.
func isConflict(err error) bool {
	e, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && (e.Number == mysqlDeadlock || e.Number == mysqlRolledBack)
}

// IsDenied reports wrong credentials. [IsUnavailable] reports them as well: a server may change its password while nodes run.
func IsDenied(err error) bool {
	e, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && e.Number == mysqlDenied
}

// IsLocked reports that another transaction held a row's lock for longer than the server lets a statement
// wait, which is two seconds. It is one of those that [IsRetryable] reports.
func IsLocked(err error) bool {
	e, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && e.Number == mysqlLockWait
}

// IsDuplicate reports a violated primary or unique key.
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

// IsRetryable reports that the engine undid a transaction that may succeed
// when it is run again: a deadlock, a lock time-out, a busy file.
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

// IsRowError reports that a value was refused: too long, out of range, null,
// a violated check, foreign or unique key. In a batch the other rows may be
// good.
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

// IsUnavailable reports that the database is away, shutting down, full, takes no writes or
// does not take this connection. A query that its caller's context ended is not
// that.
func IsUnavailable(err error) bool {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return slices.Contains(mysqlUnavailable, e.Number)
	}
	switch sqliteCode(err) & 0xff {
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN:
		return true
	}
	if errors.Is(err, driver.ErrBadConn) || errors.Is(err, mysql.ErrInvalidConn) || errors.Is(err, ErrNoWrites) || errors.Is(err, ErrStatementLog) {
		return true
	}
	if errors.Is(err, context.Canceled) {
		return false
	}
	// Not net.Error, for which context.DeadlineExceeded passes. A dial that took
	// too long, by any deadline, is one of these.
	_, ok := errors.AsType[*net.OpError](err)
	return ok
}

// IsUnanswered reports errors after which what was sent may be committed or not: a commit, or a statement by itself, that
// got no answer, or none in its time. Of several tries one is enough: that no server was there at the last one says nothing about
// those before.
func IsUnanswered(err error) bool {
	if tries, ok := err.(interface{ Unwrap() []error }); ok {
		return slices.ContainsFunc(tries.Unwrap(), IsUnanswered)
	}
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" || errors.Is(err, ErrNoWrites) || errors.Is(err, ErrStatementLog) {
		return false // no server was there to commit it
	}
	return errors.Is(err, ErrOutcomeUnknown) || errors.Is(err, context.DeadlineExceeded) || IsUnavailable(err)
}

// tooManyStatements reports that the server prepares no more. A statement that is prepared on one connection
// is prepared again on each other one that sends it.
func tooManyStatements(err error) bool {
	e, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && e.Number == 1461
}

// sqliteCode is the extended result code, or 0.
func sqliteCode(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code()
	}
	return 0
}
