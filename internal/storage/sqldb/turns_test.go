package sqldb_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// ofThings opens a database with eight connections and two rows.
func ofThings(t *testing.T, e sqldbtest.Engine) *sqldb.DB {
	t.Helper()
	db := e.Open(t, func(c *sqldb.Config) { c.MaxConns = 8 })
	for _, text := range []string{"CREATE TABLE things (id CHAR(1) NOT NULL PRIMARY KEY, n INT NOT NULL)",
		"INSERT INTO things VALUES ('a', 0), ('b', 0)"} {
		if _, err := db.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

// count returns a transaction function that increments a row.
func count(id string) func(ctx context.Context, tx *sqldb.Tx) error {
	return func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE things SET n = n + 1 WHERE id = ?", id)
		return err
	}
}

const holdA = "SELECT id FROM things WHERE id = 'a' FOR UPDATE"

func TestInTurn_WaitsWithoutConnection(t *testing.T) {
	db := ofThings(t, sqldbtest.Default(t))
	change := func(ctx context.Context, id string) error {
		return db.InTurn(ctx, id, func(ctx context.Context) error { return db.Tx(ctx, count(id)) })
	}
	sqldbtest.Crowd(t, db, func(ctx context.Context, _ int) error { return change(ctx, "a") }, holdA)
	if err := change(t.Context(), "b"); err != nil {
		t.Errorf("a change of another row: %v", err)
	}
	waiting := sqldbtest.Waiting(t, db)
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		left <- db.InTurn(ctx, "a", func(context.Context) error { return errors.New("it had its turn") })
	}()
	eventually.Equal(t, "one more to wait", waiting+1, func() int { return sqldbtest.Waiting(t, db) })
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled caller: got %v", err)
	}
	if n := sqldbtest.Waiting(t, db); n != waiting {
		t.Errorf("%d wait after a caller was canceled, want %d", n, waiting)
	}
}

func TestTx_LeavesConnectionsToReadsAndBatches(t *testing.T) {
	db := ofThings(t, sqldbtest.Default(t))
	begun, end := make(chan struct{}, 64), make(chan struct{})
	var all sync.WaitGroup
	for range cap(begun) {
		all.Go(func() {
			err := db.Tx(t.Context(), func(context.Context, *sqldb.Tx) error {
				begun <- struct{}{}
				<-end
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	for range 6 {
		<-begun
	}
	var n int
	if err := errors.Join(db.Batch(t.Context(), count("a")),
		db.NewRaw("SELECT n FROM things WHERE id = 'a'").Scan(t.Context(), &n)); err != nil || n != 1 {
		t.Errorf("a batch has counted %d (%v)", n, err)
	}
	if got := fmt.Sprint(len(begun), " more have begun, ", db.Writer().Stats().InUse,
		" connections are in use"); got != "0 more have begun, 6 connections are in use" {
		t.Error(got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := db.Tx(ctx, count("b")); !errors.Is(err, context.Canceled) {
		t.Errorf("a transaction whose context has ended: got %v", err)
	}
	close(end)
	all.Wait()
}

// The maximum number of callers run within their turn, and each needs a transaction.
func TestInTurn_NestedCallsDoNotWait(t *testing.T) {
	db := ofThings(t, sqldbtest.Default(t))
	together := func(callers int, outer func(ctx context.Context,
		fn func(ctx context.Context) error) error, inner func(ctx context.Context) error) {
		t.Helper()
		var in, all sync.WaitGroup
		in.Add(callers)
		for range callers {
			all.Go(func() {
				err := outer(t.Context(), func(ctx context.Context) error { in.Done(); in.Wait(); return inner(ctx) })
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	inTurn := func(ctx context.Context, fn func(ctx context.Context) error) error { return db.InTurn(ctx, "a", fn) }
	inTx := func(ctx context.Context, fn func(ctx context.Context) error) error {
		return db.Tx(ctx, func(ctx context.Context, _ *sqldb.Tx) error { return fn(ctx) })
	}
	together(2, inTurn, func(ctx context.Context) error {
		return inTurn(ctx, func(ctx context.Context) error { return db.Tx(ctx, count("a")) })
	})
	together(6, inTx, func(ctx context.Context) error {
		return inTurn(ctx, func(ctx context.Context) error { return db.Tx(ctx, count("b")) })
	})
	var n int
	if err := db.NewRaw("SELECT SUM(n) FROM things").Scan(t.Context(), &n); err != nil || n != 8 {
		t.Errorf("%d changes are there (%v), want 8", n, err)
	}
}

func TestInTurn_SQLiteDoesNotWait(t *testing.T) {
	db := ofThings(t, sqldbtest.Engine{Name: "sqlite"})
	var in, all sync.WaitGroup
	const callers = 8
	in.Add(callers)
	for range callers {
		all.Go(func() {
			err := db.InTurn(t.Context(), "a", func(ctx context.Context) error {
				in.Done()
				in.Wait() // all run at the same time
				return db.Tx(ctx, count("a"))
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := sqldbtest.Waiting(t, db); n != 0 {
		t.Errorf("%d wait", n)
	}
}
