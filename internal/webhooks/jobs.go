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

// lanes is the number of concurrent deliveries of a node; deliveries with one subject use one lane.
const lanes = 8

var laneSeed = maphash.MakeSeed()

// Batches returns the handler of the outbox's messages.
func (s *Service) Batches() []queue.Batch {
	return []queue.Batch{{Topics: []string{Topic}, Handle: s.deliver}}
}

// deliver posts messages, lane by lane. It postpones messages after one that found the target unavailable, and
// messages of a subject after a failed one.
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
					answers[i] = fmt.Errorf("%w: waiting for an earlier delivery", queue.ErrNotNow)
					continue
				}
				if end, ok := ctx.Deadline(); ok && time.Until(end) < s.cfg.After.Timeout {
					answers[i] = queue.ErrUntried // it would time out, and be sent twice
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
		return fmt.Errorf("%w: malformed payload: %w", queue.ErrGiveUp, err)
	}
	if s.cfg.After.URL == "" {
		return fmt.Errorf("%w: webhooks.after.url is no longer set", queue.ErrGiveUp)
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.After.Timeout)
	defer cancel()
	err := s.poster.post(ctx, s.cfg.After.URL, e)
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
