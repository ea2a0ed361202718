package sqldb

import (
	"strconv"
	"strings"
	"sync"
)

// Dialect is the engine, for the few places where one SQL text does not serve
// all.
type Dialect uint8

// The engines. MariaDB is at least 10.6, MySQL at least 8.0; the tests run on
// MariaDB 10.11 and MySQL 9.7.
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

// Greatest is the name of the function for the largest of several values.
func (d Dialect) Greatest() string {
	if d == SQLite {
		return "MAX"
	}
	return "GREATEST"
}

// ForUpdate is " FOR UPDATE" where the engine locks rows; SQLite has one
// writer, so that what a Tx reads cannot change before it ends.
func (d Dialect) ForUpdate() string {
	if d == SQLite {
		return ""
	}
	return " FOR UPDATE"
}

// SkipLocked is [Dialect.ForUpdate] for those of the rows that no other transaction has locked. It waits for none.
func (d Dialect) SkipLocked() string {
	if d == SQLite {
		return ""
	}
	return " FOR UPDATE SKIP LOCKED"
}

// ByIndex stands behind a table of which a statement reads some rows by an index; that of the primary key is named PRIMARY.
// Where the rows are a good part of a table that is small, MySQL and MariaDB read all of it otherwise, and a statement that locks
// waits for others' rows. One that locks is to select a column that the index does not have: MySQL takes an index with all of them as a
// whole.
func (d Dialect) ByIndex(name string) string {
	if d == SQLite {
		return ""
	}
	return " FORCE INDEX (" + name + ")"
}

// Upsert is an INSERT of many rows that says what happens to a row whose key
// exists already. Names go into the text as they are.
type Upsert struct {
	Table   string
	Columns []string

	// Key holds the columns of the primary or unique key in question. MySQL and
	// MariaDB do not ask which key it was; have but one on such a table.
	Key []string

	// Set says what becomes of an existing row, an entry per column. "zone"
	// takes the new value; "days = days | {new.days}" is an expression in which
	// {new.c} is the new and a bare column the old value, {greatest} the
	// function's name. Empty leaves the row as it is, unlike IGNORE without
	// swallowing any other error; the affected rows are then those that are new.
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

// For returns the text for n rows, n ≥ 1, with a question mark per value in
// row order: for [Tx.SQL] and for bun alike. Texts are kept per n.
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
