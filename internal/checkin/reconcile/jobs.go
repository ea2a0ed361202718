package reconcile

import (
	"context"
	"time"

	"github.com/stoa-dev/stoa/internal/background/worker"
)

// Jobs returns the background jobs of the reconciler.
func (rc *Reconciler) Jobs() []worker.Job {
	return []worker.Job{{
		// Two nodes that run at once, while leases are away, detect each other.
		Name:            "checkin.runs",
		Singleton:       true,
		RunWithoutLease: true,
		Timeout:         time.Hour, // of a slice: two boards of many millions of users
		Next: func(now time.Time) time.Time {
			if rc.more {
				return now.Add(time.Millisecond)
			}
			return now.Add(time.Minute)
		},
		Waiting: rc.worker.Waiting(),
		Run: func(ctx context.Context) (err error) {
			rc.more, err = rc.Step(ctx)
			return err
		},
	}}
}
