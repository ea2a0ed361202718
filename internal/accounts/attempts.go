package accounts

import (
	"context"
	"sync"
	"time"
)

// counted calls try, which looks at a password or a code of that address, unless
// too many were wrong before: ErrLocked. Every try counts before it is looked
// at, and a good one clears the count: of a thousand at once five are looked at.
// While SQL is away none can be looked at, and none counts.
func (s *Service) counted(ctx context.Context, e Email, try func() error) error {
	if err := s.db.Ping(ctx); err != nil {
		return asKind(err)
	}
	if allowed, left, err := s.fast.mayLogin(ctx, e, s.cfg.Limits, s.db.Now()); err != nil {
		return err
	} else if !allowed {
		return ErrLocked.Retry(left)
	}
	if err := try(); err != nil {
		return err
	}
	s.forgetFails(ctx, e)
	return nil
}

// forgetFails opens what wrong tries have locked.
func (s *Service) forgetFails(ctx context.Context, e Email) {
	s.after(ctx, "forget wrong log-ins", func(ctx context.Context) error { return s.fast.forgetFails(ctx, e) })
}

// attempts counts tries in this process, by the rules of lua/try.lua, for when
// Redis is away.
type attempts struct {
	mu    sync.Mutex
	byKey map[string]attempt
}

type attempt struct {
	n     int
	until time.Time // then the count is forgotten
}

// attemptKeys bounds the memory, some megabytes. Addresses beyond it share one
// count: a flood of made-up ones locks strangers out early, but cannot wash
// away the count of a password under attack.
const attemptKeys = 20_000

// take counts one try of key, up to max, and reports whether it is allowed and
// for how long the count is kept.
func (a *attempts) take(key string, max int, life time.Duration, now time.Time) (bool, time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byKey == nil {
		a.byKey = map[string]attempt{}
	}
	t, known := a.byKey[key]
	if !known && len(a.byKey) >= attemptKeys {
		for k, t := range a.byKey {
			if !now.Before(t.until) {
				delete(a.byKey, k)
			}
		}
		if len(a.byKey) >= attemptKeys {
			key = ""
			t = a.byKey[key]
		}
	}
	if !now.Before(t.until) {
		t.n = 0
	}
	if t.n >= max {
		return false, t.until.Sub(now)
	}
	a.byKey[key] = attempt{t.n + 1, now.Add(life)}
	return true, life
}

func (a *attempts) forget(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.byKey, key)
}
