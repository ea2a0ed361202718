package queue_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/internal/background/queue"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
	"github.com/stoa-dev/stoa/lib/testing/logtest"
)

func onEngines(t *testing.T, f func(t *testing.T, e sqldbtest.Engine, db *sqldb.DB)) {
	for _, e := range sqldbtest.Engines(t) {
		t.Run(e.Name, func(t *testing.T) { f(t, e, e.Open(t)) })
	}
}

func enqueue(t *testing.T, db *sqldb.DB, ms ...sqldb.Message) {
	t.Helper()
	err := db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		for _, m := range ms {
			if err := tx.Enqueue(ctx, m); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestSQL_HandlesOnlyCommittedMessages(t *testing.T) {
	onEngines(t, func(t *testing.T, _ sqldbtest.Engine, db *sqldb.DB) {
		got := make(chan queue.Delivery, 10)
		s := queue.NewSQL(db)
		stop := consume(t, s, queue.Config{Poll: time.Hour}, map[string]queue.Handler{
			"mail": func(_ context.Context, d queue.Delivery) error { got <- d; return nil }})
		boom := errors.New("boom")
		err := db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			if err := tx.Enqueue(ctx, sqldb.Message{Topic: "mail", Key: "lost"}); err != nil {
				return err
			}
			return boom
		})
		if err != boom {
			t.Fatal(err)
		}
		enqueue(t, db, sqldb.Message{Topic: "mail", Key: "k", Payload: []byte("\x00\xff'?")}, sqldb.Message{Topic: "unknown"})
		d := <-got
		if d.Topic != "mail" || d.Key != "k" || string(d.Payload) != "\x00\xff'?" || d.Attempt != 1 {
			t.Errorf("handled %+v", d)
		}
		stop()
		if waiting := list(t, s, "", false); len(waiting) != 1 || waiting[0].Topic != "unknown" {
			t.Errorf("waiting %+v, want the one of the unknown topic", waiting)
		}
		if len(got) > 0 {
			t.Errorf("handled %+v as well", <-got)
		}
	})
}

func TestSQL_RetriesWithDocumentedWaits(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		db := sqldbtest.SQLite(t)
		registry := prometheus.NewRegistry()
		start := time.Now()
		var mu sync.Mutex
		var bad, good []time.Duration
		healed := false
		s := queue.NewSQL(db)
		stop := consume(t, s, queue.Config{Workers: 1, Metrics: registry}, map[string]queue.Handler{
			"bad": func(context.Context, queue.Delivery) error {
				mu.Lock()
				defer mu.Unlock()
				bad = append(bad, time.Since(start))
				if !healed && len(bad) == 2 {
					panic("bang")
				}
				if !healed {
					return errors.New("boom")
				}
				return nil
			},
			"good": func(context.Context, queue.Delivery) error {
				mu.Lock()
				defer mu.Unlock()
				good = append(good, time.Since(start))
				return nil
			}})
		enqueue(t, db, sqldb.Message{Topic: "bad"}, sqldb.Message{Topic: "good"},
			sqldb.Message{Topic: "good", Due: db.Now().Add(90 * time.Second)})
		time.Sleep(10 * time.Minute)
		synctest.Wait()

		mu.Lock()
		if len(good) != 2 || good[0] != 0 || good[1] < 90*time.Second || good[1] > 91*time.Second {
			t.Errorf("good messages handled after %v, want at once and after 90 s, with a bad one in the queue", good)
		}
		if len(bad) != queue.Tries {
			t.Fatalf("%d tries, want %d", len(bad), queue.Tries)
		}
		for i, want := range []time.Duration{1, 4, 16, 64} {
			gap := bad[i+1] - bad[i]
			if want *= time.Second; gap < want || gap > want*12/10+time.Second {
				t.Errorf("wait %v after try %d, want %v and up to a fifth, and a poll", gap, i+1, want)
			}
		}
		healed = true
		mu.Unlock()
		if got := metric(t, registry, "stoa_queue_dead", "topic=bad"); got != 1 {
			t.Errorf("%v dead letters measured, want 1", got)
		}
		if n, err := s.Replay(t.Context(), list(t, s, "bad", true)[0].ID); n != 1 || err != nil {
			t.Errorf("replayed %d (%v), want 1", n, err)
		}
		time.Sleep(time.Minute)
		stop()
		if got := left(t, s, ""); len(bad) != 6 || got != [2]int{} {
			t.Errorf("%d tries, %v left after the replay, want a sixth that succeeded", len(bad), got)
		}
		if got := metric(t, registry, "stoa_queue_dead"); got != 0 {
			t.Errorf("%v dead letters measured after the replay, want none", got)
		}
	})
}

// Another process commits without a wake-up of this one.
func TestSQL_FindsMessagesOfOtherProcesses(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		db := sqldbtest.SQLite(t)
		handled := make(chan time.Time, 10)
		consume(t, queue.NewSQL(db), queue.Config{Poll: time.Hour}, map[string]queue.Handler{
			"t": func(context.Context, queue.Delivery) error { handled <- time.Now(); return nil }})
		defer sqldbtest.Watch(t, db)()
		for _, due := range []time.Duration{0, time.Minute} {
			bubble.Sleep(time.Minute)
			now := time.Now()
			if _, err := db.ExecContext(t.Context(), "INSERT INTO outbox (topic, msg_key, payload, created, due, attempts, claim, error, dead) "+
				"VALUES ('t', '', '', ?, ?, 0, '', '', 0)", now.UnixMilli(), now.Add(due).UnixMilli()); err != nil {
				t.Fatal(err)
			}
			bubble.Sleep(due + sqldb.WatchWithin)
			select {
			case at := <-handled:
				if at.Sub(now) < due {
					t.Errorf("handled after %s, want not before %s", at.Sub(now), due)
				}
			default:
				t.Errorf("not handled %s after it was due", sqldb.WatchWithin)
			}
		}
	})
}

func TestSQL_RetriesOnTimeBetweenPolls(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		db := sqldbtest.SQLite(t)
		var tries []time.Time
		stop := consume(t, queue.NewSQL(db), queue.Config{Poll: time.Hour}, map[string]queue.Handler{
			"t": func(context.Context, queue.Delivery) error {
				tries = append(tries, time.Now())
				return errors.New("boom")
			}})
		enqueue(t, db, sqldb.Message{Topic: "t"})
		time.Sleep(10 * time.Minute)
		stop()
		if len(tries) != queue.Tries {
			t.Fatalf("%d tries, want %d", len(tries), queue.Tries)
		}
		for i, want := range []time.Duration{1, 4, 16, 64} {
			if gap := tries[i+1].Sub(tries[i]); gap > want*time.Second*12/10+time.Second/10+10*time.Millisecond {
				t.Errorf("wait %v after try %d, want %v and up to a fifth", gap, i+1, want*time.Second)
			}
		}
	})
}

// Messages to a hanging server are retried again and again, and are due before all new messages.
func TestConsumer_TopicsApartDelayNoOther(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := queue.NewSQL(sqldbtest.SQLite(t))
		mails, banned := make(chan struct{}, 1000), make(chan struct{}, 1)
		stop := consume(t, s, queue.Config{Apart: []string{"mail"}}, map[string]queue.Handler{
			"mail": func(context.Context, queue.Delivery) error {
				mails <- struct{}{}
				time.Sleep(10 * time.Second)
				return queue.ErrNotNow
			},
			"ban": func(context.Context, queue.Delivery) error { banned <- struct{}{}; return nil },
		})
		publish(t, s, slices.Repeat([]queue.Message{{Topic: "mail"}}, 100)...)
		bubble.Sleep(30 * time.Second)
		publish(t, s, queue.Message{Topic: "ban"})
		bubble.Sleep(time.Second)
		if tried := len(mails); tried < 24 || len(banned) != 1 {
			t.Errorf("%d mails were tried and %d bans handled, want 24 at least, and the one", tried, len(banned))
		}
		stop()
	})
}

func TestSQL_ClaimedMessageIsNotReplaced(t *testing.T) {
	onEngines(t, func(t *testing.T, _ sqldbtest.Engine, db *sqldb.DB) {
		s := queue.NewSQL(db)
		running, finish := make(chan string, 10), make(chan struct{})
		stop := consume(t, s, queue.Config{}, map[string]queue.Handler{"slow": func(_ context.Context, d queue.Delivery) error {
			running <- string(d.Payload)
			<-finish
			return nil
		}})
		// Two waiting messages are merged into the newest payload and the earliest time, unless NoDedup is set.
		later := db.Now().Add(time.Hour)
		enqueue(t, db, sqldb.Message{Topic: "slow", Key: "k", Payload: []byte("old"), Due: later})
		enqueue(t, db, sqldb.Message{Topic: "slow", Key: "k", Payload: []byte("older"), Due: later.Add(time.Hour)},
			sqldb.Message{Topic: "slow", Key: "other", Due: later}, sqldb.Message{Topic: "slow", Key: "k", Due: later, NoDedup: true})
		if waiting := list(t, s, "slow", false); len(waiting) != 3 || !waiting[0].Due.Equal(later) {
			t.Fatalf("waiting %+v, want three, the first at %v", waiting, later)
		}
		enqueue(t, db, sqldb.Message{Topic: "slow", Key: "k", Payload: []byte("new")})
		if got := <-running; got != "new" {
			t.Errorf("handled %q, want the newest payload", got)
		}
		enqueue(t, db, sqldb.Message{Topic: "slow", Key: "k", Payload: []byte("newer")})
		if got := <-running; got != "newer" {
			t.Errorf("handled %q, want the one enqueued meanwhile", got)
		}
		close(finish)
		stop()
		if got := left(t, s, "slow"); got != [2]int{2, 0} {
			t.Errorf("waiting and dead %v, want two and none", got)
		}
	})
}

// Waiting returns a message whether or not a consumer has claimed it. Done keeps a message that was replaced after it
// was read.
func TestSQL_WaitingAndDone(t *testing.T) {
	onEngines(t, func(t *testing.T, _ sqldbtest.Engine, db *sqldb.DB) {
		s := queue.NewSQL(db)
		topic, later := "drop", db.Now().Add(time.Hour)
		enqueue(t, db, sqldb.Message{Topic: topic, Key: "a", Payload: []byte("one")},
			sqldb.Message{Topic: topic, Key: "b", Payload: []byte("x'\x00"), Due: later},
			sqldb.Message{Topic: "other", Payload: []byte("one")})
		if _, err := db.ExecContext(t.Context(), "UPDATE outbox SET claim = 'somebody' WHERE msg_key = 'a'"); err != nil {
			t.Fatal(err)
		}
		read := func(n, want int) []queue.Entry {
			t.Helper()
			es, err := s.Waiting(t.Context(), topic, n)
			if err != nil || len(es) != want {
				t.Fatalf("got %+v, %v, want %d", es, err, want)
			}
			return es
		}
		read(1, 1)
		es := read(10, 2)
		enqueue(t, db, sqldb.Message{Topic: topic, Key: "b", Payload: []byte("two"), Due: later})
		if err := s.Done(t.Context(), es...); err != nil {
			t.Fatal(err)
		}
		es = read(10, 1)
		if string(es[0].Payload) != "two" || es[0].Key != "b" {
			t.Errorf("got %+v, want the replaced one", es[0])
		}
		if err := s.Done(t.Context(), es...); err != nil {
			t.Fatal(err)
		}
		read(10, 0)
		if left := list(t, s, "other", false); len(left) != 1 {
			t.Errorf("of another topic there are %+v, want one", left)
		}
		enqueue(t, db, sqldb.Message{Topic: topic})
		if _, err := db.ExecContext(t.Context(), "UPDATE outbox SET dead = 1 WHERE topic = ?", topic); err != nil {
			t.Fatal(err)
		}
		read(10, 0)
		if err := s.Done(t.Context()); err != nil {
			t.Errorf("nothing at all: %v", err)
		}
	})
}

func TestEnqueue_ManyMessagesInFewStatements(t *testing.T) {
	onEngines(t, func(t *testing.T, _ sqldbtest.Engine, db *sqldb.DB) {
		s := queue.NewSQL(db)
		var ms []queue.Message
		for range 250 {
			ms = append(ms, queue.Message{Topic: "t"})
		}
		for range 6 { // 6 MiB
			ms = append(ms, queue.Message{Topic: "big", Payload: make([]byte, 1<<20)})
		}
		publish(t, s, ms...)
		if small, big := len(list(t, s, "t", false)), len(list(t, s, "big", false)); small != 250 || big != 6 {
			t.Errorf("%d and %d messages, want 250 and 6", small, big)
		}
	})
}

func TestConsumer_LogsAnOutageOnce(t *testing.T) {
	server := sqldbtest.OwnServer(t, sqldbtest.Options{Durable: true})
	db := sqldbtest.Open(t, sqldb.Config{URL: server.URL})
	log := &logtest.Buffer{}
	got := make(chan struct{}, 1)
	consume(t, queue.NewSQL(db), queue.Config{Poll: 5 * time.Millisecond, Log: slog.New(slog.NewTextHandler(log, nil))},
		map[string]queue.Handler{"t": func(context.Context, queue.Delivery) error { got <- struct{}{}; return nil }})
	enqueue(t, db, sqldb.Message{Topic: "t"})
	<-got
	server.Kill9(t)
	eventually.True(t, "a log line", func() bool { return log.Count("queue: messages not read") > 0 })
	server.Restart(t)
	enqueue(t, db, sqldb.Message{Topic: "t"})
	<-got
	if n := log.Count("queue: messages not read"); n != 1 {
		t.Errorf("%d lines, want 1", n)
	}
}
