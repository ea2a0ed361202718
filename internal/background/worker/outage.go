package worker

import (
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// failureLogInterval is the time between two log lines about failing jobs. While Redis is unavailable, most jobs fail.
const failureLogInterval = time.Minute

// An outage is a time while one or more jobs of a pool fail.
type outage struct {
	mu      sync.Mutex
	failing map[string]bool
	since   time.Time
	logged  time.Time
	silent  int // failures without a line since the last line
}

// failed adds a failure. shouldLog is true for the first failure of an outage, for a panic, and once a minute. For these
// failures, it returns the failing jobs and the number of failures without a line.
func (o *outage) failed(job string, now time.Time, panicked bool) (failing string, silent int, shouldLog bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.failing) == 0 {
		o.failing, o.since, o.logged = map[string]bool{}, now, time.Time{}
	}
	o.failing[job] = true
	if !panicked && now.Sub(o.logged) < failureLogInterval {
		o.silent++
		return "", 0, false
	}
	silent, o.silent, o.logged = o.silent, 0, now
	return strings.Join(slices.Sorted(maps.Keys(o.failing)), " "), silent, true
}

// succeeded removes a job. It reports whether the outage is over, how long it lasted, and the number of failures without
// a line.
func (o *outage) succeeded(job string, now time.Time) (lasted time.Duration, silent int, over bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.failing[job] {
		return 0, 0, false
	}
	delete(o.failing, job)
	if len(o.failing) > 0 {
		return 0, 0, false
	}
	silent, o.silent = o.silent, 0
	return now.Sub(o.since), silent, true
}

// recovered logs the end of an outage if this job was the last one that failed. It is also called when another node may
// run the job, because the job then no longer fails here.
func (s *schedule) recovered(now time.Time) {
	if lasted, silent, over := s.outage.succeeded(s.job.Name, now); over {
		s.cfg.Log.Info("worker: jobs no longer fail", slog.String("job", s.job.Name), slog.Duration("lasted", lasted),
			slog.Int("failures_not_logged", silent))
	}
}
