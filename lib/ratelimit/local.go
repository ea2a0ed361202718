package ratelimit

import (
	"sync"
	"time"
)

// localKeys bounds the counters of this process: a few MB at the most.
const localKeys = 10_000

// local counts in this process, by the same rules as the scripts.
type local struct {
	max int // counters that are not shared

	mu      sync.Mutex
	windows map[bucket]*running
	full    time.Time // until then no window ends, so that looking for one is in vain
}

// bucket names a counter: by its key or, for all keys of one limit that found no
// room, by that limit.
type bucket struct {
	key string
	lim Limit
}

type running struct {
	n   int
	end time.Time
}

// window identifies one window of one counter, for a give-back.
type window struct {
	b   bucket
	end time.Time
}

func (l *local) take(key string, lim Limit, now time.Time) (Result, window) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := bucket{key: key}
	w := l.windows[b]
	if w == nil && !l.room(now) {
		b = bucket{lim: lim}
		w = l.windows[b]
	}
	if w == nil {
		w = &running{}
		if l.windows == nil {
			l.windows = map[bucket]*running{}
		}
		l.windows[b] = w
	}
	if !now.Before(w.end) {
		w.n, w.end = 0, now.Add(lim.Window)
	} else if w.end.Sub(now) > lim.Window {
		w.end = now.Add(lim.Window)
	}
	allowed := w.n < lim.Max
	if allowed {
		w.n++
	}
	return Result{allowed, lim.Max, max(lim.Max-w.n, 0), w.end.Sub(now)}, window{b, w.end}
}

func (l *local) giveBack(at window) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.windows[at.b]; w != nil && w.end.Equal(at.end) && w.n > 0 {
		w.n--
	}
}

// room makes room for one more counter and reports whether there is some.
func (l *local) room(now time.Time) bool {
	if len(l.windows) < l.max {
		return true
	}
	if now.Before(l.full) {
		return false
	}
	var next time.Time
	for b, w := range l.windows {
		if !now.Before(w.end) {
			delete(l.windows, b)
		} else if next.IsZero() || w.end.Before(next) {
			next = w.end
		}
	}
	l.full = next
	return len(l.windows) < l.max
}
