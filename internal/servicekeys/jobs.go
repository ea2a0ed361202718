package servicekeys

import (
	"time"

	"github.com/stoa-dev/stoa/internal/background/worker"
)

// Jobs returns the background jobs of this package.
func (s *Service) Jobs() []worker.Job {
	// A crash loses the last uses of this period.
	return []worker.Job{{Name: "servicekeys.used", Every: 10 * time.Second, Run: s.flush}}
}
