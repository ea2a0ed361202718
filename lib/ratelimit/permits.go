package ratelimit

import (
	"sync"
	"time"
)

const (
	// holdTime is how long permits may be used before Redis is asked again: it is
	// how old Remaining can be, and how long permits that nobody uses can be missed
	// on another node.
	holdTime = time.Second

	// heldKeys bounds the keys with permits in this process, some 10 MB.
	heldKeys = 65_536

	// Smaller limits, and those over shorter windows, are asked for one by one: a
	// twentieth of less than 40 is one anyway.
	smallestHeld  = 40
	shortestHeld  = 10 * time.Second
	largestDemand = 1 << 16
)

// permits are calls that Redis has counted and this process has not let through
// yet. They are taken in blocks, each at most a twentieth of what the window has
// left, and are good for a second and never beyond the window's end.
type permits struct {
	mu   sync.Mutex
	keys map[string]*held
	full time.Time // until then no window ends, so that looking for one is in vain
}

type held struct {
	lim    Limit
	n      int       // permits that are left
	left   int       // calls that the window had left, besides n, when Redis was asked
	used   int       // calls since then
	want   int       // how many permits were asked for last
	end    time.Time // of the window, not after Redis' own
	fresh  time.Time // until then n may be used
	asking bool      // one call is asking for more
}

// demand is what a call asks of Redis.
type demand struct {
	want, back int
	within     time.Duration // see take.lua
	block      bool          // the call asks for the key's block
}

// use lets a call through by a permit, if there is one.
func (p *permits) use(key string, lim Limit, now time.Time) (Result, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.keys[key]
	if h == nil || h.n == 0 || h.lim != lim || !now.Before(h.fresh) || !now.Before(h.end) {
		return Result{}, false
	}
	h.n--
	h.used++
	return Result{true, lim.Max, h.left + h.n, h.end.Sub(now)}, true
}

// ask returns what to ask Redis for. A key that is in use gets larger blocks, as many
// permits as it used since it was asked for last; what it did not use goes back.
func (p *permits) ask(key string, lim Limit, now time.Time) demand {
	one := demand{want: 1}
	if lim.Max < smallestHeld || lim.Window < shortestHeld {
		return one
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.keys[key]
	switch {
	case h == nil && !p.room(now):
		return one
	case h == nil || h.lim != lim || !now.Before(h.end):
		if p.keys == nil {
			p.keys = map[string]*held{}
		}
		p.keys[key] = &held{lim: lim, want: 1, end: now.Add(lim.Window), asking: true}
		return demand{want: 1, block: true}
	case h.asking:
		return one
	case now.Before(h.fresh): // all are used already
		h.want = min(2*h.want, largestDemand)
	default:
		h.want = max(1, h.used)
	}
	d := demand{want: h.want, back: h.n, within: h.end.Sub(now) + patience, block: true}
	h.n, h.used, h.asking = 0, 0, true
	return d
}

// got notes what Redis answered to a call that was sent at that time, and returns the
// result of the call itself.
func (p *permits) got(key string, lim Limit, d demand, taken, count int, left time.Duration, sent time.Time) Result {
	res := Result{taken > 0, lim.Max, max(lim.Max-count, 0), left}
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.keys[key]
	if h == nil || h.lim != lim {
		return res // what was taken beyond this call ends with the window
	}
	if d.block {
		h.asking, h.n = false, max(taken-1, 0)
		// The window lasted that long when Redis answered, so it ends no earlier.
		h.end, h.fresh = sent.Add(left), sent.Add(holdTime)
	}
	h.left = res.Remaining
	res.Remaining += h.n
	return res
}

// failed notes that Redis did not answer; what was to be given back ends with the
// window.
func (p *permits) failed(key string, d demand) {
	if !d.block {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if h := p.keys[key]; h != nil {
		h.asking, h.want = false, 1
	}
}

// room makes room for one more key and reports whether there is some.
func (p *permits) room(now time.Time) bool {
	if len(p.keys) < heldKeys {
		return true
	}
	if now.Before(p.full) {
		return false
	}
	p.full = now.Add(holdTime)
	for key, h := range p.keys {
		if !now.Before(h.end) || h.n == 0 && !now.Before(h.fresh) && !h.asking {
			delete(p.keys, key)
		}
	}
	return len(p.keys) < heldKeys
}
