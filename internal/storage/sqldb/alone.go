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

// SQLitePath returns the absolute path of the file that cfg means, which may not be
// there; ok is false where cfg means no SQLite.
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

// Backup writes the database as it is at one moment into a new file, compacted, while
// servers go on to read and write. SQLite only. The file is there whole or not at all,
// and [fs.ErrExist] is returned where there is one.
func (db *DB) Backup(ctx context.Context, file string) (err error) {
	if db.dialect != SQLite {
		return fmt.Errorf("sqldb.Backup: %s is no SQLite", db)
	}
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		return &fs.PathError{Op: "backup", Path: file, Err: errors.Join(err, fs.ErrExist)}
	}
	part := file + ".part"
	// VACUUM takes an empty file that is there, with its mode.
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

// MoveLogs moves the logs that are left of a database whose file at path is gone to where they are those of one at
// to: SQLite would play them into the next file at path, whose they are not.
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

// OpenAlone opens the file at path and locks it, or returns [ErrInUse] or
// [fs.ErrNotExist]. What a server left in its log is in the file then, and there is no log.
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
	// To leave the WAL mode takes that nobody else is connected, whether a transaction
	// is under way or not.
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

// Version is [DB.Version].
func (a *Alone) Version(ctx context.Context) (version int, err error) {
	var dirty bool
	err = a.conn.QueryRowContext(ctx, "SELECT version, dirty FROM "+versionTable).Scan(&version, &dirty)
	return version, err
}

// Check reports what is wrong with the file, which takes a while for a large one.
func (a *Alone) Check(ctx context.Context) error {
	var said string
	if err := a.conn.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&said); err != nil {
		return fmt.Errorf("%s: %w", a.Path, err)
	}
	if said != "ok" {
		return fmt.Errorf("%s is damaged: %s", a.Path, said)
	}
	return nil
}

// Close lets others in.
func (a *Alone) Close() error {
	var err error
	if a.conn != nil {
		err = a.conn.Close()
	}
	return errors.Join(err, a.pool.Close())
}
