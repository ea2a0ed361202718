package reconcile

import (
	"context"
	"time"

	"github.com/stoa-dev/stoa/internal/background/worker"
)

// Jobs returns what has to happen without being asked.
func (rc *Reconciler) Jobs() []worker.Job {
	return []worker.Job{{
		// Two nodes at once, while leases are away, find each other out.
		Name:            "checkin.runs",
		Singleton:       true,
		RunWithoutLease: true,
		Timeout:         time.Hour, // of a slice: two boards of many millions
		Next: func(now time.Time) time.Time {
			if rc.more {
				return now.Add(time.Millisecond)
			}
			return now.Add(time.Second)
		},
		Run: func(ctx context.Context) (err error) {
			rc.more, err = rc.Step(ctx)
			return err
		},
	}}
}
