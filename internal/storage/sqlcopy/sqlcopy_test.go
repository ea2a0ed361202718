//go:build unix

package sqlcopy_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/golang-migrate/migrate/v4/database"

	"github.com/stoa-dev/stoa/internal/storage/sqlcopy"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// TestMain also runs the process that kills itself with SIGKILL after a number of batches.
func TestMain(m *testing.M) {
	if from := os.Getenv("SQLCOPY_FROM"); from != "" {
		left := 0
		fmt.Sscan(os.Getenv("SQLCOPY_BATCHES"), &left)
		_, err := copyIt(context.Background(), from, os.Getenv("SQLCOPY_TO"), func(sqlcopy.Progress) {
			if left--; left == 0 {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		})
		fmt.Fprintln(os.Stderr, "it was not killed:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func copyIt(ctx context.Context, path, url string, progress func(sqlcopy.Progress)) (_ []sqlcopy.Table, err error) {
	from, err := sqldb.OpenAlone(ctx, path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, err := sqldb.Open(ctx, sqldb.Config{URL: url})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	return sqlcopy.Copy(ctx, from, to, progress)
}

func none(sqlcopy.Progress) {}

const (
	days     = 4700 // of one user; several batches
	pictures = 5    // of 700,000 bytes each; more than a batch holds
)

var picture = bytes.Repeat([]byte{0, 0xff, '\'', '\\', '"', 0x1a, '\n'}, 100_000)

// source returns a database with values that are hard to copy: ids that differ in case, text in other scripts and with
// quotes, bytes, NULL, and numbers of deleted rows.
func source(t *testing.T) (path string) {
	t.Helper()
	dir := t.TempDir()
	db := sqldbtest.Open(t, sqldb.Config{Dir: dir})
	exec := func(query string, args ...any) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), query, args...); err != nil {
			t.Fatal(err)
		}
	}
	for i, name := range []string{"Ann", "李小龙", `O'Neil \"x`, "🦊 ünï"} {
		id := fmt.Sprintf("%s%011d", string("aAbB"[i]), 1)
		exec("INSERT INTO users (id, email, email_key, name, password_hash, zone, zone_next, zone_from, created) VALUES (?, ?, ?, ?, NULL, "+
			"'UTC', '', 0, ?)",
			id, name+"@example.org", fmt.Sprint(i), name, int64(1)<<52+int64(i))
	}
	exec(fmt.Sprintf("INSERT INTO checkins (user_id, day, at, kind, words, minutes, req) WITH RECURSIVE d(n) AS (SELECT -5 UNION ALL "+
		"SELECT n + 1 FROM d WHERE n < %d) SELECT 'a00000000001', n, n * 1000, 0, n + 7, 0, -9223372036854775803 + n FROM d", days-6))
	for i := range pictures {
		exec("INSERT INTO avatars (id, size, user_id, type, data) VALUES ('V1StGXR8_Z5j', ?, 'a00000000001', 'image/png', ?)", i, picture)
	}
	for range 3 {
		exec("INSERT INTO outbox (topic, msg_key, dedup, payload, created, due, attempts, claim, error, dead) VALUES ('story', '', NULL, ?, "+
			"1, 1, 0, '', '', 0)", []byte{0, 1, 0xfe})
	}
	exec("DELETE FROM outbox WHERE id = 3")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, sqldb.FileName)
}

// target returns an empty database on a real server.
func target(t *testing.T) (url string, db *sqldb.DB) {
	t.Helper()
	cfg := sqldbtest.Default(t).Config(t)
	db, err := sqldb.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return cfg.URL, db
}

func number(t *testing.T, db *sqldb.DB, query string) (n int64) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// whole checks the target without the code of the comparison.
func whole(t *testing.T, db *sqldb.DB) {
	t.Helper()
	for query, want := range map[string]int64{
		"SELECT COUNT(*) FROM users":    4,
		"SELECT COUNT(*) FROM checkins": days,
		"SELECT COUNT(*) FROM avatars":  pictures,
		"SELECT COUNT(*) FROM outbox":   2,
		"SELECT COUNT(*) FROM users WHERE id IN ('a00000000001', 'A00000000001') AND password_hash IS NULL":           2,
		"SELECT COUNT(*) FROM users WHERE name IN ('李小龙', 'O''Neil \\\\\\\"x', '🦊 ünï')":                              3,
		"SELECT SUM(words) - SUM(day) FROM checkins":                                                                  7 * days,
		"SELECT MIN(req) + 9223372036854775807 FROM checkins":                                                         -1,
		"SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'stoa_copy'": 0,
	} {
		if got := number(t, db, query); got != want {
			t.Errorf("%s: got %d, want %d", query, got, want)
		}
	}
	var data []byte
	if err := db.QueryRowContext(t.Context(), "SELECT data FROM avatars WHERE size = 4").Scan(&data); err != nil ||
		!bytes.Equal(data, picture) {
		t.Errorf("a picture came as %d bytes (%v)", len(data), err)
	}
	if _, err := db.ExecContext(t.Context(), "INSERT INTO outbox (topic, msg_key, dedup, payload, created, due, attempts, claim, error, "+
		"dead) VALUES ('next', '', NULL, '', 1, 1, 0, '', '', 0)"); err != nil {
		t.Fatal(err)
	}
	if got := number(t, db, "SELECT MAX(id) FROM outbox"); got != 4 {
		t.Errorf("the next message has the number %d, want 4, because SQLite assigned 3", got)
	}
	if err := sqlcopy.Unfinished(t.Context(), db); err != nil {
		t.Errorf("after the copy: %v", err)
	}
}

func TestCopy_CopiesEveryRowOnce(t *testing.T) {
	t.Parallel()
	path := source(t)
	to, db := target(t)
	steps := map[string]sqlcopy.Progress{}
	tables, err := copyIt(t.Context(), path, to, func(p sqlcopy.Progress) { steps[p.Step] = p })
	if err != nil {
		t.Fatal(err)
	}
	whole(t, db)
	total := int64(0)
	for _, table := range tables {
		total += table.Rows
	}
	if want := int64(days + pictures + 4 + 2); total != want || steps["copy"].Done != total || steps["copy"].Total != total ||
		len(tables) < 20 {
		t.Errorf("got %d rows in %d tables and the progress %+v, want %d", total, len(tables), steps, want)
	}
	if _, err := copyIt(t.Context(), path, to, none); !errors.Is(err, sqlcopy.ErrNotEmpty) {
		t.Errorf("again: got %v, want ErrNotEmpty", err)
	}
}

// killed runs a copy in another process that is killed after some batches.
func killed(t *testing.T, from, to string, batches int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "SQLCOPY_FROM="+from, "SQLCOPY_TO="+to, fmt.Sprint("SQLCOPY_BATCHES=", batches))
	out, err := cmd.CombinedOutput()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("got %v, want a kill; its output is\n%s", err, out)
	}
}

func TestCopy_ResumesAfterAKill(t *testing.T) {
	t.Parallel()
	path := source(t)
	to, db := target(t)
	left := int64(0)
	for try := 1; try <= 3; try++ {
		killed(t, path, to, 3)
		if err := sqlcopy.Unfinished(t.Context(), db); !errors.Is(err, sqlcopy.ErrUnfinished) {
			t.Errorf("killed %d times: got %v, want ErrUnfinished, so that no server starts", try, err)
		}
		done := number(t, db, "SELECT SUM(copied) FROM stoa_copy")
		if done <= left {
			t.Errorf("killed %d times: %d rows are there, and %d were before", try, done, left)
		}
		left = done
	}
	first := int64(-1)
	if _, err := copyIt(t.Context(), path, to, func(p sqlcopy.Progress) {
		if first < 0 {
			first = p.Done
		}
	}); err != nil {
		t.Fatal(err)
	}
	if first <= left {
		t.Errorf("it went on at %d rows, want after the %d that were there", first, left)
	}
	whole(t, db)
}

func TestCopy_ResumesAfterTargetCrash(t *testing.T) {
	t.Parallel()
	path := source(t)
	server := sqldbtest.OwnServer(t, sqldbtest.Options{Durable: true})
	batches := 0
	if _, err := copyIt(t.Context(), path, server.URL, func(sqlcopy.Progress) {
		if batches++; batches == 4 {
			server.Kill9(t)
		}
	}); err == nil {
		t.Fatal("copied to a server that is dead")
	}
	server.Restart(t)
	if _, err := copyIt(t.Context(), path, server.URL, none); err != nil {
		t.Fatal(err)
	}
	db, err := sqldb.Open(t.Context(), sqldb.Config{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	whole(t, db)
}

func TestCopy_OutlivesIdleTimeout(t *testing.T) {
	t.Parallel()
	path := source(t)
	server := sqldbtest.OwnServer(t, sqldbtest.Options{})
	db, err := sqldb.Open(t.Context(), sqldb.Config{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	exec := func(query string) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	exec("SET GLOBAL wait_timeout = 1")
	waited := false
	if _, err := copyIt(t.Context(), path, server.URL, func(sqlcopy.Progress) {
		if waited {
			return
		}
		waited = true
		eventually.True(t, "the end of all connections of the copy but one", func() bool {
			return number(t, db, "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()") <= 1
		})
		exec("SET GLOBAL wait_timeout = 3600")
	}); err != nil {
		t.Fatal(err)
	}
	whole(t, db)
}

func TestCopy_DetectsChangesSinceTheStart(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(t *testing.T, path string, db *sqldb.DB){
		"in the source": func(t *testing.T, path string, _ *sqldb.DB) {
			db, err := sqldb.Open(t.Context(), sqldb.Config{URL: "sqlite:" + path})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if _, err := db.ExecContext(t.Context(), "UPDATE checkins SET words = 1 WHERE day = -5"); err != nil {
				t.Fatal(err)
			}
		},
		"in the target": func(t *testing.T, _ string, db *sqldb.DB) {
			if _, err := db.ExecContext(t.Context(), "UPDATE checkins SET minutes = 1 WHERE day = -5"); err != nil {
				t.Fatal(err)
			}
		},
		"a row less": func(t *testing.T, _ string, db *sqldb.DB) {
			if _, err := db.ExecContext(t.Context(), "DELETE FROM checkins WHERE day = -5"); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := source(t)
			to, db := target(t)
			killed(t, path, to, 6) // the pictures take three batches
			if number(t, db, "SELECT COUNT(*) FROM checkins WHERE day = -5") != 1 {
				t.Fatal("the row was not copied before the kill")
			}
			change(t, path, db)
			for range 2 {
				if _, err := copyIt(t.Context(), path, to, none); !errors.Is(err, sqlcopy.ErrDiffers) || !strings.Contains(err.Error(), "checkins (") {
					t.Errorf("got %v, want ErrDiffers with the table", err)
				}
			}
			if err := sqlcopy.Unfinished(t.Context(), db); !errors.Is(err, sqlcopy.ErrUnfinished) {
				t.Errorf("got %v, want ErrUnfinished", err)
			}
		})
	}
}

// The migrations take the longest time before the first row, and a server may start during them.
func TestCopy_IsMarkedBeforeMigrations(t *testing.T) {
	t.Parallel()
	path := source(t)
	to, db := target(t)
	name := ""
	if err := db.QueryRowContext(t.Context(), "SELECT DATABASE()").Scan(&name); err != nil {
		t.Fatal(err)
	}
	lock, err := database.GenerateAdvisoryLockId(name + ":schema_migrations")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := db.Writer().Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(t.Context(), "DO GET_LOCK(?, 0)", lock); err != nil { // migrations wait
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { _, err := copyIt(t.Context(), path, to, none); done <- err }()
	eventually.NoError(t, "the copy to be known", func() error {
		if err := sqlcopy.Unfinished(t.Context(), db); !errors.Is(err, sqlcopy.ErrUnfinished) {
			return fmt.Errorf("got %v, want ErrUnfinished", err)
		}
		return nil
	})
	if _, err := conn.ExecContext(t.Context(), "DO RELEASE_LOCK(?)", lock); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	whole(t, db)
}

// The names of locks and of databases in MySQL have at most 64 characters.
func TestCopy_AcceptsLongestDatabaseName(t *testing.T) {
	t.Parallel()
	short, db := target(t)
	name := strings.Repeat("n", 64)
	if _, err := db.ExecContext(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if _, err := db.ExecContext(context.WithoutCancel(t.Context()), "DROP DATABASE "+name); err != nil {
			t.Error(err)
		}
	}()
	head, tail, _ := strings.Cut(short, "/stoa_")
	_, options, _ := strings.Cut(tail, "?")
	if _, err := copyIt(t.Context(), source(t), head+"/"+name+"?"+options, none); err != nil {
		t.Error(err)
	}
}

func TestCopy_RefusesUnsafeSourcesAndTargets(t *testing.T) {
	t.Parallel()
	path := source(t)
	to, db := target(t)

	server, err := sqldb.Open(t.Context(), sqldb.Config{URL: "sqlite:" + path})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := copyIt(t.Context(), path, to, none); !errors.Is(err, sqldb.ErrInUse) {
		t.Errorf("a server has the source open: got %v, want ErrInUse", err)
	}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}

	alone, err := sqldb.OpenAlone(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath())
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if err := pool.QueryRow("SELECT 1 FROM users").Scan(new(int)); err == nil {
		t.Error("the source can be read while it is copied: a server could open it")
	}
	second, err := sqldb.OpenAlone(t.Context(), path)
	if !errors.Is(err, sqldb.ErrInUse) {
		t.Errorf("two copies of one source: got %v, %v", second, err)
	}
	if err := errors.Join(alone.Close()); err != nil {
		t.Fatal(err)
	}

	killed(t, path, to, 2)
	before := number(t, db, "SELECT SUM(copied) FROM stoa_copy")
	if _, err := copyIt(t.Context(), source(t), to, none); !errors.Is(err, sqlcopy.ErrOther) || !strings.Contains(err.Error(), path) {
		t.Errorf("another source: got %v, want ErrOther with the path", err)
	}
	if after := number(t, db, "SELECT SUM(copied) FROM stoa_copy"); after != before {
		t.Errorf("what was refused changed %d rows to %d", before, after)
	}

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	other := source(t)
	if _, err := copyIt(ctx, path, to, func(sqlcopy.Progress) {
		if _, err := copyIt(t.Context(), other, to, none); !errors.Is(err, sqlcopy.ErrRunning) {
			t.Errorf("two copies at once: got %v, want ErrRunning", err)
		}
		stop()
	}); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: got %v", err)
	}
	if _, err := copyIt(t.Context(), path, to, none); err != nil {
		t.Error(err)
	}
	whole(t, db)
}
