package checkin

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/background/queue"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/checkin/ranking"
	"github.com/stoa-dev/stoa/internal/checkin/reconcile"
	"github.com/stoa-dev/stoa/internal/checkin/records"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
	"github.com/stoa-dev/stoa/lib/testing/logtest"
)

// firstWorld starts a world in redis-first mode whose consumer is stopped.
func firstWorld(t *testing.T, rules ...Settings) (*world, *redistest.Instance) {
	t.Helper()
	server := redistest.Server(t, aof...)
	w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, server.URL), first(rules...))
	w.pause()
	return w, server
}

// stream returns the log of a world in redis-first mode.
func (w *world) stream(t *testing.T) *streamLog {
	t.Helper()
	l, ok := w.checkins.(*streamLog)
	if !ok {
		t.Fatalf("the log of this world is a %T", w.checkins)
	}
	return l
}

func first(rules ...Settings) Settings {
	own := append(rules, Settings{})[0]
	own.Mode = RedisFirst
	return own
}

// days returns how many rows a user has in SQL.
func (w *world) days(t *testing.T, user accounts.ID) int {
	t.Helper()
	histories, err := w.sql.histories(t.Context(), []accounts.ID{user})
	if err != nil {
		t.Fatal(err)
	}
	return len(histories[user].Marks)
}

// tomorrow moves the clock by a day.
func (w *world) tomorrow() { w.clock.set(w.clock.now().AddDate(0, 0, 1)) }

func TestRedisFirst_FirstResponseIsFinalBeforeSQL(t *testing.T) {
	t.Parallel()
	w, _ := firstWorld(t)
	user := ids.New[accounts.User]()
	one, err := w.Mark(t.Context(), user, civil.Clock{}, Activity{}, 1)
	if err != nil || !one.New || w.days(t, user) != 0 {
		t.Fatalf("got %+v, %v, %d days in SQL", one, err, w.days(t, user))
	}
	same, err := w.Mark(t.Context(), user, civil.Clock{}, Activity{}, 1)
	if err != nil || !same.New || !same.At.Equal(one.At) {
		t.Errorf("the same request again: got %+v, %v", same, err)
	}
	other, err := w.Mark(t.Context(), user, civil.Clock{}, Activity{}, 2)
	if err != nil || other.New || !other.At.Equal(one.At) {
		t.Errorf("another request: got %+v, %v", other, err)
	}
	// Without the claim, SQL shows which request was first, once it has the row.
	w.consume(t)
	w.persisted(t)
	key := claimKeys.At(user, dayKey(one.Status.Day))
	if err := key.Delete(t.Context(), w.redis); err != nil {
		t.Fatal(err)
	}
	other, err = w.Mark(t.Context(), user, civil.Clock{}, Activity{}, 3)
	if err != nil || other.New || !other.At.Equal(one.At) {
		t.Errorf("without the claim: got %+v, %v", other, err)
	}
	w.check(t, []accounts.ID{user}, civil.Clock{})
}

// The node dies between its two stages: the stream has the row, but the records and the boards do not.
func TestRedisFirst_DayOfDeadNodeIsRecovered(t *testing.T) {
	t.Parallel()
	w, _ := firstWorld(t)
	users := newUsers(5)
	for _, user := range users {
		w.mustMark(t, user, civil.Clock{})
	}
	w.tomorrow()
	now := w.now()
	var rows []request
	for _, user := range users {
		rows = append(rows, tap(user, civil.Clock{}, civil.Clock{}.Today(now), now, Activity{}, rand.Uint64()))
	}
	if err := w.stream(t).publish(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	w.consume(t)
	w.persisted(t)
	if st, err := w.Status(t.Context(), users[0], civil.Clock{}); err != nil || st.Streak != 2 {
		t.Errorf("got %+v, %v", st, err)
	}
	w.check(t, users, civil.Clock{})
}

// The consumer dies after SQL has the rows and before it acknowledges them to the stream.
func TestRedisFirst_DuplicateDeliveryCountsOnce(t *testing.T) {
	t.Parallel()
	w, _ := firstWorld(t)
	users := newUsers(20)
	for _, user := range users {
		w.mustMark(t, user, civil.Clock{})
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	dies, err := queue.NewConsumer(w.Journal(), nil, []queue.Batch{{Topics: []string{TopicPersist},
		Handle: func(_ context.Context, ds []queue.Delivery) []error {
			answers := w.stream(t).persistMessages(t.Context(), ds)
			if err := errors.Join(answers...); err != nil {
				t.Error(err)
			}
			defer close(done)
			answers[0] = queue.ErrNotNow // no message is acknowledged
			for i := range answers {
				answers[i] = answers[0]
			}
			return answers
		}}}, queue.Config{Backoff: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = dies.Run(ctx) }()
	<-done
	cancel()
	<-ended
	if w.days(t, users[0]) != 1 {
		t.Error("the consumer has not come to SQL")
	}
	w.consume(t)
	w.check(t, users, civil.Clock{})
}

// Two nodes publish one user's day at once, and the one that lost the claim is first in the stream.
func TestRedisFirst_SQLGetsAcknowledgedRow(t *testing.T) {
	t.Parallel()
	w, _ := firstWorld(t)
	user := ids.New[accounts.User]()
	other := request{user: user, day: civil.DayOf(w.clock.now().UTC().Date()), at: w.clock.now().Add(-time.Second), kind: streak.Tapped,
		act: Activity{Words: 7}, req: 99}
	if err := w.stream(t).publish(t.Context(), []request{other}); err != nil {
		t.Fatal(err)
	}
	told, err := w.Mark(t.Context(), user, civil.Clock{}, Activity{Words: 5}, 1)
	if err != nil || !told.New {
		t.Fatalf("got %+v, %v", told, err)
	}
	w.consume(t)
	w.check(t, []accounts.ID{user}, civil.Clock{})
	if again := w.mustMark(t, user, civil.Clock{}); !again.At.Equal(told.At) {
		t.Errorf("told %s, then %s", told.At, again.At)
	}
	histories, err := w.sql.histories(t.Context(), []accounts.ID{user})
	if marks := histories[user].Marks; err != nil || len(marks) != 1 || !marks[0].At.Equal(told.At) {
		t.Errorf("told %s, and SQL has %+v (%v)", told.At, marks, err)
	}
}

// A check-in that Redis can acknowledge does not wait for a slow SQL. While Redis is away, it has to wait for SQL.
func TestRedisFirst_WaitsForSlowSQLWithoutRedis(t *testing.T) {
	t.Parallel()
	w, server := firstWorld(t)
	w.stream(t).sqlTime = 0 // as in production
	server.Kill()
	w.projection.Suspect()
	taken, slow := make(chan struct{}), make(chan error, 1)
	go func() {
		slow <- w.sql.db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE checkins SET words = 0 WHERE day = 0")
			close(taken)
			time.Sleep(sqlBudget + sqlBudget/2)
			return err
		})
	}()
	<-taken
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			if res, err := w.Mark(t.Context(), ids.New[accounts.User](), civil.Clock{}, Activity{}, 1); err != nil || !res.New {
				t.Errorf("got %+v, %v", res, err)
			}
		})
	}
	all.Wait()
	if err := <-slow; err != nil {
		t.Error(err)
	}
}

func TestRedisFirst_RetriesDeadlockDuringRequest(t *testing.T) {
	t.Parallel()
	l, tries := &streamLog{}, 0
	ask := func() error {
		return l.withSQL(t.Context(), func(context.Context) error {
			if tries++; tries != 2 {
				return &mysql.MySQLError{Number: 1213}
			}
			return nil
		})
	}
	if err := ask(); err != nil || tries != 2 {
		t.Errorf("got %v after %d tries, want nothing after 2", err, tries)
	}
	if err := ask(); !errors.Is(err, ErrStore) || tries != 5 {
		t.Errorf("got %v after %d tries, want %v after 3 more", err, tries, ErrStore)
	}
	if ask(); tries == 5 {
		t.Error("after deadlocks SQL is taken to be away")
	}
}

// A lone caller commits its own batch, which ends at its deadline.
func TestRedisFirst_DeadlineOfOneCallerDelaysNoOther(t *testing.T) {
	t.Parallel()
	l, asked := &streamLog{}, 0
	ctx, stop := context.WithDeadline(t.Context(), time.Now())
	defer stop()
	err := l.withSQL(ctx, func(ctx context.Context) error { return ctx.Err() })
	if !errors.Is(err, ErrStore) {
		t.Errorf("got %v, want %v", err, ErrStore)
	}
	if err := l.withSQL(t.Context(), func(context.Context) error { asked++; return nil }); err != nil || asked != 1 {
		t.Errorf("the next caller: got %v after %d statements, want one", err, asked)
	}
}

func TestRedisFirst_WorksWhileSQLUnavailable(t *testing.T) {
	t.Parallel()
	maria := sqldbtest.OwnServer(t, sqldbtest.Options{Durable: true})
	w := newWorld(t, sqldbtest.Open(t, sqldb.Config{URL: maria.URL}), redistest.Open(t, redistest.Server(t, aof...).URL), first())
	users := newUsers(30)
	for _, user := range users {
		w.mustMark(t, user, civil.Clock{})
	}
	for range 2 { // also a second day, which makes a longest streak for all users
		w.tomorrow()
		maria.Kill9(t)
		for i, user := range users {
			res := w.mustMark(t, user, civil.Clock{})
			if !res.New || !res.Status.Today || res.Status.Streak < 2 {
				t.Fatalf("user %d: got %+v", i, res)
			}
		}
		if again := w.mustMark(t, users[0], civil.Clock{}); again.New {
			t.Errorf("again: got %+v", again)
		}
		// Users who need SQL get an error, and do not delay the others.
		var both sync.WaitGroup
		both.Go(func() {
			if _, err := w.Mark(t.Context(), ids.New[accounts.User](), civil.Clock{}, Activity{}, 1); !errors.Is(err, ErrStore) {
				t.Errorf("a user of whom Redis knows nothing: got %v", err)
			}
		})
		both.Go(func() { w.mustMark(t, users[1], civil.Clock{}) })
		both.Wait()
		maria.Restart(t)
		w.persisted(t)
	}
	w.check(t, users, civil.Clock{})
}

func TestRedisFirst_KilledRedisLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t, aof...)
	w := newWorld(t, sqldbtest.Open(t, sqldbtest.Default(t).Config(t)), redistest.Open(t, server.URL), first())
	var mu sync.Mutex
	var answered []accounts.ID
	var callers sync.WaitGroup
	stop := make(chan struct{})
	for range 16 {
		callers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				user := ids.New[accounts.User]()
				if _, err := w.Mark(t.Context(), user, civil.Clock{}, Activity{}, rand.Uint64()); err == nil {
					mu.Lock()
					answered = append(answered, user)
					mu.Unlock()
				}
			}
		})
	}
	more := func() { // so that a kill interrupts some, and the check-ins continue after each
		t.Helper()
		count := func() int { mu.Lock(); defer mu.Unlock(); return len(answered) }
		want := count() + 50
		eventually.True(t, "fifty more answers", func() bool { return count() >= want })
	}
	for range 2 {
		more()
		server.Kill()
		time.Sleep(100 * time.Millisecond)
		server.Restart()
	}
	more()
	close(stop)
	callers.Wait()
	eventually.True(t, "redis to be complete again", w.projection.Up)
	w.persisted(t)
	histories, err := w.sql.histories(t.Context(), answered)
	if err != nil {
		t.Fatal(err)
	}
	lost := 0
	for _, user := range answered {
		if len(histories[user].Marks) != 1 {
			lost++
		}
	}
	if lost > 0 {
		t.Errorf("%d of %d are lost", lost, len(answered))
	}
	for _, user := range answered[:50] {
		if st, err := w.Status(t.Context(), user, civil.Clock{}); err != nil || !st.Today || st.Total != 1 {
			t.Errorf("got %+v, %v", st, err)
		}
	}
}

func TestRedisFirst_RefusedWriteGoesToSQL(t *testing.T) {
	t.Parallel()
	w, server := firstWorld(t)
	user, other := ids.New[accounts.User](), ids.New[accounts.User]()
	w.mustMark(t, user, civil.Clock{})
	w.tomorrow()
	if _, err := server.Do("CONFIG", "SET", "maxmemory", "1"); err != nil {
		t.Fatal(err)
	}
	for _, user := range []accounts.ID{user, other} {
		if res := w.mustMark(t, user, civil.Clock{}); !res.New || !res.Status.Today {
			t.Errorf("got %+v", res)
		}
	}
	if w.days(t, other) != 1 || w.days(t, user) == 0 {
		t.Error("SQL has not what Redis refused")
	}
	if _, err := server.Do("CONFIG", "SET", "maxmemory", "0"); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "redis to be complete again", func() bool {
		w.projection.Suspect()
		time.Sleep(20 * time.Millisecond)
		return w.projection.Up()
	})
	w.consume(t)
	w.check(t, []accounts.ID{user, other}, civil.Clock{})
	if again := w.mustMark(t, other, civil.Clock{}); again.New {
		t.Errorf("again: got %+v", again)
	}
}

// While SQL counts as away, a request that needs it is refused. If Redis becomes unavailable at that moment, SQL gets
// all its tries: no request is refused because of Redis.
func TestRedisFirst_LostRedisAlwaysTriesSQL(t *testing.T) {
	t.Parallel()
	w, server := firstWorld(t)
	users, done := newUsers(2), make(chan struct{})
	close(done)
	now := w.clock.now().Truncate(time.Millisecond)
	day := civil.Clock{}.Today(now)
	rows := mapped(users, func(u accounts.ID) request {
		return request{user: u, day: day, at: now, kind: streak.Tapped, req: rand.Int64()}
	})
	known := &ahead{done: done, recs: map[records.Key]*streak.Record{rows[0].record(): streak.RecordOf(day.Year(), streak.History{})}}
	if first, rest := w.stream(t).divide(rows, known); len(first) != 1 || len(rest) != 1 {
		t.Fatalf("the test is void: %d go to Redis first and %d to SQL", len(first), len(rest))
	}
	w.stream(t).sqlUntil.Store(time.Now().Add(time.Minute).UnixMilli())
	if got, err := w.checkins.commit(t.Context(), rows[1:], known); err != nil || len(got.refused) != 1 {
		t.Errorf("while SQL counts as away: %v, %v, want one refused", got.refused, err)
	}
	server.Pause()
	defer server.Resume()
	got, err := w.checkins.commit(t.Context(), rows, known)
	if err != nil || len(got.refused) > 0 || len(got.rows) != 2 {
		t.Errorf("got %v, refused %v, %v, want both held", got.rows, got.refused, err)
	}
}

func TestRedisFirst_TooFewReplicasUsesSQL(t *testing.T) {
	t.Parallel()
	sentinels := redistest.Sentinel(t, aof...)
	sentinels.Whole(t)
	for _, replicas := range []int{1, 2} {
		rules := first()
		rules.Replicas = replicas
		w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, sentinels.Master.URL), rules)
		w.pause()
		tap := func() (inSQL bool) {
			user := ids.New[accounts.User]()
			if res := w.mustMark(t, user, civil.Clock{}); !res.New {
				t.Errorf("%d replicas: got %+v", replicas, res)
			}
			return w.days(t, user) == 1
		}
		if replicas == 1 { // which may be slow once
			eventually.True(t, "a check-in that the replica has in time", func() bool { return !tap() })
		} else if !tap() {
			t.Error("with a replica too few the check-in is in Redis alone")
		}
		w.stop()
	}
}

// The stream is lost, but the claims are not: the snapshot of the night writes them to SQL.
func TestRedisFirst_SnapshotRestoresLostStream(t *testing.T) {
	t.Parallel()
	w, server := firstWorld(t)
	users := newUsers(300)
	var all sync.WaitGroup
	for chunk := range slices.Chunk(users, 20) {
		all.Go(func() {
			for _, user := range chunk {
				w.mustMark(t, user, civil.Clock{})
			}
		})
	}
	all.Wait()
	if _, err := server.Do("DEL", "stoa:queue:{"+TopicPersist+"}:stream"); err != nil {
		t.Fatal(err)
	}
	// SQL has another row for one of them: that row does not change.
	own := request{user: users[0], day: civil.DayOf(2026, 11, 21), at: time.UnixMilli(1), kind: streak.Tapped, req: 9}
	if _, err := w.sql.write(t.Context(), []request{own}); err != nil {
		t.Fatal(err)
	}
	w.finish(t, reconcile.SnapshotRun, reconcile.Options{})
	histories, err := w.sql.histories(t.Context(), users)
	if err != nil {
		t.Fatal(err)
	}
	for i, user := range users {
		if m := histories[user].Marks; len(m) != 1 || m[0].At.Equal(own.at) != (i == 0) {
			t.Fatalf("user %d: got %v", i, m)
		}
	}
	sums, _ := w.persistedOf(t)
	if len(sums) != len(users) {
		t.Errorf("the snapshot has %d users", len(sums))
	}
}

func TestClaims_WrittenToSQLInPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, redistest.Server(t, aof...).URL), Settings{Mode: RedisFirst})
	users, today := newUsers(400), civil.Clock{}.Today(w.clock.now())
	for _, user := range users {
		claim := request{user: user, day: today, at: w.clock.now(), kind: streak.Tapped, req: 7}
		w.do(t, "SET", claimKeys.At(user, dayKey(today)).Key, claimText(claim), "PX", "1000000")
	}
	pages, looked := 0, 0
	for cursor := ""; ; pages++ {
		n, next, err := w.checkins.flushPage(t.Context(), cursor)
		if err != nil {
			t.Fatal(err)
		}
		if looked += n; next == "" {
			break
		}
		cursor = next
	}
	histories, err := w.sql.histories(t.Context(), users)
	if err != nil || len(histories) != len(users) || pages < 4 || looked < len(users) {
		t.Errorf("%d of %d users are in SQL after %d claims on %d pages, %v", len(histories), len(users), looked, pages, err)
	}
}

func TestRedisFirst_EmptiedRedisLosesOnlyPendingDays(t *testing.T) {
	t.Parallel()
	w, server := firstWorld(t)
	kept, gone := ids.New[accounts.User](), ids.New[accounts.User]()
	w.mustMark(t, kept, civil.Clock{})
	stop := w.consume(t)
	w.persisted(t)
	stop()
	w.mustMark(t, gone, civil.Clock{})
	server.FlushAll()
	w.finish(t, reconcile.SnapshotRun, reconcile.Options{})
	if w.days(t, kept) != 1 || w.days(t, gone) != 0 {
		t.Errorf("got %d and %d days", w.days(t, kept), w.days(t, gone))
	}
	eventually.True(t, "redis to be complete again", func() bool {
		w.projection.Suspect()
		time.Sleep(20 * time.Millisecond)
		return w.projection.Up()
	})
	w.consume(t)
	w.check(t, []accounts.ID{kept, gone}, civil.Clock{})
	if res := w.mustMark(t, gone, civil.Clock{}); !res.New {
		t.Errorf("once more: got %+v", res)
	}
}

func TestRedisFirst_BrokenRecordIsInSQLBeforeResponse(t *testing.T) {
	t.Parallel()
	w, _ := firstWorld(t)
	user := ids.New[accounts.User]()
	var streaks []int
	for _, day := range []int{0, 1, 1, 2, 1} { // steps; the fourth skips one
		w.clock.set(w.clock.now().AddDate(0, 0, day))
		streaks = append(streaks, w.mustMark(t, user, civil.Clock{}).Status.Streak)
		if st, in := streaks[len(streaks)-1], w.days(t, user); st > 1 && len(streaks) <= 3 && in < st-1 {
			t.Errorf("a streak of %d is a record, and SQL has %d days", st, in)
		}
	}
	// 1 (no record), 2 and 3 (records), 1 and 2 (none).
	histories, err := w.sql.histories(t.Context(), []accounts.ID{user})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range histories[user].Marks {
		got = append(got, m.Day.String())
	}
	if want := "2026-11-22 2026-11-23"; strings.Join(got, " ") != want {
		t.Errorf("SQL has %v, want %s (streaks %v)", got, want, streaks)
	}
	w.consume(t)
	w.check(t, []accounts.ID{user}, civil.Clock{})
}

func TestRedisFirst_MakeUpSeesPendingDays(t *testing.T) {
	t.Parallel()
	w, _ := firstWorld(t, Settings{MakeupDays: 30, MakeupLimit: 3})
	user := ids.New[accounts.User]()
	w.register(t, user, "UTC")
	w.mustMark(t, user, civil.Clock{})
	today := civil.Clock{}.Today(w.now())
	w.tomorrow()
	if _, err := w.MakeUp(t.Context(), user, civil.Clock{}, today, 1); !errors.Is(err, ErrDayCounts) {
		t.Errorf("a day that was answered: got %v", err)
	}
	if res := w.mustMakeUp(t, user, (today - 1).String()); res.Status.Streak != 2 {
		t.Errorf("got %+v", res)
	}
	w.consume(t)
	w.check(t, []accounts.ID{user}, civil.Clock{})
}

// A record is loaded while the stream has days of it. On New Year's Day, this concerns all users.
func TestRedisFirst_LoadedRecordHasPendingDays(t *testing.T) {
	t.Parallel()
	w, _ := firstWorld(t)
	user := ids.New[accounts.User]()
	w.clock.set(time.Date(2026, 12, 31, 12, 0, 0, 0, time.UTC))
	w.mustMark(t, user, civil.Clock{})
	w.tomorrow()
	if res := w.mustMark(t, user, civil.Clock{}); res.Status.Streak != 2 || !res.Status.Yesterday {
		t.Errorf("got %+v", res)
	}
	w.consume(t)
	w.check(t, []accounts.ID{user}, civil.Clock{})
}

func TestRedisFirst_ReconcileAcceptsPendingDays(t *testing.T) {
	t.Parallel()
	w, _ := firstWorld(t)
	users := newUsers(10)
	for _, user := range users {
		w.mustMark(t, user, civil.Clock{})
	}
	w.clock.set(w.clock.now().Add(2 * reconcile.Settled))
	if r := w.finish(t, reconcile.ReconcileRun, reconcile.Options{}); r.Summary.Differences != 0 || r.Summary.Differing != 0 {
		t.Errorf("got %+v: %v", r.Summary, w.found(t, r))
	}
	w.consume(t)
	w.check(t, users, civil.Clock{})
}

func TestRedisFirst_PoisonedRowBecomesDeadLetter(t *testing.T) {
	t.Parallel()
	maria := sqldbtest.Open(t, sqldbtest.Default(t).Config(t))
	w := newWorld(t, maria, redistest.Open(t, redistest.Server(t, aof...).URL), first())
	good, bad := ids.New[accounts.User](), ids.New[accounts.User]()
	now := w.now()
	rows := []request{
		tap(good, civil.Clock{}, civil.Clock{}.Today(now), now, Activity{}, 1),
		tap(bad, civil.Clock{}, civil.Clock{}.Today(now), now, Activity{Words: 1 << 40}, 2),
	}
	if err := w.stream(t).publish(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Journal().Publish(t.Context(), queue.Message{Topic: TopicPersist, Payload: []byte("{")}); err != nil {
		t.Fatal(err)
	}
	w.persisted(t)
	if w.days(t, good) != 1 || w.days(t, bad) != 0 {
		t.Errorf("SQL has %d and %d days", w.days(t, good), w.days(t, bad))
	}
	dead, err := w.Journal().List(t.Context(), queue.Filter{Dead: true})
	if err != nil || len(dead) != 2 || !strings.Contains(dead[0].Error+dead[1].Error, bad.String()) {
		t.Errorf("dead letters: %+v, %v", dead, err)
	}
}

func TestRisks_ListPossibleLoss(t *testing.T) {
	t.Parallel()
	risks := func(url string) string {
		t.Helper()
		s := newRedisStore(redistest.Open(t, url), Pace{}, "")
		var all []string
		eventually.NoError(t, url, func() (err error) {
			all, err = s.risks(t.Context())
			return err
		})
		return strings.Join(all, "; ")
	}
	for _, c := range []struct {
		settings []string
		want     string
	}{
		{aof, ""},
		{append(aof, "no-appendfsync-on-rewrite no"), ""},
		{append(aof, "no-appendfsync-on-rewrite yes"), "has no-appendfsync-on-rewrite yes: "},
		{[]string{"appendonly yes", "appendfsync everysec"}, "has appendfsync everysec: "},
		{[]string{"appendonly yes", "appendfsync no"}, "has appendfsync no: "},
		{[]string{"appendonly no", "appendfsync always"}, "AOF is off: "},
		{append(aof, `rename-command CONFIG ""`), "does not tell appendfsync"},
	} {
		server := redistest.Server(t, c.settings...)
		if got := risks(server.URL); (got == "") != (c.want == "") || !strings.HasPrefix(got, server.Addr+" "+c.want) &&
			!strings.HasPrefix(got, server.Addr+": "+c.want) && c.want != "" || strings.Contains(got, "; ") {
			t.Errorf("%v: got %q, want %q", c.settings, got, c.want)
		}
	}

	// In a cluster, each master is checked: one with wrong settings is found, whichever it is.
	cluster := redistest.Cluster(t, 3, 0, aof...)
	if got := risks(cluster.URL); got != "" {
		t.Errorf("of a cluster that is right: %q", got)
	}
	for i, set := range []string{"appendfsync everysec", "no-appendfsync-on-rewrite yes"} {
		name, value, _ := strings.Cut(set, " ")
		if _, err := cluster.Masters[i+1].Do("CONFIG", "SET", name, value); err != nil {
			t.Fatal(err)
		}
		if got := risks(cluster.URL); !strings.Contains(got, cluster.Masters[i+1].Addr+" has "+set+": ") || strings.Count(got, "; ") != i {
			t.Errorf("a master of the cluster has %s: got %q", set, got)
		}
	}

	if all, err := newRedisStore(redistest.Open(t, "embedded"), Pace{}, "").risks(t.Context()); err == nil {
		t.Errorf("the embedded redis keeps check-ins: %v", all)
	}
	var told strings.Builder
	w, _ := firstWorld(t)
	w.stream(t).log = slog.New(slog.NewTextHandler(&told, nil))
	if err := w.CheckMode(t.Context()); err != nil || !strings.Contains(told.String(), "what redis loses before that is lost") {
		t.Errorf("got %q, %v", told.String(), err)
	}
}

func TestRedisFirst_ChecksDurabilityOnceRedisIsBack(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t, "appendonly yes", "appendfsync everysec")
	rdb := redistest.Open(t, server.URL)
	server.Kill()
	var told logtest.Buffer
	s := New(Config{
		DB: sqldbtest.SQLite(t), Redis: rdb, Bus: events.NewBus(rdb, "a", nil), Metrics: prometheus.NewRegistry(),
		Log: told.Logger(), Settings: first(),
	})
	if err := s.CheckMode(t.Context()); err != nil || !strings.Contains(told.String(), "it will be asked") {
		t.Fatalf("got %v: %s", err, told.String())
	}
	var asked sync.WaitGroup
	defer asked.Wait()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	asked.Go(func() { s.checkins.run(ctx) })
	server.Restart()
	eventually.True(t, "redis has been asked", func() bool { return strings.Contains(told.String(), "durability of redis checked") })
	if !strings.Contains(told.String(), "has appendfsync everysec") {
		t.Errorf("got %s", told.String())
	}
	asked.Wait() // it has ended by itself
}

func TestClaim_RoundTrip(t *testing.T) {
	t.Parallel()
	r := tap(ids.New[accounts.User](), civil.Clock{}, 20000, time.UnixMilli(1_800_000_000_123), Activity{7, 8}, 1<<63+5)
	if got, ok := parseClaim(r.user, r.day, claimText(r)); !ok || got.key() != r.key() || !got.at.Equal(r.at) || got.req != r.req ||
		got.act != r.act || got.kind != r.kind {
		t.Errorf("got %+v, %t", got, ok)
	}
	for _, text := range []string{"", "1", "1 2 3 4", "1 2 3 4 5 6", "x 1 2 3 4", claimText(r) + " "} {
		if _, ok := parseClaim(r.user, r.day, text); ok {
			t.Errorf("%q is taken", text)
		}
	}
}

func TestRedisFirst_LostRedisIsNotLostSQL(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	db := redistest.Open(t, server.URL)
	server.Kill()
	lost := db.Ping(t.Context())
	if !errors.Is(lost, redis.ErrUnavailable) {
		t.Fatalf("got %v from a dead server", lost)
	}
	l, asked := &streamLog{}, 0
	for range 2 {
		err := l.withSQL(t.Context(), func(context.Context) error { asked++; return errors.Join(errClaims, lost) })
		if errors.Is(err, ErrStore) || !errors.Is(err, redis.ErrUnavailable) {
			t.Errorf("got %v, want what Redis said", err)
		}
	}
	if asked != 2 {
		t.Errorf("asked %d times, want 2: SQL was never away", asked)
	}
}

// A load of a board is a pass over SQL, which the workers have not yet brought up to date.
func TestRedisFirst_LoadedBoardHasPendingDays(t *testing.T) {
	t.Parallel()
	tell(t, inVirtualTime[2:], func(t *testing.T, w *world) {
		if err := w.Boards.LoadMissing(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.pause() // no worker writes the stream to SQL
		users, c := newUsers(3), civil.Clock{}
		for _, user := range users {
			w.mustMark(t, user, c)
			if n := w.days(t, user); n != 0 {
				t.Fatalf("SQL has %d days", n)
			}
		}
		if err := w.Boards.Renew(t.Context(), ranking.TotalBoard, nil); err != nil {
			t.Fatal(err)
		}
		if got, err := w.Boards.FromRedis(t.Context(), ranking.TotalBoard, users[0], c, 10, 0); err != nil || len(got.Top) != len(users) {
			t.Errorf("got %+v, %v, want %d users", got, err, len(users))
		}
	})
}
