package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

// FileName is the SQLite file within Config.Dir.
const FileName = "stoa.db"

// sqliteReaders is enough for two to eight cores, because a reader uses its connection for tens of microseconds.
const sqliteReaders = 4

func (db *DB) openSQLite(ctx context.Context, cfg Config, path string) error {
	if path == "" {
		if cfg.Dir == "" {
			return errors.New("SQLite needs a folder: Dir is empty")
		}
		if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
			return err
		}
		path = filepath.Join(cfg.Dir, FileName)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	// SQLite would create the file with the mode of the umask. It gives the -wal and -shm files the mode of this file.
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}

	readers := cfg.MaxConns
	if readers == 0 {
		readers = sqliteReaders
	}
	w, err := sqlitePool(path, "_txlock=immediate", 1)
	if err != nil {
		return err
	}
	// The first connection switches the file to WAL before a reader opens it.
	if err := w.PingContext(ctx); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", path, err), w.Close())
	}
	r, err := sqlitePool(path, "_query_only=1", readers)
	if err != nil {
		return errors.Join(err, w.Close())
	}
	db.w, db.r = bun.NewDB(w, sqlitedialect.New()), bun.NewDB(r, sqlitedialect.New())
	db.dialect, db.place = SQLite, path
	return nil
}

// sqlitePool opens path. synchronous(FULL) syncs the log at each commit, so that an acknowledged write survives a power
// cut. busy_timeout is for other processes; in this process all writers share one connection.
func sqlitePool(path, extra string, conns int) (*sql.DB, error) {
	dsn := "file:" + (&url.URL{Path: path}).EscapedPath() +
		"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=foreign_keys(1)&" + extra
	pool, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, err
	}
	pool.SetMaxOpenConns(conns)
	pool.SetMaxIdleConns(conns)
	return pool, nil
}
