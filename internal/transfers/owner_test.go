package transfers

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/internal/transfers/storage"
	"github.com/stoa-dev/stoa/internal/transfers/storage/storagetest"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

// other returns a node of another deployment on the same folder.
func (w *world) other() *world {
	w.t.Helper()
	db := sqldbtest.Engine{Name: "sqlite"}.Open(w.t, func(c *sqldb.Config) {
		c.Now = func() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }
	})
	return newWorld(w.t, db, redistest.Open(w.t, "embedded"), new(atomic.Int64), w.dir, w.cfg)
}

// swept runs two sweeps. The second one may delete parts that existed at the first.
func (w *world) swept() (removed int, err error) {
	w.t.Helper()
	for range 2 {
		w.pass(orphanAge + time.Minute)
		n, err := w.sweep(w.t.Context())
		if removed += n; err != nil {
			return removed, err
		}
	}
	return removed, nil
}

func TestSweep_RefusesStorageOfAnotherDatabase(t *testing.T) {
	inBubble(t, Settings{}, func(t *testing.T, w *world) {
		if _, err := w.sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		kept := w.put("kept", random(2*testChunk))
		if n, err := w.other().swept(); n != 0 || !errors.Is(err, errOwned) || !strings.Contains(err.Error(), w.dir) {
			t.Errorf("another deployment removed %d parts, %v", n, err)
		}
		w.sound(kept.ID)
		if n, err := w.swept(); n != 0 || err != nil {
			t.Errorf("its own database removed %d, %v", n, err)
		}
	})
}

// A restored database has no rows of files that are newer than its backup.
func TestSweep_RestoredDatabaseDeletesNoNewerFile(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		sweep := func(want error) {
			t.Helper()
			if n, err := w.sweep(t.Context()); n != 0 || !errors.Is(err, want) {
				t.Errorf("the sweep removed %d, %v, want 0, %v", n, err, want)
			}
		}
		sweep(nil)
		backup, err := w.sql.ownership(t.Context())
		w.must(err)
		storagetest.Put(t, w.storage, newPart(ids.New[Transfer](), 0, w.db.Now()).name, random(10)) // the backup lacks its row
		objects := len(w.objects())

		w.pass(orphanAge + time.Minute)
		sweep(nil) // the mark is still that of the backup
		w.pass(orphanAge + time.Minute)
		now, err := w.sql.ownership(t.Context())
		w.must(err)
		w.must(w.sql.setOwnership(t.Context(), now, backup))
		sweep(errOwned)
		if n := len(w.objects()); n != objects {
			t.Errorf("%d of %d parts are left", n, objects)
		}

		// The operator makes the storage belong to the restored database.
		w.must(w.storage.Remove(t.Context(), ownerFolder+now.mark))
		sweep(nil)
		if n, err := w.sweep(t.Context()); n != 1 || err != nil {
			t.Errorf("then %d parts are removed, %v", n, err)
		}
	})
}

// A sweep may end at any step: the next one still accepts the storage.
func TestSweep_InterruptedStaysOwner(t *testing.T) {
	storagetest.Each(t, func(t *testing.T, s storage.Storage) {
		w := &Service{sql: &sqlStore{sqldbtest.Engine{Name: "sqlite"}.Open(t)}, storage: s}
		away := errors.New("away")
		for range 2 {
			for _, cut := range []func(h *harmed){
				func(h *harmed) { h.write = away },
				func(h *harmed) { h.keep = away }, // it is stored anyway
				func(h *harmed) { h.remove = away },
			} {
				h := &harmed{Storage: s}
				cut(h)
				w.storage = h
				if _, err := w.claim(t.Context()); err != nil && !errors.Is(err, away) {
					t.Error(err)
				}
				w.storage = s
				if _, err := w.claim(t.Context()); err != nil {
					t.Error(err)
				}
				if marks := storagetest.List(t, s); len(marks) != 1 {
					t.Errorf("the storage has the marks %q", marks)
				}
			}
		}
		held, err := w.sql.ownership(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := w.sql.setOwnership(t.Context(), ownership{mark: "another"}, held); err == nil {
			t.Error("two nodes sweep at once")
		}
	})
}
