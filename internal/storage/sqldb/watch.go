package sqldb

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"
)

const (
	// watchEvery is how soon an outage, or its end, is known.
	watchEvery = time.Second
	// watchPatience is how long one answer may take. It includes the wait for a connection:
	// a pool that has none for so long serves nobody, either.
	watchPatience = 3 * time.Second
	// writeEvery is how soon it is known that the database refuses writes. Each trial is one commit.
	writeEvery = 10 * time.Second
)

// outage is the state of a database as [DB.Watch] knows it.
type outage struct {
	since   atomic.Int64           // Unix milliseconds; 0: it answers
	reason  atomic.Pointer[string] // of the last outage
	refusal atomic.Pointer[string] // of the last write; nil: it was accepted
}

// Watch asks the database once a second whether it answers until ctx ends, and returns
// nil then. One line of the log says that the database is away, and one that it is
// back; [DB.Away] says so afterwards. Every ten seconds it calls write, which commits a small change:
// a full disk, for instance, shows in nothing else. [DB.Refuses] returns what became of it. Call Watch once, in a process that serves.
func (db *DB) Watch(ctx context.Context, write func(context.Context) error) error {
	var began time.Time
	written := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(watchEvery):
		}
		asked, at := time.Now(), db.Now()
		asking, cancel := context.WithTimeout(ctx, watchPatience)
		err := db.Ping(asking)
		if err == nil && (db.Refuses() != "" || time.Since(written) >= writeEvery) {
			written = asked
			db.tried(ctx, write(asking))
		}
		cancel()
		switch away := db.outage.since.Load() != 0; {
		case ctx.Err() != nil:
			return nil
		case err != nil && !away:
			began = asked
			db.log.LogAttrs(ctx, slog.LevelWarn, "sql is away", slog.String("at", db.place), slog.Any("err", err))
			reason := err.Error()
			db.outage.reason.Store(&reason)
			db.outage.since.Store(at.UnixMilli())
		case err == nil && away:
			db.log.LogAttrs(ctx, slog.LevelInfo, "sql is back", slog.String("at", db.place), slog.Duration("away", time.Since(began)))
			db.outage.since.Store(0)
		}
	}
}

// tried records and logs whether the database accepted a write. A conflict, or a SQLite whose writer is busy, proves nothing.
func (db *DB) tried(ctx context.Context, err error) {
	refused := db.Refuses() != ""
	switch {
	case ctx.Err() != nil || IsRetryable(err) || db.dialect == SQLite && errors.Is(err, context.DeadlineExceeded):
	case err != nil:
		if !refused {
			db.log.LogAttrs(ctx, slog.LevelWarn, "sql refuses writes", slog.String("at", db.place), slog.Any("err", err))
		}
		reason := err.Error()
		db.outage.refusal.Store(&reason)
	case refused:
		db.log.LogAttrs(ctx, slog.LevelInfo, "sql accepts writes again", slog.String("at", db.place))
		db.outage.refusal.Store(nil)
	}
}

// Away returns since when the database has not answered, as far as [DB.Watch] knows; the
// zero time means that it answers.
func (db *DB) Away() time.Time {
	return TimeOrZero(db.outage.since.Load())
}

// Reason returns why the database did not answer when [DB.Watch] last missed it.
func (db *DB) Reason() string {
	if reason := db.outage.reason.Load(); reason != nil {
		return *reason
	}
	return ""
}

// Refuses returns why the database refused the last write of [DB.Watch]; empty means that it accepts them.
func (db *DB) Refuses() string {
	if refusal := db.outage.refusal.Load(); refusal != nil {
		return *refusal
	}
	return ""
}
