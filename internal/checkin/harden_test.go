package checkin

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/checkin/ranking"
	"github.com/stoa-dev/stoa/internal/checkin/records"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/leaderboard"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// Another node's row is committed and not yet on disk when a second tap finds it. Then the database is killed.
func TestCheckIn_SecondTapWaitsForDisk(t *testing.T) {
	t.Parallel()
	maria := sqldbtest.OwnServer(t, sqldbtest.Options{Durable: true})
	db := sqldbtest.Open(t, sqldb.Config{URL: maria.URL})
	s := newSQLStore(db)
	users := newUsers(2)
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	tapOf := func(user accounts.ID, at time.Time) []request {
		return []request{tap(user, civil.Clock{}, civil.Clock{}.Today(at), at, Activity{}, rand.Uint64())}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	set := func(flush string) {
		t.Helper()
		_, err := db.ExecContext(t.Context(), "SET GLOBAL innodb_flush_log_at_trx_commit = "+flush)
		must(err)
	}
	_, err := db.ExecContext(t.Context(), "SET GLOBAL innodb_flush_log_at_timeout = 2700")
	must(err)
	_, err = s.write(t.Context(), tapOf(users[1], at)) // prepares the statement
	must(err)
	set("0") // commits stay in memory, as they otherwise do for a moment
	first := tapOf(users[0], at)
	_, err = s.write(t.Context(), first)
	must(err)
	set("1")

	held, err := s.write(t.Context(), tapOf(users[0], at.Add(time.Second)))
	must(err)
	maria.Kill9(t)
	maria.Restart(t)
	if got := held[first[0].key()]; got.req != first[0].req {
		t.Fatalf("the second tap found %+v, want the first", got)
	}
	histories, err := s.histories(t.Context(), users[:1])
	if err != nil || len(histories[users[0]].Marks) != 1 {
		t.Fatalf("after the crash the log has %v, %v, want the row that was found", histories[users[0]].Marks, err)
	}
}

// A request waits for the disk only if no other write of its batch did.
func TestBatch_WaitsForDiskOnlyIfItWroteNothing(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t, sqldbtest.Default(t).Config(t))
	s := newSQLStore(db)
	user, other := newUsers(1)[0], newUsers(1)[0]
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	one := func(user accounts.ID, at time.Time) request {
		return tap(user, civil.Clock{}, civil.Clock{}.Today(at), at, Activity{}, rand.Uint64())
	}
	both := []request{one(user, at.Add(time.Second)), one(other, at.Add(time.Second))}
	if user.String() > other.String() {
		both[0], both[1] = both[1], both[0]
	}
	for _, tt := range []struct {
		what    string
		reqs    []request
		repeats bool // the rows are read before anything is written
		want    int  // flushes so far
	}{
		{"a new row that was taken for an old one", []request{one(user, at)}, true, 0},
		{"a new row beside one that is there", both, false, 0},
		{"a row of this second", []request{one(user, at.Add(time.Second))}, false, 1},
		{"a row of this second, read", []request{one(user, at.Add(time.Second))}, true, 2},
		{"a row that is a minute old", []request{one(user, at.Add(time.Minute))}, false, 2},
		{"a row that is a minute old, read", []request{one(user, at.Add(time.Minute))}, true, 2},
		{"one old row and one fresh row", []request{one(user, at.Add(time.Minute)), one(other, at.Add(time.Minute))}, false, 3},
	} {
		w, err := sqlLog{s}.commit(t.Context(), tt.reqs, &ahead{repeats: tt.repeats})
		if err != nil || len(w.rows) != len(tt.reqs) {
			t.Fatal(tt.what, w.rows, err)
		}
		var got int
		if err := db.QueryRowContext(t.Context(), "SELECT COALESCE(MAX(n), 0) FROM checkin_flushes").Scan(&got); err != nil || got != tt.want {
			t.Errorf("after %s there were %d flushes, %v; want %d", tt.what, got, err, tt.want)
		}
	}
}

// InnoDB refuses a duplicate a moment before a plain read sees the row in its way. Two connections that inserted the
// same row saw this once in some ten thousand times. The caller must get that row all the same.
func TestBatch_FindsRowThatPlainReadMisses(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t, sqldbtest.Default(t).Config(t))
	s := newSQLStore(db)
	s.find = db.Finder("SELECT user_id, day, at, kind, req FROM checkins WHERE 0 = 1 AND (user_id, day) IN ", 2, "")
	user, at := newUsers(1)[0], time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	one := func(at time.Time) []request {
		return []request{tap(user, civil.Clock{}, civil.Clock{}.Today(at), at, Activity{}, rand.Uint64())}
	}
	first := one(at)
	for _, reqs := range [][]request{first, one(at.Add(time.Second)), one(at.Add(2 * time.Minute))} {
		w, err := sqlLog{s}.commit(t.Context(), reqs, &ahead{repeats: true})
		if row := w.rows[reqs[0].key()]; err != nil || row.at != at.UnixMilli() || row.kind != streak.Tapped || row.req != first[0].req {
			t.Errorf("a check-in at %s is told of %+v, %v", reqs[0].at, row, err)
		}
	}
	var flushes int
	if err := db.QueryRowContext(t.Context(), "SELECT COALESCE(MAX(n), 0) FROM checkin_flushes").Scan(&flushes); err != nil || flushes != 1 {
		t.Errorf("the disk was waited for %d times, %v; want once, for the fresh row", flushes, err)
	}
	s.met = s.find
	if _, err := s.write(t.Context(), one(at)); !errors.Is(err, errRowDeleted) || !retryable(err) {
		t.Errorf("a row that nothing finds: %v", err)
	}
}

// A reader applies a committed row to Redis before its own node does, because the response of the commit is late. The
// boards do not have the row yet.
func TestBoard_MovesThoughReaderAppliedRowFirst(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"))
		user, c := newUsers(1)[0], civil.Clock{}
		w.register(t, user, "UTC")
		w.on(t, "2026-11-20")
		w.mustMark(t, user, c)
		day := w.on(t, "2026-11-21")
		for _, b := range ranking.Current(w.now()) {
			if err := w.Boards.Rebuild(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		}
		reqs := []request{tap(user, c, day, w.now(), Activity{}, rand.Uint64())}
		if _, err := w.sql.write(t.Context(), reqs); err != nil {
			t.Fatal(err)
		}
		if err := w.Service.redis.Drop(t.Context(), []records.Key{{User: user, Year: day.Year()}}); err != nil {
			t.Fatal(err)
		}
		if s, err := w.Status(t.Context(), user, c); err != nil || !s.Today {
			t.Fatalf("the reader sees %+v, %v", s, err)
		}
		w.recent = records.NewCache()
		ahead := w.loadAhead(t.Context(), reqs)
		if err := w.apply(t.Context(), reqs, []outcome{{Result: Result{New: true, At: reqs[0].at}, kind: streak.Tapped,
			ahead: ahead}}); err != nil {
			t.Fatal(err)
		}
		probe := leaderboard.Entry{Member: "nobody", Value: 1, Dies: w.now().Add(time.Hour)}
		if got, _, err := w.Boards.Of(ranking.StreakBoard).Rank(t.Context(), w.now(), probe); got.Rank != 2 || err != nil {
			t.Errorf("behind a streak of 2 is place %d, %v; want 2", got.Rank, err)
		}
	})
}
