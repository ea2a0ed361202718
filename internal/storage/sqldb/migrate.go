package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	mysqlmigrate "github.com/golang-migrate/migrate/v4/database/mysql"
	"github.com/golang-migrate/migrate/v4/source"
	"github.com/golang-migrate/migrate/v4/source/iofs"
)

const (
	versionTable = "schema_migrations"

	// lockPatience is how long a node retries while the database refuses the lock. It does not bound the wait for the
	// migration of another node, because an index of a large table may take an hour.
	lockPatience = 2 * time.Minute
)

// ErrNewerSchema reports a database that a newer program migrated.
var ErrNewerSchema = errors.New("the schema is newer than this program")

// Migrate applies all missing migrations of fsys: files NNNN_name.up.sql and NNNN_name.down.sql with one statement
// each. Package migrations describes their macros. If several nodes start at once, one applies the migrations and the
// others wait. On SQLite all migrations are one transaction. MySQL and MariaDB cannot roll back DDL, so Migrate
// completes a migration that was interrupted.
func (db *DB) Migrate(ctx context.Context, fsys fs.FS) error {
	err := db.migrate(ctx, fsys, (*migrate.Migrate).Up)
	if err != nil {
		return fmt.Errorf("sqldb.Migrate: %w", err)
	}
	return nil
}

// Rollback undoes the n newest migrations, or all of them if n is negative.
func (db *DB) Rollback(ctx context.Context, fsys fs.FS, n int) error {
	err := db.migrate(ctx, fsys, func(m *migrate.Migrate) error {
		if n < 0 {
			return m.Down()
		}
		if n == 0 {
			return nil
		}
		return m.Steps(-n)
	})
	if err != nil {
		return fmt.Errorf("sqldb.Rollback: %w", err)
	}
	return nil
}

// Version returns the number of the newest applied migration, or 0, and whether that migration was interrupted.
func (db *DB) Version(ctx context.Context) (version int, dirty bool, err error) {
	tables := "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?"
	if db.dialect == SQLite {
		tables = "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = ?"
	}
	var n int
	if err := db.QueryRowContext(ctx, tables, versionTable).Scan(&n); err != nil {
		return 0, false, fmt.Errorf("sqldb.Version: %w", err)
	}
	if n == 0 {
		return 0, false, nil
	}
	err = db.QueryRowContext(ctx, "SELECT version, dirty FROM "+versionTable).Scan(&version, &dirty)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, false, fmt.Errorf("sqldb.Version: %w", err)
	}
	return version, dirty, nil
}

func (db *DB) migrate(ctx context.Context, fsys fs.FS, move func(*migrate.Migrate) error) (err error) {
	trying, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	for {
		err = db.migrateOnce(ctx, fsys, move)
		// Each try waits itself: MySQL 10 s for its lock, SQLite for the file.
		if locked := errors.Is(err, database.ErrLocked); locked && ctx.Err() == nil {
			db.log.Warn("sqldb: waiting for the migration of another node")
		} else if !IsRetryable(err) || trying.Err() != nil {
			break
		}
	}
	switch {
	case errors.Is(err, migrate.ErrNoChange):
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %w", ErrNewerSchema, err)
	}
	return err
}

func (db *DB) migrateOnce(ctx context.Context, fsys fs.FS, move func(*migrate.Migrate) error) (err error) {
	src, err := iofs.New(fsys, ".")
	if err != nil {
		return err
	}
	conn, err := db.w.DB.Conn(ctx)
	if err != nil {
		return err
	}
	if err := withoutLimit(conn); err != nil {
		return errors.Join(err, conn.Close())
	}
	var drv database.Driver
	if db.dialect == SQLite {
		drv = &sqliteMigrations{ctx: ctx, conn: conn}
	} else {
		drv, err = mysqlmigrate.WithConnection(ctx, conn, &mysqlmigrate.Config{MigrationsTable: versionTable})
		if err != nil {
			return errors.Join(err, conn.Close())
		}
	}
	m, err := migrate.NewWithInstance("embedded", src, db.dialect.String(), &resumable{drv, ctx, src, db})
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	m.LockTimeout = lockPatience
	err = move(m)
	srcErr, drvErr := m.Close()
	return errors.Join(err, srcErr, drvErr)
}

// resumable is a driver that replaces macros, starts no migration after ctx has ended, and completes an interrupted one.
// It replaces the GracefulStop of the library, which has a data race and reports no error.
type resumable struct {
	database.Driver
	ctx context.Context
	src source.Driver
	db  *DB
}

// SetVersion implements database.Driver. Each migration starts by storing its version as dirty.
func (r *resumable) SetVersion(version int, dirty bool) error {
	if dirty && r.ctx.Err() != nil {
		return r.ctx.Err()
	}
	return r.Driver.SetVersion(version, dirty)
}

// Run implements database.Driver. It unwraps the error of the library, which has no Unwrap.
func (r *resumable) Run(migration io.Reader) error {
	text, err := io.ReadAll(migration)
	if err != nil {
		return err
	}
	ddl, err := r.db.dialect.ExpandDDL(string(text))
	if err != nil {
		start, _, _ := strings.Cut(string(text), "\n")
		return fmt.Errorf("%w in %s", err, start)
	}
	err = r.Driver.Run(strings.NewReader(ddl))
	if e, ok := err.(database.Error); ok {
		return fmt.Errorf("%w in %s", e.OrigErr, e.Query)
	}
	return err
}

// Version implements database.Driver. The library calls it under the lock, before the first migration.
func (r *resumable) Version() (version int, dirty bool, err error) {
	version, dirty, err = r.Driver.Version()
	if err == nil && dirty {
		r.db.log.Warn("sqldb: resuming interrupted migration", "version", version)
		err = r.resume(version)
	}
	return version, false, err
}

// mysqlApplied lists the codes of MySQL and MariaDB for a migration whose statement already took effect.
var mysqlApplied = []uint16{
	1050, // table exists
	1060, // column exists
	1061, // index exists
	1051, // no such table
	1091, // no such column or index
}

// resume runs the migration of a version again. Its one statement either took full effect or none.
func (r *resumable) resume(version int) error {
	if version != database.NilVersion {
		text, _, err := r.src.ReadUp(uint(version))
		if err != nil {
			return err
		}
		defer text.Close()
		err = r.Run(text)
		if e, ok := errors.AsType[*mysql.MySQLError](err); err != nil && !(ok && slices.Contains(mysqlApplied, e.Number)) {
			return err
		}
	}
	return r.SetVersion(version, false)
}

var macro = regexp.MustCompile(`\{\{([^{}]*)\}\}`)

// ExpandDDL replaces the macros of a migration. It returns an error for an unknown macro.
func (d Dialect) ExpandDDL(text string) (_ string, err error) {
	text = macro.ReplaceAllStringFunc(text, func(m string) string {
		word, arg, _ := strings.Cut(strings.Trim(m, "{}"), " ")
		lite, my := "", ""
		switch {
		case word == "id" && arg == "":
			lite, my = "VARCHAR(12)", "VARCHAR(12) CHARACTER SET ascii COLLATE ascii_bin"
		case word == "text" && arg != "" && strings.Trim(arg, "0123456789") == "":
			lite = "VARCHAR(" + arg + ")"
			my = lite + " CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
		case word == "text" && arg == "":
			lite, my = "TEXT", "MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
		case word == "blob" && arg == "":
			lite, my = "BLOB", "MEDIUMBLOB"
		case word == "serial" && arg == "":
			lite, my = "INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT", "BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY"
		case word == "table" && arg == "":
			lite, my = "WITHOUT ROWID", "ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"
		case word == "table" && arg == "serial":
			my = "ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"
		case word == "on" && arg != "":
			my = " ON " + arg
		default:
			err = fmt.Errorf("unknown macro %s", m)
		}
		if d == SQLite {
			return lite
		}
		return my
	})
	return text, err
}

// sqliteMigrations stores the schema version in SQLite. Unlike the driver of the library it locks out other processes,
// and it runs all migrations in one transaction from Lock to Unlock, so that a kill leaves nothing half-applied.
type sqliteMigrations struct {
	database.Driver // nil: Migrate and Rollback call neither Open nor Drop

	ctx        context.Context // the context of one Migrate; the interface has no other way to pass it
	conn       *sql.Conn
	unfinished bool // a migration, or the table of versions, has begun and not ended
}

func (s *sqliteMigrations) exec(query string, args ...any) error {
	if _, err := s.conn.ExecContext(s.ctx, query, args...); err != nil {
		return fmt.Errorf("%w in %s", err, query)
	}
	return nil
}

// Close returns the writer connection to the pool.
func (s *sqliteMigrations) Close() error { return s.conn.Close() }

// Lock begins the transaction. It waits for other processes.
func (s *sqliteMigrations) Lock() error {
	if err := s.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	err := s.exec("CREATE TABLE IF NOT EXISTS " + versionTable + " (version INTEGER NOT NULL, dirty INTEGER NOT NULL)")
	if err != nil {
		s.unfinished = true
		return errors.Join(err, s.Unlock())
	}
	return nil
}

// Unlock commits, or rolls back after a failure.
func (s *sqliteMigrations) Unlock() error {
	end := "COMMIT"
	if s.unfinished {
		end = "ROLLBACK"
	}
	// The transaction must end even if the context has ended, because the connection goes back to the pool.
	_, err := s.conn.ExecContext(context.WithoutCancel(s.ctx), end)
	return err
}

// Run applies one migration.
func (s *sqliteMigrations) Run(migration io.Reader) error {
	text, err := io.ReadAll(migration)
	if err != nil {
		return err
	}
	return s.exec(string(text))
}

// SetVersion stores the version.
func (s *sqliteMigrations) SetVersion(version int, dirty bool) error {
	err := s.exec("DELETE FROM " + versionTable)
	if err == nil && version >= 0 {
		err = s.exec("INSERT INTO "+versionTable+" (version, dirty) VALUES (?, ?)", version, dirty)
	}
	s.unfinished = dirty || err != nil
	return err
}

// Version returns the stored version. The library calls it between Lock and Unlock.
func (s *sqliteMigrations) Version() (version int, dirty bool, err error) {
	err = s.conn.QueryRowContext(s.ctx, "SELECT version, dirty FROM "+versionTable).Scan(&version, &dirty)
	if errors.Is(err, sql.ErrNoRows) {
		return database.NilVersion, false, nil
	}
	return version, dirty, err
}
