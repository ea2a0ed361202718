package sqldbtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoa-dev/stoa/internal/storage/migrations"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

func TestOpen_CopiedSchemaMatchesMigrations(t *testing.T) {
	for _, e := range Engines(t) {
		t.Run(e.Name, func(t *testing.T) {
			made, err := sqldb.Open(t.Context(), e.Config(t))
			if err != nil {
				t.Fatal(err)
			}
			defer made.Close()
			if err := made.Migrate(t.Context(), migrations.FS); err != nil {
				t.Fatal(err)
			}
			want := schema(t, e, made)
			if strings.Count(want, "CREATE") < 20 {
				t.Fatalf("the migrations created only: %s", want)
			}
			for range 2 {
				if got := schema(t, e, e.Open(t)); got != want {
					t.Errorf("got\n%s\nwant\n%s", got, want)
				}
			}
		})
	}
}

// schema returns the whole schema of a database without rows.
func schema(t *testing.T, e Engine, db *sqldb.DB) string {
	t.Helper()
	version, dirty, err := db.Version(t.Context())
	if err != nil || version == 0 || dirty {
		t.Fatalf("version %d, dirty %t, %v", version, dirty, err)
	}
	all := []string{fmt.Sprint("version ", version)}
	query := func(q string) (texts []string) {
		rows, err := db.QueryContext(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var name, text string
			if err := rows.Scan(&name, &text); err != nil {
				t.Fatal(err)
			}
			texts = append(texts, text)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		return texts
	}
	if e.Name == "sqlite" {
		return strings.Join(append(all, query("SELECT name, COALESCE(sql, '') FROM sqlite_master ORDER BY name")...), "\n")
	}
	for _, table := range query("SELECT table_schema, table_name FROM information_schema.tables WHERE table_schema = DATABASE() ORDER BY " +
		"table_name") {
		all = append(all, query("SHOW CREATE TABLE "+table)...)
	}
	return strings.Join(all, "\n")
}

// A server that starts removes the temporary tables of other servers in its folder, and their statements fail.
func TestServer_HasOwnTemporaryFolder(t *testing.T) {
	db := Default(t).Open(t)
	var dir string
	if err := db.QueryRowContext(t.Context(), "SELECT @@tmpdir").Scan(&dir); err != nil {
		t.Fatal(err)
	}
	// Only the server's own folder is next to its data folder.
	if _, err := os.Stat(filepath.Join(dir, "..", "data", "ibdata1")); err != nil {
		t.Errorf("temporary tables are in %s, want a folder of the server's own: %v", dir, err)
	}
}
