// Package worker runs background jobs on a schedule.
//
// A [Job] runs at an interval, or at the times that its Next returns. A [Pool] runs the jobs and is one part of the
// process:
//
//	pool, err := worker.NewPool(worker.PoolConfig{Lease: lease, Log: log, Metrics: registry},
//		worker.Job{Name: "codes.sweep", Every: time.Hour, Singleton: true, Run: store.SweepCodes},
//		worker.Job{Name: "checkin.boards", Next: quarterHour, Singleton: true, RunWithoutLease: true, Run: boards.Sweep},
//	)
//	err = pool.Run(ctx)
//
// A run that fails, panics or times out is logged once and retried with back-off. Singletons run only on the node that
// holds their lease. Work that follows a commit belongs into package queue.
package worker
