package sqldb

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"
)

const (
	// watchInterval is the interval of checks. It bounds the delay until an outage, or its end, is detected.
	watchInterval = time.Second
	// watchTimeout bounds one check, including its wait for a connection: a pool without a free connection for this
	// long serves no request either.
	watchTimeout = 3 * time.Second
	// writeInterval is the interval of trial writes. Each one is a commit.
	writeInterval = 10 * time.Second
)

// outage is the state of a database as seen by [DB.Watch].
type outage struct {
	since   atomic.Int64           // Unix milliseconds; 0 means that the database answers
	reason  atomic.Pointer[string] // of the last outage
	refusal atomic.Pointer[string] // of the last write; nil means that it was accepted
}

// Watch checks once a second whether the database answers, until ctx ends, and then returns nil. It logs one line at
// the start of an outage and one at its end; [DB.Away] returns the start. Every ten seconds Watch calls write, which
// commits a small change, because only a write detects a full disk. [DB.Refuses] returns the result. A server process
// calls Watch once.
func (db *DB) Watch(ctx context.Context, write func(context.Context) error) error {
	var began time.Time
	written := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(watchInterval):
		}
		asked, at := time.Now(), db.Now()
		asking, cancel := context.WithTimeout(ctx, watchTimeout)
		err := db.Ping(asking)
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
