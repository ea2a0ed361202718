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

// Config selects and configures the database.
type Config struct {
	// URL selects the engine:
	//
	//	"" or "sqlite"                           the file stoa.db in Dir
	//	sqlite:/path/to/file.db                  that file
	//	mysql://user:pass@host:3306/db?tls=true  MySQL or MariaDB; the parameters are the driver's
	//	mysql://user:pass@/db?socket=/run/mysqld/mysqld.sock
	//
	// Percent-encode special characters in the user and the password. With multiStatements=false each statement is sent
	// alone, for proxies that cannot forward several in a packet; see [Tx.ExecLater].
	URL string

	// Dir is the folder of the SQLite file, created with mode 0700. It is required if URL is "" or "sqlite", and
	// ignored otherwise.
	Dir string

	// MaxConns bounds the connections to MySQL or MariaDB, or the readers of SQLite, which has one writer in addition.
	// Zero means 16, or 4 for SQLite.
	MaxConns int

	// Patience is how long Open retries while MySQL or MariaDB is unavailable. Zero means 30 s. With a negative value
	// Open tries once, bounded by its context.
	Patience time.Duration

	// StatementTime bounds a statement on MySQL and MariaDB whose context has neither a deadline nor a limit. Zero
	// means 30 s.
	StatementTime time.Duration

	// Now is the clock of [Tx.Now] and [DB.Now]. Nil means time.Now.
	Now func() time.Time

	// Log receives what no returned error reports: retries and messages of the driver. Nil discards them.
	Log *slog.Logger
}

// DB is an open database. Queries use the readers; [DB.ExecContext] and [DB.Tx] use the writer. On MySQL and MariaDB
// both are one pool.
type DB struct {
	w, r    *bun.DB
	dialect Dialect
	place   string
	now     func() time.Time
	log     *slog.Logger
	outage  outage
	turns   turns
	packets bool // a packet to the server may have several statements

	mu      sync.Mutex
	wakes   map[chan struct{}]struct{}
	probes  []*probing // replaced as a whole, never modified
	hurried []func() bool
}

var (
	_ Querier = (*DB)(nil)
	_ Querier = (*Tx)(nil)
)

// Querier runs reads and single statements; *DB and *Tx implement it. bun replaces the question marks in the text, and
// bun.List(slice) expands lists.
type Querier interface {
	// NewRaw returns a query for Scan(ctx, &dest…): scalars, structs with bun tags, or slices of them. Without a row,
	// Scan of a scalar or a struct returns sql.ErrNoRows.
	NewRaw(query string, args ...any) *bun.RawQuery
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	Dialect() Dialect
	// Now returns the time in UTC, truncated to milliseconds. It never changes within a Tx.
	Now() time.Time
}

// Open connects. It retries for cfg.Patience while MySQL or MariaDB is unavailable. It does not retry after wrong
// credentials, an unknown database or an invalid URL. No error contains the password.
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

// CheckURL returns an error if a Config.URL is invalid. It does not connect, and its error does not contain the
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
	// The writer is closed last: closing the last connection merges the log into the file.
	return errors.Join(db.r.Close(), db.w.Close())
}

// Ping returns an error if the database does not answer or, on MySQL and MariaDB, is read-only, as a replica is.
func (db *DB) Ping(ctx context.Context) (err error) {
	if db.dialect == SQLite { // the writer of SQLite may be busy
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

// Server returns the name and the version of the engine, such as "MariaDB 10.11.6".
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

// String returns the engine and its place, never credentials.
func (db *DB) String() string { return db.dialect.String() + " at " + db.place }

// Dialect returns the engine.
func (db *DB) Dialect() Dialect { return db.dialect }

// Now returns the current time in UTC, truncated to milliseconds.
func (db *DB) Now() time.Time { return db.now().UTC().Truncate(time.Millisecond) }

// NewRaw implements [Querier] on the readers. On SQLite a statement that writes fails there; use ExecContext or Tx.
func (db *DB) NewRaw(query string, args ...any) *bun.RawQuery { return db.r.NewRaw(query, args...) }

// QueryContext implements [Querier] on the readers.
func (db *DB) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return db.r.QueryContext(ctx, query, args...)
}

// QueryRowContext implements [Querier] on the readers.
func (db *DB) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return db.r.QueryRowContext(ctx, query, args...)
}

// ExecContext implements [Querier]: it runs one statement on the writer as its own transaction. It retries after a
// conflict, such as a deadlock. Use Tx for a statement that may wait for locks.
func (db *DB) ExecContext(ctx context.Context, query string, args ...any) (res sql.Result, err error) {
	err = db.tx(ctx, func() (bool, error) {
		res, err = db.w.ExecContext(ctx, query, args...)
		return isConflict(err), err
	})
	return res, err
}

// Writer returns the raw pool of Tx and ExecContext, for hot paths with their own prepared statements. It uses the
// placeholders of the driver.
func (db *DB) Writer() *sql.DB { return db.w.DB }

// Reader returns the raw pool of the queries.
func (db *DB) Reader() *sql.DB { return db.r.DB }
