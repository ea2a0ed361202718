package accounts

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// mostStrays is how many access tokens that nobody has one household presents to this node in a minute. Beyond, the node asks nobody
	// about tokens from there that this server cannot have made.
	mostStrays = 100
	// mostStrayHouseholds bounds the memory: what comes from more households in a minute is not counted.
	mostStrayHouseholds = 10_000
)

// strays counts the access tokens that nobody has, by household and minute. Each costs a look into Redis and SQL, and no
// limit of an operation counts what has no caller. Tokens of sessions that are there, expired ones among them, are none.
type strays struct {
	full   atomic.Bool // some household has presented too many in this minute
	mu     sync.Mutex
	minute int64
	counts map[string]int
}

// note counts one.
func (s *strays) note(household string, now time.Time) {
	if household == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if minute := now.Unix() / 60; minute != s.minute {
		s.minute, s.counts = minute, map[string]int{}
		s.full.Store(false)
	}
	if _, there := s.counts[household]; !there && len(s.counts) >= mostStrayHouseholds {
		return
	}
	s.counts[household]++
	if s.counts[household] >= mostStrays {
		s.full.Store(true)
	}
}

// tooMany returns errStrays for a household that has presented too many.
func (s *strays) tooMany(household string, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Unix()/60 != s.minute || s.counts[household] < mostStrays {
		return nil
	}
	return errStrays.Retry(time.Unix((s.minute+1)*60, 0).Sub(now))
}
