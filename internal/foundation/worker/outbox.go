package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	gonanoid "github.com/matoous/go-nanoid/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/uptrace/bun"

	"github.com/stoa-dev/stoa/internal/foundation/sqldb"
)

// Tries is how often a message is handled before it is a dead letter.
const Tries = 5

const (
	defaultWorkers = 8
	defaultClaim   = time.Minute
	defaultPoll    = time.Second
	defaultBackoff = time.Second

	maxErrorText = 500              // the column's width
	settleTime   = 10 * time.Second // for the statement that records an outcome
	countEvery   = 15 * time.Second // for the backlog gauges
	maxPause     = 10 * time.Second // between tries while the database is away
)

// ErrGiveUp, wrapped into a handler's error, makes the message a dead letter
// at once: it will never succeed.
var ErrGiveUp = errors.New("worker: the message will never succeed")

// Delivery is one try at a message.
type Delivery struct {
	ID         int64
	Topic, Key string
	Payload    []byte
	Attempt    int // from 1 to Tries

	claim string
}

// Handler does what a message asks. It may see one twice, also while the first
// is still under way when it outlives its context.
type Handler func(ctx context.Context, d Delivery) error

// OutboxConfig tunes an Outbox; the zero value is good for production.
type OutboxConfig struct {
	// Workers is how many messages this node handles at once. Zero means 8.
	Workers int

	// Claim is how long a message stays with a node that says nothing more; the
	// handler's context ends after nine tenths of it. It must exceed the
	// difference of the nodes' clocks by far. Zero means a minute.
	Claim time.Duration

	// Poll is the longest wait before looking for what other nodes enqueued or
	// left. Zero means a second.
	Poll time.Duration

	// Backoff is the wait after the first failure; each further one is four times
	// as long. Up to a fifth is added by chance. Zero means a second.
	Backoff time.Duration

	// Grace is how long handlers may go on after the stop. Zero means 10 s.
	Grace time.Duration

	// Log gets one line per failed try. Nil discards.
	Log *slog.Logger

	// Metrics gets stoa_outbox_*. Nil keeps none.
	Metrics prometheus.Registerer
}

// Outbox hands the messages of the SQL outbox to their handlers.
type Outbox struct {
	db       *sqldb.DB
	handlers map[string]Handler
	topics   []string
	cfg      OutboxConfig
	kick     chan struct{}

	handled *prometheus.CounterVec
	seconds *prometheus.HistogramVec
	backlog *prometheus.GaugeVec
}

// NewOutbox returns an Outbox for the topics that handlers names; messages of
// other topics wait for a node that knows them. The error is the registry's.
func NewOutbox(db *sqldb.DB, handlers map[string]Handler, cfg OutboxConfig) (*Outbox, error) {
	cfg.Workers = cmp.Or(cfg.Workers, defaultWorkers)
	cfg.Claim = cmp.Or(cfg.Claim, defaultClaim)
	cfg.Poll = cmp.Or(cfg.Poll, defaultPoll)
	cfg.Backoff = cmp.Or(cfg.Backoff, defaultBackoff)
	cfg.Grace = cmp.Or(cfg.Grace, defaultGrace)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	o := &Outbox{
		db: db, handlers: maps.Clone(handlers), topics: slices.Sorted(maps.Keys(handlers)), cfg: cfg,
		kick: make(chan struct{}, 1),
		handled: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stoa_outbox_handled_total", Help: "Tries at messages by outcome: done, retry, dead, released."}, []string{"topic", "outcome"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "stoa_outbox_seconds", Help: "Duration of a try.", Buckets: prometheus.ExponentialBuckets(0.001, 4, 9)}, []string{"topic"}),
		backlog: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "stoa_outbox_messages", Help: "Messages in the outbox: waiting or dead."}, []string{"state"}),
	}
	if cfg.Metrics != nil {
		var faults []error
		for _, c := range []prometheus.Collector{o.handled, o.seconds, o.backlog} {
			faults = append(faults, cfg.Metrics.Register(c))
		}
		if err := errors.Join(faults...); err != nil {
			return nil, fmt.Errorf("worker.NewOutbox: %w", err)
		}
	}
	return o, nil
}

// Run handles messages until ctx ends, then waits for the handlers under way,
// at most OutboxConfig.Grace; what they did not finish is free for another
// node at once. It returns nil: a database that is away is logged and waited
// for.
func (o *Outbox) Run(ctx context.Context) error {
	wake, stop := o.db.OutboxWake()
	defer stop()
	hard, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var handlers sync.WaitGroup
	slots := make(chan struct{}, o.cfg.Workers)
	counted := time.Time{}
	failures := 0
	for {
		// Claim no more than can begin at once: a claim must not lapse in a queue.
		n := o.takeSlots(ctx, slots)
		if n == 0 {
			break
		}
		got, next, err := o.claim(ctx, n)
		for range n - len(got) {
			<-slots
		}
		for _, d := range got {
			handlers.Go(func() {
				defer func() { <-slots }()
				o.handle(ctx, hard, d)
			})
		}
		pause := time.Until(next)
		switch {
		case err != nil && ctx.Err() == nil:
			if failures == 0 {
				o.cfg.Log.LogAttrs(ctx, slog.LevelError, "outbox cannot be read", slog.Any("error", err))
			}
			failures++
			pause = min(o.cfg.Poll<<min(failures, 10), maxPause)
		case err == nil:
			failures = 0
			if time.Since(counted) > countEvery {
				counted = time.Now()
				o.measure(ctx)
			}
		}
		if pause <= 0 {
			continue
		}
		timer := time.NewTimer(pause + jitter(o.cfg.Poll/10))
		select {
		case <-ctx.Done():
		case <-wake:
		case <-o.kick:
		case <-timer.C:
		}
		timer.Stop()
	}
	defer time.AfterFunc(o.cfg.Grace, cancel).Stop()
	handlers.Wait()
	return nil
}

// takeSlots waits for one free slot, takes all there are, and returns their
// number, or 0 when ctx has ended.
func (o *Outbox) takeSlots(ctx context.Context, slots chan<- struct{}) int {
	if ctx.Err() != nil {
		return 0
	}
	select {
	case <-ctx.Done():
		return 0
	case slots <- struct{}{}:
	}
	for n := 1; ; n++ {
		select {
		case slots <- struct{}{}:
		default:
			return n
		}
	}
}

// claim takes up to n due messages for this node and says when to look again.
// Nodes that look at the same rows are parted by the UPDATE's condition. A
// claim is the due time set into the future, and a token, which tells a
// handler that took too long that the message is no longer its own. The dedup
// column is cleared, so that an equal message enqueued from now on is not
// folded into one whose handler has perhaps read the old state already.
func (o *Outbox) claim(ctx context.Context, n int) (got []Delivery, next time.Time, err error) {
	now := o.db.Now()
	idle := time.Now().Add(o.cfg.Poll)
	if len(o.topics) == 0 {
		return nil, idle, nil
	}
	var rows []struct{ ID, Due int64 }
	err = o.db.NewRaw("SELECT id, due FROM outbox WHERE dead = 0 AND topic IN (?) ORDER BY due, id LIMIT ?",
		bun.List(o.topics), n).Scan(ctx, &rows)
	if err != nil {
		return nil, idle, err
	}
	var ids []int64
	for _, r := range rows {
		if r.Due > now.UnixMilli() {
			if wait := time.UnixMilli(r.Due).Sub(now); wait < o.cfg.Poll {
				idle = time.Now().Add(wait)
			}
			break
		}
		ids = append(ids, r.ID)
	}
	if len(ids) == 0 {
		return nil, idle, nil
	}
	token := gonanoid.Must()
	err = o.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		got = got[:0]
		until := tx.Now().Add(o.cfg.Claim).UnixMilli()
		_, err := tx.ExecContext(ctx, `UPDATE outbox SET claim = ?, attempts = attempts + 1, due = ?, dedup = NULL
			WHERE id IN (?) AND dead = 0 AND due <= ?`, token, until, bun.List(ids), tx.Now().UnixMilli())
		if err != nil {
			return err
		}
		rows, err := tx.QueryContext(ctx, "SELECT id, topic, msg_key, payload, attempts FROM outbox WHERE id IN (?) AND claim = ?",
			bun.List(ids), token)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			d := Delivery{claim: token}
			if err := rows.Scan(&d.ID, &d.Topic, &d.Key, &d.Payload, &d.Attempt); err != nil {
				return err
			}
			got = append(got, d)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, idle, err
	}
	return got, time.Time{}, nil // there may be more
}

// errDied is noted on a message whose every try ended with its node.
var errDied = errors.New("the node died, or hung, in every try")

// handle does one try and records the outcome, unless the claim has lapsed.
func (o *Outbox) handle(soft, hard context.Context, d Delivery) {
	start := time.Now()
	err := errDied
	if d.Attempt <= Tries {
		ctx, cancel := context.WithTimeout(hard, o.cfg.Claim-o.cfg.Claim/10)
		err = safely(func() error { return o.handlers[d.Topic](ctx, d) })
		cancel()
		o.seconds.WithLabelValues(d.Topic).Observe(time.Since(start).Seconds())
	}
	// The outcome is recorded although the process is stopping.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(hard), settleTime)
	defer cancel()
	query, outcome, args := "", "", []any(nil)
	switch {
	case err == nil:
		outcome = "done"
		query = "DELETE FROM outbox WHERE id = ? AND claim = ?"
	case hard.Err() != nil:
		outcome = "released" // the stop was the reason, not the message
		query = "UPDATE outbox SET due = ?, attempts = attempts - 1, claim = '' WHERE id = ? AND claim = ?"
		args = []any{o.db.Now().UnixMilli()}
	case d.Attempt >= Tries || errors.Is(err, ErrGiveUp):
		outcome = "dead"
		query = "UPDATE outbox SET dead = 1, error = ?, claim = '' WHERE id = ? AND claim = ?"
		args = []any{errorText(err)}
	default:
		outcome = "retry"
		wait := o.cfg.Backoff << (2 * (d.Attempt - 1))
		wait += jitter(wait / 5)
		query = "UPDATE outbox SET due = ?, error = ?, claim = '' WHERE id = ? AND claim = ?"
		args = []any{o.db.Now().Add(wait).UnixMilli(), errorText(err)}
	}
	if err != nil {
		o.cfg.Log.LogAttrs(soft, slog.LevelError, "message failed", slog.String("topic", d.Topic), slog.Int64("id", d.ID),
			slog.Int("attempt", d.Attempt), slog.String("outcome", outcome), slog.Any("error", err))
	}
	o.handled.WithLabelValues(d.Topic, outcome).Inc()
	settle := func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.ExecContext(ctx, query, append(args, d.ID, d.claim)...)
		return err
	}
	if err := o.db.Tx(ctx, settle); err != nil {
		o.cfg.Log.LogAttrs(soft, slog.LevelError, "outcome of a message not recorded, it comes again",
			slog.String("topic", d.Topic), slog.Int64("id", d.ID), slog.String("outcome", outcome), slog.Any("error", err))
	}
}

// errorText fits err into its column.
func errorText(err error) string {
	text := strings.ToValidUTF8(err.Error(), "?")
	if r := []rune(text); len(r) > maxErrorText {
		text = string(r[:maxErrorText])
	}
	return text
}

// Entry is a message as it lies in the outbox.
type Entry struct {
	ID         int64
	Topic, Key string
	Created    time.Time
	Due        time.Time // next try; while one is under way, the end of the claim
	Attempts   int
	Claimed    bool   // being handled, or its node died
	Dead       bool   // given up; see Replay
	Error      string // of the last try that failed; at most 500 characters
}

// List returns messages with an id above after, oldest first, at most limit:
// the dead letters or the waiting ones.
func (o *Outbox) List(ctx context.Context, dead bool, after int64, limit int) (_ []Entry, err error) {
	rows, err := o.db.QueryContext(ctx, `SELECT id, topic, msg_key, created, due, attempts, claim <> '', dead, error
		FROM outbox WHERE dead = ? AND id > ? ORDER BY id LIMIT ?`, flag(dead), after, limit)
	if err != nil {
		return nil, fmt.Errorf("worker.List: %w", err)
	}
	defer rows.Close()
	var es []Entry
	for rows.Next() {
		var e Entry
		var created, due int64
		if err := rows.Scan(&e.ID, &e.Topic, &e.Key, &created, &due, &e.Attempts, &e.Claimed, &e.Dead, &e.Error); err != nil {
			return nil, fmt.Errorf("worker.List: %w", err)
		}
		e.Created, e.Due = time.UnixMilli(created).UTC(), time.UnixMilli(due).UTC()
		es = append(es, e)
	}
	return es, rows.Err()
}

// Replay makes dead letters wait again, with all their tries, and returns how
// many of ids were dead letters.
func (o *Outbox) Replay(ctx context.Context, ids ...int64) (n int, err error) {
	if len(ids) == 0 {
		return 0, nil
	}
	err = o.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		res, err := tx.ExecContext(ctx, "UPDATE outbox SET dead = 0, attempts = 0, due = ? WHERE dead = 1 AND id IN (?)",
			tx.Now().UnixMilli(), bun.List(ids))
		if err != nil {
			return err
		}
		changed, err := res.RowsAffected()
		n = int(changed)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("worker.Replay: %w", err)
	}
	select {
	case o.kick <- struct{}{}:
	default:
	}
	return n, nil
}

// Count returns how many messages wait, those under way included, and how
// many are dead letters.
func (o *Outbox) Count(ctx context.Context) (waiting, dead int, err error) {
	err = o.db.QueryRowContext(ctx, "SELECT COALESCE(SUM(1 - dead), 0), COALESCE(SUM(dead), 0) FROM outbox").Scan(&waiting, &dead)
	if err != nil {
		return 0, 0, fmt.Errorf("worker.Count: %w", err)
	}
	return waiting, dead, nil
}

func (o *Outbox) measure(ctx context.Context) {
	waiting, dead, err := o.Count(ctx)
	if err != nil {
		return // the next claim says it
	}
	o.backlog.WithLabelValues("waiting").Set(float64(waiting))
	o.backlog.WithLabelValues("dead").Set(float64(dead))
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}
