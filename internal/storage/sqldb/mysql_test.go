package sqldb_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
)

// The server receives COMMIT or ROLLBACK, but its response never arrives.
func TestTx_EndTimesOutWithoutAnswer(t *testing.T) {
	t.Parallel()
	server := sqldbtest.OwnServer(t, sqldbtest.Options{TCP: true})
	exec(t, sqldbtest.Open(t, sqldb.Config{URL: server.URL}), "CREATE TABLE things (id VARCHAR(12) PRIMARY KEY, name VARCHAR(20), n INTEGER)")
	boom := errors.New("boom")
	for name, tt := range map[string]struct{ err, want error }{"committed": {nil, sqldb.ErrOutcomeUnknown}, "rolled back": {boom, boom}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			line := sqldbtest.NewLine(t, server)
			db := sqldbtest.Open(t, sqldb.Config{URL: line.URL, MaxConns: 1})
			err := db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
				if err := insert(ctx, tx, name, name); err != nil {
					return err
				}
				line.Mute()
				return tt.err
			})
			if !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			var n int // the pool has closed its one connection
			must(t, db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM things WHERE id = ?", name).Scan(&n))
			if (n == 1) != (tt.err == nil) {
				t.Errorf("%d rows after %s", n, name)
			}
		})
	}
}

// The server became a replica: it answers, keeps its connections and refuses writes.
func TestPool_ClosesConnectionsToReadOnlyServers(t *testing.T) {
	t.Parallel()
	server := sqldbtest.OwnServer(t, sqldbtest.Options{TCP: true})
	admin := sqldbtest.Open(t, sqldb.Config{URL: server.URL})
	exec(t, admin, "CREATE TABLE things (id VARCHAR(12) PRIMARY KEY, name VARCHAR(20), n INTEGER)")
	exec(t, admin, "CREATE USER stoa@127.0.0.1")
	exec(t, admin, "GRANT ALL ON `stoa\\_%`.* TO stoa@127.0.0.1")
	db := sqldbtest.Open(t, sqldb.Config{URL: strings.Replace(server.URL, "root@", "stoa@", 1), MaxConns: 1})
	connection := func() (id int) {
		must(t, db.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id))
		return id
	}
	write := func() error { return insert(t.Context(), db, "a", "a") }
	for _, c := range []struct {
		name string
		do   func() error
	}{
		{"a statement", write},
		{"a transaction", func() error {
			return db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
				_, err := tx.QueryContext(ctx, "SELECT 1")
				if err == nil {
					t.Error("a transaction began on a server that takes no writes")
				}
				return err
			})
		}},
		{"a ping", func() error { return db.Ping(t.Context()) }},
	} {
		before := connection()
		exec(t, admin, "SET GLOBAL read_only = 1")
		if err := c.do(); !sqldb.IsUnavailable(err) {
			t.Errorf("%s gives %v, want unavailable", c.name, err)
		}
		exec(t, admin, "SET GLOBAL read_only = 0")
		if connection() == before {
			t.Errorf("after %s the connection is still in the pool", c.name)
		}
	}
	must(t, write())
}

// The server acts like a reader of Aurora: transactions start, but its tables are read-only until it ends.
func TestOpen_ReadOnlyTablesAreUnavailable(t *testing.T) {
	t.Parallel()
	server := sqldbtest.OwnServer(t, sqldbtest.Options{TCP: true})
	db := sqldbtest.Open(t, sqldb.Config{URL: server.URL})
	server.Stop(t)
	server.RestartWith(t, "--innodb-read-only")
	if err := db.Ping(t.Context()); !sqldb.IsUnavailable(err) || sqldb.IsUnanswered(err) {
		t.Errorf("got %v, want unavailable", err)
	}
	server.Stop(t)
	server.Restart(t)
	must(t, db.Ping(t.Context()))
}
