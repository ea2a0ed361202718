package sqldb

import (
	"strconv"
	"strings"
	"sync"
)

// Dialect is the engine, for the few statements whose text differs between engines.
type Dialect uint8

// The engines. MariaDB must be 10.6 or later, MySQL 8.0 or later. The tests run on MariaDB 10.11 and MySQL 9.7.
const (
	SQLite Dialect = iota + 1
	MariaDB
	MySQL
)

// String returns "sqlite", "mariadb" or "mysql".
func (d Dialect) String() string {
	switch d {
	case SQLite:
		return "sqlite"
	case MariaDB:
		return "mariadb"
	case MySQL:
		return "mysql"
	}
	return "unknown engine"
}

// Greatest returns the name of the function that returns the largest of several values.
func (d Dialect) Greatest() string {
	if d == SQLite {
		return "MAX"
	}
	return "GREATEST"
}

// ForUpdate returns " FOR UPDATE" for engines with row locks. On SQLite it returns "": there is one writer, so that no
// other transaction changes a row before the Tx that read it ends.
func (d Dialect) ForUpdate() string {
	if d == SQLite {
		return ""
	}
	return " FOR UPDATE"
}

// SkipLocked is [Dialect.ForUpdate] that skips rows that other transactions have locked. It never waits.
func (d Dialect) SkipLocked() string {
	if d == SQLite {
		return ""
	}
	return " FOR UPDATE SKIP LOCKED"
}

// ByIndex returns an index hint to write after the name of a table. The index of the primary key is named PRIMARY.
// Without the hint MySQL and MariaDB scan a small table if the statement reads much of it, and a locking statement then
// waits for locks on other rows. A locking statement should also select a column that is not in the index, because
// MySQL scans the whole of an index that covers the statement.
func (d Dialect) ByIndex(name string) string {
	if d == SQLite {
		return ""
	}
	return " FORCE INDEX (" + name + ")"
}

// JoinInOrder returns the keyword of an inner join whose left table the engine reads first.
func (d Dialect) JoinInOrder() string {
	if d == SQLite {
		return " CROSS JOIN "
	}
	return " STRAIGHT_JOIN "
}

// Returns reports whether the engine has INSERT … RETURNING. With an [Upsert] it returns the rows as they are afterwards,
// also those that existed.
func (d Dialect) Returns() bool { return d != MySQL }

// Upsert is an INSERT of many rows that defines what happens to rows whose key exists. Names are copied into the text
// unquoted.
type Upsert struct {
	Table   string
	Columns []string

	// Key holds the columns of the primary or unique key. MySQL and MariaDB check all keys, so such a table must have
	// only one.
	Key []string

	// Set lists the changes of an existing row, one entry per column. "zone" assigns the new value. "days = days |
	// {new.days}" assigns an expression: {new.c} is the new value, a bare column is the old value, and {greatest} is
	// the name of the function. If Set is empty, existing rows do not change, and the affected rows are the new rows.
	// Unlike INSERT IGNORE it does not ignore other errors.
	Set []string
}

// Compile prepares the text of u for d.
func (d Dialect) Compile(u Upsert) *Statement {
	var b strings.Builder
	b.WriteString("INSERT INTO " + u.Table + " (" + strings.Join(u.Columns, ", ") + ") VALUES ")
	s := &Statement{head: b.String(), row: "(" + strings.Repeat("?, ", len(u.Columns)-1) + "?)"}
	b.Reset()

	before, after := "VALUES(", ")"
	if d == SQLite {
		before, after = "excluded.", ""
	}
	sets := make([]string, 0, len(u.Set)+1)
	for _, set := range u.Set {
		if !strings.Contains(set, "=") {
			set += " = {new." + set + "}"
		}
		set = strings.ReplaceAll(set, "{greatest}", d.Greatest())
		for {
			left, rest, found := strings.Cut(set, "{new.")
			if !found {
				break
			}
			col, right, _ := strings.Cut(rest, "}")
			set = left + before + col + after + right
		}
		sets = append(sets, set)
	}
	switch {
	case d == SQLite && len(sets) == 0:
		b.WriteString(" ON CONFLICT (" + strings.Join(u.Key, ", ") + ") DO NOTHING")
	case d == SQLite:
		b.WriteString(" ON CONFLICT (" + strings.Join(u.Key, ", ") + ") DO UPDATE SET " + strings.Join(sets, ", "))
	case len(sets) == 0:
		b.WriteString(" ON DUPLICATE KEY UPDATE " + u.Key[0] + " = " + u.Table + "." + u.Key[0])
	default:
		b.WriteString(" ON DUPLICATE KEY UPDATE " + strings.Join(sets, ", "))
	}
	s.tail = b.String()
	return s
}

// Statement is a compiled Upsert. It is safe for concurrent use.
type Statement struct {
	head, row, tail string
	byRows          sync.Map // int → string
}

// For returns the text for n ≥ 1 rows, with one question mark per value in row order. It works with [Tx.SQL] and with
// bun. The texts are cached per n.
func (s *Statement) For(n int) string {
	if text, ok := s.byRows.Load(n); ok {
		return text.(string)
	}
	if n < 1 {
		panic("sqldb: a statement for " + strconv.Itoa(n) + " rows")
	}
	text := s.head + strings.Repeat(s.row+", ", n-1) + s.row + s.tail
	s.byRows.Store(n, text)
	return text
}
