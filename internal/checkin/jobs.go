package checkin

import (
	"context"
	"errors"
	"time"

	"github.com/stoa-dev/stoa/internal/foundation/worker"
)

// Jobs returns what has to happen without being asked.
func (s *Service) Jobs() []worker.Job {
	return []worker.Job{{
		// Reads remove the dead before they answer, so this saves the first
		// reader after a midnight the work. Zones are whole quarters of an hour
		// apart.
		Name: "checkin.sweep",
		Next: func(now time.Time) time.Time {
			return now.Truncate(15 * time.Minute).Add(15*time.Minute + time.Second)
		},
		Singleton: true,
		Run: func(ctx context.Context) error {
			_, err := s.fast.streak.Sweep(ctx, s.now())
			return err
		},
	}, {
		// A board that was lost with Redis is back before anybody asks for it.
		Name:      "checkin.boards",
		Every:     15 * time.Second,
		Singleton: true,
		Run:       s.rebuildBoards,
	}, {
		// Two nodes at once, while leases are away, find each other out.
		Name:      "checkin.runs",
		Singleton: true,
		SafeAlone: true,
		Timeout:   time.Hour, // of a slice: two boards of many millions
		Next: func(now time.Time) time.Time {
			if s.moreRuns {
				return now.Add(time.Millisecond)
			}
			return now.Add(time.Second)
		},
		Run: func(ctx context.Context) (err error) {
			s.moreRuns, err = s.workOnRuns(ctx)
			return err
		},
	}}
}

// Handlers are the outbox topics that this domain handles.
func (s *Service) Handlers() map[string]worker.Handler {
	return map[string]worker.Handler{
		TopicTouched: func(ctx context.Context, d worker.Delivery) error {
			users, err := parseTouched(d.Payload)
			if err != nil {
				return errors.Join(worker.ErrGiveUp, err)
			}
			return s.followTouched(ctx, users)
		},
	}
}

func (s *Service) rebuildBoards(ctx context.Context) error {
	if !s.projection.Up() {
		return nil
	}
	return errors.Join(s.Rebuild(ctx, StreakBoard), s.Rebuild(ctx, TotalBoard))
}
