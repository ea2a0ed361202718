package queue_test

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/internal/background/queue"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// The responses of the server on existing connections are lost, for the first claim and the first count. New
// connections work.
func TestSQL_HangingConnectionStopsNeitherClaimsNorCounts(t *testing.T) {
	t.Parallel()
	server := sqldbtest.OwnServer(t, sqldbtest.Options{TCP: true})
	line := sqldbtest.NewLine(t, server)
	db := sqldbtest.Open(t, sqldb.Config{URL: line.URL, MaxConns: 2})
	first, err := db.Writer().Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	second, err := db.Writer().Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	publish(t, queue.NewSQL(sqldbtest.Open(t, sqldb.Config{URL: server.URL})), queue.Message{Topic: "t"}, queue.Message{Topic: "later"})
	line.Mute()
	first.Close()
	second.Close()

	cfg, got := quick(), make(chan struct{}, 1)
	registry := prometheus.NewRegistry()
	cfg.Metrics = registry
	consume(t, queue.NewSQL(db), cfg, map[string]queue.Handler{"t": func(context.Context, queue.Delivery) error {
		got <- struct{}{}
		return nil
	}})
	eventually.True(t, "the message to be handled", func() bool { return len(got) > 0 })
	eventually.True(t, "the other one to be counted", func() bool {
		return metric(t, registry, "stoa_queue_depth", "topic=other") == 1
	})
}
