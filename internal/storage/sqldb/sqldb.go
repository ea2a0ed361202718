package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/uptrace/bun"
)

// Config says where the truth is kept.
type Config struct {
	// URL picks the engine:
	//
	//	"" or "sqlite"                           the file stoa.db in Dir
	//	sqlite:/path/to/file.db                  that file
	//	mysql://user:pass@host:3306/db?tls=true  MySQL or MariaDB; the parameters are the driver's
	//	mysql://user:pass@/db?socket=/run/mysqld/mysqld.sock
	//
	// Special characters of user and password are percent-encoded.
	URL string

	// Dir is the folder of the SQLite file; it is created with mode 0700. Only
	// used, and then needed, when URL is "" or "sqlite".
	Dir string

	// MaxConns bounds the connections to MySQL or MariaDB and the SQLite
	// readers; SQLite has one writer besides. Zero means 16, for SQLite 4.
	MaxConns int

	// Patience is how long Open waits for a MySQL or MariaDB that is away.
	// Zero means 30 s; below zero, Open tries once, for as long as its context allows.
	Patience time.Duration

	// StatementTime bounds a statement on MySQL and MariaDB whose context has neither a deadline nor a limit. Zero means 30 s.
	StatementTime time.Duration

	// Now is the clock behind [Tx.Now] and [DB.Now]. Nil means time.Now.
	Now func() time.Time

	// Log gets what no returned error reports: retries, messages of the driver.
	// Nil discards.
	Log *slog.Logger
}

// DB is an open database. Its reads go to the readers, [DB.ExecContext] and
// [DB.Tx] to the writer; on MySQL and MariaDB both are one pool.
type DB struct {
	w, r    *bun.DB
	dialect Dialect
	place   string
	now     func() time.Time
	log     *slog.Logger
	outage  outage
	turns   turns

	mu    sync.Mutex
	wakes map[chan struct{}]struct{}
}

var (
	_ Querier = (*DB)(nil)
	_ Querier = (*Tx)(nil)
)

// Querier is what reads and single statements need; *DB and *Tx both are one.
// Questions marks in the text are replaced by bun, which also knows
// bun.List(slice) for lists.
type Querier interface {
	// NewRaw is a query for Scan(ctx, &dest…): scalars, structs with bun tags
	// or slices of either. No row is sql.ErrNoRows for a scalar or a struct.
	NewRaw(query string, args ...any) *bun.RawQuery
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	Dialect() Dialect
	// Now is UTC, cut to the millisecond; within a Tx it stands still.
	Now() time.Time
}

// Open connects. A MySQL or MariaDB that is away is tried again until
// cfg.Patience, if there is any, is over; wrong credentials, an unknown database and a faulty
// URL are errors at once. No error ever contains the password.
func Open(ctx context.Context, cfg Config) (_ *DB, err error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Patience == 0 {
		cfg.Patience = 30 * time.Second
	}
	db := &DB{now: cfg.Now, log: cfg.Log, wakes: map[chan struct{}]struct{}{}}
	scheme, rest, _ := strings.Cut(cfg.URL, ":")
	switch err = CheckURL(cfg.URL); {
	case err != nil:
	case scheme == "mysql":
		err = db.openMySQL(ctx, cfg)
	default:
		err = db.openSQLite(ctx, cfg, strings.TrimPrefix(rest, "//"))
	}
	if err != nil {
		return nil, fmt.Errorf("sqldb.Open: %w", err)
	}
	return db, nil
}

// CheckURL reports what is wrong with a Config.URL, without connecting. No error has the
// password.
func CheckURL(url string) error {
	switch scheme, _, _ := strings.Cut(url, ":"); scheme {
	case "", "sqlite":
		return nil
	case "mysql":
		_, err := mysqlConfig(url)
		return err
	}
	// The text before the colon may be anything, even a secret.
	return errors.New("the URL begins neither with sqlite nor with mysql://")
}

// Close waits for running queries and closes all connections.
func (db *DB) Close() error {
	if db.r == db.w {
		return db.w.Close()
	}
	// The writer last: closing the last connection folds the log into the file.
	return errors.Join(db.r.Close(), db.w.Close())
}

// Ping reports whether the database answers and, on MySQL and MariaDB, takes writes: one that became a replica does not.
func (db *DB) Ping(ctx context.Context) (err error) {
	if db.dialect == SQLite { // whose writer may be busy
		var one int
		err = db.r.DB.QueryRowContext(ctx, "SELECT 1").Scan(&one)
	} else {
		var tx *sql.Tx
		if tx, err = db.w.DB.BeginTx(ctx, nil); err == nil {
			err = tx.Rollback()
		}
	}
	if err != nil {
		return fmt.Errorf("sqldb.Ping %s: %w", db.place, err)
	}
	return nil
}

// Server asks the engine for its name and version, such as "MariaDB 10.11.6".
func (db *DB) Server(ctx context.Context) (string, error) {
	name, query := map[Dialect]string{SQLite: "SQLite", MariaDB: "MariaDB", MySQL: "MySQL"}[db.dialect], "SELECT VERSION()"
	if db.dialect == SQLite {
		query = "SELECT sqlite_version()"
	}
	var version string
	if err := db.r.DB.QueryRowContext(ctx, query).Scan(&version); err != nil {
		return "", fmt.Errorf("sqldb.Server %s: %w", db.place, err)
	}
	version, _, _ = strings.Cut(version, "-MariaDB")
	return name + " " + version, nil
}

// String names engine and place, never credentials.
func (db *DB) String() string { return db.dialect.String() + " at " + db.place }

// Dialect says which engine this is.
func (db *DB) Dialect() Dialect { return db.dialect }

// Now is the present in UTC, cut to the millisecond.
func (db *DB) Now() time.Time { return db.now().UTC().Truncate(time.Millisecond) }

// NewRaw implements [Querier] on the readers. A statement that writes fails
// there on SQLite: it belongs into ExecContext or Tx.
func (db *DB) NewRaw(query string, args ...any) *bun.RawQuery { return db.r.NewRaw(query, args...) }

// QueryContext implements [Querier] on the readers.
func (db *DB) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return db.r.QueryContext(ctx, query, args...)
}

// QueryRowContext implements [Querier] on the readers.
func (db *DB) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return db.r.QueryRowContext(ctx, query, args...)
}

// ExecContext implements [Querier]: one statement, its own transaction, on
// the writer. It is retried after a conflict, such as a deadlock; where it may wait for locks use Tx.
func (db *DB) ExecContext(ctx context.Context, query string, args ...any) (res sql.Result, err error) {
	err = db.tx(ctx, func() (bool, error) {
		res, err = db.w.ExecContext(ctx, query, args...)
		return isConflict(err), err
	})
	return res, err
}

// Writer is the raw pool behind Tx and ExecContext, for hot paths with their
// own prepared statements. Question marks are the driver's there.
func (db *DB) Writer() *sql.DB { return db.w.DB }

// Reader is the raw pool behind the queries.
func (db *DB) Reader() *sql.DB { return db.r.DB }
