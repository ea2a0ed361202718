package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"
)

// Each calls scan for each row of a query and closes the rows. It takes both results of the query:
//
//	rows, err := q.QueryContext(ctx, "SELECT …")
//	err = sqldb.Each(rows, err, func(rows *sql.Rows) error { … rows.Scan(…) })
func Each(rows *sql.Rows, err error, scan func(rows *sql.Rows) error) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Collect is [Each] for rows that become values. It returns no values after an error.
func Collect[T any](rows *sql.Rows, err error, scan func(rows *sql.Rows) (T, error)) ([]T, error) {
	var all []T
	err = Each(rows, err, func(rows *sql.Rows) error {
		v, err := scan(rows)
		all = append(all, v)
		return err
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// Column is [Collect] for a query with one column.
func Column[T any](rows *sql.Rows, err error) ([]T, error) {
	return Collect(rows, err, func(rows *sql.Rows) (v T, err error) {
		err = rows.Scan(&v)
		return v, err
	})
}

// Affected returns the number of rows that a statement affected. It takes both results of the statement.
func Affected(r sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// AffectedOne reports whether a statement affected exactly one row.
func AffectedOne(r sql.Result, err error) (bool, error) {
	n, err := Affected(r, err)
	return n == 1, err
}

// deleteChunk is the number of rows per DELETE, because SQLite limits the depth of its condition.
const deleteChunk = 256

// DeleteSome deletes up to n rows of a table that meet a condition, and returns their number. key lists the columns of
// the primary key. DeleteSome reads the keys first, because a DELETE by a subquery with a LIMIT scans the whole table
// on MariaDB before 11.1 and on MySQL before 8.0.21. It does not delete rows that no longer meet the condition at the
// DELETE.
func DeleteSome(ctx context.Context, db *DB, table string, key []string, n int, condition string, args ...any) (deleted int64, err error) {
	rows, err := db.QueryContext(ctx, "SELECT "+strings.Join(key, ", ")+" FROM "+table+" WHERE "+condition+" LIMIT ?",
		append(slices.Clone(args), n)...)
	keys, err := Collect(rows, err, func(rows *sql.Rows) ([]any, error) {
		values, to := make([]string, len(key)), make([]any, len(key))
		for i := range values {
			to[i] = &values[i]
		}
		err := rows.Scan(to...)
		for i, v := range values {
			to[i] = v
		}
		return to, err
	})
	if err != nil {
		return 0, err
	}
	one := "(" + strings.Join(key, " = ? AND ") + " = ?)"
	for chunk := range slices.Chunk(keys, deleteChunk) {
		n, err := Affected(db.ExecContext(ctx, "DELETE FROM "+table+" WHERE "+AnyOf(one, len(chunk))+" AND "+condition,
			append(slices.Concat(chunk...), args...)...))
		if err != nil {
			return deleted, err
		}
		deleted += n
	}
	return deleted, nil
}

// Tuples returns the placeholders of n rows with width columns: "(?, ?), (?, ?)".
func Tuples(width, n int) string {
	return repeat("("+repeat("?", width, ", ")+")", n, ", ")
}

// AnyOf returns condition n times, joined by OR, in parentheses. All engines use an index for lists of multi-column
// keys in this form.
func AnyOf(condition string, n int) string {
	return "(" + repeat(condition, n, " OR ") + ")"
}

func repeat(s string, n int, separator string) string {
	return strings.TrimSuffix(strings.Repeat(s+separator, n), separator)
}

// Time converts Unix milliseconds from a column to a UTC time.
func Time(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// TimeOrZero is [Time], except that 0 is the zero time.
func TimeOrZero(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return Time(ms)
}

// MillisOrZero is the inverse of [TimeOrZero]: it returns 0 for the zero time.
func MillisOrZero(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// Bit returns 1 for true and 0 for false, the values of boolean columns.
func Bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Missing returns instead if err is [sql.ErrNoRows], and err unchanged otherwise.
func Missing(err, instead error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return instead
	}
	return err
}

// AsKind adds away to an error that means that the database is unavailable or too busy, so that callers get the kind of
// away. It returns other errors, and nil, unchanged.
func AsKind(err, away error) error {
	if err != nil && (IsUnavailable(err) || IsRetryable(err)) {
		return errors.Join(away, err)
	}
	return err
}

// AsKindWithin is [AsKind] for work with its own deadline, such as a cache load or a batch. It also adds away if that
// deadline passed but ctx, the context of the caller, has not ended: then SQL hangs.
func AsKindWithin(ctx context.Context, err, away error) error {
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return errors.Join(away, err)
	}
	return AsKind(err, away)
}
