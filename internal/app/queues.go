package app

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/accounts/codes"
	"github.com/stoa-dev/stoa/internal/background/drops"
	"github.com/stoa-dev/stoa/internal/background/queue"
	"github.com/stoa-dev/stoa/internal/live"
	"github.com/stoa-dev/stoa/internal/rooms"
)

// outboxPoll is the longest wait of the outbox's consumers. A local commit wakes them at once, and [sqldb.DB.Watch] when a
// message of another process is due. Only messages that a wrong clock has delayed wait longer.
const outboxPoll = 30 * time.Second

// newQueues creates the consumers of a worker. Transactions write to the outbox in any case. The outbox is the queue,
// or its messages are relayed to the queue in Redis.
func (a *App) newQueues(context.Context) error {
	if !a.cfg.does(roleWorker) {
		return nil
	}
	handlers := a.accounts.Handlers()
	maps.Copy(handlers, a.checkin.Handlers())
	handlers[accounts.TopicZone] = queue.JSON(func(ctx context.Context, changed accounts.ZoneChanged, _ queue.Delivery) error {
		return a.checkin.ZoneChanged(ctx, changed)
	})
	handlers[accounts.TopicAudience] = queue.JSON(func(ctx context.Context, changed accounts.AudienceChanged, _ queue.Delivery) error {
		return a.presence.AudienceChanged(ctx, changed.User)
	})
	handlers[accounts.TopicErased] = queue.JSON(a.erased)
	handlers[rooms.TopicClose] = queue.JSON(func(ctx context.Context, c rooms.Closing, _ queue.Delivery) error {
		return a.rooms.CloseFor(ctx, c.Room)
	})
	handlers[live.TopicAsk] = queue.JSON(func(ctx context.Context, order live.Order, _ queue.Delivery) error {
		return a.live.Obey(ctx, order)
	})
	handlers[drops.Topic] = a.drops.Handler(a.redis, a.caches)
	cfg := queue.Config{Log: a.log, Metrics: a.reg, Apart: []string{codes.Topic, accounts.TopicNotice}} // the mail server may not respond
	add := func(s queue.Store, handlers map[string]queue.Handler, batches ...queue.Batch) error {
		cfg := cfg
		if _, isSQL := s.(*queue.SQL); isSQL {
			cfg.Poll = outboxPoll
		}
		c, err := queue.NewConsumer(s, handlers, batches, cfg)
		a.queues = append(a.queues, c)
		return err
	}
	outbox, journal := queue.NewSQL(a.db), a.checkin.Journal()
	if a.cfg.Queue != queueRedis {
		if journal != nil {
			if err := add(journal, nil, a.checkin.Batches()...); err != nil {
				return err
			}
		}
		return add(outbox, handlers, append(a.push.Batches(), a.hooks.Batches()...)...)
	}
	streams := cmp.Or(journal, queue.NewRedis(a.redis)) // one consumer for all its topics
	// Commands wait until the outbox has no change of theirs. The change is then applied, not only relayed.
	followed := map[string]queue.Handler{accounts.TopicChanged: handlers[accounts.TopicChanged]}
	topics := slices.DeleteFunc(slices.Sorted(maps.Keys(handlers)), func(topic string) bool { return followed[topic] != nil })
	for _, b := range a.hooks.Batches() {
		topics = append(topics, b.Topics...)
	}
	return errors.Join(add(streams, handlers, slices.Concat(a.checkin.Batches(), a.hooks.Batches())...),
		add(outbox, followed, append(a.push.Batches(), queue.Relay(topics, streams))...))
}

// erased erases a user's data in every domain. After a failure, all domains are called again: erasing twice changes
// nothing.
func (a *App) erased(ctx context.Context, e accounts.Erasure, _ queue.Delivery) error {
	if err := errors.Join(a.checkin.Erase(ctx, e.User), a.social.Erase(ctx, e.User), a.groups.Erase(ctx, e.User),
		a.messages.Erase(ctx, e.User), a.presence.Erase(ctx, e.User), a.activity.Erase(ctx, e.User), a.transfers.Erase(ctx, e.User),
		a.rooms.Erase(ctx, e.User), a.live.Erase(ctx, e.User), a.notices.Erase(ctx, e.User), a.push.Erase(ctx, e.User),
		a.api.Erase(ctx, e.User.String())); err != nil {
		return err
	}
	return a.accounts.ErasedEverywhere(ctx, e)
}
