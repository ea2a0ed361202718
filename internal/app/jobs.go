package app

import (
	"context"
	"slices"
	"time"

	"github.com/stoa-dev/stoa/internal/background/worker"
	"github.com/stoa-dev/stoa/internal/obs"
	"github.com/stoa-dev/stoa/lib/lease"
)

// newJobs creates the jobs. A node that is not a worker has only those for the process itself.
func (a *App) newJobs(context.Context) (err error) {
	leases := lease.New(a.redis)
	run := worker.PoolConfig{DB: a.db, Log: a.log, Metrics: a.reg, Lease: func(ctx context.Context, fn func(context.Context) error) error {
		ctx, cancel, err := a.drain.whileServing(ctx)
		if err != nil {
			return err
		}
		defer cancel()
		if a.redis.Ping(ctx) != nil {
			return worker.ErrLeaseUnavailable
		}
		return leases.Run(ctx, jobKeys, a.node, jobLease, func(ctx context.Context, _ int64) error { return fn(ctx) })
	}}
	jobs := slices.Concat(a.accounts.Jobs(), a.keys.Jobs(), a.notices.Jobs(), a.push.Jobs(), a.social.Jobs(), a.groups.Jobs(),
		a.presence.Jobs(), a.activity.Jobs(), a.transfers.Jobs(), a.live.Jobs(), a.rooms.Jobs(), a.checkin.Jobs(), a.housekeeping())
	if !a.cfg.does(roleWorker) {
		jobs = slices.DeleteFunc(jobs, func(j worker.Job) bool { return j.Singleton })
	}
	a.jobs, err = worker.NewPool(run, jobs...)
	return err
}

func (a *App) housekeeping() []worker.Job {
	return []worker.Job{
		{Name: "web.idempotency", Every: 10 * time.Minute, Singleton: true, RunWithoutLease: true, Run: func(ctx context.Context) error {
			_, err := a.api.Sweep(ctx, a.db.Now())
			return err
		}},
		{Name: "redis.poll", Every: obs.RedisEvery, Run: a.redisLoad.Poll},
		{Name: "redis.hot", Every: hotEvery, Run: a.writeHotKeys},
	}
}
