package checkin

import (
	"context"
	"time"

	"github.com/stoa-dev/stoa/internal/checkin/transfer"
	"github.com/stoa-dev/stoa/internal/foundation/queue"
	"github.com/stoa-dev/stoa/internal/foundation/worker"
)

// Jobs returns what has to happen without being asked.
func (s *Service) Jobs() []worker.Job {
	sweep := worker.Job{Name: "checkin.sweep", Singleton: true, Run: s.sweepBoards}
	if s.fast.boards.kind == CompactBoards {
		sweep.Every = time.Second // it folds in what was written
	} else {
		// Reads remove the dead before they answer, so this saves the first
		// reader after a midnight the work.
		sweep.Next = func(now time.Time) time.Time { return nextQuarter(now).Add(time.Second) }
	}
	return []worker.Job{sweep, {
		// A board that was lost with Redis is back before anybody asks for it.
		Name:      "checkin.boards",
		Every:     2 * time.Second,
		Timeout:   time.Hour, // four passes over the days of many millions
		Singleton: true,
		Run:       s.keepBoards,
	}, {
		Name:      "checkin.seasons",
		Every:     time.Hour,
		Singleton: true,
		Run:       s.tidySeasons,
	}, {
		// Two nodes at once, while leases are away, find each other out.
		Name:            "checkin.runs",
		Singleton:       true,
		RunWithoutLease: true,
		Timeout:         time.Hour, // of a slice: two boards of many millions
		Next: func(now time.Time) time.Time {
			if s.moreRuns {
				return now.Add(time.Millisecond)
			}
			return now.Add(time.Second)
		},
		Run: func(ctx context.Context) (err error) {
			s.moreRuns, err = s.runner.Step(ctx)
			return err
		},
	}}
}

// Handlers are the topics that this domain handles.
func (s *Service) Handlers() map[string]queue.Handler {
	return map[string]queue.Handler{
		transfer.TopicTouched: queue.JSON(func(ctx context.Context, t transfer.Touched, _ queue.Delivery) error { return s.followTouched(ctx, t) }),
		TopicGranted:          queue.JSON(func(ctx context.Context, to GrantNotice, _ queue.Delivery) error { return s.ApplyGrant(ctx, to.User) }),
	}
}

// Journal is the stream that [Service.Batches] consume; nil unless the mode is
// redis.
func (s *Service) Journal() *queue.Redis { return s.checkins.journal() }

// Batches are the topics that this domain handles in batches.
func (s *Service) Batches() []queue.Batch { return s.checkins.batches() }
