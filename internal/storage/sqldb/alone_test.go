package sqldb_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
)

// lite opens a SQLite database in a new directory, with the table things and one row.
func lite(t *testing.T) (db *sqldb.DB, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "of a server.db")
	db, err := sqldb.Open(t.Context(), sqldb.Config{URL: "sqlite://" + path})
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	exec(t, db, "CREATE TABLE things (id TEXT PRIMARY KEY, name TEXT NOT NULL, n INTEGER NOT NULL)")
	must(t, insert(t.Context(), db, "a", "kept"))
	return db, path
}

func TestBackup_IsASnapshot(t *testing.T) {
	db, _ := lite(t)
	file := filepath.Join(t.TempDir(), "backup.db")
	must(t, db.Backup(t.Context(), file))
	must(t, insert(t.Context(), db, "b", "later"))
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file's mode is %v, %v; want 0600", info.Mode(), err)
	}
	copied, err := sqldb.Open(t.Context(), sqldb.Config{URL: "sqlite://" + file})
	must(t, err)
	if got := names(t, copied); !slices.Equal(got, []string{"kept"}) {
		t.Errorf("the backup has %q, want the rows of the source", got)
	}
	must(t, copied.Close())

	before, err := os.ReadFile(file)
	must(t, err)
	if err := db.Backup(t.Context(), file); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second backup into the same file: %v, want %v", err, fs.ErrExist)
	}
	if after, err := os.ReadFile(file); err != nil || !bytes.Equal(before, after) {
		t.Errorf("a backup that is refused has changed the file that was there: %v", err)
	}
}

func TestBackup_FailureLeavesNoFile(t *testing.T) {
	db, _ := lite(t)
	dir := t.TempDir()
	if err := db.Backup(t.Context(), filepath.Join(dir, "no such directory", "backup.db")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("into a directory that is not there: %v, want %v", err, fs.ErrNotExist)
	}
	must(t, os.WriteFile(filepath.Join(dir, "backup.db.part"), []byte("of a backup that was killed"), 0o600))
	must(t, db.Backup(t.Context(), filepath.Join(dir, "backup.db")))
	must(t, os.Remove(filepath.Join(dir, "backup.db")))
	must(t, db.Close())
	if err := db.Backup(t.Context(), filepath.Join(dir, "backup.db")); err == nil {
		t.Error("a closed database was written into a backup")
	}
	left, err := os.ReadDir(dir)
	if must(t, err); len(left) != 0 {
		t.Errorf("there are %v", left)
	}
}

func TestBackup_OnlySQLite(t *testing.T) {
	for _, e := range sqldbtest.Engines(t) {
		db, err := sqldb.Open(t.Context(), e.Config(t))
		must(t, err)
		defer db.Close()
		file := filepath.Join(t.TempDir(), "backup.db")
		if err := db.Backup(t.Context(), file); (err == nil) != (db.Dialect() == sqldb.SQLite) {
			t.Errorf("%s: %v", db.Dialect(), err)
		}
	}
}

func TestOpenAlone_RequiresExclusiveAccess(t *testing.T) {
	db, path := lite(t)
	if _, err := sqldb.OpenAlone(t.Context(), path); !errors.Is(err, sqldb.ErrInUse) {
		t.Errorf("while a server has it open: %v, want %v", err, sqldb.ErrInUse)
	}
	must(t, db.Close())
	alone, err := sqldb.OpenAlone(t.Context(), path)
	must(t, err)
	must(t, alone.Check(t.Context()))
	if _, err := sqldb.OpenAlone(t.Context(), path); !errors.Is(err, sqldb.ErrInUse) {
		t.Errorf("twice: %v, want %v", err, sqldb.ErrInUse)
	}
	must(t, alone.Close())
	again, err := sqldb.OpenAlone(t.Context(), path)
	must(t, err)
	must(t, again.Close())

	if _, err := sqldb.OpenAlone(t.Context(), path+"2"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v, want %v", err, fs.ErrNotExist)
	}
	must(t, os.WriteFile(path+"2", []byte(strings.Repeat("This is a letter, and no database. ", 100)), 0o600))
	if _, err := sqldb.OpenAlone(t.Context(), path+"2"); err == nil || errors.Is(err, sqldb.ErrInUse) ||
		!strings.Contains(err.Error(), path+"2") {
		t.Errorf("a file that is no database: %v, want an error that names it", err)
	}
}

func TestCheck_DetectsDamage(t *testing.T) {
	db, path := lite(t)
	for i := range 2000 {
		must(t, insert(t.Context(), db, strings.Repeat("x", 40)+string(rune('a'+i%26))+strings.Repeat("y", i), "long"))
	}
	must(t, db.Close())
	alone, err := sqldb.OpenAlone(t.Context(), path) // applies the log to the file
	must(t, err)
	must(t, alone.Close())
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	info, err := f.Stat()
	must(t, err)
	_, err = f.WriteAt(bytes.Repeat([]byte{0x5a}, 64<<10), info.Size()/2)
	must(t, errors.Join(err, f.Close()))
	alone, err = sqldb.OpenAlone(t.Context(), path)
	must(t, err)
	defer alone.Close()
	if err := alone.Check(t.Context()); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a file with 64 KiB of something else: %v, want an error about the damage", err)
	}
}

func TestSQLiteErrors_AreClassifiedByCode(t *testing.T) {
	db, path := lite(t)
	other, err := sql.Open("sqlite", "file:"+path)
	must(t, err)
	defer other.Close()
	must(t, db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		if err := insert(ctx, tx, "b", ""); err != nil {
			return err
		}
		_, err := other.ExecContext(ctx, "INSERT INTO things (id, name, n) VALUES ('c', '', 0)")
		if !sqldb.IsRetryable(err) || sqldb.IsUnavailable(err) || sqldb.IsRowError(err) {
			t.Errorf("a file that another process writes: %v, want it retryable", err)
		}
		return nil
	}))
	exec(t, db, "PRAGMA max_page_count = 16")
	err = insert(t.Context(), db, "d", strings.Repeat("x", 1<<20))
	if !sqldb.IsUnavailable(err) || sqldb.IsRetryable(err) || sqldb.IsRowError(err) {
		t.Errorf("a full file: %v, want it unavailable", err)
	}
	if got := names(t, db); !slices.Equal(got, []string{"kept", ""}) {
		t.Errorf("there are %q", got)
	}
}
