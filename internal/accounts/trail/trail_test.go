package trail

import (
	"sync"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
)

func TestNotes_AreSafeForConcurrentUse(t *testing.T) {
	db := sqldbtest.SQLite(t)
	var notes Notes
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 50 {
				notes.Add(Event{User: "ann", Kind: Kind("login"), At: time.Now()})
			}
		})
		all.Go(func() {
			if err := notes.Flush(t.Context(), db); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if err := notes.Flush(t.Context(), db); err != nil {
		t.Error(err)
	}
	var n int
	if err := db.NewRaw("SELECT COUNT(*) FROM security_events").Scan(t.Context(), &n); err != nil || n != 200 {
		t.Errorf("%d events are written (%v), want 200", n, err)
	}
}
