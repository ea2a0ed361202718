package live

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stoa-dev/stoa/internal/background/worker"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/cache"
)

const (
	// sweepBatch is the largest number of rows in one step of a sweep.
	sweepBatch = 200
	// freshFor is the time until a stream that Redis does not have no longer counts as live.
	freshFor = 15 * time.Second
)

// Jobs returns the background jobs of this package. No request waits for them.
func (s *Service) Jobs() []worker.Job {
	return []worker.Job{{Name: "live.tidy", Every: 30 * time.Second, Singleton: true, Run: s.tidy}}
}

// tidy records in SQL the end of streams whose node has died, and deletes old recordings.
func (s *Service) tidy(ctx context.Context) (err error) {
	defer errs.Wrap(&err, "live.tidy")
	now := s.db.Now()
	list, err := allLive(ctx, s.db, 10_000)
	if err != nil {
		return asKind(ctx, err)
	}
	for chunk := range slices.Chunk(list, sweepBatch) {
		chunkIDs := make([]ID, len(chunk))
		for i, st := range chunk {
			chunkIDs[i] = st.ID
		}
		held, err := s.redis.withPublisher(ctx, chunkIDs)
		if err != nil {
			return err
		}
		for _, st := range chunk {
			if held[st.ID] || now.Sub(sqldb.Time(st.Since)) < freshFor {
				continue
			}
			if err := s.caches.Change(ctx, StreamStopped.Of(s.caches.Runtime, st.ID), func(ctx context.Context, tx *sqldb.Tx) error {
				_, err := unclaim(ctx, tx, st.ID, st.fence)
				return err
			}); err != nil {
				return asKind(ctx, err)
			}
		}
	}
	return asKind(ctx, deleteOldRecordings(ctx, s.db, now.Add(-s.cfg.RecordFor), sweepBatch))
}

// warm loads the live streams into the cache.
func (s *Service) warm(ctx context.Context) {
	worker.Warm(ctx, s.log, "live streams", s.bus.Wait, s.cfg.Warm, s.Warm)
}

// Warm loads at most n live streams into the cache, those with the latest start, and returns their number. It calls
// progress with the number of loaded streams and the total.
func (s *Service) Warm(ctx context.Context, n int, progress func(done, total int)) (_ int, err error) {
	defer errs.Wrap(&err, "live.Warm")
	rows, err := allLive(ctx, s.db, n)
	if err != nil {
		return 0, asKind(ctx, err)
	}
	list := make([]ID, len(rows))
	for i, st := range rows {
		list[len(rows)-1-i] = st.ID // the latest start is the most requested
	}
	err = s.streams.Warm(ctx, slices.Values(list), cache.Warming{Progress: func(done int) { progress(done, len(list)) }})
	return len(list), errors.Join(err, ctx.Err())
}
