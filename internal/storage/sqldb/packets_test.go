package sqldb_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
)

const createThings = "CREATE TABLE things (id VARCHAR(12) PRIMARY KEY, name VARCHAR(20), n INTEGER)"

// insertLater is insert with [sqldb.Tx.ExecLater].
func insertLater(ctx context.Context, tx *sqldb.Tx, id, name string) error {
	return tx.ExecLater(ctx, "INSERT INTO things (id, name, n) VALUES (?, ?, 0)", id, name)
}

func TestTx_StatementsSharePackets(t *testing.T) {
	t.Parallel()
	server := sqldbtest.OwnServer(t, sqldbtest.Options{TCP: true})
	exec(t, sqldbtest.Open(t, sqldb.Config{URL: server.URL}), createThings)
	line := sqldbtest.NewLine(t, server)
	count := func(ctx context.Context, tx *sqldb.Tx) (n int, err error) {
		err = tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM things").Scan(&n)
		return n, err
	}
	rollback := errors.New("roll back")
	cases := []struct {
		name            string
		together, alone int64 // packets; alone with multiStatements=false
		fn              func(ctx context.Context, tx *sqldb.Tx) error
	}{
		{"nothing", 0, 2, func(context.Context, *sqldb.Tx) error { return nil }},
		{"a statement", 2, 3, func(ctx context.Context, tx *sqldb.Tx) error { return insert(ctx, tx, "a;'", "a; COMMIT") }},
		{"three later ones", 1, 5, func(ctx context.Context, tx *sqldb.Tx) error {
			return errors.Join(insertLater(ctx, tx, "b", "b"), insertLater(ctx, tx, "c", "c"), insertLater(ctx, tx, "d", "d"))
		}},
		{"a read after a later one", 2, 4, func(ctx context.Context, tx *sqldb.Tx) error {
			if err := insertLater(ctx, tx, "e", "e"); err != nil {
				return err
			}
			n, err := count(ctx, tx)
			if n != 5 {
				t.Errorf("the read sees %d rows, want 5", n)
			}
			return err
		}},
		{"several queries", 3, 7, func(ctx context.Context, tx *sqldb.Tx) error {
			if err := insertLater(ctx, tx, "h", "h"); err != nil {
				return err
			}
			var got []string
			query := func(text string, args ...any) sqldb.Query {
				return sqldb.Query{Text: text, Args: args, Scan: func(rows *sql.Rows) error {
					got = append(got, "")
					return rows.Scan(&got[len(got)-1])
				}}
			}
			err := tx.Queries(ctx, query("SELECT id FROM things WHERE id IN (?) ORDER BY id", bun.List([]string{"e", "h"})),
				query("SELECT id FROM things WHERE id = ?", "none"), query("SELECT name FROM things WHERE id = ?", "c"))
			if want := []string{"e", "h", "c"}; !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
			_, deleted := tx.ExecContext(ctx, "DELETE FROM things WHERE id = ?", "h")
			return errors.Join(err, deleted)
		}},
		{"arguments for the driver", 4, 5, func(ctx context.Context, tx *sqldb.Tx) error {
			if err := insertLater(ctx, tx, "f", "what?"); err != nil {
				return err
			}
			if _, err := tx.SQL().ExecContext(ctx, "UPDATE things SET n = ? WHERE id = ?", 1, "f"); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, "DELETE FROM things WHERE id = ?", "b")
			return err
		}},
		{"a rollback of nothing", 0, 2, func(context.Context, *sqldb.Tx) error { return rollback }},
		{"a rollback of later ones", 0, 3, func(ctx context.Context, tx *sqldb.Tx) error {
			return errors.Join(insertLater(ctx, tx, "g", "g"), rollback)
		}},
	}
	for _, parameter := range []string{"", "?multiStatements=false"} {
		db := sqldbtest.Open(t, sqldb.Config{URL: line.URL + parameter, MaxConns: 1})
		exec(t, db, "DELETE FROM things")
		for _, tt := range cases {
			before := line.Packets()
			err := db.Tx(t.Context(), tt.fn)
			want := tt.together
			if parameter != "" {
				want = tt.alone
			}
			if got := line.Packets() - before; got != want || err != nil && !errors.Is(err, rollback) {
				t.Errorf("%s%s: %d packets and %v, want %d", tt.name, parameter, got, err, want)
			}
		}
		if got, want := names(t, db), []string{"a; COMMIT", "c", "d", "e", "what?"}; !slices.Equal(got, want) {
			t.Errorf("committed %q, want %q", got, want)
		}
	}
}

func TestTx_ExecLaterFailsAtTheNextStatement(t *testing.T) {
	onEngines(t, func(t *testing.T, db *sqldb.DB) {
		exec(t, db, "INSERT INTO things VALUES ('taken', 'first', 0)")
		runs := 0
		for name, then := range map[string]func(ctx context.Context, tx *sqldb.Tx) error{
			"with COMMIT":       func(context.Context, *sqldb.Tx) error { return nil },
			"with a statement":  func(ctx context.Context, tx *sqldb.Tx) error { return insert(ctx, tx, "later", "never") },
			"if it is ignored":  func(ctx context.Context, tx *sqldb.Tx) error { _ = insert(ctx, tx, "later", "never"); return nil },
			"after a statement": func(ctx context.Context, tx *sqldb.Tx) error { return nil },
		} {
			runs = 0
			err := db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
				runs++
				if name == "after a statement" {
					if err := insert(ctx, tx, "earlier", "never"); err != nil {
						return err
					}
				}
				if err := tx.ExecLater(ctx, "INSERT INTO things VALUES ('taken', 'second', 0)"); err != nil {
					return err
				}
				return then(ctx, tx)
			})
			if !sqldb.IsDuplicate(err) || sqldb.IsUnanswered(err) {
				t.Errorf("%s: got %v, want the duplicate key", name, err)
			}
			if got := names(t, db); !slices.Equal(got, []string{"first"}) {
				t.Errorf("%s: committed %q, want nothing", name, got)
			}
			must(t, db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error { // on the same connection
				return tx.ExecLater(ctx, "UPDATE things SET n = n + 1 WHERE id = 'taken'")
			}))
		}
	})
}

// A transaction whose start may have failed must not run its later statements outside of a transaction.
func TestTx_NoStatementRunsWithoutItsStart(t *testing.T) {
	db := sqldbtest.Open(t, sqldb.Config{URL: sqldbtest.Server(t).URL, MaxConns: 1})
	exec(t, db, createThings)
	err := db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		if err := insert(sqldb.WithLimit(ctx, -time.Second), tx, "a", "a"); err == nil {
			t.Error("a statement without time succeeded")
		}
		if err := insert(ctx, tx, "b", "b"); err == nil {
			t.Error("a statement ran after the start was lost")
		}
		return nil
	})
	if got := names(t, db); err == nil || len(got) > 0 {
		t.Errorf("got %v and rows %q, want an error and no rows", err, got)
	}
}

// A deadlock ends the transaction on the server. A statement behind it would be committed alone.
func TestTx_NoStatementRunsBehindAConflict(t *testing.T) {
	db := sqldbtest.Open(t, sqldb.Config{URL: sqldbtest.Server(t).URL, MaxConns: 1})
	exec(t, db, createThings)
	const lose = " BEGIN %s ROLLBACK; SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = 'Deadlock'; END"
	exec(t, db, "CREATE PROCEDURE lose()"+fmt.Sprintf(lose, ""))
	exec(t, db, "CREATE PROCEDURE lose_rows()"+fmt.Sprintf(lose, "SELECT 1;"))
	for name, conflict := range map[string]func(ctx context.Context, tx *sqldb.Tx){
		"a write": func(ctx context.Context, tx *sqldb.Tx) { _, _ = tx.ExecContext(ctx, "CALL lose()") },
		"a read":  func(ctx context.Context, tx *sqldb.Tx) { _ = tx.QueryRowContext(ctx, "CALL lose()").Err() },
		"prepared": func(ctx context.Context, tx *sqldb.Tx) {
			stmt, err := tx.SQL().PrepareContext(ctx, "CALL lose()")
			must(t, err)
			_, _ = stmt.ExecContext(ctx)
		},
		"query": func(ctx context.Context, tx *sqldb.Tx) {
			stmt, err := tx.SQL().PrepareContext(ctx, "CALL lose()")
			must(t, err)
			_ = stmt.QueryRowContext(ctx).Err()
		},
		"a row": func(ctx context.Context, tx *sqldb.Tx) {
			_ = tx.QueryRowContext(ctx, "CALL lose_rows()").Scan(new(int))
		},
		"rows": func(ctx context.Context, tx *sqldb.Tx) {
			rows, err := tx.QueryContext(ctx, "CALL lose_rows()")
			must(t, err)
			for rows.Next() || rows.NextResultSet() {
			}
			if !sqldb.IsRetryable(rows.Err()) || rows.Close() != nil {
				t.Errorf("the rows ended with %v, want a conflict", rows.Err())
			}
		},
	} {
		runs := 0
		must(t, db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			if err := insert(ctx, tx, name, name); err != nil {
				return err
			}
			if runs++; runs == 1 {
				conflict(ctx, tx)
				_ = insert(ctx, tx, "b", "alone")
			}
			return nil
		}))
		if got := names(t, db); runs != 2 || !slices.Equal(got, []string{name}) {
			t.Errorf("%s: it ran %d times and committed %q, want 2 and one row", name, runs, got)
		}
		exec(t, db, "DELETE FROM things")
	}
}

func TestTx_RefusedRollbackEndsTheConnection(t *testing.T) {
	t.Parallel()
	server := sqldbtest.OwnServer(t, sqldbtest.Options{TCP: true})
	line := sqldbtest.NewLine(t, server)
	db := sqldbtest.Open(t, sqldb.Config{URL: line.URL, MaxConns: 1})
	exec(t, db, createThings)
	line.RefuseRollbacks(1)
	rollback := errors.New("roll back")
	err := db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		return errors.Join(insert(ctx, tx, "a", "rolled back"), rollback)
	})
	if !errors.Is(err, rollback) {
		t.Errorf("got %v, want the error of the function", err)
	}
	must(t, db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error { return insert(ctx, tx, "b", "committed") }))
	if got, want := names(t, db), []string{"committed"}; !slices.Equal(got, want) {
		t.Errorf("committed %q, want %q", got, want)
	}
}

// The server refuses the start of a transaction, because it became a replica, and the driver closes the connection. A new
// connection may lead to the new primary.
func TestTx_RefusedStartIsTriedOnAnotherConnection(t *testing.T) {
	t.Parallel()
	server := sqldbtest.OwnServer(t, sqldbtest.Options{TCP: true})
	admin := sqldbtest.Open(t, sqldb.Config{URL: server.URL})
	exec(t, admin, createThings)
	exec(t, admin, "CREATE USER stoa@127.0.0.1")
	exec(t, admin, "GRANT ALL ON `stoa\\_%`.* TO stoa@127.0.0.1")
	db := sqldbtest.Open(t, sqldb.Config{URL: strings.Replace(server.URL, "root@", "stoa@", 1), MaxConns: 1})
	readOnly := func(on int) { exec(t, admin, "SET GLOBAL read_only = ?", on) }
	runs := 0
	must(t, db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		if runs++; runs == 1 {
			readOnly(1)
			defer readOnly(0)
		}
		return insert(ctx, tx, "a", "a")
	}))
	if got := names(t, db); runs != 2 || !slices.Equal(got, []string{"a"}) {
		t.Errorf("it ran %d times and committed %q, want 2 and one row", runs, got)
	}
	err := db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		readOnly(1)
		return insertLater(ctx, tx, "b", "b")
	})
	if !sqldb.IsUnavailable(err) || errors.Is(err, sqldb.ErrOutcomeUnknown) {
		t.Errorf("a start that is always refused: got %v, want unavailable with a known outcome", err)
	}
}
