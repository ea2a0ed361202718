// Package worker runs jobs that no caller waits for, on a schedule.
//
// A [Job] runs every so often, or when its Next says. A [Pool] holds them and
// is one part of the process:
//
//	pool, err := worker.NewPool(worker.PoolConfig{Lease: lease, Log: log, Metrics: registry},
//		worker.Job{Name: "codes.sweep", Every: time.Hour, Singleton: true, Run: store.SweepCodes},
//		worker.Job{Name: "checkin.boards", Next: quarterHour, Singleton: true, RunWithoutLease: true, Run: boards.Sweep},
//	)
//	err = pool.Run(ctx)
//
// A run that fails, panics or takes too long is logged once and tried again
// after a growing wait. Singletons run on the one node that holds the lease for them.
// Work that is to follow a commit is a message of package queue.
package worker
