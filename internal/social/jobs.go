package social

import (
	"time"

	"github.com/stoa-dev/stoa/internal/background/worker"
)

// Jobs are what this domain does by itself. Nothing waits for either: a request
// whose time is over cannot be answered, whether it has been closed or not.
func (s *Service) Jobs() []worker.Job {
	return []worker.Job{
		{Name: "social.expire", Every: time.Minute, Singleton: true, RunWithoutLease: true, Run: s.expire},
		{Name: "social.prune", Every: time.Hour, Singleton: true, RunWithoutLease: true, Run: s.prune},
	}
}
