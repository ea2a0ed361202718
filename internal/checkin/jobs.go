package checkin

import (
	"time"

	"github.com/stoa-dev/stoa/internal/foundation/worker"
)

// Jobs returns what has to happen without being asked.
func (s *Service) Jobs() []worker.Job {
	sweep := worker.Job{Name: "checkin.sweep", Singleton: true, Run: s.sweepBoards}
	if s.fast.boards.kind == CompactBoards {
		sweep.Every = time.Second // it folds in what was written
	} else {
		// Reads remove the dead before they answer, so this saves the first
		// reader after a midnight the work. Zones are whole quarters of an hour
		// apart.
		sweep.Next = func(now time.Time) time.Time {
			return now.Truncate(15 * time.Minute).Add(15*time.Minute + time.Second)
		}
	}
	return []worker.Job{sweep, {
		// A board that was lost with Redis is back before anybody asks for it.
		Name:      "checkin.boards",
		Every:     15 * time.Second,
		Singleton: true,
		Run:       s.keepBoards,
	}, {
		Name:      "checkin.seasons",
		Every:     time.Hour,
		Singleton: true,
		Run:       s.dropBoards,
	}}
}
