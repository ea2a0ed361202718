package migrations_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stoa-dev/stoa/internal/storage/migrations"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
)

func open(t *testing.T, cfg sqldb.Config) *sqldb.DB {
	t.Helper()
	db, err := sqldb.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func tables(t *testing.T, db *sqldb.DB) (n int) {
	t.Helper()
	query := "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE()"
	if db.Dialect() == sqldb.SQLite {
		query = "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
	}
	if err := db.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestMigrations_AreOneReversibleStatementEach(t *testing.T) {
	name := regexp.MustCompile(`^([0-9]{4}_[a-z][a-z0-9_]*)\.(up|down)\.sql$`)
	numbers := map[string]string{}
	entries, err := fs.ReadDir(migrations.FS, ".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		m := name.FindStringSubmatch(e.Name())
		if m == nil {
			t.Errorf("%s is not named NNNN_name.up.sql or .down.sql", e.Name())
			continue
		}
		if other := numbers[m[1][:4]]; other != "" && other != m[1] {
			t.Errorf("%s and %s have one number", m[1], other)
		}
		numbers[m[1][:4]] = m[1]
		for _, half := range []string{".up.sql", ".down.sql"} {
			if _, err := fs.Stat(migrations.FS, m[1]+half); err != nil {
				t.Errorf("%s has no %s", m[1], half)
			}
		}
		text, err := fs.ReadFile(migrations.FS, e.Name())
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), ";") {
			t.Errorf("%s has a semicolon", e.Name())
		}
	}
}

func TestMigrations_ApplyRollBackAndApplyAgain(t *testing.T) {
	for _, e := range sqldbtest.Engines(t) {
		t.Run(e.Name, func(t *testing.T) {
			db := open(t, e.Config(t))
			var want int
			for round := range 2 {
				if err := db.Migrate(t.Context(), migrations.FS); err != nil {
					t.Fatal(err)
				}
				got := tables(t, db)
				if round == 1 && got != want {
					t.Errorf("%d tables the second time, %d the first", got, want)
				}
				want = got
				if round == 1 {
					break
				}
				if err := db.Rollback(t.Context(), migrations.FS, -1); err != nil {
					t.Fatal(err)
				}
				if got := tables(t, db); got != 1 {
					t.Errorf("%d tables after the way down, want the version's alone", got)
				}
			}
		})
	}
}

// upTo returns the migrations up to a number.
type upTo int

func (n upTo) Open(name string) (fs.File, error) { return migrations.FS.Open(name) }

func (n upTo) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(migrations.FS, name)
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return e.Name()[:4] > fmt.Sprintf("%04d", int(n)) }), err
}

// A killed process leaves the number of a migration marked as dirty, whether or not its statement took effect.
func TestEveryMigrationResumesAfterAKill(t *testing.T) {
	t.Parallel()
	for _, e := range sqldbtest.Engines(t) {
		if e.Name == "sqlite" { // on SQLite all migrations are one transaction
			continue
		}
		t.Run(e.Name, func(t *testing.T) {
			db := open(t, e.Config(t))
			if err := errors.Join(db.Migrate(t.Context(), upTo(1)), db.Rollback(t.Context(), upTo(1), -1)); err != nil { // creates the version table
				t.Fatal(err)
			}
			ups, err := fs.Glob(migrations.FS, "*.up.sql")
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range ups {
				n, err := strconv.Atoi(name[:4])
				if err != nil {
					t.Fatal(err)
				}
				for _, applied := range []bool{false, true} {
					for _, query := range []string{"DELETE FROM schema_migrations", fmt.Sprintf("INSERT INTO schema_migrations VALUES (%d, 1)", n)} {
						if _, err := db.ExecContext(t.Context(), query); err != nil {
							t.Fatal(err)
						}
					}
					if err := db.Migrate(t.Context(), upTo(n)); err != nil {
						t.Fatalf("killed in %s, applied %v: %v", name, applied, err)
					}
					if version, dirty, err := db.Version(t.Context()); version != n || dirty || err != nil {
						t.Fatalf("killed in %s, applied %v: version %d, dirty %v, %v", name, applied, version, dirty, err)
					}
				}
			}
			if got, want := tables(t, db), tables(t, e.Open(t)); got != want {
				t.Errorf("%d tables, want %d", got, want)
			}
		})
	}
}

func TestMigrations_FourNodesStartAtOnce(t *testing.T) {
	for _, e := range sqldbtest.Engines(t) {
		t.Run(e.Name, func(t *testing.T) {
			cfg := e.Config(t)
			var nodes []*sqldb.DB
			for range 4 {
				nodes = append(nodes, open(t, cfg))
			}
			var all sync.WaitGroup
			for _, db := range nodes {
				all.Go(func() {
					if err := db.Migrate(t.Context(), migrations.FS); err != nil {
						t.Error(err)
						return
					}
					if _, dirty, err := db.Version(t.Context()); dirty || err != nil {
						t.Errorf("dirty %v, error %v", dirty, err)
					}
					var n int
					if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM outbox").Scan(&n); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
		})
	}
}

// The servers of these tests ignore case in comparisons by default.
func TestIdsThatDifferInCaseAreDifferentKeys(t *testing.T) {
	for _, e := range sqldbtest.Engines(t) {
		t.Run(e.Name, func(t *testing.T) {
			db := e.Open(t)
			ctx := t.Context()
			if db.Dialect() != sqldb.SQLite {
				var collation string
				if err := db.QueryRowContext(ctx, "SELECT @@collation_database").Scan(&collation); err != nil || !strings.HasSuffix(collation, "_ci") {
					t.Fatalf("the server tells case apart by itself (%q, %v): this proves nothing", collation, err)
				}
			}
			err := db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
				for _, key := range []string{"aBcdefghijk_", "AbcdefghiJk_", "é", "e", "É"} {
					_, err := tx.ExecContext(ctx, `INSERT INTO idempotency_keys
						(scope, idem_key, request_hash, status, content_type, body, created, expires) VALUES (?, ?, '', 0, '', ?, 0, 0)`,
						"scope", key, []byte{0, 255})
					if err != nil {
						return err
					}
				}
				ddl, err := tx.Dialect().ExpandDDL("CREATE TABLE by_id (id {{id}} NOT NULL PRIMARY KEY) {{table}}")
				if err != nil {
					return err
				}
				if _, err := tx.ExecContext(ctx, ddl); err != nil {
					return err
				}
				_, err = tx.ExecContext(ctx, "INSERT INTO by_id (id) VALUES ('aBcdefghijk_'), ('AbcdefghiJk_'), ('012345678901')")
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			var n int
			if err := db.QueryRowContext(ctx, "SELECT COUNT(*) FROM by_id WHERE id = 'AbcdefghiJk_'").Scan(&n); err != nil || n != 1 {
				t.Errorf("found %d rows of one id (%v), want 1", n, err)
			}
			if err := db.QueryRowContext(ctx, "SELECT COUNT(*) FROM idempotency_keys WHERE idem_key = 'e'").Scan(&n); err != nil || n != 1 {
				t.Errorf("found %d rows of one key (%v), want 1", n, err)
			}
		})
	}
}
