package sqldb_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
	"github.com/stoa-dev/stoa/lib/testing/logtest"
)

// A server that ended and a server that hangs are both unavailable. Each outage logs one line, and one at its end.
func TestWatch_LogsOneLinePerOutageAndRecovery(t *testing.T) {
	server := sqldbtest.OwnServer(t, sqldbtest.Options{Durable: true, TCP: true})
	var log logtest.Buffer
	db := sqldbtest.Open(t, sqldb.Config{URL: server.URL, Log: log.Logger()})
	ctx, stop := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { must(t, db.Watch(ctx, func(context.Context) error { return nil })) })
	defer watching.Wait()
	defer stop()

	reg := prometheus.NewRegistry()
	reg.MustRegister(db.Metrics())
	if since := db.Away(); !since.IsZero() {
		t.Errorf("a database that answers is away since %s", since)
	}
	for i, harm := range []struct{ away, back func(testing.TB) }{{server.Kill9, server.Restart}, {server.Pause, server.Resume}} {
		began := db.Now()
		harm.away(t)
		eventually.True(t, "the database to be unavailable", func() bool { return !db.Away().IsZero() })
		if since := db.Away(); since.Before(began) || since.After(db.Now()) {
			t.Errorf("away since %s, which is not between %s and now", since, began)
		}
		if up := pools(t, reg)["stoa_sql_up"]; up != 0 {
			t.Errorf("the metric says that it answers: %v", up)
		}
		if i == 0 {
			askedAgain(t, server.Addr())
		}
		harm.back(t)
		eventually.True(t, "the database to be back, and the log to say so", func() bool {
			return db.Away().IsZero() && log.Count("sql: available again") > i
		})
		if log.Count(`level=WARN msg="sql: unavailable"`) != i+1 || log.Count(`level=INFO msg="sql: available again"`) != i+1 ||
			log.Count("away=") != i+1 {
			t.Errorf("after harm %d the log has\n%s", i, log.String())
		}
	}
}

// askedAgain returns when the client has tried to reach a stopped server a few more times.
func askedAgain(t *testing.T, addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", addr)
	must(t, err)
	var asked atomic.Int64
	var listening sync.WaitGroup
	listening.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			asked.Add(1)
			_ = conn.Close()
		}
	})
	eventually.True(t, "more tries", func() bool { return asked.Load() >= 5 })
	must(t, ln.Close())
	listening.Wait()
}

// A file with a size limit acts like a full disk.
func TestWatch_FullDiskShowsInATrialWrite(t *testing.T) {
	var log logtest.Buffer
	db := sqldbtest.Open(t, sqldb.Config{Dir: t.TempDir(), Log: log.Logger()})
	exec(t, db, "CREATE TABLE things (data BLOB)")
	bubble.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var watching sync.WaitGroup
		watching.Go(func() {
			must(t, db.Watch(ctx, func(ctx context.Context) error {
				_, err := db.ExecContext(ctx, "INSERT INTO things VALUES (zeroblob(100000))")
				return err
			}))
		})
		defer watching.Wait()
		defer stop()
		reg := prometheus.NewRegistry()
		reg.MustRegister(db.Metrics())
		pages := 0
		must(t, db.Writer().QueryRowContext(ctx, "PRAGMA page_count").Scan(&pages))
		exec(t, db, fmt.Sprintf("PRAGMA max_page_count = %d", pages+2))
		eventually.True(t, "writes to be refused", func() bool { return db.Refuses() != "" })
		if metrics := pools(t, reg); !db.Away().IsZero() || !strings.Contains(db.Refuses(), "full") || metrics["stoa_sql_writable"] != 0 ||
			metrics["stoa_sql_up"] != 1 {
			t.Errorf("away since %v, refuses %q, metrics %v", db.Away(), db.Refuses(), metrics)
		}
		exec(t, db, "PRAGMA max_page_count = 1000000")
		eventually.True(t, "writes to be accepted", func() bool { return db.Refuses() == "" })
		if pools(t, reg)["stoa_sql_writable"] != 1 || log.Count(`level=WARN msg="sql: writes refused"`) != 1 ||
			log.Count(`level=INFO msg="sql: writes accepted again"`) != 1 {
			t.Errorf("the log has\n%s", log.String())
		}
	})
}

func TestProbe_FindsRowsAtTheNextCheck(t *testing.T) {
	db := sqldbtest.Open(t, sqldb.Config{Dir: t.TempDir()})
	exec(t, db, "CREATE TABLE things (id INTEGER)")
	bubble.Test(t, func(t *testing.T) {
		defer sqldbtest.Watch(t, db)()
		var found atomic.Pointer[string]
		var results, least atomic.Int64
		remove := db.AddProbe(sqldb.Probe{Query: "SELECT 1 FROM things WHERE id >= ?", Args: func() []any { return []any{least.Load()} }},
			func(has bool, asked time.Time) {
				results.Add(1)
				text := fmt.Sprint(has, time.Since(asked) < time.Second)
				found.Store(&text)
			})
		expect := func(want string) {
			t.Helper()
			found.Store(nil)
			bubble.Sleep(sqldb.WatchWithin)
			if got := found.Load(); got == nil || *got != want {
				t.Errorf("found %v, want %s", got, want)
			}
		}
		db.AddProbe(sqldb.Probe{Query: "SELECT 1"}, func(has bool, _ time.Time) {
			if !has {
				t.Error("the second probe has the result of the first one")
			}
		})
		expect("false true")
		exec(t, db, "INSERT INTO things VALUES (1)")
		expect("true true")
		least.Store(2)
		expect("false true")
		before := results.Load()
		bubble.Sleep(time.Hour)
		if n := results.Load() - before; n < 2700 || n > 3150 {
			t.Errorf("%d checks in an hour, want 48 a minute", n)
		}
		var hurry atomic.Bool
		hurry.Store(true)
		db.HurryWhile(hurry.Load)
		before = results.Load()
		bubble.Sleep(time.Minute)
		if n := results.Load() - before; n < 290 {
			t.Errorf("%d checks in a minute in a hurry, want five a second", n)
		}
		hurry.Store(false)
		remove()
		before = results.Load()
		bubble.Sleep(time.Minute)
		if results.Load() != before {
			t.Error("a removed probe is asked")
		}
	})
}

// A probe may fail because its table is locked or missing. The other probes then assume that work waits.
func TestProbe_FailureIsNoOutage(t *testing.T) {
	var log logtest.Buffer
	db := sqldbtest.Open(t, sqldb.Config{Dir: t.TempDir(), Log: log.Logger()})
	exec(t, db, "CREATE TABLE things (id INTEGER)")
	bubble.Test(t, func(t *testing.T) {
		defer sqldbtest.Watch(t, db)()
		var found atomic.Bool
		db.AddProbe(sqldb.Probe{Query: "SELECT 1 FROM things"}, func(bool, time.Time) {})
		db.AddProbe(sqldb.Probe{Query: "SELECT 1 WHERE 1 = 0"}, func(has bool, _ time.Time) { found.Store(has) })
		expect := func(want bool) {
			t.Helper()
			if bubble.Sleep(5 * sqldb.WatchWithin); found.Load() != want || !db.Away().IsZero() {
				t.Errorf("found %v, want %v; away since %v", found.Load(), want, db.Away())
			}
		}
		expect(false)
		exec(t, db, "DROP TABLE things")
		expect(true)
		exec(t, db, "CREATE TABLE things (id INTEGER)")
		expect(false)
		if log.Count(`level=WARN msg="sql: probes fail"`) != 1 || log.Count(`level=INFO msg="sql: probes work again"`) != 1 {
			t.Errorf("the log has\n%s", log.String())
		}
	})
}

// A check with all probes is one statement.
func TestWatch_OneStatementPerCheck(t *testing.T) {
	server := sqldbtest.OwnServer(t, sqldbtest.Options{Engine: sqldbtest.Default(t)})
	db := sqldbtest.Open(t, sqldb.Config{URL: server.URL})
	counter := sqldbtest.Open(t, sqldb.Config{URL: server.URL, MaxConns: 1})
	counts := make(chan int, 3)
	db.AddProbe(sqldb.Probe{Query: "SELECT 1"}, func(bool, time.Time) {})
	db.AddProbe(sqldb.Probe{Query: "SELECT 1"}, func(bool, time.Time) {
		if len(counts) == cap(counts) {
			return
		}
		var name string
		n := 0
		if err := counter.QueryRowContext(t.Context(), "SHOW GLOBAL STATUS LIKE 'Questions'").Scan(&name, &n); err != nil {
			t.Error(err)
		}
		counts <- n
	})
	defer sqldbtest.Watch(t, db)()
	<-counts // the first check opens the connections
	first := <-counts
	if n := <-counts - first; n != 2 {
		t.Errorf("a check, and the count of statements, are %d statements, want 2", n)
	}
}

// A server that has become a replica answers, but is away. A user who may write in spite of read_only uses it.
func TestWatch_ReadOnlyServerIsAway(t *testing.T) {
	server := sqldbtest.OwnServer(t, sqldbtest.Options{TCP: true})
	admin := sqldbtest.Open(t, sqldb.Config{URL: server.URL})
	exec(t, admin, "CREATE USER stoa@127.0.0.1")
	exec(t, admin, "GRANT ALL ON `stoa\\_%`.* TO stoa@127.0.0.1")
	db := sqldbtest.Open(t, sqldb.Config{URL: strings.Replace(server.URL, "root@", "stoa@", 1)})
	var checks atomic.Int64
	admin.AddProbe(sqldb.Probe{Query: "SELECT 1"}, func(bool, time.Time) { checks.Add(1) })
	defer sqldbtest.Watch(t, db)()
	defer sqldbtest.Watch(t, admin)()
	exec(t, admin, "SET GLOBAL read_only = 1")
	eventually.True(t, "the server to be away", func() bool { return !db.Away().IsZero() })
	before := checks.Load()
	eventually.True(t, "checks of the administrator", func() bool { return checks.Load() >= before+2 })
	if !admin.Away().IsZero() {
		t.Error("the server is away for a user who may write")
	}
	exec(t, admin, "SET GLOBAL read_only = 0")
	eventually.True(t, "the server to be back", func() bool { return db.Away().IsZero() })
}

// InnoDB refuses writes in READ COMMITTED while the binary log has the statement format (error 1665).
func TestOpen_StatementLogIsNamed(t *testing.T) {
	t.Parallel()
	server := sqldbtest.OwnServer(t, sqldbtest.Options{Engine: sqldbtest.Default(t)})
	server.Stop(t)
	server.RestartWith(t, "--log-bin=binlog", "--server-id=1")
	db := sqldbtest.Open(t, sqldb.Config{URL: server.URL})
	exec(t, db, "CREATE TABLE things (id VARCHAR(12) PRIMARY KEY, name VARCHAR(20), n INTEGER)")
	must(t, insert(t.Context(), db, "a", "a"))
	exec(t, db, "SET GLOBAL binlog_format = STATEMENT")
	other, err := sqldb.Open(t.Context(), sqldb.Config{URL: server.URL})
	if !errors.Is(err, sqldb.ErrStatementLog) || !sqldb.IsUnavailable(err) || sqldb.IsUnanswered(err) {
		t.Errorf("got %v, %v, want %v", other, err, sqldb.ErrStatementLog)
	}
	exec(t, db, "SET GLOBAL binlog_format = ROW")
	sqldbtest.Open(t, sqldb.Config{URL: server.URL})
	conn, err := db.Writer().Conn(t.Context())
	must(t, err)
	defer conn.Close()
	_, err = conn.ExecContext(t.Context(), "SET SESSION binlog_format = STATEMENT")
	must(t, err)
	if _, err = conn.ExecContext(t.Context(), "INSERT INTO things VALUES ('b', 'b', 0)"); !sqldb.IsUnavailable(err) {
		t.Errorf("a session that logs statements: got %v, want unavailable", err)
	}
}
