package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/internal/obs"
	"github.com/stoa-dev/stoa/internal/storage/migrations"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

type backupCmd struct {
	settings
	File string `arg:"" type:"path" help:"The file to write, which must not be there yet."`
}

// errMySQLBackup names the tools for backups of MySQL.
var errMySQLBackup = usage{errors.New("this is for SQLite; MySQL and MariaDB have tools of their own, see docs/operate.md")}

// sqliteFile returns the configured SQLite file.
func sqliteFile(cfg app.Config) (string, error) {
	path, ok := sqldb.SQLitePath(sqldb.Config{URL: cfg.SQL, Dir: cfg.Data})
	if !ok {
		return "", errMySQLBackup
	}
	return path, nil
}

// Run writes a copy of the database, also while servers use it.
func (cmd *backupCmd) Run(ctx context.Context, c *console) error {
	cfg, _, err := cmd.load()
	if err != nil {
		return err
	}
	from, err := sqliteFile(cfg)
	if err != nil {
		return err
	}
	if _, err := os.Stat(from); errors.Is(err, fs.ErrNotExist) { // opening would create one
		return fmt.Errorf("%w: there is no database at %s", errNothing, from)
	}
	return cmd.open(ctx, c, func(db *sqldb.DB) error {
		version, _, err := db.Version(ctx)
		if err != nil {
			return err
		}
		if err := db.Backup(ctx, cmd.File); errors.Is(err, fs.ErrExist) {
			return usage{fmt.Errorf("%s is there already", cmd.File)}
		} else if err != nil {
			return err
		}
		size := int64(0)
		if info, err := os.Stat(cmd.File); err == nil {
			size = info.Size()
		}
		if secret := filepath.Join(cfg.Data, "secret"); cfg.Secret == "" && !c.json {
			if _, err := os.Stat(secret); err == nil {
				fmt.Fprintf(c.err, "Keep %s as well: no server starts on the database without the same secret.\n", secret)
			}
		}
		if !c.json {
			fmt.Fprintln(c.err, "Back up the files next, which are not in the database: files.storage says where they are, by default in the "+
				"folder files of the data folder.")
		}
		return c.result(map[string]any{"file": cmd.File, "bytes": size, "schema": version}, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "%s: %d bytes, schema %04d.\n", cmd.File, size, version)
			return err
		})
	})
}

type restoreCmd struct {
	settings
	File    string `arg:"" type:"path" help:"The file that stoa backup wrote."`
	Replace bool   `help:"There may be a database; it is put aside, not removed."`
}

// Run replaces the database by a copy of the file. It returns an error and changes nothing if a server has the database
// open.
func (cmd *restoreCmd) Run(ctx context.Context, c *console) (err error) {
	cfg, _, err := cmd.load()
	if err != nil {
		return err
	}
	to, err := sqliteFile(cfg)
	if err != nil {
		return err
	}
	part := to + ".part"
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	defer func() { _ = os.Remove(part) }() // if it has not become the database
	if err := copyFile(cmd.File, part); errors.Is(err, fs.ErrNotExist) {
		return usage{err}
	} else if err != nil {
		return err
	}
	version, err := sound(ctx, part)
	if err != nil {
		return usage{fmt.Errorf("%s cannot be restored: %w", cmd.File, err)}
	}
	aside, before := "", to+".before-"+time.Now().UTC().Format("20060102T150405.000Z")
	old, err := sqldb.OpenAlone(ctx, to)
	switch {
	case err == nil:
		defer func() { err = errors.Join(err, old.Close()) }()
		if !cmd.Replace {
			return usage{fmt.Errorf("there is a database at %s: --replace puts it aside", to)}
		}
		aside = before
		if err := os.Rename(to, aside); err != nil {
			return err
		}
	case errors.Is(err, fs.ErrNotExist):
		if err := sqldb.MoveLogs(to, before); err != nil {
			return err
		}
	case errors.Is(err, sqldb.ErrInUse):
		return err
	default: // on other systems an open file cannot be detected
		return fmt.Errorf("%w; see that no server runs on it, move %s and what there is of %s-wal and %s-shm away, and restore again", err, to,
			to, to)
	}
	if err := os.Rename(part, to); err != nil {
		return err
	}
	return c.result(map[string]any{"database": to, "schema": version, "aside": aside}, func(w io.Writer) error {
		text := fmt.Sprintf("%s is restored, schema %04d.", to, version)
		if aside != "" {
			text += " What was there is " + aside + "."
		}
		_, err := fmt.Fprintln(w, text)
		return err
	})
}

// sound checks that a file is a database of Stoa that this program can serve, and returns its schema version.
func sound(ctx context.Context, file string) (version int, err error) {
	db, err := sqldb.OpenAlone(ctx, file)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.Check(ctx); err != nil {
		return 0, err
	}
	if version, err = db.Version(ctx); err != nil {
		return 0, fmt.Errorf("it is no database of Stoa: %w", err)
	}
	if newest := migrations.Newest(); version > newest {
		return 0, fmt.Errorf("it has schema %04d and this program knows %04d: a newer stoa wrote it", version, newest)
	}
	return version, nil
}

// copyFile copies a file and flushes it to the disk.
func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}

// answersWithin is how long a command waits for an unavailable database. A server waits longer, because the database
// may start together with it.
const answersWithin = 3 * time.Second

// open opens the database of the settings and calls fn with it.
func (s *settings) open(ctx context.Context, c *console, fn func(*sqldb.DB) error) error {
	cfg, _, err := s.load()
	if err != nil {
		return err
	}
	db, err := c.sql(ctx, cfg.SQL, cfg)
	if err != nil {
		return err
	}
	return errors.Join(fn(db), db.Close())
}

// errSQLAway reports a database that does not answer.
var errSQLAway = errors.New("the database does not answer")

// statementTime bounds a statement of a command. It is long because an export reads a whole table.
const statementTime = 24 * time.Hour

// sql opens a database.
func (c *console) sql(ctx context.Context, url string, cfg app.Config) (*sqldb.DB, error) {
	db, err := sqldb.Open(ctx, sqldb.Config{URL: url, Dir: cfg.Data, Patience: answersWithin, StatementTime: statementTime,
		Log: obs.NewLogger(c.err, cfg.Log)})
	if err != nil && !sqldb.IsDenied(err) && (sqldb.IsUnavailable(err) || errors.Is(err, context.DeadlineExceeded)) && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", errSQLAway, err)
	}
	return db, err
}
