package checkin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/checkin/ranking"
	"github.com/stoa-dev/stoa/internal/checkin/reconcile"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/internal/checkin/transfer"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// heldOf returns the tables and keys that have data of a user.
func (w *world) heldOf(t *testing.T, user accounts.ID) (found []string) {
	t.Helper()
	for _, table := range []string{"checkins", "checkin_makeups", "checkin_grants", "checkin_months", "checkin_totals", "checkin_touched"} {
		var n int
		if err := w.db.NewRaw("SELECT COUNT(*) FROM "+table+" WHERE user_id = ?", user).Scan(t.Context(), &n); err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			found = append(found, table)
		}
	}
	var n int
	if err := w.db.NewRaw("SELECT COUNT(*) FROM checkin_repairs WHERE member = ?", user).Scan(t.Context(), &n); err != nil || n > 0 {
		found = append(found, fmt.Sprint("checkin_repairs ", err))
	}
	err := w.redis.Scan(t.Context(), func(physical string) error {
		if strings.Contains(physical, user.String()) {
			found = append(found, physical)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range ranking.Current(w.clock.now()) {
		if err := w.Boards.Rebuild(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		top, err := w.Boards.Of(b).Top(t.Context(), w.clock.now(), 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range top {
			if r.Member == user.String() {
				found = append(found, "board "+b.Key())
			}
		}
	}
	return found
}

// oldClaims deletes claims that would have expired, because Redis' own clock does not move.
func (w *world) oldClaims(t *testing.T, user accounts.ID) {
	t.Helper()
	today := civil.Clock{}.Today(w.clock.now())
	if err := w.Service.redis.unclaim(t.Context(), user, today-30, today-claimedBefore-1); err != nil {
		t.Fatal(err)
	}
}

// complete reports whether the counts of all boards are certain.
func (w *world) complete(t *testing.T) bool {
	t.Helper()
	for _, b := range ranking.Current(w.clock.now()) {
		if sure, err := w.Boards.Of(b).Complete(t.Context(), w.clock.now()); err != nil || !sure {
			return false
		}
	}
	return true
}

// tombstone makes a registered user an erased one.
func (w *world) tombstone(t *testing.T, user accounts.ID) {
	t.Helper()
	if _, err := w.db.ExecContext(t.Context(), "UPDATE users SET erased = -1 WHERE id = ?", user); err != nil {
		t.Fatal(err)
	}
}

func TestErase_LeavesNothingAndReconciles(t *testing.T) {
	t.Parallel()
	worlds(t, func(t *testing.T, w *world) {
		users, c := inhabited(t, w, 5)
		gone, ctx := users[0], t.Context()
		w.oldClaims(t, gone)
		// All kinds of data: a make-up, a grant, totals, a line of the repair log, and an old calendar.
		if _, err := w.MakeUp(ctx, gone, c, civil.DayOf(2026, 1, 2), 1); err != nil {
			t.Fatal(err)
		}
		if err := w.Grant(ctx, gone, 2, "A test"); err != nil {
			t.Fatal(err)
		}
		w.finish(t, reconcile.SnapshotRun, reconcile.Options{})
		if _, err := w.Calendar(ctx, gone, c, 1999, 0); err != nil {
			t.Fatal(err)
		}
		w.damage(t, gone, 2026, func(r *streak.Record) { r.Set(civil.DayOf(2026, 1, 1)+200, streak.Tapped) })
		w.finish(t, reconcile.ReconcileRun, reconcile.Options{User: gone})
		if err := w.Boards.LoadMissing(ctx); err != nil {
			t.Fatal(err)
		}
		if found := w.heldOf(t, gone); len(found) < 10 {
			t.Fatalf("held before: %v, want something of each kind", found)
		}

		for range 2 { // the second time changes nothing
			if err := w.eraseAsQueued(ctx, gone); err != nil {
				t.Fatal(err)
			}
			if found := w.heldOf(t, gone); len(found) > 0 {
				t.Errorf("still held: %v", found)
			}
			if !w.complete(t) {
				t.Error("a board has to be counted anew: it was not told exactly where the user stood")
			}
		}
		if err := w.eraseAsQueued(ctx, newUsers(1)[0]); err != nil || !w.complete(t) {
			t.Errorf("nobody: %v", err)
		}
		w.check(t, users[1:], c)
		r := w.finish(t, reconcile.ReconcileRun, reconcile.Options{DryRun: true})
		if found := w.found(t, r); len(found) > 0 || r.Summary.Abnormal > 0 || r.Summary.Compared != 4 {
			t.Errorf("reconciliation: %+v, %v, want four users and nothing to tell", r.Summary, found)
		}
	}, Settings{MakeupDays: 30, MakeupLimit: 3})
}

// eraseAsQueued erases a user as the queue does, with retries while Redis pauses.
func (w *world) eraseAsQueued(ctx context.Context, user accounts.ID) (err error) {
	for range 5 {
		if err = w.Erase(ctx, user); !errors.Is(err, redis.ErrUnavailable) {
			break
		}
	}
	return err
}

func TestErase_ResumesAfterCrash(t *testing.T) {
	t.Parallel()
	worlds(t, func(t *testing.T, w *world) {
		users, c := inhabited(t, w, 4)
		gone, ctx := users[0], t.Context()
		w.oldClaims(t, gone)
		if _, _, err := w.sql.erase(ctx, gone); err != nil {
			t.Fatal(err)
		}
		if found := w.heldOf(t, gone); !slices.Contains(found, "checkin_touched") || !slices.Contains(found, "board streak") {
			t.Fatalf("after the crash: %v, want the mark and the boards", found)
		}
		if err := w.eraseAsQueued(ctx, gone); err != nil {
			t.Fatal(err)
		}
		if w.complete(t) && w.Boards.Kind() == ranking.Compact {
			t.Error("the boards may have been told before, and are not counted anew")
		}
		if found := w.heldOf(t, gone); len(found) > 0 {
			t.Errorf("still held: %v", found)
		}
		w.check(t, users[1:], c)
		if found := w.found(t, w.finish(t, reconcile.ReconcileRun, reconcile.Options{DryRun: true})); len(found) > 0 {
			t.Errorf("reconciliation found %v", found)
		}
	})
}

// Otherwise each erasure after an import would cause a recount of all boards.
func TestErase_ImportedUserNeedsNoRecount(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"))
		w.clock.set(time.Now())
		users, c := newUsers(4), civil.Clock{Zone: "UTC"}
		text := "user,day\n"
		for _, user := range users {
			w.register(t, user, c.Zone)
			text += fmt.Sprintf("%s,%s\n", user, c.Today(w.clock.now()))
		}
		if _, _, err := imports(t, w.db, text, transfer.ImportOptions{Format: transfer.CSV}); err != nil {
			t.Fatal(err)
		}
		w.follow(t)
		age := func(user accounts.ID) {
			t.Helper()
			if _, err := w.db.ExecContext(t.Context(), "UPDATE checkin_touched SET at = at - ? WHERE user_id = ? AND at <> ?",
				2*followedWithin.Milliseconds(), user, transfer.Tombstone); err != nil {
				t.Fatal(err)
			}
		}
		for i, tt := range []struct {
			what     string
			before   func(accounts.ID)
			complete bool
		}{
			{"imported long ago", age, true},
			{"imported a moment ago", func(accounts.ID) {}, false},
			{"imported while being erased", func(user accounts.ID) {
				if _, _, err := w.sql.erase(t.Context(), user); err != nil {
					t.Fatal(err)
				}
				if sum, faults, err := imports(t, w.db, text, transfer.ImportOptions{Format: transfer.CSV}); err != nil || sum.New == 0 {
					t.Fatal(sum, faults, err)
				}
				age(user)
			}, false},
		} {
			eventually.True(t, tt.what+": the boards to be sure", func() bool {
				if err := w.Boards.LoadMissing(t.Context()); err != nil {
					t.Fatal(err)
				}
				return w.complete(t)
			})
			tt.before(users[i])
			if err := w.Erase(t.Context(), users[i]); err != nil || w.complete(t) != tt.complete {
				t.Errorf("%s: %v, the boards are complete: %t, want %t", tt.what, err, !tt.complete, tt.complete)
			}
			if found := w.heldOf(t, users[i]); len(found) > 0 {
				t.Errorf("%s: still held: %v", tt.what, found)
			}
		}
	})
}

func TestErase_WaitsWhileRedisUnavailable(t *testing.T) {
	t.Parallel()
	i := redistest.Server(t)
	w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, i.URL))
	users, c := inhabited(t, w, 3)
	i.Kill()
	if err := w.Erase(t.Context(), users[0]); !errors.Is(err, redis.ErrUnavailable) {
		t.Errorf("got %v, want that Redis is away", err)
	}
	if days, err := w.sql.histories(t.Context(), users[:1]); err != nil || len(days) > 0 {
		t.Errorf("its days are still in SQL: %v, %v", days, err)
	}
	i.RestartEmpty()
	eventually.NoError(t, "the erasure, which is tried again as the queue does", func() error { return w.Erase(t.Context(), users[0]) })
	if found := w.heldOf(t, users[0]); len(found) > 0 {
		t.Errorf("still held: %v", found)
	}
	w.check(t, users[1:], c)
}

// A check-in that was in progress, or in a stream, is committed after the erasure.
func TestErase_LateCheckInIsErasedByRecheck(t *testing.T) {
	t.Parallel()
	worlds(t, func(t *testing.T, w *world) {
		users, c := inhabited(t, w, 4)
		gone, ctx := users[0], t.Context()
		w.oldClaims(t, gone)
		w.tombstone(t, gone)
		if err := w.eraseAsQueued(ctx, gone); err != nil {
			t.Fatal(err)
		}
		w.mustMark(t, gone, c)
		w.persisted(t)
		if found := w.heldOf(t, gone); len(found) == 0 {
			t.Fatal("the late check-in left nothing")
		}
		if found := w.found(t, w.finish(t, reconcile.ReconcileRun, reconcile.Options{})); len(found) > 0 {
			t.Errorf("reconciliation calls it a difference: %v", found)
		}
		if found := w.heldOf(t, gone); len(found) > 0 {
			t.Errorf("still held: %v", found)
		}
		w.check(t, users[1:], c)
	})
}

func TestErase_ReachesPastSeason(t *testing.T) {
	t.Parallel()
	worlds(t, func(t *testing.T, w *world) {
		users, c := inhabited(t, w, 3)
		w.clock.set(time.Date(2026, 3, 4, 5, 0, 0, 0, time.UTC))
		season := ranking.MonthOf(civil.DayOf(2026, 1, 1))
		all, err := w.Boards.Read(t.Context(), season, users[1], c, 10, 0)
		if err != nil || len(all.Top) != 3 {
			t.Fatalf("January: %+v, %v", all, err)
		}
		if err := w.Boards.Rebuild(t.Context(), season); err != nil {
			t.Fatal(err)
		}
		if err := w.eraseAsQueued(t.Context(), users[0]); err != nil {
			t.Fatal(err)
		}
		left, err := w.Boards.FromRedis(t.Context(), season, users[1], c, 10, 0)
		if err != nil || len(left.Top) != 2 || slices.ContainsFunc(left.Top, func(p ranking.Row) bool { return p.User == users[0] }) {
			t.Errorf("January: %+v, %v, want the two others", left, err)
		}
	})
}

// A load that has read SQL before the erasure writes the user after it.
func TestErase_ReachesSeasonBeingLoaded(t *testing.T) {
	t.Parallel()
	worlds(t, func(t *testing.T, w *world) {
		users, c := inhabited(t, w, 3)
		w.clock.set(time.Date(2026, 3, 4, 5, 0, 0, 0, time.UTC))
		season := ranking.MonthOf(civil.DayOf(2026, 1, 1))
		erase := func() error { return w.eraseAsQueued(t.Context(), users[0]) }
		if err := w.Boards.Renew(t.Context(), season, sync.OnceValue(erase)); err != nil {
			t.Fatal(err)
		}
		if err := erase(); err != nil { // a minute later
			t.Fatal(err)
		}
		left, err := w.Boards.FromRedis(t.Context(), season, users[1], c, 10, 0)
		if err != nil || len(left.Top) != 2 || slices.ContainsFunc(left.Top, func(p ranking.Row) bool { return p.User == users[0] }) {
			t.Errorf("January: %+v, %v, want the two others", left, err)
		}
	})
}
