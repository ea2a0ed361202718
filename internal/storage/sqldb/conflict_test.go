package sqldb_test

import (
	"context"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
)

// COMMIT fails with error 1213, because a transaction of another Galera node won.
func TestTx_CommitConflictRunsItAgain(t *testing.T) {
	t.Parallel()
	line := sqldbtest.NewLine(t, sqldbtest.OwnServer(t, sqldbtest.Options{TCP: true}))
	db := sqldbtest.Open(t, sqldb.Config{URL: line.URL})
	exec(t, db, "CREATE TABLE things (id VARCHAR(12) PRIMARY KEY, name VARCHAR(20), n INTEGER)")
	line.LoseCommits(t, db, 2)
	runs, committed := 0, 0
	must(t, db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		runs++
		tx.AfterCommit(func() { committed++ })
		return insert(ctx, tx, "a", "a")
	}))
	if got := names(t, db); runs != 3 || committed != 1 || len(got) != 1 {
		t.Errorf("it ran %d times, committed %d times, and left %q; want 3, 1 and one row", runs, committed, got)
	}
	line.LoseCommits(t, db, 1000)
	err := db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error { return insert(ctx, tx, "b", "b") })
	if !sqldb.IsRetryable(err) || sqldb.IsUnanswered(err) {
		t.Errorf("a commit that always loses: got %v, want an error that is retryable and certain", err)
	}
}

// Another node committed the row after this transaction read.
func TestTx_DuplicateKeyRunsItOnceMore(t *testing.T) {
	db := sqldbtest.Open(t, sqldb.Config{URL: sqldbtest.Server(t).URL})
	exec(t, db, "CREATE TABLE things (id VARCHAR(12) PRIMARY KEY, name VARCHAR(20), n INTEGER)")
	exec(t, db, "INSERT INTO things VALUES ('a', 'a', 0)")
	runs := 0
	must(t, db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		if runs++; runs > 1 { // it finds the row
			return nil
		}
		return insert(ctx, tx, "a", "a")
	}))
}

func TestErrors_NodesWithoutAQuorumAreUnavailable(t *testing.T) {
	for _, code := range []uint16{1045, 1047, 3100} {
		err := error(&mysql.MySQLError{Number: code, SQLState: [5]byte([]byte("HY000")), Message: strings.Repeat("x", 3)})
		if !sqldb.IsUnavailable(err) || sqldb.IsRetryable(err) {
			t.Errorf("%d: unavailable %v, retryable %v; want true, false", code, sqldb.IsUnavailable(err), sqldb.IsRetryable(err))
		}
	}
	if err := error(&mysql.MySQLError{Number: 3101}); sqldb.IsUnavailable(err) || !sqldb.IsRetryable(err) {
		t.Error("3101 is not retryable")
	}
}
