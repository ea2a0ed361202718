package queue

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/redis"
)

const (
	defaultWorkers = 8
	defaultClaim   = time.Minute
	defaultPoll    = time.Second
	defaultBackoff = time.Second
	defaultGrace   = 5 * time.Second // then handlers get the same time again to settle, before the supervisor gives up
	defaultSize    = 100

	settleTimeout = 10 * time.Second // bounds the recording of outcomes
	countInterval = 15 * time.Second // interval of the backlog gauges
	maxPause      = 10 * time.Second // between tries while the store is unavailable
)

// Handler handles a message. It may receive a message twice, even at the same time if the first call runs longer than
// its context.
type Handler func(ctx context.Context, d Delivery) error

// JSON returns a [Handler] for payloads that are a T in JSON. An invalid payload becomes a dead letter at once, because
// no later try could decode it.
func JSON[T any](handle func(ctx context.Context, v T, d Delivery) error) Handler {
	return func(ctx context.Context, d Delivery) error {
		var v T
		if err := json.Unmarshal(d.Payload, &v); err != nil {
			return fmt.Errorf("%w: invalid payload: %w", ErrGiveUp, err)
		}
		return handle(ctx, v, d)
	}
}

// Batch handles several messages at once, for example in one commit. A node runs one call per Batch at a time; messages
// published during it form the next batch.
type Batch struct {
	Topics []string

	// Size is the largest number of deliveries per call of Handle. Zero means 100.
	Size int

	// Longest is the largest delay of a message. A message that is due later was delayed by a clock that was ahead, and
	// is due now. Zero means no limit.
	Longest time.Duration

	// Handle returns the errors of the deliveries in their order; nil is a success. An empty result means that all
	// succeeded.
	Handle func(ctx context.Context, ds []Delivery) []error
}

// Config configures a Consumer. The zero value is for production.
type Config struct {
	// Workers is the number of messages that this node handles concurrently, without batches. Zero means 8.
	Workers int

	// Apart lists topics whose handlers share a separate set of Workers workers. Handlers that may wait long for
	// another server then delay no other topic. Nil means none.
	Apart []string

	// An unsettled message is free for other nodes after Claim. The context of its handler ends after
	// nine tenths of it. It must be much longer than the clock difference between nodes. The store may need a longer
	// time: Redis Streams store one time per message, so a claim there lasts at least the longest wait between tries.
	// Zero means a minute.
	Claim time.Duration

	// Poll is the longest wait between checks for messages without a wake-up. [sqldb.DB.Watch] wakes the consumers of SQL
	// when messages of other processes are due. Zero means a second.
	Poll time.Duration

	// Backoff is the wait after the first failure. Each further wait is four times as long, plus up to a fifth as
	// jitter. Zero means a second.
	Backoff time.Duration

	// Grace is the time that handlers have to finish after the stop. Zero means 5 s.
	Grace time.Duration

	// Log receives one line per failed try. Nil discards it.
	Log *slog.Logger

	// Metrics registers stoa_queue_*. Consumers of several stores may share it. Nil disables metrics.
	Metrics prometheus.Registerer
}

// longest returns the longest wait between two tries.
func (c Config) longest() time.Duration {
	wait := c.Backoff << (2 * (Tries - 2))
	return wait + wait/5
}

// Consumer passes the messages of a store to their handlers.
type Consumer struct {
	store  Store
	cfg    Config
	lanes  []*lane
	topics map[string]bool
	*metrics
}

// lane is a set of topics that share workers.
type lane struct {
	*Consumer
	topics []string
	slots  chan struct{} // one value per busy worker
	size   int           // deliveries per worker
	bound  time.Duration // Longest of the Batch
	handle func(ctx context.Context, ds []Delivery) []error
	kick   chan struct{}
}

// NewConsumer returns a Consumer for the topics of handlers and batches. Messages of other topics stay in the store for
// nodes that handle them. It returns an error if a topic has two handlers.
func NewConsumer(store Store, handlers map[string]Handler, batches []Batch, cfg Config) (*Consumer, error) {
	cfg.Workers = cmp.Or(cfg.Workers, defaultWorkers)
	cfg.Poll = cmp.Or(cfg.Poll, defaultPoll)
	cfg.Backoff = cmp.Or(cfg.Backoff, defaultBackoff)
	cfg.Grace = cmp.Or(cfg.Grace, defaultGrace)
	cfg.Claim = store.claimLife(cmp.Or(cfg.Claim, defaultClaim), cfg.longest())
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	c := &Consumer{store: store, cfg: cfg, topics: map[string]bool{}}
	var err error
	if c.metrics, err = newMetrics(cfg.Metrics); err != nil {
		return nil, fmt.Errorf("queue.NewConsumer: %w", err)
	}
	add := func(topics []string, workers, size int, bound time.Duration, handle func(context.Context, []Delivery) []error) error {
		for _, topic := range topics {
			if c.topics[topic] {
				return fmt.Errorf("queue.NewConsumer: topic %s has two handlers", topic)
			}
			c.topics[topic] = true
		}
		if len(topics) > 0 {
			c.lanes = append(c.lanes, &lane{Consumer: c, topics: topics, slots: make(chan struct{}, workers), size: size, bound: bound,
				handle: handle, kick: make(chan struct{}, 1)})
		}
		return nil
	}
	handlers = maps.Clone(handlers)
	handleOne := func(ctx context.Context, ds []Delivery) []error { return []error{handlers[ds[0].Topic](ctx, ds[0])} }
	var common, separate []string
	for _, topic := range slices.Sorted(maps.Keys(handlers)) {
		if slices.Contains(cfg.Apart, topic) {
			separate = append(separate, topic)
		} else {
			common = append(common, topic)
		}
	}
	faults := []error{add(common, cfg.Workers, 1, 0, handleOne), add(separate, cfg.Workers, 1, 0, handleOne)}
	for _, b := range batches {
		faults = append(faults, add(slices.Clone(b.Topics), 1, cmp.Or(b.Size, defaultSize), b.Longest, b.Handle))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return c, nil
}

// Name returns the name of the store.
func (c *Consumer) Name() string { return c.store.Name() }

// Run handles messages until ctx ends, then waits for the running handlers, at most Config.Grace. Unfinished messages
// are free for other nodes at once. Run returns nil: while the store is unavailable it logs and retries.
func (c *Consumer) Run(ctx context.Context) error {
	hard, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var all sync.WaitGroup
	listen := c.store.listen(func() {
		for _, l := range c.lanes {
			l.wake()
		}
	})
	all.Go(func() { listen(ctx) })
	all.Go(func() { c.measure(ctx) })
	for _, l := range c.lanes {
		all.Go(func() { l.run(ctx, hard) })
	}
	<-ctx.Done()
	defer time.AfterFunc(c.cfg.Grace, cancel).Stop()
	all.Wait()
	return nil
}

// wake makes the lane check for messages at once.
func (l *lane) wake() {
	select {
	case l.kick <- struct{}{}:
	default: // a kick is already pending
	}
}

// run claims messages and starts handlers until soft ends, and waits for its handlers.
func (l *lane) run(soft, hard context.Context) {
	var handlers sync.WaitGroup
	defer handlers.Wait()
	failures := 0
	retry := min(l.cfg.Poll, defaultPoll)
	for {
		// Claim only as many messages as can start at once, because a claim must not expire while it waits for a
		// worker.
		n := l.takeSlots(soft)
		if n == 0 {
			return
		}
		got, pause, err := l.store.claim(soft, l.topics, n*l.size, l.cfg.Claim, l.cfg.Poll, l.cfg.longest(), l.bound)
		used := 0
		for ds := range slices.Chunk(got, l.size) {
			used++
			handlers.Go(func() {
				defer func() { <-l.slots }()
				l.try(soft, hard, ds)
			})
		}
		for range n - used {
			<-l.slots
		}
		switch {
		case err != nil && soft.Err() == nil:
			if failures == 0 {
				l.cfg.Log.LogAttrs(soft, slog.LevelError, "queue: messages not read", slog.String("queue", l.store.Name()), slog.Any("err", err))
			}
			failures++
			pause = min(retry<<min(failures, 10), maxPause)
		case err == nil:
			failures = 0
		}
		if pause <= 0 {
			continue
		}
		timer := time.NewTimer(pause + rand.N(max(retry/10, 1)))
		select {
		case <-soft.Done():
		case <-l.kick:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// takeSlots waits for a free slot and takes all free slots. It returns their number, or 0 if ctx has ended.
func (l *lane) takeSlots(ctx context.Context) int {
	if ctx.Err() != nil {
		return 0
	}
	select {
	case <-ctx.Done():
		return 0
	case l.slots <- struct{}{}:
	}
	for n := 1; ; n++ {
		select {
		case l.slots <- struct{}{}:
		default:
			return n
		}
	}
}

// errDied is stored with a message whose last try ended because its node died.
var errDied = errors.New("the node died, or hung, in every try")

// try handles deliveries and records their outcomes.
func (l *lane) try(soft, hard context.Context, ds []Delivery) {
	start := time.Now()
	var outcomes []outcome
	tried := make([]Delivery, 0, len(ds))
	for _, d := range ds {
		if d.Attempt > Tries {
			outcomes = append(outcomes, outcome{Delivery: d, kind: "dead", err: errDied.Error()})
			l.logFailure(soft, outcomes[len(outcomes)-1], errDied, 1)
		} else {
			tried = append(tried, d)
		}
	}
	if len(tried) > 0 {
		ctx, cancel := context.WithTimeout(hard, l.cfg.Claim-l.cfg.Claim/10)
		results := l.callHandler(ctx, tried)
		cancel()
		l.seconds.WithLabelValues(l.store.Name(), tried[0].Topic).Observe(time.Since(start).Seconds())
		failed := 0
		for i, d := range tried {
			outcomes = append(outcomes, l.outcomeOf(d, results[i], hard.Err() != nil))
			if hasFailed(results[i]) {
				failed++
			}
		}
		if failed > 0 { // one line per batch, because its messages usually fail together
			first := slices.IndexFunc(results, hasFailed)
			l.logFailure(soft, outcomes[len(outcomes)-len(tried)+first], results[first], failed)
		}
	}
	for _, o := range outcomes {
		l.handled.WithLabelValues(l.store.Name(), o.Topic, o.kind).Inc()
	}
	// Outcomes are recorded even while the process stops.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(hard), settleTimeout)
	defer cancel()
	if err := l.store.settle(ctx, l.cfg.Claim, outcomes); err != nil {
		l.cfg.Log.LogAttrs(soft, slog.LevelError, "queue: outcome not recorded, messages will be retried", slog.String("queue", l.store.Name()),
			slog.String("topic", ds[0].Topic), slog.String("id", ds[0].ID), slog.Int("messages", len(ds)), slog.Any("err", err))
	}
	if slices.ContainsFunc(outcomes, func(o outcome) bool { return o.wait > 0 }) {
		l.wake() // the lane reads when the next try is due
	}
}

// callHandler calls the handler. A panic fails all deliveries.
func (l *lane) callHandler(ctx context.Context, ds []Delivery) (results []error) {
	all := func(err error) []error { return slices.Repeat([]error{err}, len(ds)) }
	defer func() {
		if v := recover(); v != nil {
			results = all(fmt.Errorf("panic: %v\n%s", v, debug.Stack()))
		}
	}()
	results = l.handle(ctx, ds)
	switch len(results) {
	case len(ds):
		return results
	case 0:
		return all(nil)
	}
	return all(fmt.Errorf("the handler returned %d results for %d messages", len(results), len(ds)))
}

// outcomeOf converts the error of a handler into an outcome.
func (l *lane) outcomeOf(d Delivery, err error, stopped bool) outcome {
	o := outcome{Delivery: d, kind: "done"}
	if err == nil {
		return o
	}
	o.err = errorText(err)
	switch {
	case stopped || errors.Is(err, ErrUntried):
		o.kind = "released" // the stop or the time limit was the reason, not the message
	case dependencyUnavailable(err):
		o.kind = "postponed"
		o.wait = 4 * l.cfg.Backoff
		o.wait += rand.N(max(o.wait/5, 1))
	case d.Attempt >= Tries || errors.Is(err, ErrGiveUp):
		o.kind = "dead"
	default:
		o.kind = "retry"
		o.wait = l.cfg.Backoff << (2 * (d.Attempt - 1))
		o.wait += rand.N(max(o.wait/5, 1))
	}
	return o
}

func hasFailed(err error) bool { return err != nil && !errors.Is(err, ErrUntried) }

// dependencyUnavailable reports whether a dependency of the handler is unavailable: the handler returned ErrNotNow, or SQL or Redis is
// unavailable.
func dependencyUnavailable(err error) bool {
	return errors.Is(err, ErrNotNow) || errs.KindOf(err) == errs.Unavailable || errors.Is(err, redis.ErrUnavailable) ||
		sqldb.IsUnavailable(err)
}

func (l *lane) logFailure(ctx context.Context, o outcome, err error, failed int) {
	l.cfg.Log.LogAttrs(ctx, slog.LevelError, "queue: message failed", slog.String("queue", l.store.Name()), slog.String("topic", o.Topic),
		slog.String("id", o.ID), slog.Int("attempt", o.Attempt), slog.String("outcome", o.kind), slog.Int("messages", failed),
		slog.Any("err", err))
}

// Relay moves messages from one store to another: from the outbox in SQL to the queue that the consumers read. While
// the other store is unavailable the messages wait, and their tries do not count.
func Relay(topics []string, to Store) Batch {
	return Batch{Topics: topics, Handle: func(ctx context.Context, ds []Delivery) []error {
		ms := make([]Message, len(ds))
		for i, d := range ds {
			ms[i] = Message{Topic: d.Topic, Key: d.Key, Payload: d.Payload}
		}
		err := to.Publish(ctx, ms...)
		if err != nil {
			err = fmt.Errorf("%w: %w", ErrNotNow, err)
		}
		return slices.Repeat([]error{err}, len(ds))
	}}
}
