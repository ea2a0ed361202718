// Package migrations holds the schema: one numbered sequence of files NNNN_name.up.sql and NNNN_name.down.sql, embedded
// in the program and applied at start by Migrate of package sqldb.
//
// # Numbers
//
// 0001–0009 base (outbox, idempotency keys, development mails), 0010–0019 and 0040–0059 accounts, 0020–0039 check-in,
// 0060–0069 social; from 0070 the numbers follow the order of development. A released file never changes: a later
// change is a file with the next number.
//
// # What a file may say
//
// A file has one statement without a semicolon. MySQL and MariaDB cannot roll back DDL, so a file must take full effect
// or none. After a kill sqldb runs the file again, and ignores the error of a statement that already took effect. So a
// statement must not take effect twice. The text must run on SQLite, MariaDB and MySQL. It uses only CREATE and DROP
// TABLE, CREATE and DROP INDEX, ALTER TABLE … ADD and DROP COLUMN, the types BIGINT and INTEGER, NOT NULL, DEFAULT,
// PRIMARY KEY, UNIQUE (columns), CHECK, and these macros:
//
//	{{id}}            an id of 12 characters
//	{{text n}}        text of at most n characters
//	{{text}}          text up to 16 MiB, in no index
//	{{blob}}          bytes up to 16 MiB, in no index
//	{{serial}}        the whole definition of a numbered primary key
//	{{table}}         ends a CREATE TABLE that declares its own PRIMARY KEY
//	{{table serial}}  ends a CREATE TABLE with {{serial}}
//	{{on t}}          after DROP INDEX name, without a space between
//
// All engines compare ids and text byte by byte, whatever the default collation of the server is: "aB" and "Ab" are two
// keys. Two differences remain. MySQL and MariaDB ignore trailing spaces when they compare, and SQLite does not enforce
// n. So the code trims text and checks its length before it stores it.
//
// Times are BIGINT, UTC milliseconds since 1970. Names avoid the reserved words of all engines (key, rank, rows,
// groups, window, year_month…).
package migrations

import (
	"embed"
	"io/fs"
	"strconv"
)

// FS contains the files.
//
//go:embed *.sql
var FS embed.FS

// Newest returns the number of the newest migration.
func Newest() (n int) {
	files, _ := fs.Glob(FS, "*.up.sql") // the pattern is sound
	for _, f := range files {
		if i, err := strconv.Atoi(f[:4]); err == nil {
			n = max(n, i)
		}
	}
	return n
}
