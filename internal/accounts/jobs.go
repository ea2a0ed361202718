package accounts

import (
	"context"
	"errors"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts/codes"
	"github.com/stoa-dev/stoa/internal/background/queue"
	"github.com/stoa-dev/stoa/internal/background/worker"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/mail"
)

// Jobs returns the background jobs of this domain.
func (s *Service) Jobs() []worker.Job {
	return []worker.Job{
		// Neither is urgent, because expired data is refused before it is deleted.
		{Name: "accounts.sweep", Every: 10 * time.Minute, Singleton: true, RunWithoutLease: true, Run: s.sweep},
		{Name: "accounts.erase", Every: eraseEvery, Singleton: true, RunWithoutLease: true, Run: s.eraseDue},
		// A crash loses the last uses of this period.
		// A crash loses the failed log-ins of this period.
		{Name: "accounts.trail", Every: time.Second, Run: func(ctx context.Context) error { return asKind(s.notes.Flush(ctx, s.db)) }},
		{Name: "accounts.uses", Every: flushEvery, Run: s.flushUses},
		// Clients whose response was lost retry within a few seconds.
		{Name: "accounts.untold", Every: time.Second, Run: s.flushUnconfirmed},
		// Soon, but not after each of many log-ins, because a garbage collection takes milliseconds.
		{Name: "accounts.memory", Every: time.Second, Run: func(context.Context) error { s.hasher.Tidy(); return nil }},
	}
}

// Handlers returns the queue handlers of this domain.
func (s *Service) Handlers() map[string]queue.Handler {
	return map[string]queue.Handler{
		codes.Topic:  mailing(s.mailCode),
		TopicNotice:  mailing(s.mailNotice),
		TopicChanged: queue.JSON(func(ctx context.Context, c change, _ queue.Delivery) error { return s.applyChange(ctx, c) }),
	}
}

// mailing makes a message a dead letter if its mail was permanently refused.
func mailing[T any](send func(ctx context.Context, payload T) error) queue.Handler {
	return queue.JSON(func(ctx context.Context, payload T, _ queue.Delivery) error {
		err := send(ctx, payload)
		if errors.Is(err, mail.ErrRefused) {
			return errors.Join(queue.ErrGiveUp, err)
		}
		return err
	})
}

// sweep deletes expired codes and sessions.
func (s *Service) sweep(ctx context.Context) (err error) {
	defer errs.Wrap(&err, "accounts.sweep")
	for more := true; more; {
		if more, err = sweepExpired(ctx, s.db); err != nil {
			return asKind(err)
		}
	}
	return nil
}
