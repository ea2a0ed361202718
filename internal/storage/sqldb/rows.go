package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"
)

// Each calls scan for every row of a query, whose results it takes as they
// come, and closes the rows:
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

// Collect is [Each] for rows that become values; after an error it returns none.
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

// Column is [Collect] for a query of one column.
func Column[T any](rows *sql.Rows, err error) ([]T, error) {
	return Collect(rows, err, func(rows *sql.Rows) (v T, err error) {
		err = rows.Scan(&v)
		return v, err
	})
}

// Affected returns how many rows a statement affected, whose results it takes as
// they come.
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

// deleteAtOnce keeps a DELETE's conditions within what SQLite takes.
const deleteAtOnce = 256

// DeleteSome deletes up to n rows of a table by a condition, and returns how many. key has the columns of the primary key.
// It reads the keys first: a DELETE by a subquery with a LIMIT goes through the whole table on MariaDB before 11.1 and
// MySQL before 8.0.21. A row that meets the condition no longer when its turn comes stays.
func DeleteSome(ctx context.Context, db *DB, table string, key []string, n int, condition string, args ...any) (deleted int64, err error) {
	rows, err := db.QueryContext(ctx, "SELECT "+strings.Join(key, ", ")+" FROM "+table+" WHERE "+condition+" LIMIT ?", append(slices.Clone(args), n)...)
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
	for some := range slices.Chunk(keys, deleteAtOnce) {
		gone, err := Affected(db.ExecContext(ctx, "DELETE FROM "+table+" WHERE "+AnyOf(one, len(some))+" AND "+condition, append(slices.Concat(some...), args...)...))
		if err != nil {
			return deleted, err
		}
		deleted += gone
	}
	return deleted, nil
}

// Tuples returns the placeholders of n rows of that width: "(?, ?), (?, ?)".
func Tuples(width, n int) string {
	return repeat("("+repeat("?", width, ", ")+")", n, ", ")
}

// AnyOf returns condition n times in parentheses, joined by OR: the form of "one
// of these keys of several columns" that every engine reads by its index.
func AnyOf(condition string, n int) string {
	return "(" + repeat(condition, n, " OR ") + ")"
}

func repeat(s string, n int, separator string) string {
	return strings.TrimSuffix(strings.Repeat(s+separator, n), separator)
}

// Time is a column's Unix milliseconds as a time, UTC.
func Time(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// TimeOrZero is [Time] where 0 is the zero time.
func TimeOrZero(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return Time(ms)
}

// MillisOrZero returns what [TimeOrZero] reads: 0 for the zero time.
func MillisOrZero(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// Bit returns 1 for true and 0 for false, as columns have them.
func Bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Missing returns instead for an error that says that there is no such row, and
// other errors, and nil, as they are.
func Missing(err, instead error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return instead
	}
	return err
}

// AsKind adds away to an error of the engine that says that the database is away
// or too busy, so that callers see away's kind, also in place of another domain's. It returns other errors, and nil,
// as they are.
func AsKind(err, away error) error {
	if err != nil && (IsUnavailable(err) || IsRetryable(err)) {
		return errors.Join(away, err)
	}
	return err
}

// AsKindWithin is [AsKind] for work whose time ends by itself, as it does in a cache and in a batch: where it ran out of time,
// though ctx, the caller's, did not, SQL hangs.
func AsKindWithin(ctx context.Context, err, away error) error {
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return errors.Join(away, err)
	}
	return AsKind(err, away)
}
