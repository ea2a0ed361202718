package sqldb_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// The host of the server vanishes while one connection waits for an answer, one is about to commit and one is idle.
// With its defaults Linux would close the second and the third after 15 minutes.
func TestDial_VanishedHostIsDetected(t *testing.T) {
	t.Parallel()
	server := sqldbtest.OwnServer(t, sqldbtest.Options{TCP: true})
	line := sqldbtest.NewLine(t, server)
	direct, db := sqldbtest.Open(t, sqldb.Config{URL: server.URL}), sqldbtest.Open(t, sqldb.Config{URL: line.URL})
	exec(t, direct, "CREATE TABLE things (id VARCHAR(12) PRIMARY KEY, name VARCHAR(20), n INTEGER)")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()

	var asking sync.WaitGroup
	var waiting, idle error
	asking.Go(func() { _, waiting = db.ExecContext(ctx, "DO SLEEP(3600)") })
	eventually.Equal(t, "running statements", 1, func() (n int) {
		must(t, direct.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'DO SLEEP%'").Scan(&n))
		return n
	})
	committing := db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := errors.Join(insert(ctx, tx, "a", "a"), db.Ping(ctx)); err != nil {
			return err
		}
		line.Vanish(t)
		asking.Go(func() { idle = db.Ping(ctx) })
		return nil
	})
	asking.Wait()
	if !sqldb.IsUnavailable(waiting) || !sqldb.IsUnavailable(idle) || !errors.Is(committing, sqldb.ErrOutcomeUnknown) {
		t.Errorf("got %v, %v and %v; want unavailable twice and an unknown outcome", waiting, idle, committing)
	}
	if err := db.Ping(ctx); err != nil {
		t.Errorf("the new server: %v", err)
	}
}
