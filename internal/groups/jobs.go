package groups

import (
	"context"
	"errors"
	"time"

	"github.com/stoa-dev/stoa/internal/background/worker"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

const (
	// formerMemberLife is the shortest time until the row of a former member is deleted. The row of a muted one stays
	// until the mute ends. It is also the time from the end of a request or a link to its deletion.
	formerMemberLife = 90 * 24 * time.Hour
	// sweepBatch is the number of rows that a sweep handles at a time.
	sweepBatch = 200
	// dissolvedDelay is the time until the data of a dissolved group is deleted. HTTP calls that were running when it was
	// dissolved have ended by then.
	dissolvedDelay = 10 * time.Minute
)

// Jobs returns the background jobs of this domain. No HTTP call waits for them.
func (s *Service) Jobs() []worker.Job {
	return []worker.Job{{Name: "groups.prune", Every: time.Hour, Singleton: true, RunWithoutLease: true, Run: s.prune}}
}

// prune deletes old rows and dissolved groups.
func (s *Service) prune(ctx context.Context) (err error) {
	defer errs.Wrap(&err, "groups.prune")
	now := s.db.Now()
	return asKind(ctx, errors.Join(s.pruneDissolved(ctx, now.Add(-dissolvedDelay)), s.pruneMembers(ctx, now.Add(-formerMemberLife)),
		deleteOld(ctx, s.db, now.Add(-formerMemberLife), sweepBatch)))
}

func (s *Service) pruneDissolved(ctx context.Context, before time.Time) error {
	for {
		list, err := dissolvedBefore(ctx, s.db, before, sweepBatch)
		if err != nil || len(list) == 0 {
			return err
		}
		for _, id := range list {
			if s.follower != nil {
				if err := s.follower.Forget(ctx, id); err != nil {
					return err
				}
			}
			if err := deleteGroup(ctx, s.db, id); err != nil {
				return err
			}
		}
	}
}

func (s *Service) pruneMembers(ctx context.Context, before time.Time) error {
	for {
		old, err := formerMembersBefore(ctx, s.db, before, sweepBatch)
		if err != nil {
			return err
		}
		n := 0
		for id, former := range old {
			n += len(former)
			if err := s.caches.Change(ctx, nil, func(ctx context.Context, tx *sqldb.Tx) error {
				return deleteFormerMembers(ctx, tx, id, former)
			}); err != nil {
				return err
			}
		}
		if n < sweepBatch {
			return nil
		}
	}
}
