package sqldb

import (
	"context"
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
)

// outage is what [DB.Watch] knows of a database that does not answer.
type outage struct{ since atomic.Int64 } // Unix milliseconds; 0: it answers

// Watch asks the database once a second whether it answers until ctx ends, and returns
// nil then. One line of the log says that the database is away, and one that it is
// back; [DB.Away] says so afterwards. Call it once, in a process that serves.
func (db *DB) Watch(ctx context.Context) error {
	var began time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(watchEvery):
		}
		asked, at := time.Now(), db.Now()
		asking, cancel := context.WithTimeout(ctx, watchPatience)
		err := db.Ping(asking)
		cancel()
		switch away := db.outage.since.Load() != 0; {
		case ctx.Err() != nil:
			return nil
		case err != nil && !away:
			began = asked
			db.log.LogAttrs(ctx, slog.LevelWarn, "sql is away", slog.String("at", db.place), slog.Any("err", err))
			db.outage.since.Store(at.UnixMilli())
		case err == nil && away:
			db.log.LogAttrs(ctx, slog.LevelInfo, "sql is back", slog.String("at", db.place), slog.Duration("away", time.Since(began)))
			db.outage.since.Store(0)
		}
	}
}

// Away returns since when the database has not answered, as far as [DB.Watch] knows; the
// zero time means that it answers.
func (db *DB) Away() time.Time {
	return TimeOrZero(db.outage.since.Load())
}
