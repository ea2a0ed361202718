package notices

import (
	"time"

	"github.com/stoa-dev/stoa/internal/background/worker"
)

// Jobs returns the background jobs. If two nodes deliver at the same time, each slice is delivered by one of them.
func (s *Service) Jobs() []worker.Job {
	return []worker.Job{
		{Name: "notices.deliver", Every: time.Minute, Waiting: waitingAnnouncements, Singleton: true, RunWithoutLease: true, Run: s.deliver},
		{Name: "notices.prune", Every: time.Hour, Singleton: true, RunWithoutLease: true, Run: s.prune},
	}
}
