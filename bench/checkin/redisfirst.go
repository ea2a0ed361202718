package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"github.com/stoa-dev/stoa/bench/servers"
	"github.com/stoa-dev/stoa/internal/accounts"
	queues "github.com/stoa-dev/stoa/internal/background/queue"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/checkin"
)

// longAgo is the length of an earlier streak of the users who must not break their record. It is longer than their
// streak in this run.
const longAgo = 60

// redisFirst returns sides in redis-first mode. Their Redis flushes its file before it responds, and consumers write
// all check-ins to SQL meanwhile.
func (b *bench) redisFirst(ctx context.Context, f *figure) (sides []*side, stop func() error, err error) {
	var stops []func() error
	stop = func() (err error) {
		for i := len(stops) - 1; i >= 0; i-- {
			err = errors.Join(err, stops[i]())
		}
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, stop())
		}
	}()
	dir := filepath.Join(b.dir, "first")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, nil, err
	}
	url, stopRedis, err := servers.Redis(ctx, dir, "--appendonly", "yes", "--appendfsync", "always")
	if err != nil {
		return nil, nil, err
	}
	b.firstURL = url
	stops = append(stops, func() error { b.firstURL = ""; stopRedis(); return nil })
	add := func(name, prefix string, people []accounts.ID, past int) error {
		sqlURL, err := servers.Database(ctx, b.sqlURL, prefix)
		if err != nil {
			return err
		}
		n, err := b.open(ctx, sqlURL, url, prefix, func(cfg checkin.Config) *checkin.Service {
			cfg.Mode = checkin.RedisFirst
			return checkin.New(cfg)
		})
		if err != nil {
			return err
		}
		stops = append(stops, n.close)
		consumer, err := queues.NewConsumer(n.service.Journal(), nil, n.service.Batches(), queues.Config{Log: discard})
		if err != nil {
			return err
		}
		running, cancel := context.WithCancel(ctx)
		var consuming sync.WaitGroup
		consuming.Go(func() { _ = consumer.Run(running) })
		stops = append(stops, func() error { cancel(); consuming.Wait(); return nil })
		s := newSide(name, n.mark(people))
		s.node = n
		sides = append(sides, s)
		return history(ctx, n.db.Writer(), people, civil.DayOf(2025, 9, 1), past)
	}
	if err := errors.Join(add("stoa, redis first", "calm", newPeople(b.users), longAgo),
		add("the same, all records", "record", newPeople(b.users), 0)); err != nil {
		return nil, nil, err
	}
	f.note("Redis first has a Redis of its own with appendfsync always, and takes everything to SQL meanwhile. In its second row every " +
		"check-in is the user's longest streak, which is in SQL before it is answered.")
	return sides, stop, nil
}
