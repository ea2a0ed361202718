package ratelimit

import (
	"sync"
	"time"
)

const (
	// holdTime is how long permits may be used before the next request to Redis. It is the largest age of Remaining,
	// and the longest time that unused permits are unavailable to other nodes.
	holdTime = time.Second

	// maxPermitKeys is the largest number of keys with permits in this process, which need about 10 MB.
	maxPermitKeys = 65_536

	// Limits with a smaller Max or a shorter Window count each call in Redis. A twentieth of less than 40 is 1 anyway.
	minBlockMax    = 40
	minBlockWindow = 10 * time.Second
	maxDemand      = 1 << 16
)

// permits are calls that Redis has counted and this process has not allowed yet. They come in blocks of at most a
// twentieth of the remaining calls of the window. They are valid for one second, but not beyond the end of the window.
type permits struct {
	mu   sync.Mutex
	keys map[string]*held
	full time.Time // no window ends before this time, so a search for one is useless
}

type held struct {
	lim    Limit
	n      int       // remaining permits
	left   int       // remaining calls of the window, without n, at the last request
	used   int       // calls since the last request
	want   int       // the number of permits in the last request
	end    time.Time // the end of the window; not later than in Redis
	fresh  time.Time // n may be used until then
	asking bool      // a request for more is in progress
}

// demand is the request of a call to Redis.
type demand struct {
	want, back int
	within     time.Duration // see take.lua
	block      bool          // the call requests a block for the key
}

// use allows a call with a permit, if there is one.
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

// demandFor returns the request to send to Redis. A key in use gets larger blocks: the number of permits that it used
// since the last request. Unused permits are returned.
func (p *permits) demandFor(key string, lim Limit, now time.Time) demand {
	one := demand{want: 1}
	if lim.Max < minBlockMax || lim.Window < minBlockWindow {
		return one
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.keys[key]
	switch {
	case h == nil && !p.makeRoom(now):
		return one
	case h == nil || h.lim != lim || !now.Before(h.end):
		if p.keys == nil {
			p.keys = map[string]*held{}
		}
		p.keys[key] = &held{lim: lim, want: 1, end: now.Add(lim.Window), asking: true}
		return demand{want: 1, block: true}
	case h.asking:
		return one
	case now.Before(h.fresh): // all permits are already used
		h.want = min(2*h.want, maxDemand)
	default:
		h.want = max(1, h.used)
	}
	d := demand{want: h.want, back: h.n, within: h.end.Sub(now) + patience, block: true}
	h.n, h.used, h.asking = 0, 0, true
	return d
}

// record stores the reply of Redis to a request, which was sent at the time sent. It returns the result of the call.
func (p *permits) record(key string, lim Limit, d demand, taken, count int, left time.Duration, sent time.Time) Result {
	res := Result{taken > 0, lim.Max, max(lim.Max-count, 0), left}
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.keys[key]
	if h == nil || h.lim != lim {
		return res // additional permits expire with the window
	}
	if d.block {
		h.asking, h.n = false, max(taken-1, 0)
		// The window had left remaining when Redis replied, so it does not end before sent plus left.
		h.end, h.fresh = sent.Add(left), sent.Add(holdTime)
	}
	h.left = res.Remaining
	res.Remaining += h.n
	return res
}

// failed records that Redis did not reply. Permits that the request returned expire with the window.
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

// makeRoom evicts keys without permits if necessary, and reports whether there is room for one more.
func (p *permits) makeRoom(now time.Time) bool {
	if len(p.keys) < maxPermitKeys {
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
	return len(p.keys) < maxPermitKeys
}
