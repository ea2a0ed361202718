package messaging

import (
	"github.com/stoa-dev/stoa/internal/foundation/worker"
)

// Jobs are what this domain does by itself. That clients are told twice does no harm.
func (s *Service) Jobs() []worker.Job {
	return []worker.Job{{Name: "chats.stands", Every: watchEvery, Singleton: true, RunWithoutLease: true, Run: s.tellStands}}
}
