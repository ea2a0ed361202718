package deploy

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stoa-dev/stoa/internal/storage/migrations"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
)

// block returns the code block after a mark in a document.
func block(t *testing.T, file, before, language string) string {
	t.Helper()
	m := regexp.MustCompile(regexp.QuoteMeta(before) + "\\s*```" + language + "\n((?s:.*?))```").FindStringSubmatch(read(t, file))
	if m == nil {
		t.Fatalf("%s has no %s after %q", file, language, before)
	}
	return m[1]
}

func TestTheDocumentedBackupOfADatabaseServerBringsEverythingBack(t *testing.T) {
	server := sqldbtest.OwnServer(t, sqldbtest.Options{Engine: sqldbtest.Engine{Name: "mariadb"}})
	db := sqldbtest.Open(t, sqldb.Config{URL: server.URL})
	picture := bytes.Repeat([]byte{0, 0xff, '\'', '\\', '\n', 0x1a}, 50_000)
	for _, s := range []struct {
		query string
		args  []any
	}{
		{"INSERT INTO users (id, email, email_key, name, password_hash, zone, zone_next, zone_from, created) VALUES ('a00000000001', " +
			"'a@b.org', 'a@b.org', '李小龙 🦊', NULL, 'UTC', '', 0, 1)", nil},
		{"INSERT INTO avatars (id, size, user_id, type, data) VALUES ('V1StGXR8_Z5j', 1, 'a00000000001', 'image/png', ?)", []any{picture}},
	} {
		if _, err := db.ExecContext(t.Context(), s.query, s.args...); err != nil {
			t.Fatal(err)
		}
	}
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	home, name := t.TempDir(), strings.TrimPrefix(u.Path, "/")
	if err := os.WriteFile(filepath.Join(home, ".my.cnf"), []byte("[client]\nuser=root\nsocket="+u.Query().Get("socket")+"\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	run := func(mark, database string) error {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		cmd := exec.CommandContext(ctx, "sh", "-c", block(t, "../docs/operate.md", "<!-- run: "+mark+" -->", "sh"))
		cmd.Env = append(os.Environ(), "HOME="+home, "DATABASE="+database, "RESTORED=restored", "BACKUP="+filepath.Join(home, "stoa.sql"))
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	if err := run("mysql-backup", "no_such_database"); err == nil {
		t.Error("a backup of nothing is said to have worked")
	}
	// A dump without its end, although its program reported success.
	fake := t.TempDir()
	if err := os.WriteFile(filepath.Join(fake, "mariadb-dump"), []byte("#!/bin/sh\necho 'CREATE TABLE users (id INT);'\n"),
		0o755); err != nil {
		t.Fatal(err)
	}
	path := os.Getenv("PATH")
	t.Setenv("PATH", fake+string(os.PathListSeparator)+path)
	if err := run("mysql-backup", name); err == nil {
		t.Error("a part of a backup is said to be one")
	}
	t.Setenv("PATH", path)
	if _, err := os.Stat(filepath.Join(home, "stoa.sql")); err == nil {
		t.Error("a backup that failed left a file under the name of one")
	}
	for _, step := range []string{"mysql-backup", "mysql-restore"} {
		if err := run(step, name); err != nil {
			t.Fatalf("%s: %v", step, err)
		}
	}
	if dump, err := os.Stat(filepath.Join(home, "stoa.sql")); err != nil || dump.Mode().Perm() != 0o600 {
		t.Errorf("others may read the dump: %v, %v", dump.Mode(), err)
	}

	back, err := sqldb.Open(t.Context(), sqldb.Config{URL: strings.Replace(server.URL, "/"+name+"?", "/restored?", 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer back.Close()
	if err := back.Migrate(t.Context(), migrations.FS); err != nil {
		t.Errorf("the schema of the copy: %v", err)
	}
	var who string
	var data []byte
	if err := back.QueryRowContext(t.Context(), "SELECT name FROM users").Scan(&who); err != nil || who != "李小龙 🦊" {
		t.Errorf("the name came back as %q (%v)", who, err)
	}
	if err := back.QueryRowContext(t.Context(), "SELECT data FROM avatars").Scan(&data); err != nil || !bytes.Equal(data, picture) {
		t.Errorf("the picture came back as %d bytes (%v)", len(data), err)
	}
}

func TestDatabaseOfTheDeploymentPage_CanBeServed(t *testing.T) {
	for _, file := range []string{"../docs/production.md", "../docs/production.zh-CN.md"} {
		server := sqldbtest.OwnServer(t, sqldbtest.Options{Engine: sqldbtest.Engine{Name: "mariadb"}, TCP: true})
		root, err := sql.Open("mysql", "root@tcp("+server.Addr()+")/")
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		text := regexp.MustCompile("```sql\n((?s:.*?))```").FindStringSubmatch(read(t, file))
		if text == nil {
			t.Fatalf("%s has no SQL", file)
		}
		for statement := range strings.SplitSeq(strings.TrimSpace(text[1]), ";\n") {
			if _, err := root.ExecContext(t.Context(), strings.TrimSuffix(statement, ";")); err != nil {
				t.Fatalf("%s: %s: %v", file, statement, err)
			}
		}
		m := regexp.MustCompile(`STOA_SQL=(mysql://\S+)`).FindStringSubmatch(read(t, file))
		if m == nil {
			t.Fatalf("%s names no database", file)
		}
		db, err := sqldb.Open(t.Context(), sqldb.Config{URL: strings.Replace(m[1], "127.0.0.1:3306", server.Addr(), 1)})
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if err := db.Migrate(t.Context(), migrations.FS); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}
