package groups

import (
	"context"
	"time"

	"github.com/stoa-dev/stoa/internal/foundation/errs"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb"
	"github.com/stoa-dev/stoa/internal/foundation/worker"
)

const (
	// remembered is how long a member who left is known as one who left, at the least: who is muted is for that long.
	remembered = 90 * 24 * time.Hour
	// sweepBatch bounds what a sweep does at a time.
	sweepBatch = 200
)

// Jobs are what this domain does by itself. Nothing waits for it.
func (s *Service) Jobs() []worker.Job {
	return []worker.Job{{Name: "groups.prune", Every: time.Hour, Singleton: true, RunWithoutLease: true, Run: s.prune}}
}

// prune removes what was remembered for long enough.
func (s *Service) prune(ctx context.Context) (err error) {
	defer errs.Wrap(&err, "groups.prune")
	before := s.db.Now().Add(-remembered)
	for {
		old, err := longGone(ctx, s.db, before, sweepBatch)
		if err != nil {
			return asKind(ctx, err)
		}
		n := 0
		for id, gone := range old {
			n += len(gone)
			if err := transact(ctx, s.db, func(ctx context.Context, tx *sqldb.Tx) error { return forget(ctx, tx, id, gone) }); err != nil {
				return asKind(ctx, err)
			}
		}
		if n < sweepBatch {
			return asKind(ctx, deleteOld(ctx, s.db, before, sweepBatch))
		}
	}
}
