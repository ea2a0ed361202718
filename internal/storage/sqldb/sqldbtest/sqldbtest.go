//go:build unix

// Package sqldbtest provides real databases for tests: SQLite files, and a mariadbd or mysqld started as a child of the
// test binary. A missing program fails the test; no test is skipped. With STOA_TEST_SQL=mysql the tests for MariaDB run
// on MySQL instead, and the tests for all engines run on MySQL only.
//
//	for _, e := range sqldbtest.Engines(t) {
//		t.Run(e.Name, func(t *testing.T) {
//			db := e.Open(t) // empty, migrated, closed at the test's end
//		})
//	}
//
// The servers run with their own defaults (MariaDB's latin1_swedish_ci, REPEATABLE READ, long timeouts), so that each
// test proves that Stoa does not depend on them.
package sqldbtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/internal/storage/migrations"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// Engine is one kind of database that a conformance suite runs over.
type Engine struct {
	Name string // "sqlite", "mariadb" or "mysql"
}

// Engines lists SQLite and MariaDB, or only the value of STOA_TEST_SQL: a run for one server does not repeat the tests
// of SQLite.
func Engines(t testing.TB) []Engine {
	t.Helper()
	if e := Default(t); os.Getenv(choice) != "" {
		return []Engine{e}
	}
	return []Engine{inFile, mariaDB}
}

// Config returns the configuration of a new, empty database that is not migrated.
func (e Engine) Config(t testing.TB) sqldb.Config {
	t.Helper()
	cfg := sqldb.Config{Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	if e == inFile {
		cfg.Dir = t.TempDir()
	} else {
		cfg.URL = e.server(t).URL
	}
	return cfg
}

// Open opens an empty, migrated database of kind e, and closes it when the test ends. change may alter the
// configuration, for example the clock. Tests do not wait for the disk, because no test cuts the power. Benchmarks do.
func (e Engine) Open(t testing.TB, change ...func(*sqldb.Config)) *sqldb.DB {
	t.Helper()
	cfg := e.Config(t)
	for _, f := range change {
		f(&cfg)
	}
	db := Open(t, cfg)
	if _, test := t.(*testing.T); test && e == inFile {
		if _, err := db.ExecContext(t.Context(), "PRAGMA synchronous = OFF"); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

// Open opens and migrates the database of cfg, and closes it when the test ends.
func Open(t testing.TB, cfg sqldb.Config) *sqldb.DB {
	t.Helper()
	CopySchema(t, cfg)
	db, err := sqldb.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close the database: %v", err)
		}
	})
	if err := db.Migrate(t.Context(), migrations.FS); err != nil { // a copied schema needs no migration
		t.Fatal(err)
	}
	return db
}

// CopySchema copies the schema into the database of cfg if it is empty. It copies nothing into a database of a server
// that the test does not share.
//
// Each test binary applies the migrations once per engine, and a copy takes a tenth of the time: with the race detector,
// migrations would take a quarter of the test time of many packages.
func CopySchema(t testing.TB, cfg sqldb.Config) {
	t.Helper()
	var err error
	if cfg.URL == "" || cfg.URL == "sqlite" {
		err = copyFile(cfg.Dir)
	}
	for _, s := range shared {
		if s.server.Load().has(cfg.URL) {
			err = s.copyTables(cfg.URL)
		}
	}
	if err != nil {
		t.Fatalf("copy the schema: %v", err)
	}
}

// migrated applies the migrations to the database of cfg.
func migrated(cfg sqldb.Config) error {
	cfg.Log = slog.New(slog.DiscardHandler)
	db, err := sqldb.Open(context.Background(), cfg)
	if err != nil {
		return err
	}
	return errors.Join(db.Migrate(context.Background(), migrations.FS), db.Close())
}

// emptyFile returns the bytes of a migrated SQLite database.
var emptyFile = sync.OnceValues(func() (_ []byte, err error) {
	dir, err := os.MkdirTemp("", "stoa-sqlite-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := migrated(sqldb.Config{Dir: dir}); err != nil {
		return nil, err
	}
	all, err := os.ReadDir(dir)
	if len(all) != 1 { // a remaining log contains part of the database
		return nil, fmt.Errorf("SQLite has left %v, %w", all, err)
	}
	return os.ReadFile(filepath.Join(dir, sqldb.FileName))
})

// copyFile copies a migrated database into a folder that has none.
func copyFile(dir string) error {
	path := filepath.Join(dir, sqldb.FileName)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	data, err := emptyFile()
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(path, data, 0o600))
}

// Watch runs db.Watch until stop is called.
func Watch(t testing.TB, db *sqldb.DB) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var watching sync.WaitGroup
	watching.Go(func() { _ = db.Watch(ctx, func(context.Context) error { return nil }) })
	return func() { cancel(); watching.Wait() }
}

// RowsRead returns about how many table and index rows the server reads while f runs. db must have one connection.
func RowsRead(t testing.TB, db *sqldb.DB, f func()) int {
	t.Helper()
	read := func() (sum int) {
		rows, err := db.QueryContext(t.Context(), "SHOW SESSION STATUS LIKE 'Handler_read%'")
		err = sqldb.Each(rows, err, func(rows *sql.Rows) error {
			var name string
			var n int
			err := rows.Scan(&name, &n)
			sum += n
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	before := read()
	f()
	return read() - before
}

// Plan returns the query plan of SQLite.
func Plan(t testing.TB, db *sqldb.DB, query string, args ...any) (plan string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, args...)
	err = sqldb.Each(rows, err, func(rows *sql.Rows) error {
		var id, parent, unused int
		var detail string
		err := rows.Scan(&id, &parent, &unused, &detail)
		plan += detail + "\n"
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// Hold locks the rows of a SELECT … FOR UPDATE on a server until the test ends. It acts like a transaction of a node
// that hangs, and the server does not end it.
func Hold(t testing.TB, db *sqldb.DB, query string, args ...any) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	conn, err := db.Writer().Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	_, err = conn.ExecContext(ctx, "SET SESSION wait_timeout = 28800 /*M!100300 , idle_transaction_timeout = 0 */")
	var tx *sql.Tx
	if err == nil {
		tx, err = conn.BeginTx(ctx, nil)
	}
	if err != nil {
		t.Fatal(errors.Join(err, conn.Close()))
	}
	t.Cleanup(func() {
		if err := errors.Join(tx.Rollback(), conn.Close()); err != nil {
			t.Error(err)
		}
	})
	rows, err := tx.QueryContext(ctx, query, args...)
	n := 0
	if err := sqldb.Each(rows, err, func(*sql.Rows) error { n++; return nil }); err != nil || n == 0 {
		t.Fatalf("%d rows are locked (%v)", n, err)
	}
}

// Busy runs transactions that lock the rows of a SELECT … FOR UPDATE on a server until the test ends. Each holds the
// locks briefly, and the next one follows immediately.
func Busy(t testing.TB, db *sqldb.DB, query string, args ...any) {
	t.Helper()
	ctx, end := context.WithoutCancel(t.Context()), make(chan struct{})
	turn := func(ctx context.Context, tx *sqldb.Tx) error {
		rows, err := tx.QueryContext(ctx, query, args...)
		if err := sqldb.Each(rows, err, func(*sql.Rows) error { return nil }); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "DO SLEEP(0.02)")
		return err
	}
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for {
				select {
				case <-end:
					return
				default:
				}
				if err := db.Tx(ctx, turn); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	t.Cleanup(func() { close(end); all.Wait() })
}

// Crowd runs 64 callers that change a row of a server until the test ends, while another transaction holds the row with
// a SELECT … FOR UPDATE. It returns when two callers have connections and the others wait without one.
func Crowd(t testing.TB, db *sqldb.DB, change func(ctx context.Context, i int) error, query string, args ...any) {
	t.Helper()
	const callers, turns = 64, 2
	Hold(t, db, query, args...)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var all sync.WaitGroup
	t.Cleanup(func() { cancel(); all.Wait() })
	for i := range callers {
		all.Go(func() {
			if err := change(ctx, i); ctx.Err() == nil {
				t.Errorf("caller %d has the row that another transaction holds, or does not wait for it: %v", i, err)
			}
		})
	}
	eventually.Equal(t, "all but two callers waiting without a connection",
		fmt.Sprint(callers-turns, " wait, ", 1+turns, " connections are in use"), func() string {
			return fmt.Sprint(Waiting(t, db), " wait, ", db.Writer().Stats().InUse, " connections are in use")
		})
}

// Waiting returns the number of changes that wait for a row.
func Waiting(t testing.TB, db *sqldb.DB) (n int) {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(db.Metrics())
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "stoa_sql_turns_waiting" {
			n = int(f.GetMetric()[0].GetGauge().GetValue())
		}
	}
	return n
}

// SQLite opens an empty, migrated SQLite database, for tests that do not depend on the engine.
func SQLite(t testing.TB, change ...func(*sqldb.Config)) *sqldb.DB {
	t.Helper()
	return Engine{"sqlite"}.Open(t, change...)
}
