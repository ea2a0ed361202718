package sqldb_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/internal/foundation/sqldb"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
	"github.com/stoa-dev/stoa/lib/testing/logtest"
)

// A server that is gone and one that is there and silent are both away, with one line, and
// one more when they are back.
func TestOneLineSaysThatSQLIsAwayAndOneThatItIsBack(t *testing.T) {
	server := sqldbtest.OwnServer(t, sqldbtest.Options{Durable: true, TCP: true})
	var log logtest.Buffer
	db := sqldbtest.Open(t, sqldb.Config{URL: server.URL, Log: log.Logger()})
	ctx, stop := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { must(t, db.Watch(ctx)) })
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
		eventually.True(t, "the database to be away", func() bool { return !db.Away().IsZero() })
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
		eventually.True(t, "the database to be back, and the log to say so", func() bool { return db.Away().IsZero() && log.Count("sql is back") > i })
		if log.Count(`level=WARN msg="sql is away"`) != i+1 || log.Count(`level=INFO msg="sql is back"`) != i+1 || log.Count("away=") != i+1 {
			t.Errorf("after harm %d the log has\n%s", i, log.String())
		}
	}
}

// askedAgain returns when a server that is gone was asked a few times more.
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
	eventually.True(t, "the database to be asked again", func() bool { return asked.Load() >= 5 })
	must(t, ln.Close())
	listening.Wait()
}
