package attempts

import (
	"sync"
	"time"
)

// local counts tries in this process by the rules of lua/try.lua, while Redis is unavailable.
type local struct {
	mu    sync.Mutex
	byKey map[string]tries
}

type tries struct {
	n     int
	until time.Time // the end of the count
}

// localKeys bounds the memory to some megabytes. Further keys share one count: a flood of unknown addresses locks
// unknown client networks out early, but cannot evict the count of a password under attack.
const localKeys = 20_000

// count counts one try of key, up to max, and reports whether it is allowed and how long the count lasts.
func (l *local) count(key string, max int, life time.Duration, now time.Time) (bool, time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byKey == nil {
		l.byKey = map[string]tries{}
	}
	t, known := l.byKey[key]
	if !known && len(l.byKey) >= localKeys {
		for k, t := range l.byKey {
			if !now.Before(t.until) {
				delete(l.byKey, k)
			}
		}
		if len(l.byKey) >= localKeys {
			key = ""
			t = l.byKey[key]
		}
	}
	if !now.Before(t.until) {
		t.n = 0
	}
	if t.n >= max {
		return false, t.until.Sub(now)
	}
	l.byKey[key] = tries{t.n + 1, now.Add(life)}
	return true, life
}

// refund removes one counted try.
func (l *local) refund(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.byKey[key]; t.n > 1 {
		l.byKey[key] = tries{t.n - 1, t.until}
		return
	}
	delete(l.byKey, key)
}

func (l *local) reset(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.byKey, key)
}
