package ratelimit

import (
	"sync"
	"time"
)

// maxLocalKeys is the largest number of counters in this process, which need a few MB.
const maxLocalKeys = 10_000

// local counts in this process, by the same rules as the scripts.
type local struct {
	max int // the largest number of counters that are not shared

	mu      sync.Mutex
	windows map[bucket]*running
	full    time.Time // no window ends before this time, so a search for one is useless
}

// bucket identifies a counter: by its key, or by its limit if all keys of that limit without a counter share it.
type bucket struct {
	key string
	lim Limit
}

type running struct {
	n   int
	end time.Time
}

// window identifies one window of one counter, to undo a call.
type window struct {
	b   bucket
	end time.Time
}

func (l *local) count(key string, lim Limit, now time.Time) (Result, window) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := bucket{key: key}
	w := l.windows[b]
	if w == nil && !l.makeRoom(now) {
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

// makeRoom evicts expired counters if necessary, and reports whether there is room for one more.
func (l *local) makeRoom(now time.Time) bool {
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
