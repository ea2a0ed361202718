package queue_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/internal/background/queue"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// TestConformance runs the same cases on each store and engine. The cases share a store and use their own topics; with
// virtual time each case has its own store.
func TestConformance(t *testing.T) {
	cases := []struct {
		name string
		run  func(t *testing.T, s queue.Store)
	}{
		{"WhatIsPublishedIsHandledAtOnceAndWhole", handledWhole},
		{"NodesShareTheMessagesAndHandleEachOnce", nodesShare},
		{"ABadMessageIsTriedFiveTimesAndCanBeReplayed", fiveTries},
		{"AHandlerMayGiveUpAndAMessageBeDropped", giveUpAndDrop},
		{"WhatIsAwayUsesUpNoTries", notNow},
		{"WhatWaitsForSomethingThatIsAwayAges", ages},
		{"ABatchIsAnsweredMessageByMessage", batches},
		{"WhatAHandlerDoesNotBeginWithKeepsItsPlace", untried},
		{"WhatAStoppedNodeCouldNotFinishIsFreeAtOnceAndLosesNoTry", released},
		{"AHandlerThatOutlivesItsClaimDoesNotSettleForItsSuccessor", lateHandler},
		{"AMessageThatKillsEveryNodeEndsAsADeadLetter", killsEveryNode},
		{"ListsHavePagesAndStates", lists},
		{"MalformedMessagesAreRefusedAndNothingIsPublished", malformed},
		{"EqualKeysDoNotFoldAndNoTopicStarvesAnother", equalKeys},
	}
	suite := func(t *testing.T, s queue.Store) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) { c.run(t, s) })
		}
	}
	inVirtualTime := func(t *testing.T, on func(t *testing.T, run func(*testing.T, queue.Store))) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) { bubble.Test(t, func(t *testing.T) { on(t, c.run) }) })
		}
	}
	for _, e := range sqldbtest.Engines(t) {
		t.Run("sql/"+e.Name, func(t *testing.T) {
			t.Parallel()
			if e.Name == "sqlite" {
				inVirtualTime(t, func(t *testing.T, run func(*testing.T, queue.Store)) { run(t, queue.NewSQL(e.Open(t))) })
				return
			}
			suite(t, queue.NewSQL(e.Open(t)))
		})
	}
	for _, e := range redistest.Engines(t) {
		t.Run("redis/"+e.Name, func(t *testing.T) {
			t.Parallel()
			if e.Name == "embedded" {
				inVirtualTime(t, func(t *testing.T, run func(*testing.T, queue.Store)) {
					db := e.Open(t)
					run(t, queue.NewRedis(db))
					redistest.KeysDeclared(t, db, queue.Keys)
				})
				return
			}
			db := e.Open(t)
			suite(t, queue.NewRedis(db))
			redistest.KeysDeclared(t, db, queue.Keys)
		})
	}
}

// topic returns the topic of the case.
func topic(t *testing.T) string { return t.Name()[max(0, len(t.Name())-50):] }

// consume runs a consumer until the test ends or stop is called.
func consume(t *testing.T, s queue.Store, cfg queue.Config, handlers map[string]queue.Handler, batches ...queue.Batch) (stop func()) {
	t.Helper()
	c, err := queue.NewConsumer(s, handlers, batches, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := c.Run(ctx); err != nil {
			t.Errorf("Run returned %v", err)
		}
	}()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(stop)
	return stop
}

func publish(t *testing.T, s queue.Store, ms ...queue.Message) {
	t.Helper()
	if err := s.Publish(t.Context(), ms...); err != nil {
		t.Fatal(err)
	}
}

func list(t *testing.T, s queue.Store, topic string, dead bool) []queue.Entry {
	t.Helper()
	es, err := s.List(t.Context(), queue.Filter{Topic: topic, Dead: dead, Limit: queue.MaxList})
	if err != nil {
		t.Fatal(err)
	}
	return es
}

// left returns the numbers of waiting and of dead messages of a topic.
func left(t *testing.T, s queue.Store, topic string) [2]int {
	t.Helper()
	return [2]int{len(list(t, s, topic, false)), len(list(t, s, topic, true))}
}

// quick returns a consumer configuration with short waits.
func quick() queue.Config {
	return queue.Config{Poll: 5 * time.Millisecond, Backoff: 2 * time.Millisecond, Claim: 10 * time.Second}
}

func handledWhole(t *testing.T, s queue.Store) {
	got := make(chan queue.Delivery, 10)
	stop := consume(t, s, queue.Config{Poll: time.Hour}, map[string]queue.Handler{
		topic(t): func(_ context.Context, d queue.Delivery) error { got <- d; return nil }})
	want := queue.Message{Topic: topic(t), Key: "k", Payload: []byte("\x00\xff'?")}
	publish(t, s, want, queue.Message{Topic: topic(t) + "2"})
	d := <-got
	if d.Topic != want.Topic || d.Key != want.Key || string(d.Payload) != string(want.Payload) || d.Attempt != 1 || d.ID == "" {
		t.Errorf("handled %+v, want %+v", d, want)
	}
	stop()
	if got, unknown := left(t, s, topic(t)), left(t, s, topic(t)+"2"); got != [2]int{} || unknown != [2]int{1, 0} {
		t.Errorf("waiting and dead %v, want none; of an unknown topic %v, want one", got, unknown)
	}
	if len(got) > 0 {
		t.Errorf("handled %+v as well", <-got)
	}
}

func nodesShare(t *testing.T, s queue.Store) {
	const n = 200
	var mu sync.Mutex
	seen := map[string]int{}
	var all sync.WaitGroup
	all.Add(n)
	handlers := map[string]queue.Handler{topic(t): func(_ context.Context, d queue.Delivery) error {
		mu.Lock()
		defer mu.Unlock()
		if seen[string(d.Payload)]++; seen[string(d.Payload)] == 1 {
			all.Done()
		}
		return nil
	}}
	var ms []queue.Message
	for i := range n {
		ms = append(ms, queue.Message{Topic: topic(t), Payload: fmt.Append(nil, i)})
	}
	stop := consume(t, s, quick(), handlers)
	stop2 := consume(t, s, quick(), handlers)
	publish(t, s, ms...)
	all.Wait()
	stop()
	stop2()
	for payload, times := range seen {
		if times != 1 {
			t.Errorf("message %s handled %d times", payload, times)
		}
	}
	if got := left(t, s, topic(t)); got != [2]int{} {
		t.Errorf("waiting and dead %v, want none", got)
	}
}

func fiveTries(t *testing.T, s queue.Store) {
	registry := prometheus.NewRegistry()
	var mu sync.Mutex
	var at []time.Time
	var attempts []int
	healed := false
	done := make(chan struct{})
	cfg := quick()
	cfg.Metrics = registry
	stop := consume(t, s, cfg, map[string]queue.Handler{topic(t): func(_ context.Context, d queue.Delivery) error {
		mu.Lock()
		defer mu.Unlock()
		at, attempts = append(at, time.Now()), append(attempts, d.Attempt)
		switch {
		case healed:
			close(done)
			return nil
		case len(at) == 2:
			panic("bang")
		}
		return errors.New("boom\x00")
	}})
	publish(t, s, queue.Message{Topic: topic(t), Key: "k", Payload: []byte("p")})
	eventually.True(t, "dead letter", func() bool { return left(t, s, topic(t)) == [2]int{0, 1} })
	mu.Lock()
	if !slices.Equal(attempts, []int{1, 2, 3, 4, 5}) {
		t.Errorf("attempts %v, want 1 to 5", attempts)
	}
	for i, wait := range []time.Duration{2, 8, 32, 128} {
		// Stores round to milliseconds, so the wait may be up to one millisecond shorter.
		if gap := at[i+1].Sub(at[i]); gap < (wait-1)*time.Millisecond {
			t.Errorf("try %d after %v, want %d ms at least", i+2, gap, wait)
		}
	}
	healed = true
	mu.Unlock()
	dead := list(t, s, topic(t), true)[0]
	shown, err := s.Show(t.Context(), dead.ID)
	if err != nil || dead.Error != "boom?" || dead.Attempts != 5 || dead.State != queue.Dead || dead.Key != "k" ||
		dead.Created.Before(at[0].Add(-time.Minute)) || string(shown.Payload) != "p" || shown.Error != "boom?" {
		t.Errorf("dead letter %+v, shown %+v (%v)", dead, shown, err)
	}
	if n, err := s.Replay(t.Context(), dead.ID, "999999999", "gone/d1-1"); n != 1 || err != nil {
		t.Errorf("replayed %d (%v), want 1", n, err)
	}
	<-done
	stop()
	if got := left(t, s, topic(t)); got != [2]int{} || attempts[5] != 1 {
		t.Errorf("waiting and dead %v and attempt %d after the replay, want none and 1", got, attempts[5])
	}
	for outcome, want := range map[string]float64{"done": 1, "retry": 4, "dead": 1} {
		if got := metric(t, registry, "stoa_queue_handled_total", "outcome="+outcome, "queue="+s.Name(), "topic="+topic(t)); got != want {
			t.Errorf("%v counted as %s, want %v", got, outcome, want)
		}
	}
}

func giveUpAndDrop(t *testing.T, s queue.Store) {
	publish(t, s, queue.Message{Topic: topic(t), Key: "bad"}, queue.Message{Topic: topic(t) + "2", Key: "unwanted"})
	stop := consume(t, s, quick(), map[string]queue.Handler{topic(t): func(context.Context, queue.Delivery) error {
		return fmt.Errorf("%w: %s", queue.ErrGiveUp, strings.Repeat("ü", 1000))
	}})
	eventually.True(t, "dead letter", func() bool { return left(t, s, topic(t)) == [2]int{0, 1} })
	stop()
	bad := list(t, s, topic(t), true)[0]
	if n := len([]rune(bad.Error)); n != 500 || bad.Attempts != 1 {
		t.Errorf("an error of %d characters after %d tries, want 500 after 1", n, bad.Attempts)
	}
	unwanted := list(t, s, topic(t)+"2", false)[0]
	if n, err := s.Drop(t.Context(), bad.ID, unwanted.ID, "999999999", "gone/1-1", "nonsense"); n != 2 || err != nil {
		t.Errorf("dropped %d (%v), want 2", n, err)
	}
	if a, b := left(t, s, topic(t)), left(t, s, topic(t)+"2"); a != [2]int{} || b != [2]int{} {
		t.Errorf("left %v and %v, want none", a, b)
	}
	for _, id := range []string{bad.ID, unwanted.ID, "999999999", "gone/1-1", "nonsense"} {
		if _, err := s.Show(t.Context(), id); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("Show(%s): %v, want ErrNotFound", id, err)
		}
	}
}

func notNow(t *testing.T, s queue.Store) {
	var mu sync.Mutex
	var attempts []int
	stop := consume(t, s, quick(), map[string]queue.Handler{topic(t): func(_ context.Context, d queue.Delivery) error {
		mu.Lock()
		defer mu.Unlock()
		away := []error{queue.ErrNotNow, errs.New(errs.Unavailable, "t.away", "away"), redis.ErrUnavailable, driver.ErrBadConn}
		if attempts = append(attempts, d.Attempt); len(attempts) < 2*queue.Tries {
			return fmt.Errorf("handling: %w", away[len(attempts)%len(away)])
		}
		return nil
	}})
	publish(t, s, queue.Message{Topic: topic(t)})
	eventually.True(t, "handled", func() bool { return left(t, s, topic(t)) == [2]int{} })
	stop()
	if slices.Max(attempts) != 1 {
		t.Errorf("attempts %v, want each to be the first", attempts)
	}
}

// ages checks the age, which is the only sign of the message for operators.
func ages(t *testing.T, s queue.Store) {
	cfg := quick()
	cfg.Backoff = time.Hour // no retry during the test
	stop := consume(t, s, cfg, map[string]queue.Handler{topic(t): func(context.Context, queue.Delivery) error { return queue.ErrNotNow }})
	publish(t, s, queue.Message{Topic: topic(t)})
	eventually.True(t, "a try", func() bool {
		es := list(t, s, topic(t), false)
		return len(es) == 1 && es[0].State == queue.Waiting && es[0].Error != ""
	})
	eventually.True(t, "the message between two tries to have an age", func() bool {
		stats, err := s.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return stats[slices.IndexFunc(stats, func(st queue.Stat) bool { return st.Topic == topic(t) })].Age > 0
	})
	stop()
}

func batches(t *testing.T, s queue.Store) {
	var ms []queue.Message
	for i := range 25 {
		ms = append(ms, queue.Message{Topic: topic(t), Key: fmt.Sprint(i), Payload: []byte{byte(i)}})
	}
	publish(t, s, ms...)
	var mu sync.Mutex
	var sizes []int
	succeeded := map[int]int{} // message → successful attempt
	running := 0
	stop := consume(t, s, quick(), nil, queue.Batch{Topics: []string{topic(t)}, Size: 10,
		Handle: func(_ context.Context, ds []queue.Delivery) []error {
			mu.Lock()
			defer mu.Unlock()
			if running++; running > 1 {
				t.Error("two batches at once")
			}
			defer func() { running-- }()
			sizes = append(sizes, len(ds))
			switch len(sizes) {
			case 1:
				panic("bang")
			case 2:
				return []error{nil} // too few
			}
			answers := make([]error, len(ds))
			for i, d := range ds {
				if n := int(d.Payload[0]); n%5 == 0 && d.Attempt < 3 {
					answers[i] = errors.New("not yet")
				} else {
					succeeded[n] = d.Attempt
				}
			}
			if !slices.ContainsFunc(answers, func(err error) bool { return err != nil }) {
				return nil // short for all
			}
			return answers
		}})
	eventually.True(t, "all handled", func() bool { return left(t, s, topic(t)) == [2]int{} })
	stop()
	if slices.Max(sizes) != 10 || len(succeeded) != 25 {
		t.Errorf("batches of %v and %d handled, want at most 10 and 25", sizes, len(succeeded))
	}
	for n, attempt := range succeeded {
		if n%5 == 0 && attempt != 3 || attempt > 3 {
			t.Errorf("message %d succeeded in attempt %d", n, attempt)
		}
	}
}

func untried(t *testing.T, s queue.Store) {
	var ms []queue.Message
	var want []byte
	for i := range byte(25) {
		ms, want = append(ms, queue.Message{Topic: topic(t), Key: "one", Payload: []byte{i}}), append(want, i)
	}
	publish(t, s, ms...)
	var mu sync.Mutex
	var got []byte
	stop := consume(t, s, quick(), nil, queue.Batch{Topics: []string{topic(t)}, Size: 10,
		Handle: func(_ context.Context, ds []queue.Delivery) []error {
			mu.Lock()
			defer mu.Unlock()
			answers := make([]error, len(ds))
			for i, d := range ds {
				if i >= 3 {
					answers[i] = queue.ErrUntried
					continue
				}
				if got = append(got, d.Payload[0]); d.Attempt != 1 {
					t.Errorf("message %d is handled in attempt %d, want 1", d.Payload[0], d.Attempt)
				}
			}
			return answers
		}})
	eventually.True(t, "all handled", func() bool { return left(t, s, topic(t)) == [2]int{} })
	stop()
	if s.Name() != "sql" { // a stream has no order
		slices.Sort(got)
	}
	if !slices.Equal(got, want) {
		t.Errorf("messages were handled in the order %v", got)
	}
}

func released(t *testing.T, s queue.Store) {
	began := make(chan struct{})
	cfg := quick()
	cfg.Grace = time.Millisecond
	stop := consume(t, s, cfg, map[string]queue.Handler{
		topic(t): func(ctx context.Context, _ queue.Delivery) error { close(began); <-ctx.Done(); return ctx.Err() }})
	publish(t, s, queue.Message{Topic: topic(t)})
	<-began
	if es := list(t, s, topic(t), false); len(es) != 1 || es[0].State != queue.Claimed || es[0].Attempts != 1 {
		t.Errorf("during the try: %+v, want it claimed", es)
	}
	stop()
	if es := list(t, s, topic(t), false); len(es) != 1 || es[0].State != queue.Waiting || es[0].Attempts != 0 {
		t.Errorf("after the stop: %+v, want it waiting and not tried", es)
	}
	got := make(chan queue.Delivery, 1)
	consume(t, s, quick(), map[string]queue.Handler{
		topic(t): func(_ context.Context, d queue.Delivery) error { got <- d; return nil }})
	if d := <-got; d.Attempt != 1 {
		t.Errorf("attempt %d on the other node, want 1", d.Attempt)
	}
}

func lateHandler(t *testing.T, s queue.Store) {
	var mu sync.Mutex
	var attempts []int
	first, second := make(chan struct{}), make(chan struct{})
	stop := consume(t, s, queue.Config{Claim: 200 * time.Millisecond, Poll: 10 * time.Millisecond, Backoff: time.Millisecond},
		map[string]queue.Handler{topic(t): func(_ context.Context, d queue.Delivery) error {
			mu.Lock()
			attempts = append(attempts, d.Attempt)
			mu.Unlock()
			if d.Attempt == 1 {
				<-second // ignores its context
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
	publish(t, s, queue.Message{Topic: topic(t)})
	eventually.True(t, "handled", func() bool { return left(t, s, topic(t)) == [2]int{} })
	stop()
	if len(attempts) < 3 || !slices.Equal(attempts[:3], []int{1, 2, 3}) {
		t.Errorf("attempts %v, want a third after the second failed, although the first returned nil late", attempts)
	}
}

func killsEveryNode(t *testing.T, s queue.Store) {
	end := make(chan struct{})
	var mu sync.Mutex
	tries := 0
	stop := consume(t, s, queue.Config{Claim: 100 * time.Millisecond, Poll: 10 * time.Millisecond, Backoff: time.Millisecond},
		map[string]queue.Handler{topic(t): func(context.Context, queue.Delivery) error {
			mu.Lock()
			tries++
			mu.Unlock()
			<-end // as if the node had died
			return nil
		}})
	publish(t, s, queue.Message{Topic: topic(t)})
	eventually.True(t, "dead letter", func() bool { return left(t, s, topic(t)) == [2]int{0, 1} })
	close(end)
	stop()
	if e := list(t, s, topic(t), true)[0]; !strings.Contains(e.Error, "died") || tries != queue.Tries {
		t.Errorf("%+v after %d tries, want the reason after five", e, tries)
	}
}

func lists(t *testing.T, s queue.Store) {
	var want []string
	for i := range 7 {
		publish(t, s, queue.Message{Topic: topic(t), Key: fmt.Sprint(i), Payload: []byte("secret")})
		want = append(want, fmt.Sprint(i))
	}
	var got []string
	f := queue.Filter{Topic: topic(t), Limit: 3}
	for {
		page, err := s.List(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page {
			got = append(got, e.Key)
			if e.Payload != nil || e.State != queue.Waiting || e.Attempts != 0 {
				t.Errorf("listed %+v, want no payload, waiting, not tried", e)
			}
		}
		if len(page) < 3 {
			break
		}
		f.After = page[2].ID
	}
	if !slices.Equal(got, want) {
		t.Errorf("listed %v, want %v", got, want)
	}
	// All pages together must equal the full list.
	all, err := s.List(t.Context(), queue.Filter{Limit: queue.MaxList})
	if err != nil {
		t.Fatal(err)
	}
	var paged []queue.Entry
	for f := (queue.Filter{Limit: 2}); ; {
		page, err := s.List(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		paged = append(paged, page...)
		if len(page) < 2 {
			break
		}
		f.After = page[1].ID
	}
	if len(all) < 7 || !slices.EqualFunc(all, paged, func(a, b queue.Entry) bool { return a.ID == b.ID }) {
		t.Errorf("%d at once, %d page by page", len(all), len(paged))
	}
	if _, err := s.List(t.Context(), queue.Filter{After: "nonsense"}); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("a nonsense cursor: %v, want ErrNotFound", err)
	}

	running, finish := make(chan struct{}), make(chan struct{})
	// No retry and no end of a claim happens during the test.
	cfg := queue.Config{Poll: 5 * time.Millisecond, Backoff: time.Hour, Claim: time.Hour, Workers: 1}
	stop := consume(t, s, cfg, map[string]queue.Handler{topic(t): func(_ context.Context, d queue.Delivery) error {
		if d.Key == "0" {
			return errors.New("boom")
		}
		if d.Key == "1" {
			running <- struct{}{}
			<-finish
		}
		return nil
	}})
	<-running
	var st queue.Stat
	eventually.True(t, "the oldest message to have an age", func() bool {
		stats, err := s.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		st = stats[slices.IndexFunc(stats, func(st queue.Stat) bool { return st.Topic == topic(t) })]
		return st.Age > 0
	})
	if st.Depth != 7 || st.InFlight != 1 || st.Dead != 0 {
		t.Errorf("stat %+v, want seven, one of them in flight", st)
	}
	es := list(t, s, topic(t), false)
	if e := es[0]; e.State != queue.Waiting || e.Attempts != 1 || e.Error != "boom" || !e.Due.After(e.Created) {
		t.Errorf("failed once: %+v", e)
	}
	if e := es[1]; e.State != queue.Claimed || e.Attempts != 1 || !e.Due.After(time.Now()) {
		t.Errorf("being handled: %+v", e)
	}
	close(finish)
	stop()
}

func malformed(t *testing.T, s queue.Store) {
	for _, bad := range []queue.Message{
		{}, {Topic: strings.Repeat("t", 61)}, {Topic: topic(t), Key: strings.Repeat("k", 121)},
		{Topic: topic(t), Payload: make([]byte, 1<<20+1)}, {Topic: topic(t), Key: "\xff"}, {Topic: topic(t), Key: "a\x00"},
	} {
		if err := s.Publish(t.Context(), queue.Message{Topic: topic(t)}, bad); !errors.Is(err, queue.ErrMessage) {
			t.Errorf("topic %.10q, key %.10q, %d bytes: %v, want ErrMessage", bad.Topic, bad.Key, len(bad.Payload), err)
		}
	}
	publish(t, s)
	if got := left(t, s, topic(t)); got != [2]int{} {
		t.Errorf("waiting and dead %v, want none", got)
	}
}

func equalKeys(t *testing.T, s queue.Store) {
	for range 3 {
		publish(t, s, queue.Message{Topic: topic(t), Key: "k"})
	}
	publish(t, s, queue.Message{Topic: topic(t) + "2", Key: "k"})
	block := make(chan struct{})
	other := make(chan struct{}, 1)
	got := make(chan struct{}, 3)
	stop := consume(t, s, quick(), map[string]queue.Handler{topic(t): func(context.Context, queue.Delivery) error {
		<-block
		got <- struct{}{}
		return nil
	}}, queue.Batch{Topics: []string{topic(t) + "2"}, Handle: func(context.Context, []queue.Delivery) []error {
		other <- struct{}{}
		return nil
	}})
	<-other // while the handlers of the first topic hang
	close(block)
	for range 3 {
		<-got
	}
	stop()
}

// metric returns the sum of a metric over all series with these labels.
func metric(t *testing.T, registry *prometheus.Registry, name string, labels ...string) (sum float64) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			matching := 0
			for _, l := range m.GetLabel() {
				if slices.Contains(labels, l.GetName()+"="+l.GetValue()) {
					matching++
				}
			}
			if matching == len(labels) {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}
