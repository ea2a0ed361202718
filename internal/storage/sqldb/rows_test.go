package sqldb_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
)

func TestRowsOfAQuery(t *testing.T) {
	onEngines(t, func(t *testing.T, db *sqldb.DB) {
		exec(t, db, "INSERT INTO things (id, name, n) VALUES "+sqldb.Tuples(3, 3), "1", "a", 1, "2", "b", 2, "3", "c", 3)
		names, err := sqldb.Column[string](db.QueryContext(t.Context(), "SELECT name FROM things ORDER BY id"))
		if err != nil || !slices.Equal(names, []string{"a", "b", "c"}) {
			t.Errorf("got %v, %v", names, err)
		}
		names, err = sqldb.Column[string](db.QueryContext(t.Context(), "SELECT name FROM things WHERE "+sqldb.AnyOf("id = ? AND n = ?", 2)+
			" ORDER BY id", "1", 1, "2", 3))
		if err != nil || !slices.Equal(names, []string{"a"}) {
			t.Errorf("any of two keys: got %v, %v", names, err)
		}
		refused := errors.New("refused")
		looked := 0
		rows, err := db.QueryContext(t.Context(), "SELECT name FROM things")
		names, err = sqldb.Collect(rows, err, func(*sql.Rows) (string, error) {
			looked++
			return "half", refused
		})
		if !errors.Is(err, refused) || names != nil || looked != 1 {
			t.Errorf("a row that is refused: got %v, %v after %d rows", names, err, looked)
		}
		if _, err := sqldb.Column[string](db.QueryContext(t.Context(), "SELECT name FROM nothing")); err == nil {
			t.Error("a query that failed has rows")
		}
		if one, err := sqldb.AffectedOne(db.ExecContext(t.Context(), "DELETE FROM things WHERE n > 1")); one || err != nil {
			t.Errorf("two rows deleted are one: %v, %v", one, err)
		}
		if one, err := sqldb.AffectedOne(db.ExecContext(t.Context(), "DELETE FROM things")); !one || err != nil {
			t.Errorf("one row deleted is not one: %v, %v", one, err)
		}
	})
}

func TestTuples(t *testing.T) {
	for _, c := range []struct {
		width, n int
		want     string
	}{{1, 1, "(?)"}, {2, 1, "(?, ?)"}, {3, 2, "(?, ?, ?), (?, ?, ?)"}} {
		if got := sqldb.Tuples(c.width, c.n); got != c.want {
			t.Errorf("Tuples(%d, %d) = %s, want %s", c.width, c.n, got, c.want)
		}
	}
}

func TestMissing(t *testing.T) {
	other := errors.New("other")
	if err := sqldb.Missing(fmt.Errorf("wrapped: %w", sql.ErrNoRows), other); err != other {
		t.Errorf("no such row: got %v", err)
	}
	if err := sqldb.Missing(other, nil); err != other {
		t.Errorf("another error: got %v", err)
	}
	if err := sqldb.Missing(nil, other); err != nil {
		t.Errorf("no error: got %v", err)
	}
}

func TestAsKind(t *testing.T) {
	away := errs.New(errs.Unavailable, "test.away", "away")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for what, c := range map[string]struct {
		ctx          context.Context
		err          error
		away, within bool
	}{
		"SQL is unavailable":                {t.Context(), driver.ErrBadConn, true, true},
		"too many deadlocks":                {t.Context(), &mysql.MySQLError{Number: 1213}, true, true},
		"SQL hangs and the caller has time": {t.Context(), context.DeadlineExceeded, false, true},
		"the caller has disconnected":       {over, context.DeadlineExceeded, false, false},
		"another error":                     {t.Context(), sql.ErrNoRows, false, false},
		"no error":                          {t.Context(), nil, false, false},
	} {
		plain, within := sqldb.AsKind(c.err, away), sqldb.AsKindWithin(c.ctx, c.err, away)
		if !errors.Is(plain, c.err) || !errors.Is(within, c.err) || errors.Is(plain, away) != c.away || errors.Is(within, away) != c.within {
			t.Errorf("%s: got %v and %v", what, plain, within)
		}
	}
}

func TestDeleteSome_ReadsOnlyDeletedRows(t *testing.T) {
	for _, e := range sqldbtest.Engines(t) {
		t.Run(e.Name, func(t *testing.T) {
			db := e.Open(t, func(c *sqldb.Config) { c.MaxConns = 1 })
			const all, due = 2000, 600
			var args []any
			for i := range all {
				args = append(args, fmt.Sprint(i), i%2, "", i)
			}
			exec(t, db, "CREATE TABLE dated (name VARCHAR(20) NOT NULL, n INTEGER NOT NULL, body VARCHAR(9) NOT NULL, at BIGINT NOT NULL, "+
				"PRIMARY KEY (name, n))")
			exec(t, db, "CREATE INDEX dated_at ON dated (at)")
			_, err := db.ExecContext(t.Context(), "INSERT INTO dated (name, n, body, at) VALUES "+sqldb.Tuples(4, all), args...)
			must(t, err)
			sweep := func(most int, before int) (n int64) {
				n, err := sqldb.DeleteSome(t.Context(), db, "dated", []string{"name", "n"}, most, "at < ?", before)
				must(t, err)
				return n
			}
			if db.Dialect() != sqldb.SQLite {
				if n := sqldbtest.RowsRead(t, db, func() { sweep(100, 1) }); n > all/5 {
					t.Errorf("%d rows are read for one that is due", n)
				}
			}
			if got := []int64{sweep(500, due), sweep(500, due), sweep(500, due)}; got[0] != 500 || got[0]+got[1] < due-1 || got[2] != 0 {
				t.Errorf("deleted %d", got)
			}
			left := 0
			must(t, db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM dated WHERE at >= ?", due).Scan(&left))
			if left != all-due {
				t.Errorf("%d are left that are not due, want %d", left, all-due)
			}
		})
	}
}
