package social

import (
	"time"

	"github.com/stoa-dev/stoa/internal/background/worker"
)

// Jobs returns the background jobs of this domain. No caller depends on them: an expired request cannot be answered,
// even if it is not closed yet.
func (s *Service) Jobs() []worker.Job {
	return []worker.Job{
		{Name: "social.expire", Every: time.Minute, Singleton: true, RunWithoutLease: true, Run: s.expire},
		{Name: "social.prune", Every: time.Hour, Singleton: true, RunWithoutLease: true, Run: s.prune},
	}
}
