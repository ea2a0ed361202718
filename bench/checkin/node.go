package main

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/background/worker"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/checkin"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/internal/mail"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/storage/migrations"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/ratelimit"
	"github.com/stoa-dev/stoa/lib/redis"
)

// node is the check-in part of one Stoa node, as package app builds it. Its clock stays at noon of a day until it is
// set.
type node struct {
	db       *sqldb.DB
	rdb      *redis.DB
	service  *checkin.Service
	registry *prometheus.Registry
	clock    clock
	stop     func()
}

// clock is one clock for all callers: a check-in of the next day begins after the last one of this day was started.
type clock struct{ nanos atomic.Int64 }

func (c *clock) now() time.Time { return time.Unix(0, c.nanos.Load()) }

// reach moves the clock forward to t, unless it is already there.
func (c *clock) reach(t time.Time) {
	for {
		old := c.nanos.Load()
		if t.UnixNano() <= old || c.nanos.CompareAndSwap(old, t.UnixNano()) {
			return
		}
	}
}

var discard = slog.New(slog.DiscardHandler)

// open starts a node on these servers; build is checkin.New or similar.
func (b *bench) open(ctx context.Context, sqlURL, redisURL, prefix string,
	build func(checkin.Config) *checkin.Service) (_ *node, err error) {
	n := &node{registry: prometheus.NewRegistry()}
	n.clock.reach(day(0, 1))
	defer func() {
		if err != nil {
			err = errors.Join(err, n.close())
		}
	}()
	if n.db, err = sqldb.Open(ctx, sqldb.Config{URL: sqlURL, MaxConns: b.conns, Log: discard}); err != nil {
		return nil, err
	}
	if err := n.db.Migrate(ctx, migrations.FS); err != nil {
		return nil, err
	}
	if n.rdb, err = redis.Open(ctx, redis.Config{URL: redisURL, Prefix: prefix, Log: discard}); err != nil {
		return nil, err
	}
	bus := events.NewBus(n.rdb, prefix, discard)
	acc, err := accounts.New(accounts.Config{DB: n.db, Redis: n.rdb, Limiter: ratelimit.New(n.rdb),
		Caches: cache.NewRuntime(n.rdb, bus.Nodes(), cache.Config{}), Bus: bus, Mail: mail.NewBox(n.db), Secret: secret(), Log: discard})
	if err != nil {
		return nil, err
	}
	n.service = build(checkin.Config{DB: n.db, Redis: n.rdb, Users: acc, Bus: bus, Node: prefix, Metrics: n.registry, Log: discard,
		Now: n.clock.now})
	// The jobs that keep the boards in order are part of the service's work.
	jobs := slices.DeleteFunc(n.service.Jobs(), func(j worker.Job) bool { return j.Name != "checkin.sweep" && j.Name != "checkin.boards" })
	pool, err := worker.NewPool(worker.PoolConfig{Log: discard, Metrics: prometheus.NewRegistry(),
		Lease: func(ctx context.Context, run func(context.Context) error) error { return run(ctx) }}, jobs...)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { _ = pool.Run(ctx) })
	ready := make(chan struct{})
	wg.Go(func() { _ = n.service.Run(ctx, func() { close(ready) }) })
	wg.Go(func() { _ = bus.Run(ctx, func() {}) })
	n.stop = func() { cancel(); wg.Wait() }
	select {
	case <-ready:
		return n, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (n *node) close() error {
	if n.stop != nil {
		n.stop()
	}
	var faults []error
	if n.rdb != nil {
		faults = append(faults, n.rdb.Close())
	}
	if n.db != nil {
		faults = append(faults, n.db.Close())
	}
	return errors.Join(faults...)
}

// stages are the means of a service's batches.
type stages struct{ batch, commit, apply float64 } // check-ins; ms

// sums are the service's counters since its start.
type sums map[string]struct{ sum, count float64 }

func (n *node) sums() (sums, error) {
	if n == nil {
		return nil, nil
	}
	families, err := n.registry.Gather()
	if err != nil {
		return nil, err
	}
	out := sums{}
	for _, f := range families {
		h := f.GetMetric()[0].GetHistogram()
		out[f.GetName()] = struct{ sum, count float64 }{h.GetSampleSum(), float64(h.GetSampleCount())}
	}
	return out, nil
}

// means returns the means of the part after before.
func (s sums) means(before sums) stages {
	mean := func(name string) float64 {
		count := s[name].count - before[name].count
		if count == 0 {
			return 0
		}
		return (s[name].sum - before[name].sum) / count
	}
	return stages{mean("stoa_checkin_batch_size"), 1000 * mean("stoa_checkin_commit_seconds"), 1000 * mean("stoa_checkin_apply_seconds")}
}

var shanghai = civil.Clock{Zone: "Asia/Shanghai"}

// day returns the time of the n-th check-in: noon of the next day after all users have checked in.
func day(n, people int) time.Time {
	return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC).AddDate(0, 0, n/people)
}

// mark returns the next check-in of each user in turn, through the service.
func (n *node) mark(people []accounts.ID) func(context.Context, int) error {
	return func(ctx context.Context, i int) error {
		n.clock.reach(day(i, len(people)))
		return n.markNow(ctx, people[i%len(people)])
	}
}

// markNow checks a user in on the day of the clock.
func (n *node) markNow(ctx context.Context, user accounts.ID) error {
	_, err := n.service.Mark(ctx, user, shanghai, checkin.Activity{Words: 10, Minutes: 5}, rand.Uint64())
	return err
}

func newPeople(n int) []accounts.ID {
	people := make([]accounts.ID, n)
	for i := range people {
		people[i] = ids.New[accounts.User]()
	}
	return people
}

func secret() []byte { return []byte(strings.Repeat("bench", 8)) }

// history writes check-ins of past days for each user directly into the log.
func history(ctx context.Context, db *sql.DB, people []accounts.ID, first civil.Day, days int) error {
	return insert(ctx, db, "INSERT INTO checkins (user_id, day, at, kind, words, minutes, req) VALUES ", len(people)*days, func(i int) []any {
		d := first + civil.Day(i%days)
		year, month, date := d.Date()
		at := time.Date(year, month, date, 4, 0, i/days%3600, 0, time.UTC)
		return []any{people[i/days].String(), int32(d), at.UnixMilli(), uint8(streak.Tapped), 10, 5, rand.Int64()}
	})
}

// insert writes rows in statements of 500.
func insert(ctx context.Context, db *sql.DB, into string, rows int, row func(i int) []any) error {
	all := make([]int, rows)
	for i := range all {
		all[i] = i
	}
	for some := range slices.Chunk(all, 500) {
		var args []any
		for _, i := range some {
			args = append(args, row(i)...)
		}
		one := "(?" + strings.Repeat(", ?", len(args)/len(some)-1) + ")"
		if _, err := db.ExecContext(ctx, into+one+strings.Repeat(", "+one, len(some)-1), args...); err != nil {
			return err
		}
	}
	return nil
}
