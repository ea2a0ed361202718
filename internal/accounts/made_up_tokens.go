package accounts

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxStrays is the number of unknown access tokens per minute that one client network may present to this node. After
	// that the node refuses tokens from it that this server cannot have issued, without a check in Redis or SQL.
	maxStrays = 100
	// maxStrayClientNets bounds the memory: client networks beyond it are not counted in that minute.
	maxStrayClientNets = 10_000
)

// strays counts unknown access tokens by client network and minute. Each one costs a read of Redis and of SQL, and no
// limit of an operation applies without a caller. Tokens of existing sessions, even expired ones, do not count.
type strays struct {
	full   atomic.Bool // a client network has exceeded maxStrays in this minute
	mu     sync.Mutex
	minute int64
	counts map[string]int
}

// count counts a token.
func (s *strays) count(clientNet string, now time.Time) {
	if clientNet == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if minute := now.Unix() / 60; minute != s.minute {
		s.minute, s.counts = minute, map[string]int{}
		s.full.Store(false)
	}
	if _, found := s.counts[clientNet]; !found && len(s.counts) >= maxStrayClientNets {
		return
	}
	s.counts[clientNet]++
	if s.counts[clientNet] >= maxStrays {
		s.full.Store(true)
	}
}

// tooMany returns errStrays for a client network that has presented too many unknown tokens.
func (s *strays) tooMany(clientNet string, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Unix()/60 != s.minute || s.counts[clientNet] < maxStrays {
		return nil
	}
	return errStrays.Retry(time.Unix((s.minute+1)*60, 0).Sub(now))
}
