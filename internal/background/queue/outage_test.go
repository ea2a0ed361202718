package queue_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/background/queue"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
	"github.com/stoa-dev/stoa/lib/testing/logtest"
)

// Environment variables that make this test binary the node that gets killed.
const (
	victimKind = "STOA_TEST_VICTIM"
	victimURL  = "STOA_TEST_VICTIM_URL"
	victimDir  = "STOA_TEST_VICTIM_DIR"
)

func TestMain(m *testing.M) {
	if kind := os.Getenv(victimKind); kind != "" {
		fmt.Println(victim(kind, os.Getenv(victimURL), os.Getenv(victimDir)))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// victim handles a message and never acknowledges it.
func victim(kind, url, dir string) error {
	ctx := context.Background()
	var store queue.Store
	if kind == "redis" {
		db, err := redis.Open(ctx, redis.Config{URL: url})
		if err != nil {
			return err
		}
		store = queue.NewRedis(db)
	} else {
		db, err := sqldb.Open(ctx, sqldb.Config{URL: url, Dir: dir})
		if err != nil {
			return err
		}
		store = queue.NewSQL(db)
	}
	c, err := queue.NewConsumer(store, map[string]queue.Handler{"t": func(context.Context, queue.Delivery) error {
		fmt.Println("handled")
		select {}
	}}, nil, queue.Config{Claim: time.Second, Backoff: time.Millisecond})
	if err != nil {
		return err
	}
	return c.Run(ctx)
}

func TestConsumer_AnotherNodeHandlesMessagesAfterAKill(t *testing.T) {
	t.Parallel()
	type engine struct {
		name, kind, url, dir string
		store                queue.Store
	}
	var engines []engine
	for _, e := range sqldbtest.Engines(t) {
		cfg := e.Config(t)
		engines = append(engines, engine{e.Name, "sql", cfg.URL, cfg.Dir, queue.NewSQL(sqldbtest.Open(t, cfg))})
	}
	server := redistest.Server(t)
	engines = append(engines, engine{"redis", "redis", server.URL, "", queue.NewRedis(redistest.Open(t, server.URL))})
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			publish(t, e.store, queue.Message{Topic: "t", Key: "k", Payload: []byte("p")})
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), victimKind+"="+e.kind, victimURL+"="+e.url, victimDir+"="+e.dir)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(out).ReadString('\n')
			if kill := cmd.Process.Kill(); kill != nil || line != "handled\n" {
				t.Fatalf("the victim printed %q (%v), killed: %v", line, err, kill)
			}
			_ = cmd.Wait() // killed

			got := make(chan queue.Delivery, 1)
			stop := consume(t, e.store, queue.Config{Poll: 20 * time.Millisecond, Claim: time.Second, Backoff: time.Millisecond},
				map[string]queue.Handler{
					"t": func(_ context.Context, d queue.Delivery) error { got <- d; return nil }})
			d := <-got
			if early := time.Now().Before(began.Add(time.Second)); early || d.Attempt != 2 || string(d.Payload) != "p" {
				t.Errorf("took over %+v (before the claim had lapsed: %v), want the second attempt after a second", d, early)
			}
			stop()
			if got := left(t, e.store, "t"); got != [2]int{} {
				t.Errorf("waiting and dead %v, want none", got)
			}
		})
	}
}

func TestRedis_WithAppendLogSurvivesAKill(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t, "appendonly yes", "appendfsync always")
	db := redistest.Open(t, server.URL)
	s := queue.NewRedis(db)
	const n = 300
	published := map[string]bool{}
	var mu sync.Mutex
	handled := map[string]bool{}
	log := &logtest.Buffer{}
	cfg := queue.Config{Poll: 10 * time.Millisecond, Backoff: time.Millisecond, Claim: 2 * time.Second,
		Log: slog.New(slog.NewTextHandler(log, nil))}
	stop := consume(t, s, cfg, map[string]queue.Handler{"t": func(_ context.Context, d queue.Delivery) error {
		mu.Lock()
		defer mu.Unlock()
		handled[d.Key] = true
		return nil
	}})
	for i := range n {
		key := fmt.Sprint(i)
		err := s.Publish(t.Context(), queue.Message{Topic: "t", Key: key})
		switch {
		case err == nil:
			published[key] = true
		case !errors.Is(err, redis.ErrUnavailable):
			t.Fatal(err)
		}
		if i == n/2 {
			server.Kill()
			eventually.True(t, "a log line", func() bool { return log.Count("queue: messages not read") > 0 })
			server.Restart()
			eventually.True(t, "Redis", func() bool { return db.Ping(t.Context()) == nil })
		}
	}
	eventually.True(t, "everything handled", func() bool {
		mu.Lock()
		defer mu.Unlock()
		for key := range published {
			if !handled[key] {
				return false
			}
		}
		return true
	})
	eventually.True(t, "everything acknowledged", func() bool { return left(t, s, "t") == [2]int{} })
	stop()
	if len(published) < n-10 {
		t.Errorf("%d of %d published, want nearly all", len(published), n)
	}
}

func TestRedis_ContinuesAfterFlushAll(t *testing.T) {
	server := redistest.Server(t)
	s := queue.NewRedis(redistest.Open(t, server.URL))
	began, finish := make(chan string, 10), make(chan struct{})
	stop := consume(t, s, quick(), map[string]queue.Handler{"t": func(_ context.Context, d queue.Delivery) error {
		began <- d.Key
		<-finish
		return nil
	}, "later": func(context.Context, queue.Delivery) error { return errors.New("boom") }})
	publish(t, s, queue.Message{Topic: "t", Key: "running"}, queue.Message{Topic: "unknown", Key: "lost"})
	<-began
	server.FlushAll()
	close(finish) // its acknowledgement finds no entry
	publish(t, s, queue.Message{Topic: "t", Key: "next"})
	if got := <-began; got != "next" {
		t.Errorf("handled %s, want the next one", got)
	}
	stop()
	if got := left(t, s, "unknown"); got != [2]int{} {
		t.Errorf("%v of what was lost, want none", got)
	}
	if got := left(t, s, "t"); got != [2]int{} {
		t.Errorf("waiting and dead %v, want none", got)
	}
}

// Messages that transactions enqueue reach the handlers behind Redis, even if Redis is unavailable for longer than five
// tries.
func TestRelay_WaitsForRedisWithoutUsingTries(t *testing.T) {
	server := redistest.Server(t)
	redisDB := redistest.Open(t, server.URL)
	outbox, s := queue.NewSQL(sqldbtest.SQLite(t)), queue.NewRedis(redisDB)
	got := make(chan queue.Delivery, 1)
	consume(t, s, quick(), map[string]queue.Handler{"t": func(_ context.Context, d queue.Delivery) error { got <- d; return nil }})
	log := &logtest.Buffer{}
	cfg := quick()
	cfg.Log = slog.New(slog.NewTextHandler(log, nil))
	consume(t, outbox, cfg, nil, queue.Relay([]string{"t"}, s))
	publish(t, outbox, queue.Message{Topic: "t", Key: "first", Payload: []byte("p")})
	if d := <-got; d.Key != "first" || string(d.Payload) != "p" || d.Attempt != 1 {
		t.Errorf("handled %+v", d)
	}
	server.Kill()
	publish(t, outbox, queue.Message{Topic: "t", Key: "second"})
	eventually.True(t, "ten tries", func() bool { return log.Count("outcome=postponed") >= 2*queue.Tries })
	if es := list(t, outbox, "t", false); len(es) != 1 {
		t.Errorf("in the outbox: %+v, want the second", es)
	}
	server.Restart()
	if d := <-got; d.Key != "second" {
		t.Errorf("handled %+v, want the second", d)
	}
}

// Messages wait in Redis while their database is unavailable. A batch of them is one commit.
func TestBatch_WaitsForSQLWithoutUsingTries(t *testing.T) {
	t.Parallel()
	maria := sqldbtest.OwnServer(t, sqldbtest.Options{Durable: true})
	db := sqldbtest.Open(t, sqldb.Config{URL: maria.URL})
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE facts (id BIGINT NOT NULL PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	put := db.Dialect().Compile(sqldb.Upsert{Table: "facts", Columns: []string{"id"}, Key: []string{"id"}})
	s := queue.NewRedis(redistest.Open(t, redistest.Server(t).URL))
	log := &logtest.Buffer{}
	cfg := quick()
	cfg.Log = slog.New(slog.NewTextHandler(log, nil))
	consume(t, s, cfg, nil, queue.Batch{Topics: []string{"facts"}, Handle: func(ctx context.Context, ds []queue.Delivery) []error {
		ids := make([]any, len(ds))
		for i, d := range ds {
			ids[i] = d.Key
		}
		err := db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := tx.ExecContext(ctx, put.For(len(ids)), ids...)
			return err
		})
		return slices.Repeat([]error{err}, len(ds))
	}})
	facts := func(from, n int) {
		var ms []queue.Message
		for i := range n {
			ms = append(ms, queue.Message{Topic: "facts", Key: fmt.Sprint(from + i)})
		}
		publish(t, s, ms...)
	}
	facts(0, 150)
	eventually.True(t, "the first facts", func() bool { return left(t, s, "facts") == [2]int{} })
	maria.Kill9(t)
	facts(150, 150)
	eventually.True(t, "more than five tries", func() bool { return log.Count("outcome=postponed") > 2*queue.Tries })
	maria.Restart(t)
	eventually.True(t, "the other facts", func() bool { return left(t, s, "facts") == [2]int{} })
	var n int
	if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM facts").Scan(&n); err != nil || n != 300 {
		t.Errorf("%d facts (%v), want 300", n, err)
	}
}

func TestRedis_TopicsOfOtherOwnersContinue(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, 3, 0, "cluster-require-full-coverage no")
	s := queue.NewRedis(redistest.Open(t, cluster.URL))
	topics := map[*redistest.Instance]string{}
	for i := 0; len(topics) < 3; i++ {
		topic := fmt.Sprint("t", i)
		topics[cluster.Owner("stoa:queue:{"+topic+"}:stream")] = topic
	}
	got := make(chan string, 100)
	handlers := map[string]queue.Handler{}
	for _, topic := range topics {
		handlers[topic] = func(_ context.Context, d queue.Delivery) error { got <- d.Topic; return nil }
	}
	dead := cluster.Owner("stoa:queue:topics")
	publish(t, s, queue.Message{Topic: topics[dead]})
	dead.Kill()
	for owner, topic := range topics {
		if owner != dead {
			eventually.True(t, "published", func() bool { return s.Publish(t.Context(), queue.Message{Topic: topic}) == nil })
		}
	}
	consume(t, s, quick(), handlers)
	for range 2 {
		if topic := <-got; topic == topics[dead] {
			t.Errorf("topic %s of the dead owner was handled", topic)
		}
	}
}
