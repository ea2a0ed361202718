package sqldb

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"
)

const (
	// watchInterval is the smallest interval of checks without [DB.HurryWhile], and watchJitter bounds the random
	// difference.
	watchInterval = 1150 * time.Millisecond
	watchJitter   = 200 * time.Millisecond
	// WatchWithin is the largest interval of checks, which bounds the delay until an outage, its end, or what a [Probe]
	// finds is detected.
	WatchWithin = watchInterval + watchJitter
	// hurryInterval is the interval of checks in a hurry.
	hurryInterval = 200 * time.Millisecond
	// watchTimeout bounds one check, including its wait for a connection: a pool without a free connection for this
	// long serves no request either.
	watchTimeout = 3 * time.Second
	// probesTimeout bounds the probes of a check. The rest of watchTimeout is for a check without probes.
	probesTimeout = watchTimeout / 2
	// writeInterval is the interval of trial writes. Each one is a commit.
	writeInterval = 10 * time.Second
)

// outage is the state of a database as seen by [DB.Watch].
type outage struct {
	since   atomic.Int64           // Unix milliseconds; 0 means that the database answers
	reason  atomic.Pointer[string] // of the last outage
	refusal atomic.Pointer[string] // of the last write; nil means that it was accepted
	blind   bool                   // the probes failed although the database answers; only used by Watch
}

// Probe is a SELECT of rows. Its first row shows that work waits.
type Probe struct {
	Query string
	Args  func() []any // nil means none
}

// probing is a probe with the function that gets its results.
type probing struct {
	Probe
	found func(found bool, asked time.Time)
}

// AddProbe calls found after each check of [DB.Watch] until remove is called. found gets whether the probe had a row at
// a time after asked, and must not block. All probes are parts of one statement. If that fails although the database
// answers, for example because a table is locked, found gets true.
func (db *DB) AddProbe(p Probe, found func(found bool, asked time.Time)) (remove func()) {
	added := &probing{p, found}
	db.mu.Lock()
	defer db.mu.Unlock()
	db.probes = append(slices.Clip(db.probes), added)
	return func() {
		db.mu.Lock()
		defer db.mu.Unlock()
		db.probes = slices.DeleteFunc(slices.Clone(db.probes), func(p *probing) bool { return p == added })
	}
}

// HurryWhile makes [DB.Watch] check five times a second while f returns true.
func (db *DB) HurryWhile(f func() bool) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.hurried = append(db.hurried, f)
}

// check checks whether the database answers and accepts transactions, and asks all probes. On a server with read_only,
// the start of a transaction shows whether the user may write in spite of that.
func (db *DB) check(ctx context.Context) error {
	db.mu.Lock()
	probes := db.probes
	db.mu.Unlock()
	asked := time.Now()
	asking, cancel := context.WithTimeout(ctx, probesTimeout)
	readOnly, rows, failed := db.probe(asking, probes)
	cancel()
	if failed != nil {
		var err error
		if readOnly, _, err = db.probe(ctx, nil); err != nil {
			return fmt.Errorf("sqldb.Watch %s: %w", db.place, err)
		}
	}
	if blind := failed != nil; blind != db.outage.blind {
		if db.outage.blind = blind; blind {
			db.log.LogAttrs(ctx, slog.LevelWarn, "sql: probes fail", slog.String("at", db.place), slog.Any("err", failed))
		} else {
			db.log.LogAttrs(ctx, slog.LevelInfo, "sql: probes work again", slog.String("at", db.place))
		}
	}
	for i, p := range probes {
		p.found(failed != nil || rows[i], asked)
	}
	if readOnly != "0" && readOnly != "OFF" {
		return db.Ping(ctx)
	}
	return nil
}

// probe sends one statement. It returns the value of read_only, and which probes have a row.
func (db *DB) probe(ctx context.Context, probes []*probing) (readOnly string, rows []bool, err error) {
	query, args := "SELECT @@read_only", []any(nil)
	if db.dialect == SQLite {
		query = "SELECT 'OFF'"
	}
	rows = make([]bool, len(probes))
	into := []any{&readOnly}
	for i, p := range probes {
		query += ", EXISTS (" + p.Query + ")"
		if p.Args != nil {
			args = append(args, p.Args()...)
		}
		into = append(into, &rows[i])
	}
	err = db.QueryRowContext(ctx, query, args...).Scan(into...)
	return readOnly, rows, err
}

// awaitCheck waits until the next check is due, or ctx ends.
func (db *DB) awaitCheck(ctx context.Context) {
	for due := time.Now().Add(watchInterval + rand.N(watchJitter)); time.Now().Before(due); {
		select {
		case <-ctx.Done():
			return
		case <-time.After(min(hurryInterval, time.Until(due))):
		}
		db.mu.Lock()
		hurried := db.hurried
		db.mu.Unlock()
		if db.Away().IsZero() && slices.ContainsFunc(hurried, func(f func() bool) bool { return f() }) {
			return
		}
	}
}

// Watch checks about each second whether the database answers, until ctx ends, and then returns nil. It also asks the
// probes; see [DB.AddProbe]. It logs one line at the start of an outage and one at its end; [DB.Away] returns the start.
// Every ten seconds Watch calls write, which commits a small change, because only a write detects a full disk.
// [DB.Refuses] returns the result. A server process calls Watch once.
func (db *DB) Watch(ctx context.Context, write func(context.Context) error) error {
	var began time.Time
	written := time.Now()
	for {
		if db.awaitCheck(ctx); ctx.Err() != nil {
			return nil
		}
		asked, at := time.Now(), db.Now()
		asking, cancel := context.WithTimeout(ctx, watchTimeout)
		err := db.check(asking)
		if err == nil && (db.Refuses() != "" || time.Since(written) >= writeInterval) {
			written = asked
			db.recordWrite(ctx, write(asking))
		}
		cancel()
		switch away := db.outage.since.Load() != 0; {
		case ctx.Err() != nil:
			return nil
		case err != nil && !away:
			began = asked
			db.log.LogAttrs(ctx, slog.LevelWarn, "sql: unavailable", slog.String("at", db.place), slog.Any("err", err))
			reason := err.Error()
			db.outage.reason.Store(&reason)
			db.outage.since.Store(at.UnixMilli())
		case err == nil && away:
			db.log.LogAttrs(ctx, slog.LevelInfo, "sql: available again", slog.String("at", db.place), slog.Duration("away", time.Since(began)))
			db.outage.since.Store(0)
		}
	}
}

// recordWrite records and logs whether the database accepted a write. A conflict proves nothing, nor does a busy SQLite
// writer.
func (db *DB) recordWrite(ctx context.Context, err error) {
	refused := db.Refuses() != ""
	switch {
	case ctx.Err() != nil || IsRetryable(err) || db.dialect == SQLite && errors.Is(err, context.DeadlineExceeded):
	case err != nil:
		if !refused {
			db.log.LogAttrs(ctx, slog.LevelWarn, "sql: writes refused", slog.String("at", db.place), slog.Any("err", err))
		}
		reason := err.Error()
		db.outage.refusal.Store(&reason)
	case refused:
		db.log.LogAttrs(ctx, slog.LevelInfo, "sql: writes accepted again", slog.String("at", db.place))
		db.outage.refusal.Store(nil)
	}
}

// Away returns the start of the outage that [DB.Watch] detected. The zero time means that the database answers.
func (db *DB) Away() time.Time {
	return TimeOrZero(db.outage.since.Load())
}

// Reason returns the error of the last outage that [DB.Watch] detected.
func (db *DB) Reason() string {
	if reason := db.outage.reason.Load(); reason != nil {
		return *reason
	}
	return ""
}

// Refuses returns the error of the last trial write of [DB.Watch], or "" if the write was accepted.
func (db *DB) Refuses() string {
	if refusal := db.outage.refusal.Load(); refusal != nil {
		return *refusal
	}
	return ""
}
