package sqldb_test

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

func files(pairs ...string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for i := 0; i < len(pairs); i += 2 {
		fsys[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1])}
	}
	return fsys
}

func TestMigrate_ResumesAfterAFaultyMigration(t *testing.T) {
	good := []string{"0001_a.up.sql", "CREATE TABLE a (n INTEGER)", "0001_a.down.sql", "DROP TABLE a"}
	repaired := files(append(good, "0002_b.up.sql", "CREATE TABLE b (n INTEGER)", "0002_b.down.sql", "DROP TABLE b")...)
	for _, e := range sqldbtest.Engines(t) {
		test := func(t *testing.T, statement string) {
			bad := files(append(good, "0002_b.up.sql", statement)...)
			db, err := sqldb.Open(t.Context(), e.Config(t))
			must(t, err)
			defer db.Close()
			if err := db.Migrate(t.Context(), bad); err == nil || !strings.Contains(err.Error(), "TABEL") {
				t.Errorf("a faulty statement gives %v, want it named", err)
			}
			version, dirty, err := db.Version(t.Context())
			must(t, err)
			if db.Dialect() == sqldb.SQLite {
				if version != 0 || dirty {
					t.Errorf("version %d, dirty %v after a failure, want nothing done", version, dirty)
				}
			} else {
				if version != 2 || !dirty {
					t.Errorf("version %d, dirty %v after a failure, want 2 and dirty", version, dirty)
				}
				if err := db.Migrate(t.Context(), bad); err == nil || !strings.Contains(err.Error(), "TABEL") {
					t.Errorf("the faulty statement again gives %v, want it named", err)
				}
				if err := db.Migrate(t.Context(), files(good...)); !errors.Is(err, sqldb.ErrNewerSchema) {
					t.Errorf("an older program gets %v, want ErrNewerSchema", err)
				}
			}
			must(t, db.Migrate(t.Context(), repaired))
			if version, dirty, err = db.Version(t.Context()); version != 2 || dirty || err != nil {
				t.Errorf("version %d, dirty %v, %v after the repair, want 2", version, dirty, err)
			}
			must(t, db.Rollback(t.Context(), repaired, 1))
			if version, _, _ = db.Version(t.Context()); version != 1 {
				t.Errorf("version %d after one step back, want 1", version)
			}
			must(t, db.Migrate(t.Context(), repaired))
			if err := db.Migrate(t.Context(), files(good...)); !errors.Is(err, sqldb.ErrNewerSchema) {
				t.Errorf("an older program gets %v, want ErrNewerSchema", err)
			}
		}
		t.Run(e.Name+" statement", func(t *testing.T) { test(t, "CREATE TABEL b (n INTEGER)") })
		t.Run(e.Name+" macro", func(t *testing.T) { test(t, "CREATE TABLE b (n {{TABEL}})") })
	}
}

// watched calls opening before it opens a file.
type watched struct {
	fstest.MapFS
	opening func(name string)
}

func (w watched) Open(name string) (fs.File, error) {
	w.opening(name)
	return w.MapFS.Open(name)
}

// two has two migrations.
var two = files("0001_a.up.sql", "CREATE TABLE a (n INTEGER)", "0002_b.up.sql", "CREATE TABLE b (n INTEGER)")

func TestMigrate_WaitsForASlowMigrationOfAnotherNode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		db, err := sqldb.Open(t.Context(), sqldb.Config{Dir: t.TempDir()})
		must(t, err)
		defer db.Close()
		must(t, db.Migrate(t.Context(), watched{two, func(name string) {
			if name == "0002_b.up.sql" {
				time.Sleep(time.Hour)
			}
		}}))
		if version, _, err := db.Version(t.Context()); version != 2 || err != nil {
			t.Errorf("version %d, %v, want 2", version, err)
		}
	})
}

func TestMigrate_InterruptionIsAnError(t *testing.T) {
	for _, e := range sqldbtest.Engines(t) {
		t.Run(e.Name, func(t *testing.T) {
			db, err := sqldb.Open(t.Context(), e.Config(t))
			must(t, err)
			defer db.Close()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			err = db.Migrate(ctx, watched{two, func(name string) {
				if name == "0001_a.up.sql" {
					cancel()
				}
			}})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want %v: some may not be applied", err, context.Canceled)
			}
			must(t, db.Migrate(t.Context(), two))
			if version, dirty, err := db.Version(t.Context()); version != 2 || dirty || err != nil {
				t.Errorf("version %d, dirty %v, %v after the next try, want 2", version, dirty, err)
			}
		})
	}
}

func TestExpandDDL_ExpandsKnownMacros(t *testing.T) {
	for _, bad := range []string{"{{ids}}", "{{text x}}", "{{id 3}}", "{{on}}", "{{ table }}"} {
		if got, err := sqldb.SQLite.ExpandDDL("x " + bad); err == nil {
			t.Errorf("%s became %q", bad, got)
		}
	}
	for macro, want := range map[string][2]string{
		"DROP INDEX i{{on t}}": {"DROP INDEX i", "DROP INDEX i ON t"},
		"{{blob}}":             {"BLOB", "MEDIUMBLOB"},
		"{{text 5}}":           {"VARCHAR(5)", "VARCHAR(5) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"},
	} {
		lite, err1 := sqldb.SQLite.ExpandDDL(macro)
		my, err2 := sqldb.MySQL.ExpandDDL(macro)
		if got := [2]string{lite, my}; got != want || err1 != nil || err2 != nil {
			t.Errorf("%s became %q (%v, %v), want %q", macro, got, err1, err2, want)
		}
	}
}
