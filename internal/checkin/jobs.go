package checkin

import (
	"context"

	"github.com/stoa-dev/stoa/internal/background/queue"
	"github.com/stoa-dev/stoa/internal/background/worker"
	"github.com/stoa-dev/stoa/internal/checkin/transfer"
)

// Jobs returns the background jobs of check-in.
func (s *Service) Jobs() []worker.Job {
	return append(s.Boards.Jobs(), s.reconciler.Jobs()...)
}

// Handlers returns the handlers of this domain, by topic.
func (s *Service) Handlers() map[string]queue.Handler {
	return map[string]queue.Handler{
		transfer.TopicTouched: queue.JSON(func(ctx context.Context, t transfer.Touched, _ queue.Delivery) error {
			return s.followTouched(ctx, t)
		}),
		TopicGranted: queue.JSON(func(ctx context.Context, to GrantNotice, _ queue.Delivery) error { return s.ApplyGrant(ctx, to.User) }),
	}
}

// Journal returns the stream that [Service.Batches] consume. It is nil unless the mode is redis.
func (s *Service) Journal() *queue.Redis { return s.checkins.journal() }

// Batches returns the topics that this domain handles in batches.
func (s *Service) Batches() []queue.Batch { return s.checkins.batches() }
