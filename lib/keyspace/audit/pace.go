package audit

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	pingEvery = 20 * time.Millisecond
	// maxPause is the longest pause after each page, so that an audit always makes progress.
	maxPause = 250 * time.Millisecond
	minPause = 500 * time.Microsecond
)

// A pacer slows pages down, to the requested rate, and further while other clients of the server wait too long.
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

// watch sends PINGs until ctx ends. It ignores a failed PING, because the commands of the audit fail as well.
func (p *pacer) watch(ctx context.Context, ping func(context.Context) (time.Duration, error)) {
	t := time.NewTicker(pingEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if took, err := ping(ctx); err == nil {
				p.recordPing(took)
			}
		}
	}
}

// recordPing doubles the pause if a PING was late, and otherwise halves it.
func (p *pacer) recordPing(took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pings = append(p.pings, took)
	if took > p.maxPing {
		p.pause = min(max(2*p.pause, minPause), maxPause)
	} else if p.pause /= 2; p.pause < minPause {
		p.pause = 0
	}
}

// wait is called after each page with the number of its names. It returns when the next page may be requested.
func (p *pacer) wait(ctx context.Context, names int) error {
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

// report summarises the PINGs.
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
