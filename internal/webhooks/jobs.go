package webhooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/internal/background/queue"
)

// lanes is how many deliveries are under way on a node; what has one subject goes one after the other.
const lanes = 8

var laneSeed = maphash.MakeSeed()

// Batches deliver what the outbox has.
func (s *Service) Batches() []queue.Batch {
	return []queue.Batch{{Topics: []string{Topic}, Handle: s.deliver}}
}

// deliver posts messages, lane by lane. What comes behind a message in its lane while the target is
// away, or behind one of its subject that failed, waits.
func (s *Service) deliver(ctx context.Context, ds []queue.Delivery) []error {
	answers := make([]error, len(ds))
	var at [lanes][]int
	for i, d := range ds {
		lane := maphash.String(laneSeed, d.Key) % lanes
		at[lane] = append(at[lane], i)
	}
	var all sync.WaitGroup
	for _, lane := range at {
		all.Go(func() {
			failed := map[string]bool{}
			away := false
			for _, i := range lane {
				if away || failed[ds[i].Key] {
					answers[i] = fmt.Errorf("%w: it waits for one before it", queue.ErrNotNow)
					continue
				}
				if end, ok := ctx.Deadline(); ok && time.Until(end) < s.cfg.After.Timeout {
					answers[i] = queue.ErrUntried // it would be cut off, and come twice
					continue
				}
				answers[i] = s.deliverOne(ctx, ds[i])
				failed[ds[i].Key] = answers[i] != nil
				away = errors.Is(answers[i], errUnreachable)
			}
		})
	}
	all.Wait()
	return answers
}

func (s *Service) deliverOne(ctx context.Context, d queue.Delivery) error {
	var e envelope
	if err := json.Unmarshal(d.Payload, &e); err != nil {
		return fmt.Errorf("%w: its payload is malformed: %w", queue.ErrGiveUp, err)
	}
	if s.cfg.After.URL == "" {
		return fmt.Errorf("%w: webhooks.after.url names no target any more", queue.ErrGiveUp)
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.After.Timeout)
	defer cancel()
	err := s.post.tell(ctx, s.cfg.After.URL, e)
	outcome := "delivered"
	switch {
	case errors.Is(err, errUnreachable):
		outcome, err = "away", fmt.Errorf("%w: %w", queue.ErrNotNow, err)
	case err != nil:
		outcome = "failed"
	}
	s.metrics.posted.WithLabelValues(e.Type, outcome).Inc()
	return err
}
