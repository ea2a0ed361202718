package sqldb_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
)

func TestLocks_SkipRowsThatAreHeld(t *testing.T) {
	var ahead atomic.Int64
	now := time.Now()
	db := sqldbtest.Default(t).Open(t, func(c *sqldb.Config) { c.Now = func() time.Time { return now.Add(time.Duration(ahead.Load())) } })
	for _, text := range []string{"CREATE TABLE things (id CHAR(1) NOT NULL PRIMARY KEY, n INT NOT NULL)",
		"INSERT INTO things VALUES ('a', 1), ('b', 1), ('c', 1), ('d', 1), ('e', 1)"} {
		if _, err := db.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	list := []string{"a", "b", "c", "d", "e", "z"} // row z does not exist
	var asked string                               // the rows that the last batch waited for
	lock := func(ctx context.Context, tx *sqldb.Tx, list []string, clause string) (map[string]bool, error) {
		rows, err := tx.QueryContext(ctx, "SELECT id, n FROM things"+tx.Dialect().ByIndex("PRIMARY")+" WHERE id IN (?) ORDER BY id"+clause,
			bun.List(list))
		found := map[string]bool{}
		return found, sqldb.Each(rows, err, func(rows *sql.Rows) error {
			var id string
			err := rows.Scan(&id, new(int))
			found[id] = true
			return err
		})
	}
	locks := sqldb.NewLocks(func(ctx context.Context, tx *sqldb.Tx, list []string) (map[string]bool, error) {
		asked = strings.Join(list, "")
		return lock(ctx, tx, list, tx.Dialect().ForUpdate())
	}, func(ctx context.Context, tx *sqldb.Tx, list []string) (free map[string]bool, locked []string, err error) {
		free, err = lock(ctx, tx, list, tx.Dialect().SkipLocked())
		return free, slices.DeleteFunc(slices.Clone(list), func(id string) bool { return free[id] || id == "z" }), err
	})
	batch := func(waited int) string {
		t.Helper()
		var locked map[string]bool
		var held []string
		err := db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) (err error) {
			locked, held, err = locks.Lock(ctx, tx, list, waited)
			return err
		})
		if errors.Is(err, sqldb.ErrHeld) {
			return "waited for " + asked
		}
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(len(locked), " are locked, held are ", held, ", waited for ", asked)
	}
	wants := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %s; want %s", what, got, want)
		}
	}
	hold := func(t *testing.T, id string) {
		t.Helper()
		sqldbtest.Hold(t, db, "SELECT id FROM things WHERE id = ? FOR UPDATE", id)
	}
	t.Run("one is held", func(t *testing.T) {
		sqldbtest.Busy(t, db, "SELECT id FROM things WHERE id = 'd' FOR UPDATE")
		hold(t, "b")
		wants("the first try", batch(0), "waited for abcdez")
		wants("the second one", batch(1), "4 are locked, held are [b], waited for acdez")
		wants("the next batch", batch(0), "4 are locked, held are [b], waited for acdez")
		ahead.Store(int64(10 * time.Second))
		wants("a while later", batch(0), "waited for abcdez")
	})
	wants("once the row is free", batch(0), "5 are locked, held are [], waited for acdez")
	wants("then", batch(0), "5 are locked, held are [], waited for abcdez")
	t.Run("more are held than a batch has time for", func(t *testing.T) {
		for _, id := range list[:3] {
			hold(t, id)
		}
		wants("the first try", batch(0), "waited for abcdez")
		wants("the second one", batch(1), "waited for bcdez")
		wants("the third one", batch(2), "2 are locked, held are [a b c], waited for bcdez")
	})
}

func TestALockByPrimaryKeyWaitsForNoOtherRow(t *testing.T) {
	db := sqldbtest.Default(t).Open(t)
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE things (id INT NOT NULL PRIMARY KEY, n INT NOT NULL)"); err != nil {
		t.Fatal(err)
	}
	var list, all []any
	for id := range 100 {
		all = append(all, id, 1)
		if id%2 == 0 {
			list = append(list, id)
		}
	}
	if _, err := db.ExecContext(t.Context(), "INSERT INTO things VALUES "+sqldb.Tuples(2, 100), all...); err != nil {
		t.Fatal(err)
	}
	sqldbtest.Hold(t, db, "SELECT id FROM things WHERE id = 51 FOR UPDATE")
	err := db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		rows, err := tx.QueryContext(ctx, "SELECT id, n FROM things"+tx.Dialect().ByIndex("PRIMARY")+" WHERE id IN (?) ORDER BY id"+
			tx.Dialect().ForUpdate(), bun.List(list))
		n := 0
		if err := sqldb.Each(rows, err, func(*sql.Rows) error { n++; return nil }); err != nil || n != 50 {
			return fmt.Errorf("%d rows are locked (%w)", n, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
