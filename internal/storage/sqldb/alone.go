package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	sqlite3 "modernc.org/sqlite/lib"
)

// ErrInUse reports a SQLite database that another process has open.
var ErrInUse = errors.New("another process has the database open: stop the server first")

// SQLitePath returns the absolute path of the SQLite file of cfg, which may not exist. ok is false if cfg is not for
// SQLite.
func SQLitePath(cfg Config) (path string, ok bool) {
	scheme, rest, _ := strings.Cut(cfg.URL, ":")
	if scheme != "" && scheme != "sqlite" {
		return "", false
	}
	if path = strings.TrimPrefix(rest, "//"); path == "" {
		path = filepath.Join(cfg.Dir, FileName)
	}
	path, err := filepath.Abs(path)
	return path, err == nil
}

// Backup writes a compacted snapshot of a SQLite database into a new file while servers continue to read and write. The
// file is either complete or absent. Backup returns [fs.ErrExist] if the file exists.
func (db *DB) Backup(ctx context.Context, file string) (err error) {
	if db.dialect != SQLite {
		return fmt.Errorf("sqldb.Backup: %s is no SQLite", db)
	}
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		return &fs.PathError{Op: "backup", Path: file, Err: errors.Join(err, fs.ErrExist)}
	}
	part := file + ".part"
	// VACUUM INTO accepts an existing empty file and keeps its mode.
	f, err := os.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = errors.Join(err, os.Remove(part))
		}
	}()
	if _, err := db.w.DB.ExecContext(ctx, "VACUUM INTO ?", part); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return os.Rename(part, file)
}

// MoveLogs moves the remaining logs of the database at path, whose file was moved to to, next to that file. Otherwise
// SQLite would apply them to the next file at path.
func MoveLogs(path, to string) error {
	for _, log := range []string{"-wal", "-journal"} {
		if err := os.Rename(path+log, to+log); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Alone is a SQLite database that no other process can open until Close.
type Alone struct {
	Path string
	pool *sql.DB
	conn *sql.Conn
}

// OpenAlone opens the file at path and locks it. It returns [ErrInUse] or [fs.ErrNotExist]. It first applies the log of
// the last server to the file and removes the log.
func OpenAlone(ctx context.Context, path string) (_ *Alone, err error) {
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	a := &Alone{Path: path}
	if a.pool, err = sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?_pragma=synchronous(FULL)"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	a.conn, err = a.pool.Conn(ctx)
	// SQLite leaves the WAL mode only if there is no other connection, even an idle one.
	mode := ""
	if err == nil {
		err = a.conn.QueryRowContext(ctx, "PRAGMA journal_mode = DELETE").Scan(&mode)
	}
	if err == nil {
		_, err = a.conn.ExecContext(ctx, "BEGIN EXCLUSIVE")
	}
	switch code := sqliteCode(err) & 0xff; {
	case code == sqlite3.SQLITE_BUSY || code == sqlite3.SQLITE_LOCKED || err == nil && mode != "delete":
		return nil, fmt.Errorf("%s: %w", path, ErrInUse)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return a, nil
}

// QueryContext reads from the database.
func (a *Alone) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return a.conn.QueryContext(ctx, query, args...)
}

// Version returns the number of the newest migration; see [DB.Version].
func (a *Alone) Version(ctx context.Context) (version int, err error) {
	var dirty bool
	err = a.conn.QueryRowContext(ctx, "SELECT version, dirty FROM "+versionTable).Scan(&version, &dirty)
	return version, err
}

// Check returns an error that describes the damage if the file is damaged. It takes long for a large file.
func (a *Alone) Check(ctx context.Context) error {
	var result string
	if err := a.conn.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&result); err != nil {
		return fmt.Errorf("%s: %w", a.Path, err)
	}
	if result != "ok" {
		return fmt.Errorf("%s is damaged: %s", a.Path, result)
	}
	return nil
}

// Close releases the lock.
func (a *Alone) Close() error {
	var err error
	if a.conn != nil {
		err = a.conn.Close()
	}
	return errors.Join(err, a.pool.Close())
}
