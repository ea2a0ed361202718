package notices

import (
	"time"

	"github.com/stoa-dev/stoa/internal/background/worker"
)

// Jobs are what this domain does by itself. Two nodes that deliver at once take turns, slice by slice.
func (s *Service) Jobs() []worker.Job {
	return []worker.Job{
		{Name: "notices.deliver", Every: time.Second, Singleton: true, RunWithoutLease: true, Run: s.deliver},
		{Name: "notices.prune", Every: time.Hour, Singleton: true, RunWithoutLease: true, Run: s.prune},
	}
}
