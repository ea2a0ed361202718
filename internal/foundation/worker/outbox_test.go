package worker_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/internal/foundation/sqldb"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/internal/foundation/worker"
)

func onEngines(t *testing.T, f func(t *testing.T, e sqldbtest.Engine, db *sqldb.DB)) {
	for _, e := range sqldbtest.Engines(t) {
		t.Run(e.Name, func(t *testing.T) { f(t, e, e.Open(t)) })
	}
}

// node runs an Outbox until the test ends or stop is called.
func node(t *testing.T, db *sqldb.DB, cfg worker.OutboxConfig, handlers map[string]worker.Handler) (o *worker.Outbox, stop func()) {
	t.Helper()
	o, err := worker.NewOutbox(db, handlers, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := o.Run(ctx); err != nil {
			t.Errorf("Run returned %v", err)
		}
	}()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(stop)
	return o, stop
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

// eventually waits for what nobody signals.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 20 s", what)
		}
	}
}

func count(t *testing.T, o *worker.Outbox) [2]int {
	t.Helper()
	waiting, dead, err := o.Count(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return [2]int{waiting, dead}
}

func TestACommittedMessageIsHandledAtOnceAndARolledBackOneNever(t *testing.T) {
	onEngines(t, func(t *testing.T, _ sqldbtest.Engine, db *sqldb.DB) {
		got := make(chan worker.Delivery, 10)
		o, stop := node(t, db, worker.OutboxConfig{Poll: time.Hour}, map[string]worker.Handler{
			"mail": func(_ context.Context, d worker.Delivery) error { got <- d; return nil }})
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
		if d.Topic != "mail" || d.Key != "k" || string(d.Payload) != "\x00\xff'?" || d.Attempt != 1 || d.ID == 0 {
			t.Errorf("handled %+v", d)
		}
		stop()
		if got, want := count(t, o), [2]int{1, 0}; got != want {
			t.Errorf("waiting and dead %v, want %v: the one of the unknown topic", got, want)
		}
		if len(got) > 0 {
			t.Errorf("handled %+v as well", <-got)
		}
	})
}

func TestTwoNodesShareTheMessagesAndHandleEachOnce(t *testing.T) {
	onEngines(t, func(t *testing.T, _ sqldbtest.Engine, db *sqldb.DB) {
		const n = 40
		var mu sync.Mutex
		seen := map[string]int{}
		var all sync.WaitGroup
		all.Add(n)
		handlers := map[string]worker.Handler{"t": func(_ context.Context, d worker.Delivery) error {
			mu.Lock()
			defer mu.Unlock()
			if seen[string(d.Payload)]++; seen[string(d.Payload)] == 1 {
				all.Done()
			}
			return nil
		}}
		var ms []sqldb.Message
		for i := range n {
			ms = append(ms, sqldb.Message{Topic: "t", Payload: fmt.Append(nil, i)})
		}
		o, stop := node(t, db, worker.OutboxConfig{}, handlers)
		_, stop2 := node(t, db, worker.OutboxConfig{}, handlers)
		enqueue(t, db, ms...)
		all.Wait()
		stop()
		stop2()
		for payload, times := range seen {
			if times != 1 {
				t.Errorf("message %s handled %d times", payload, times)
			}
		}
		if got := count(t, o); got != [2]int{} {
			t.Errorf("waiting and dead %v, want none", got)
		}
	})
}

func TestABadMessageIsTriedFiveTimesHoldsNobodyAndCanBeReplayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := sqldbtest.SQLite(t)
		registry := prometheus.NewRegistry()
		start := time.Now()
		var mu sync.Mutex
		var bad, good []time.Duration
		healed := false
		o, stop := node(t, db, worker.OutboxConfig{Workers: 1, Metrics: registry}, map[string]worker.Handler{
			"bad": func(context.Context, worker.Delivery) error {
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
			"good": func(context.Context, worker.Delivery) error {
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
		if len(bad) != worker.Tries {
			t.Fatalf("%d tries, want %d", len(bad), worker.Tries)
		}
		for i, want := range []time.Duration{1, 4, 16, 64} {
			gap := bad[i+1] - bad[i]
			if want *= time.Second; gap < want || gap > want*12/10+time.Second {
				t.Errorf("wait %v after try %d, want %v and up to a fifth, and a poll", gap, i+1, want)
			}
		}
		healed = true
		mu.Unlock()
		dead, err := o.List(t.Context(), true, 0, 10)
		if err != nil || len(dead) != 1 || dead[0].Error != "boom" || dead[0].Attempts != 5 || !dead[0].Dead || dead[0].Claimed {
			t.Fatalf("dead letters %+v (%v), want the bad message", dead, err)
		}
		if n, err := o.Replay(t.Context(), dead[0].ID, 999); n != 1 || err != nil {
			t.Errorf("replayed %d (%v), want 1", n, err)
		}
		time.Sleep(time.Minute)
		stop()
		if len(bad) != 6 || count(t, o) != [2]int{} {
			t.Errorf("%d tries, %v left after the replay, want a sixth that succeeded", len(bad), count(t, o))
		}
		for outcome, want := range map[string]float64{"done": 3, "retry": 4, "dead": 1} {
			if got := metric(t, registry, "stoa_outbox_handled_total", "outcome="+outcome); got != want {
				t.Errorf("%v counted as %s, want %v", got, outcome, want)
			}
		}
	})
}

func TestAHandlerMayGiveUpAndAFreshMessageIsNotFoldedIntoARunningOne(t *testing.T) {
	onEngines(t, func(t *testing.T, _ sqldbtest.Engine, db *sqldb.DB) {
		running, finish := make(chan string, 10), make(chan struct{})
		o, stop := node(t, db, worker.OutboxConfig{}, map[string]worker.Handler{
			"hopeless": func(context.Context, worker.Delivery) error {
				return fmt.Errorf("%w: %s", worker.ErrGiveUp, strings.Repeat("ü", 1000))
			},
			"slow": func(_ context.Context, d worker.Delivery) error {
				running <- string(d.Payload)
				<-finish
				return nil
			}})
		enqueue(t, db, sqldb.Message{Topic: "hopeless"})
		eventually(t, "dead letter", func() bool { return count(t, o) == [2]int{0, 1} })

		// Two that wait are folded: the newest payload, the earliest time.
		later := db.Now().Add(time.Hour)
		enqueue(t, db, sqldb.Message{Topic: "slow", Key: "k", Payload: []byte("old"), Due: later})
		enqueue(t, db, sqldb.Message{Topic: "slow", Key: "k", Payload: []byte("older"), Due: later.Add(time.Hour)},
			sqldb.Message{Topic: "slow", Key: "other", Due: later}, sqldb.Message{Topic: "hopeless", Key: "k", Due: later})
		waiting, err := o.List(t.Context(), false, 0, 10)
		if err != nil || len(waiting) != 3 || !waiting[0].Due.Equal(later) {
			t.Fatalf("waiting %+v (%v), want three, the first at %v", waiting, err, later)
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
		if got, want := count(t, o), [2]int{2, 1}; got != want {
			t.Errorf("waiting and dead %v, want %v", got, want)
		}
	})
}

func TestWhatAStoppedNodeCouldNotFinishIsFreeAtOnceAndLosesNoTry(t *testing.T) {
	onEngines(t, func(t *testing.T, _ sqldbtest.Engine, db *sqldb.DB) {
		began := make(chan struct{})
		_, stop := node(t, db, worker.OutboxConfig{Grace: time.Millisecond}, map[string]worker.Handler{
			"t": func(ctx context.Context, _ worker.Delivery) error { close(began); <-ctx.Done(); return ctx.Err() }})
		enqueue(t, db, sqldb.Message{Topic: "t"})
		<-began
		stop()
		got := make(chan worker.Delivery, 1)
		node(t, db, worker.OutboxConfig{}, map[string]worker.Handler{
			"t": func(_ context.Context, d worker.Delivery) error { got <- d; return nil }})
		if d := <-got; d.Attempt != 1 {
			t.Errorf("attempt %d on the other node, want 1", d.Attempt)
		}
	})
}

// The environment that makes this test binary the node that gets killed.
const (
	victimURL = "STOA_TEST_VICTIM_URL"
	victimDir = "STOA_TEST_VICTIM_DIR"
)

func TestMain(m *testing.M) {
	if url, dir := os.Getenv(victimURL), os.Getenv(victimDir); url != "" || dir != "" {
		victim(sqldb.Config{URL: url, Dir: dir})
	}
	os.Exit(m.Run())
}

// victim takes a message and never finishes it.
func victim(cfg sqldb.Config) {
	ctx := context.Background()
	db, err := sqldb.Open(ctx, cfg)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	o, err := worker.NewOutbox(db, map[string]worker.Handler{"t": func(context.Context, worker.Delivery) error {
		fmt.Println("began")
		select {}
	}}, worker.OutboxConfig{Claim: time.Second})
	if err == nil {
		err = o.Run(ctx)
	}
	fmt.Println(err)
	os.Exit(1)
}

func TestAKilledNodesMessageIsTakenOverWhenItsClaimLapses(t *testing.T) {
	for _, e := range sqldbtest.Engines(t) {
		t.Run(e.Name, func(t *testing.T) {
			cfg := e.Config(t)
			db := sqldbtest.Open(t, cfg)
			enqueue(t, db, sqldb.Message{Topic: "t", Key: "k", Payload: []byte("p")})
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), victimURL+"="+cfg.URL, victimDir+"="+cfg.Dir)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(out).ReadString('\n')
			began := time.Now()
			if kill := cmd.Process.Kill(); kill != nil || line != "began\n" {
				t.Fatalf("the victim said %q (%v), killed: %v", line, err, kill)
			}
			_ = cmd.Wait() // killed

			got := make(chan worker.Delivery, 1)
			o, stop := node(t, db, worker.OutboxConfig{Poll: 20 * time.Millisecond}, map[string]worker.Handler{
				"t": func(_ context.Context, d worker.Delivery) error { got <- d; return nil }})
			d := <-got
			if took := time.Since(began); d.Attempt != 2 || string(d.Payload) != "p" || took < 500*time.Millisecond || took > 10*time.Second {
				t.Errorf("took over %+v after %v, want the second attempt after about a second", d, took)
			}
			stop()
			if got := count(t, o); got != [2]int{} {
				t.Errorf("waiting and dead %v, want none", got)
			}
		})
	}
}

func TestAMessageThatKillsEveryNodeEndsAsADeadLetter(t *testing.T) {
	onEngines(t, func(t *testing.T, _ sqldbtest.Engine, db *sqldb.DB) {
		enqueue(t, db, sqldb.Message{Topic: "t"})
		if _, err := db.ExecContext(t.Context(), "UPDATE outbox SET attempts = ?, claim = 'gone'", worker.Tries); err != nil {
			t.Fatal(err)
		}
		o, _ := node(t, db, worker.OutboxConfig{}, map[string]worker.Handler{
			"t": func(context.Context, worker.Delivery) error { t.Error("handled once more"); return nil }})
		eventually(t, "dead letter", func() bool { return count(t, o) == [2]int{0, 1} })
		dead, err := o.List(t.Context(), true, 0, 10)
		if err != nil || !strings.Contains(dead[0].Error, "died") {
			t.Errorf("dead letters %+v (%v), want the reason", dead, err)
		}
	})
}

func TestAHandlerThatOutlivesItsClaimDoesNotSettleForItsSuccessor(t *testing.T) {
	db := sqldbtest.SQLite(t)
	var mu sync.Mutex
	var attempts []int
	first, second := make(chan struct{}), make(chan struct{})
	o, stop := node(t, db, worker.OutboxConfig{Claim: 100 * time.Millisecond, Poll: 10 * time.Millisecond, Backoff: time.Millisecond},
		map[string]worker.Handler{"t": func(ctx context.Context, d worker.Delivery) error {
			mu.Lock()
			attempts = append(attempts, d.Attempt)
			mu.Unlock()
			if d.Attempt == 1 {
				<-second // deaf to its context
				defer close(first)
				return nil
			}
			if d.Attempt == 2 {
				close(second)
				<-first
				return errors.New("not yet")
			}
			return nil
		}})
	enqueue(t, db, sqldb.Message{Topic: "t"})
	eventually(t, "handled", func() bool { return count(t, o) == [2]int{} })
	stop()
	if len(attempts) < 3 || !slices.Equal(attempts[:3], []int{1, 2, 3}) {
		t.Errorf("attempts %v, want a third after the second failed, although the first returned nil late", attempts)
	}
}

func TestTheOutboxWaitsForADatabaseThatIsAwayAndLogsItOnce(t *testing.T) {
	server := sqldbtest.OwnMariaDB(t, sqldbtest.Options{Durable: true})
	db := sqldbtest.Open(t, sqldb.Config{URL: server.URL})
	log := &lines{}
	got := make(chan struct{}, 1)
	node(t, db, worker.OutboxConfig{Poll: 5 * time.Millisecond, Log: slog.New(slog.NewTextHandler(log, nil))},
		map[string]worker.Handler{"t": func(context.Context, worker.Delivery) error { got <- struct{}{}; return nil }})
	enqueue(t, db, sqldb.Message{Topic: "t"})
	<-got
	server.Kill9(t)
	eventually(t, "a line about it", func() bool { return log.with("outbox cannot be read") > 0 })
	server.Restart(t)
	enqueue(t, db, sqldb.Message{Topic: "t"})
	<-got
	if n := log.with("outbox cannot be read"); n != 1 {
		t.Errorf("%d lines, want 1", n)
	}
}

// lines is a log that tests look into.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) with(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), part)
}
