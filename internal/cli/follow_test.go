package cli

import (
	"context"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/background/runs"
	"github.com/stoa-dev/stoa/internal/checkin"
	"github.com/stoa-dev/stoa/internal/checkin/reconcile"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// A stage may take long before a figure changes. The request behind it waits.
func TestWhoWaitsBehindARunThatLivesDoesNotGiveUp(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		db := sqldbtest.SQLite(t)
		x := checkin.NewAdmin(db)
		first, err := x.Request(t.Context(), reconcile.ReconcileRun, reconcile.Options{})
		if err != nil {
			t.Fatal(err)
		}
		second, err := x.Request(t.Context(), reconcile.RebuildRun, reconcile.Options{})
		if err != nil {
			t.Fatal(err)
		}
		exec := func(query string, id int64) {
			t.Helper()
			if _, err := db.ExecContext(context.WithoutCancel(t.Context()), query, id); err != nil {
				t.Error(err)
			}
		}
		exec("UPDATE checkin_runs SET state = 'running', started = 1 WHERE id = ?", first.ID)
		var server sync.WaitGroup
		server.Go(func() {
			for end := time.Now().Add(3 * takenWithin); time.Now().Before(end); time.Sleep(takenWithin / 2) {
				exec("UPDATE checkin_runs SET rev = rev + 1 WHERE id = ?", first.ID)
			}
			exec("UPDATE checkin_runs SET state = 'done', started = 1, ended = 2 WHERE id = ?", second.ID)
		})
		defer server.Wait()
		c := &console{out: io.Discard, err: io.Discard}
		if r, err := follow(t.Context(), x, second, c.progress("rebuild")); err != nil || r.State != runs.Done {
			t.Errorf("got %+v, %v", r, err)
		}
	})
}

// A run without progress is not waited for.
func TestWhoWaitsBehindARunThatIsDeadGivesUp(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		x := checkin.NewAdmin(sqldbtest.SQLite(t))
		if _, err := x.Request(t.Context(), reconcile.ReconcileRun, reconcile.Options{}); err != nil {
			t.Fatal(err)
		}
		second, err := x.Request(t.Context(), reconcile.RebuildRun, reconcile.Options{})
		if err != nil {
			t.Fatal(err)
		}
		c, began := &console{out: io.Discard, err: io.Discard}, time.Now()
		if r, err := follow(t.Context(), x, second, c.progress("rebuild")); err == nil {
			t.Errorf("got %+v", r)
		}
		if waited := time.Since(began); waited < takenWithin || waited > takenWithin+2*lookEvery {
			t.Errorf("waited %s, want %s and two looks", waited, takenWithin)
		}
	})
}
