package accounts

import (
	"context"
	"errors"
	"time"

	"github.com/stoa-dev/stoa/internal/foundation/errs"
	"github.com/stoa-dev/stoa/internal/foundation/mail"
	"github.com/stoa-dev/stoa/internal/foundation/queue"
	"github.com/stoa-dev/stoa/internal/foundation/worker"
)

// Jobs are what this domain does by itself.
func (s *Service) Jobs() []worker.Job {
	return []worker.Job{
		// Nothing waits for either: what has expired is refused before it is gone.
		{Name: "accounts.sweep", Every: 10 * time.Minute, Singleton: true, SafeAlone: true, Run: s.sweep},
		{Name: "accounts.erase", Every: eraseEvery, Singleton: true, SafeAlone: true, Run: s.eraseDue},
		// What a crash loses of last uses.
		{Name: "accounts.uses", Every: flushEvery, Run: s.flushUses},
		// Soon, and yet not after each of many log-ins: a collection takes some
		// milliseconds.
		{Name: "accounts.memory", Every: time.Second, Run: func(context.Context) error { s.hasher.tidy(); return nil }},
	}
}

// Handlers are the topics of the queue that this domain handles.
func (s *Service) Handlers() map[string]queue.Handler {
	return map[string]queue.Handler{
		TopicCode:    mailing(s.mailCode),
		TopicNotice:  mailing(s.mailNotice),
		TopicChanged: func(ctx context.Context, d queue.Delivery) error { return s.follow(ctx, d.Payload) },
	}
}

// mailing gives up where a mail server does.
func mailing(send func(ctx context.Context, payload []byte) error) queue.Handler {
	return func(ctx context.Context, d queue.Delivery) error {
		err := send(ctx, d.Payload)
		if errors.Is(err, mail.ErrRefused) {
			return errors.Join(queue.ErrGiveUp, err)
		}
		return err
	}
}

// sweep removes expired codes and sessions.
func (s *Service) sweep(ctx context.Context) (err error) {
	defer errs.Wrap(&err, "accounts.sweep")
	for more := true; more; {
		if more, err = sweepExpired(ctx, s.db); err != nil {
			return asKind(err)
		}
	}
	return nil
}
