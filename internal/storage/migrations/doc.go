// Package migrations is the schema: one globally numbered sequence of files
// NNNN_name.up.sql and NNNN_name.down.sql, embedded in the program and applied
// by sqldb's Migrate at start.
//
// # Numbers
//
// 0001–0009 base (outbox, idempotency keys, development mails),
// 0010–0019 and 0040–0059 accounts, 0020–0039 check-in, 0060–0069 social; from 0070 on
// whoever comes next. A file that was released is never edited: the next change is the
// next number.
//
// # What a file may say
//
// One statement without a semicolon, because DDL is not transactional on
// MySQL and MariaDB: a file took effect or it did not. After a kill it is run
// again, and sqldb ignores the error of a statement that took effect before. So a
// statement must not have an effect twice. The text serves SQLite,
// MariaDB and MySQL, so it is kept to CREATE and DROP TABLE, CREATE and DROP
// INDEX, ALTER TABLE … ADD and DROP COLUMN, the types BIGINT and INTEGER, NOT NULL,
// DEFAULT, PRIMARY KEY, UNIQUE (columns), CHECK, and these macros:
//
//	{{id}}            an identifier of 12 characters
//	{{text n}}        text of at most n characters
//	{{text}}          text up to 16 MiB, in no index
//	{{blob}}          bytes up to 16 MiB, in no index
//	{{serial}}        the whole definition of a numbered primary key
//	{{table}}         ends a CREATE TABLE that declares its own PRIMARY KEY
//	{{table serial}}  ends a CREATE TABLE with {{serial}}
//	{{on t}}          after DROP INDEX name, without a space between
//
// Ids and text compare byte by byte on every engine, whatever the server's
// default collation is: "aB" and "Ab" are two keys. Two differences stay:
// MySQL and MariaDB ignore trailing spaces in comparisons, and SQLite does not
// enforce n. So text is trimmed and measured before it comes here.
//
// Times are BIGINT, UTC milliseconds since 1970. Names that are reserved words
// somewhere (key, rank, rows, groups, window, year_month…) are avoided.
package migrations

import (
	"embed"
	"io/fs"
	"strconv"
)

// FS holds the files.
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
