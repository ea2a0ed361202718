//go:build unix

// Package sqldbtest gives tests real databases: SQLite files and a mariadbd
// started as a child of the test binary. A machine without mariadbd fails the
// test; nothing is skipped.
//
//	for _, e := range sqldbtest.Engines(t) {
//		t.Run(e.Name, func(t *testing.T) {
//			db := e.Open(t) // empty, migrated, closed at the test's end
//		})
//	}
//
// The servers run with MariaDB's own defaults (latin1_swedish_ci, REPEATABLE
// READ, a lax time-out), so that every such test proves independence of them.
package sqldbtest

import (
	"log/slog"
	"testing"

	"github.com/stoa-dev/stoa/internal/foundation/sqldb"
	"github.com/stoa-dev/stoa/internal/migrations"
)

// Engine is one kind of database that a conformance suite runs over.
type Engine struct {
	Name string // "sqlite" or "mariadb"
}

// Engines lists them.
func Engines(t testing.TB) []Engine {
	t.Helper()
	return []Engine{{"sqlite"}, {"mariadb"}}
}

// Config is that of an empty database of e's kind, not migrated. Each call
// makes another one.
func (e Engine) Config(t testing.TB) sqldb.Config {
	t.Helper()
	cfg := sqldb.Config{Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	if e.Name == "mariadb" {
		cfg.URL = MariaDB(t).URL
	} else {
		cfg.Dir = t.TempDir()
	}
	return cfg
}

// Open opens an empty, migrated database of e's kind, to be closed when the
// test ends. Each change may alter the configuration, for instance the clock.
func (e Engine) Open(t testing.TB, change ...func(*sqldb.Config)) *sqldb.DB {
	t.Helper()
	cfg := e.Config(t)
	for _, f := range change {
		f(&cfg)
	}
	return Open(t, cfg)
}

// Open opens and migrates the database of cfg, to be closed when the test
// ends.
func Open(t testing.TB, cfg sqldb.Config) *sqldb.DB {
	t.Helper()
	db, err := sqldb.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close the database: %v", err)
		}
	})
	if err := db.Migrate(t.Context(), migrations.FS); err != nil {
		t.Fatal(err)
	}
	return db
}

// SQLite opens an empty, migrated SQLite database: for tests of what does not
// depend on the engine.
func SQLite(t testing.TB, change ...func(*sqldb.Config)) *sqldb.DB {
	t.Helper()
	return Engine{"sqlite"}.Open(t, change...)
}
