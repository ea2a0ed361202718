package audit

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	pingEvery = 20 * time.Millisecond
	// An audit never comes to a stand: the longest pause after each page.
	longestPause  = 250 * time.Millisecond
	shortestPause = 500 * time.Microsecond
)

// A pacer holds pages back: to the rate that was asked for, and further while the
// server keeps others waiting.
type pacer struct {
	rate    int
	maxPing time.Duration
	began   time.Time
	read    int64 // names

	mu     sync.Mutex
	pause  time.Duration // after each page
	paused time.Duration
	pings  []time.Duration
}

func newPacer(opt *Options) *pacer {
	return &pacer{rate: opt.Rate, maxPing: opt.MaxPing, began: time.Now()}
}

// watch sends a PING now and then until ctx ends. One that fails tells nothing:
// the work fails as well.
func (p *pacer) watch(ctx context.Context, ping func(context.Context) (time.Duration, error)) {
	t := time.NewTicker(pingEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if took, err := ping(ctx); err == nil {
				p.heard(took)
			}
		}
	}
}

// heard doubles the pause while PINGs are late, and halves it when they are not.
func (p *pacer) heard(took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pings = append(p.pings, took)
	if took > p.maxPing {
		p.pause = min(max(2*p.pause, shortestPause), longestPause)
	} else if p.pause /= 2; p.pause < shortestPause {
		p.pause = 0
	}
}

// after is called with the number of names of each page, and returns when the next
// one may be asked for.
func (p *pacer) after(ctx context.Context, names int) error {
	p.read += int64(names)
	p.mu.Lock()
	wait := p.pause
	p.paused += wait
	p.mu.Unlock()
	if p.rate > 0 {
		due := p.began.Add(time.Duration(float64(p.read) / float64(p.rate) * float64(time.Second)))
		wait = max(wait, time.Until(due))
	}
	if wait <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// report sums the PINGs up.
func (p *pacer) report() Ping {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := Ping{Count: len(p.pings), Paused: p.paused.Milliseconds()}
	if n := len(p.pings); n > 0 {
		slices.Sort(p.pings)
		r.P50, r.P99, r.Max = p.pings[n/2].Microseconds(), p.pings[n*99/100].Microseconds(), p.pings[n-1].Microseconds()
	}
	return r
}
