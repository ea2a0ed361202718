package sqldb_test

import (
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/uptrace/bun"

	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
)

// onEngines runs f on each engine with an empty database that has a table things (id, name, n).
func onEngines(t *testing.T, f func(t *testing.T, db *sqldb.DB)) {
	for _, e := range sqldbtest.Engines(t) {
		t.Run(e.Name, func(t *testing.T) {
			db, err := sqldb.Open(t.Context(), e.Config(t))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { must(t, db.Close()) })
			ddl, err := db.Dialect().ExpandDDL(`CREATE TABLE things (id {{id}} NOT NULL PRIMARY KEY,
				name {{text 20}} NOT NULL, n INTEGER NOT NULL CHECK (n >= 0)) {{table}}`)
			must(t, err)
			exec(t, db, ddl)
			f(t, db)
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func exec(t *testing.T, db sqldb.Querier, query string, args ...any) {
	t.Helper()
	_, err := db.ExecContext(t.Context(), query, args...)
	must(t, err)
}

func names(t *testing.T, db sqldb.Querier) []string {
	t.Helper()
	var got []string
	must(t, db.NewRaw("SELECT name FROM things ORDER BY id").Scan(t.Context(), &got))
	return got
}

func insert(ctx context.Context, q sqldb.Querier, id, name string) error {
	_, err := q.ExecContext(ctx, "INSERT INTO things (id, name, n) VALUES (?, ?, 0)", id, name)
	return err
}

func TestTx_CommitsOrRollsBack(t *testing.T) {
	onEngines(t, func(t *testing.T, db *sqldb.DB) {
		boom := errors.New("boom")
		var ran []string
		must(t, db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			tx.AfterCommit(func() { ran = append(ran, "first") })
			tx.AfterCommit(func() { ran = append(ran, fmt.Sprint("second, sees ", names(t, db))) })
			return insert(ctx, tx, "a", "kept")
		}))
		err := db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			tx.AfterCommit(func() { ran = append(ran, "after a rollback") })
			must(t, insert(ctx, tx, "b", "lost"))
			return boom
		})
		if err != boom {
			t.Errorf("Tx returned %v, want the function's own error", err)
		}
		if got, want := names(t, db), []string{"kept"}; !slices.Equal(got, want) {
			t.Errorf("rows %q, want %q", got, want)
		}
		if want := []string{"first", "second, sees [kept]"}; !slices.Equal(ran, want) {
			t.Errorf("AfterCommit ran %q, want %q", ran, want)
		}
	})
}

func TestTx_PanicRollsBackAndContinues(t *testing.T) {
	onEngines(t, func(t *testing.T, db *sqldb.DB) {
		func() {
			defer func() {
				if got := recover(); got != "boom" {
					t.Errorf("recovered %v, want boom", got)
				}
			}()
			_ = db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
				must(t, insert(ctx, tx, "a", "lost"))
				panic("boom")
			})
		}()
		// On SQLite an open transaction would block this one forever.
		must(t, db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error { return insert(ctx, tx, "a", "kept") }))
		if got, want := names(t, db), []string{"kept"}; !slices.Equal(got, want) {
			t.Errorf("rows %q, want %q", got, want)
		}
	})
}

func TestTx_RetriesOnlyRetryableErrors(t *testing.T) {
	onEngines(t, func(t *testing.T, db *sqldb.DB) {
		tries, after := 0, 0
		must(t, db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			tries++
			tx.AfterCommit(func() { after++ })
			must(t, insert(ctx, tx, "a", "kept"))
			if tries < 3 {
				return fmt.Errorf("wrapped: %w", &mysql.MySQLError{Number: 1213})
			}
			return nil
		}))
		if tries != 3 || after != 1 {
			t.Errorf("%d tries, %d callbacks, want 3 and 1", tries, after)
		}
		tries = 0
		err := db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			tries++
			return insert(ctx, tx, "a", "again")
		})
		want := 2 // another node may have added the row in the meantime
		if db.Dialect() == sqldb.SQLite {
			want = 1
		}
		if tries != want || !sqldb.IsDuplicate(err) {
			t.Errorf("a duplicate: %d tries, error %v, want %d and a duplicate", tries, err, want)
		}
		tries = 0
		ctx, cancel := context.WithCancel(t.Context())
		err = db.Tx(ctx, func(context.Context, *sqldb.Tx) error {
			tries++
			cancel()
			return &mysql.MySQLError{Number: 1205}
		})
		if tries != 1 || !sqldb.IsRetryable(err) {
			t.Errorf("a canceled caller: %d tries, error %v, want 1 and its cause", tries, err)
		}
	})
}

func TestTx_OppositeLockOrdersBothSucceed(t *testing.T) {
	onEngines(t, func(t *testing.T, db *sqldb.DB) {
		exec(t, db, "INSERT INTO things (id, name, n) VALUES ('a', '', 0), ('b', '', 0)")
		bothLocked := make(chan struct{})
		var once, all sync.WaitGroup
		if db.Dialect() != sqldb.SQLite { // on SQLite the second one waits for the first
			once.Add(2)
			go func() { once.Wait(); close(bothLocked) }()
		} else {
			close(bothLocked)
		}
		for _, order := range [][2]string{{"a", "b"}, {"b", "a"}} {
			all.Go(func() {
				first := true
				err := db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
					for i, id := range order {
						if _, err := tx.ExecContext(ctx, "UPDATE things SET n = n + 1 WHERE id = ?", id); err != nil {
							return err
						}
						if i == 0 && first {
							first = false
							if db.Dialect() != sqldb.SQLite {
								once.Done()
							}
							<-bothLocked
						}
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		var n int
		must(t, db.NewRaw("SELECT SUM(n) FROM things").Scan(t.Context(), &n))
		if n != 4 {
			t.Errorf("sum %d, want 4: each transaction once", n)
		}
	})
}

func TestTx_NowIsFixedInMilliseconds(t *testing.T) {
	clock := time.Date(2026, 3, 29, 1, 59, 59, 123_456_789, time.FixedZone("x", 3600))
	db := sqldbtest.SQLite(t, func(c *sqldb.Config) {
		c.Now = func() time.Time { clock = clock.Add(time.Second); return clock }
	})
	must(t, db.Tx(t.Context(), func(_ context.Context, tx *sqldb.Tx) error {
		got, want := tx.Now(), clock.UTC().Truncate(time.Millisecond)
		if got != want || tx.Now() != want {
			t.Errorf("Now is %v, then %v, want %v twice", got, tx.Now(), want)
		}
		return nil
	}))
}

// A full disk is reported as a full table, which a table in memory imitates, or as a log that cannot be written.
func TestErrors_FullDiskIsUnavailable(t *testing.T) {
	db := sqldbtest.Default(t).Open(t)
	err := db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		if _, err := tx.ExecContext(ctx, "SET SESSION max_heap_table_size = 16384"); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "CREATE TEMPORARY TABLE little (text CHAR(250)) ENGINE = MEMORY"); err != nil {
			return err
		}
		for range 1000 {
			if _, err := tx.ExecContext(ctx, "INSERT INTO little VALUES ('x')"); err != nil {
				return err
			}
		}
		return nil
	})
	for _, got := range []error{err, &mysql.MySQLError{Number: 1026,
		Message: "Error writing file 'binlog' (Errcode: 28 \"No space left on device\")"}} {
		if !sqldb.IsUnavailable(got) || sqldb.IsRetryable(got) || sqldb.IsRowError(got) {
			t.Errorf("got %v, want it unavailable", got)
		}
	}
}

func TestErrors_AreClassifiedByCode(t *testing.T) {
	onEngines(t, func(t *testing.T, db *sqldb.DB) {
		exec(t, db, "INSERT INTO things (id, name, n) VALUES ('a', '', 0)")
		lite := db.Dialect() == sqldb.SQLite
		for _, c := range []struct {
			what, query    string
			duplicate, row bool
		}{
			{"a duplicate key", "INSERT INTO things (id, name, n) VALUES ('a', '', 0)", true, true},
			{"a null", "INSERT INTO things (id, name, n) VALUES ('b', NULL, 0)", false, true},
			{"a check", "INSERT INTO things (id, name, n) VALUES ('c', '', -1)", false, true},
			{"too long a text", "INSERT INTO things (id, name, n) VALUES ('d', '123456789012345678901', 0)", false, !lite},
			{"too large a number", "INSERT INTO things (id, name, n) VALUES ('e', '', 99999999999)", false, !lite},
			{"no number", "INSERT INTO things (id, name, n) VALUES ('f', '', 'x')", false, !lite},
			{"a syntax error", "INSERT INTO INTO", false, false},
		} {
			_, err := db.ExecContext(t.Context(), c.query)
			if got := sqldb.IsDuplicate(err); got != c.duplicate {
				t.Errorf("%s: IsDuplicate(%v) is %v", c.what, err, got)
			}
			if got := sqldb.IsRowError(err); got != c.row {
				t.Errorf("%s: IsRowError(%v) is %v", c.what, err, got)
			}
			if sqldb.IsRetryable(err) || sqldb.IsUnavailable(err) {
				t.Errorf("%s: %v is retryable or unavailable", c.what, err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), -1)
		defer cancel()
		if err := db.Ping(ctx); err == nil || sqldb.IsUnavailable(err) {
			t.Errorf("a caller's own deadline (%v) is reported as an unavailable database", err)
		}
	})
}

func TestUpsert_LeavesChangesOrComputes(t *testing.T) {
	onEngines(t, func(t *testing.T, db *sqldb.DB) {
		u := sqldb.Upsert{Table: "things", Columns: []string{"id", "name", "n"}, Key: []string{"id"}}
		run := func(u sqldb.Upsert, args ...any) {
			t.Helper()
			must(t, db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
				_, err := tx.SQL().ExecContext(ctx, tx.Dialect().Compile(u).For(len(args)/3), args...)
				return err
			}))
		}
		run(u, "a", "old", 5, "b", "old", 5)
		run(u, "a", "new", 1, "c", "new", 1)
		u.Set = []string{"name"}
		run(u, "b", "set", 9)
		u.Set = []string{"n = {greatest}(n, {new.n}) | {new.n}"}
		run(u, "a", "", 8, "b", "", 2)

		var got []string
		rows, err := db.QueryContext(t.Context(), "SELECT id, name, n FROM things ORDER BY id")
		must(t, err)
		defer rows.Close()
		for rows.Next() {
			var id, name string
			var n int
			must(t, rows.Scan(&id, &name, &n))
			got = append(got, fmt.Sprint(id, " ", name, " ", n))
		}
		if want := []string{"a old 8", "b set 7", "c new 1"}; !slices.Equal(got, want) {
			t.Errorf("rows %q, want %q", got, want)
		}

		// Unlike INSERT IGNORE it hides no other error.
		u.Set = nil
		_, err = db.Writer().ExecContext(t.Context(), db.Dialect().Compile(u).For(1), "x", "", -1)
		if !sqldb.IsRowError(err) {
			t.Errorf("a violated check gives %v, want a row error", err)
		}
	})
}

func TestInserter_CountsNewRowsAndKeepsOldOnes(t *testing.T) {
	onEngines(t, func(t *testing.T, db *sqldb.DB) {
		check := func(t *testing.T) {
			in := db.Inserter(sqldb.Upsert{Table: "things", Columns: []string{"id", "name", "n"}, Key: []string{"id"}})
			exec(t, db, "DELETE FROM things")
			next := 0
			for _, n := range []int{1, 2, 8, 9, 64, 65, 512, 513} {
				var args []any
				for range n {
					args = append(args, fmt.Sprint("new", next), "", n)
					next++
				}
				if added, err := in.Insert(t.Context(), args); added != int64(n) || err != nil {
					t.Errorf("%d new rows: %d added, %v", n, added, err)
				}
				args[2] = 99 // all rows except the last one exist now
				if added, err := in.Insert(t.Context(), append(args, fmt.Sprint("more", n), "", n)); added != 1 || err != nil {
					t.Errorf("%d old rows and a new one: %d added, %v", n, added, err)
				}
			}
			find := db.Finder("SELECT id FROM things WHERE (id, name) IN ", 2, "")
			for _, n := range []int{1, 2, 8, 9, 64, 65, 512} {
				keys := []any{"nobody", ""}
				for i := range n {
					keys = append(keys, fmt.Sprint("new", i), "")
				}
				rows, err := find.Find(t.Context(), keys)
				var found []string
				must(t, sqldb.Each(rows, err, func(rows *sql.Rows) error {
					found = append(found, "")
					return rows.Scan(&found[len(found)-1])
				}))
				if len(found) != n {
					t.Errorf("%d of %d rows are found", len(found), n)
				}
			}
			var changed int
			must(t, db.NewRaw("SELECT COUNT(*) FROM things WHERE n = 99").Scan(t.Context(), &changed))
			if changed != 0 {
				t.Errorf("%d existing rows changed", changed)
			}
		}
		t.Run("prepared", check)
		if db.Dialect() != sqldb.SQLite {
			in := db.Inserter(sqldb.Upsert{Table: "things", Columns: []string{"id", "name", "n"}, Key: []string{"id"}})
			find := db.Finder("SELECT id FROM things WHERE (id, name) IN ", 2, "")
			one := func(t *testing.T, id string) {
				t.Helper()
				if added, err := in.Insert(t.Context(), []any{id, "", 1}); added != 1 || err != nil {
					t.Errorf("a new row: %d added, %v", added, err)
				}
				found := 0
				rows, err := find.Find(t.Context(), []any{id, ""})
				must(t, sqldb.Each(rows, err, func(*sql.Rows) error { found++; return nil }))
				if found != 1 {
					t.Errorf("%d rows are found, want 1", found)
				}
			}
			one(t, "here")
			conn, err := db.Writer().Conn(t.Context()) // the last used connection
			must(t, err)
			defer conn.Close()
			var most int
			must(t, db.NewRaw("SELECT @@max_prepared_stmt_count").Scan(t.Context(), &most))
			exec(t, db, "SET GLOBAL max_prepared_stmt_count = 0")
			defer exec(t, db, fmt.Sprint("SET GLOBAL max_prepared_stmt_count = ", most))
			t.Run("too many prepared statements", check)
			t.Run("prepared only on another connection", func(t *testing.T) { one(t, "there") })
		}
	})
}

func TestQueries_AcceptListsAndBytes(t *testing.T) {
	onEngines(t, func(t *testing.T, db *sqldb.DB) {
		want := []string{`it's`, `back\slash`, `ü?漢🙂`}
		for i, name := range want {
			must(t, insert(t.Context(), db, fmt.Sprint("id", i), name))
		}
		var got []string
		must(t, db.NewRaw("SELECT name FROM things WHERE name IN (?) ORDER BY id", bun.List(want)).Scan(t.Context(), &got))
		if !slices.Equal(got, want) {
			t.Errorf("names %q, want %q", got, want)
		}
		var none string
		if err := db.NewRaw("SELECT name FROM things WHERE id = ?", "x").Scan(t.Context(), &none); !errors.Is(err, sql.ErrNoRows) {
			t.Errorf("no row gives %v, want sql.ErrNoRows", err)
		}
	})
}

func TestSQLite_ConcurrentWritersNeverFail(t *testing.T) {
	cfg := sqldb.Config{Dir: t.TempDir()}
	a, b := sqldbtest.Open(t, cfg), sqldbtest.Open(t, cfg) // like two processes
	exec(t, a, "CREATE TABLE c (n INTEGER)")
	exec(t, a, "INSERT INTO c VALUES (0)")
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 10 {
				err := []*sqldb.DB{a, b}[i%2].Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
					var n int
					if err := tx.NewRaw("SELECT n FROM c").Scan(ctx, &n); err != nil {
						return err
					}
					_, err := tx.ExecContext(ctx, "UPDATE c SET n = ?", n+1)
					return err
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	var n int
	must(t, a.NewRaw("SELECT n FROM c").Scan(t.Context(), &n))
	if n != 80 {
		t.Errorf("counted %d, want 80", n)
	}
}

func TestSQLite_FileIsPrivateAndDurable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "with space?&#%", "data")
	db := sqldbtest.Open(t, sqldb.Config{Dir: dir})
	exec(t, db, "CREATE TABLE x (n INTEGER)")
	for name, want := range map[string]os.FileMode{".": 0o700, sqldb.FileName: 0o600, sqldb.FileName + "-wal": 0o600,
		sqldb.FileName + "-shm": 0o600} {
		info, err := os.Stat(filepath.Join(dir, name))
		must(t, err)
		if got := info.Mode().Perm(); got != want {
			t.Errorf("mode of %s is %o, want %o", name, got, want)
		}
	}
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1"} {
		var got string
		must(t, db.Writer().QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got))
		if got != want {
			t.Errorf("%s is %s, want %s", pragma, got, want)
		}
	}
	if _, err := db.NewRaw("INSERT INTO x VALUES (1)").Exec(t.Context()); err == nil {
		t.Error("a reader wrote")
	}
	if _, err := sqldb.Open(t.Context(), sqldb.Config{}); err == nil || !strings.Contains(err.Error(), "Dir is empty") {
		t.Errorf("no folder gives %v", err)
	}
	other := sqldbtest.Open(t, sqldb.Config{URL: "sqlite:" + filepath.Join(t.TempDir(), "other.db")})
	if got := other.String(); !strings.HasSuffix(got, "other.db") {
		t.Errorf("opened %s, want other.db", got)
	}
}

func TestSession_IgnoresServerDefaults(t *testing.T) {
	db, err := sqldb.Open(t.Context(), sqldb.Config{URL: sqldbtest.Server(t).URL})
	must(t, err)
	defer db.Close()
	isolation, collation := "transaction_isolation", "utf8mb4_0900_ai_ci" // the server's defaults
	if db.Dialect() == sqldb.MariaDB {
		isolation, collation = "tx_isolation", "latin1_swedish_ci" // for 10.11; the newer name exists since 11.1
	}
	for _, c := range []struct{ session, want, global, other string }{
		{isolation, "READ-COMMITTED", isolation, "REPEATABLE-READ"},
		{"collation_connection", "utf8mb4_bin", "collation_server", collation},
	} {
		var session, global string
		must(t, db.QueryRowContext(t.Context(), "SELECT @@session."+c.session+", @@global."+c.global).Scan(&session, &global))
		if session != c.want || global != c.other {
			t.Errorf("session has %s %q, want %q; server has %s %q, want %q", c.session, session, c.want, c.global, global, c.other)
		}
	}
	var mode string
	must(t, db.QueryRowContext(t.Context(), "SELECT @@session.sql_mode").Scan(&mode))
	if !strings.Contains(mode, "STRICT_ALL_TABLES") {
		t.Errorf("sql_mode is %s, want it strict", mode)
	}
	// The locks of a vanished node are released after these times in seconds.
	times := map[string]int{"innodb_lock_wait_timeout": 2, "wait_timeout": 60}
	if db.Dialect() == sqldb.MariaDB {
		times["idle_transaction_timeout"] = 10
	}
	for name, want := range times {
		var got int
		must(t, db.QueryRowContext(t.Context(), "SELECT @@session."+name).Scan(&got))
		if got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
}

func TestOpen_URLErrorsHidePasswords(t *testing.T) {
	for _, url := range []string{
		"mysql://stoa:s3cret@host:port/db", "mysql://stoa:s3/cret@host/db", "mysql://stoa:s3cret@host", "mysql://stoa:s3cret@/db",
		"mysql://stoa:s3cret@host/db?parseTime=s3cret2", "mysql://stoa:s3cret@host/db?socket=/x", "mysql:stoa:s3cret@host/db",
		"mysql://stoa:s3%cret@host/db", "s3cret:x", "mysql://stoa:12/s3cret@host", "s3cret", "mysql://stoa:s3cret@host/a/b",
		"postgres://stoa:s3cret@host/db",
	} {
		db, err := sqldb.Open(t.Context(), sqldb.Config{URL: url, Patience: time.Millisecond})
		if err == nil {
			t.Errorf("%s was opened as %v", url, db)
			continue
		}
		if text := strings.ReplaceAll(err.Error(), "s3cret2", ""); strings.Contains(text, "s3") || strings.Contains(text, "cret") {
			t.Errorf("the error shows the password: %v", err)
		}
	}
}

// The server implements just enough of the protocol for the client to send the host name for the certificate.
func TestOpen_VerifiesCertificateForHost(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	// Protocol version 10, server version, connection number, and the TLS capability 0x0800.
	greeting := "\x0a8.0.0\x00\x01\x00\x00\x00saltsalt\x00\x01\x0a" + strings.Repeat("\x00", 16) + "saltsaltsalt\x00"
	asked := make(chan string, 10)
	var server sync.WaitGroup
	server.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprintf(conn, "%c\x00\x00\x00%s", len(greeting), greeting)
			_, _ = io.ReadFull(conn, make([]byte, 36)) // the client's TLS request
			_ = tls.Server(conn, &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
				asked <- hello.ServerName
				return nil, errors.New("no certificate")
			}}).Handshake()
			conn.Close()
		}
	})
	_, port, err := net.SplitHostPort(l.Addr().String())
	must(t, err)
	_, err = sqldb.Open(t.Context(), sqldb.Config{URL: "mysql://u:s3cret@localhost:" + port + "/db?tls=true", Patience: -1})
	must(t, l.Close())
	server.Wait()
	close(asked)
	if got := <-asked; got != "localhost" {
		t.Errorf("the certificate is verified for %q, want localhost; the error is %v", got, err)
	}
}

func TestOpen_RetriesOnlyUnavailableServers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	addr := l.Addr().String()
	must(t, l.Close())
	_, err = sqldb.Open(t.Context(), sqldb.Config{URL: "mysql://u:s3cret@" + addr + "/db", Patience: 80 * time.Millisecond})
	if !sqldb.IsUnavailable(err) || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("no server gives %v, want unavailable without the password", err)
	}
	url := strings.Replace(sqldbtest.Server(t).URL, "/stoa_", "/nope_", 1)
	if _, err := sqldb.Open(t.Context(), sqldb.Config{URL: url, Patience: 5 * time.Second}); err == nil || sqldb.IsUnavailable(err) {
		t.Errorf("an unknown database gives %v, want an error of another kind than for one that is away", err)
	}
}

func TestDB_AcknowledgedRowsSurviveAKill(t *testing.T) {
	server := sqldbtest.OwnServer(t, sqldbtest.Options{Durable: true})
	db := sqldbtest.Open(t, sqldb.Config{URL: server.URL, Patience: 20 * time.Second})
	exec(t, db, "CREATE TABLE things (id VARCHAR(12) PRIMARY KEY, name VARCHAR(20), n INTEGER)")

	acked := make(chan string, 1000)
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := range cap(acked) {
			id := fmt.Sprint("w", i)
			err := db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error { return insert(ctx, tx, id, id) })
			if err != nil {
				if !sqldb.IsUnavailable(err) {
					t.Errorf("a killed server gives %v, want unavailable", err)
				}
				return
			}
			acked <- id
		}
		t.Error("the server was not killed in time")
	})
	for range 20 {
		<-acked
	}
	before := len(acked) + 20
	server.Kill9(t)
	writer.Wait()
	if err := db.Ping(t.Context()); !sqldb.IsUnavailable(err) {
		t.Errorf("Ping gives %v, want unavailable", err)
	}

	reopened := make(chan error, 1)
	go func() { // starts while the server is down
		other, err := sqldb.Open(t.Context(), sqldb.Config{URL: server.URL})
		if err == nil {
			err = other.Close()
		}
		reopened <- err
	}()
	server.Restart(t)
	must(t, <-reopened)
	want := 20 + len(acked)
	if got := len(names(t, db)); got != want && got != want+1 { // one may be committed but not acknowledged
		t.Errorf("%d rows after the restart, want the %d acknowledged (at least %d)", got, want, before)
	}
}

func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	db, err := sqldb.Open(ctx, sqldb.Config{Dir: dir})
	if err != nil {
		panic(err)
	}
	defer db.Close()
	err = db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if _, err := tx.ExecContext(ctx, "CREATE TABLE cats (name TEXT)"); err != nil {
			return err
		}
		tx.AfterCommit(func() { fmt.Println("committed") })
		_, err := tx.ExecContext(ctx, "INSERT INTO cats VALUES (?), (?)", "Ada", "Zoë")
		return err
	})
	if err != nil {
		panic(err)
	}
	var names []string
	if err := db.NewRaw("SELECT name FROM cats ORDER BY name").Scan(ctx, &names); err != nil {
		panic(err)
	}
	fmt.Println(names)
	// Output:
	// committed
	// [Ada Zoë]
}

func TestInserter_IsSafeForConcurrentUse(t *testing.T) {
	onEngines(t, func(t *testing.T, db *sqldb.DB) {
		in := db.Inserter(sqldb.Upsert{Table: "things", Columns: []string{"id", "name", "n"}, Key: []string{"id"}})
		var all sync.WaitGroup
		for caller := range 4 {
			all.Go(func() {
				for n := 1; n <= 8; n++ {
					var args []any
					for row := range n {
						args = append(args, fmt.Sprintf("%d of %d by %d", row, n, caller), "", n)
					}
					if added, err := in.Insert(t.Context(), args); added != int64(n) || err != nil {
						t.Errorf("%d new rows: %d added, %v", n, added, err)
					}
				}
			})
		}
		all.Wait()
	})
}
