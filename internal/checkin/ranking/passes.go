package ranking

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
)

// passes lets concurrent readers of all users' placements share one pass over the log, such as two boards that are
// loaded at the same time.
type passes struct {
	read       func(context.Context, func([]Placement) error) error
	joinWindow time.Duration // how long a pass waits for others to join
	mu         sync.Mutex
	next       *pass // a pass that has not begun
}

type pass struct {
	members []*member
	present int // of them
	stop    context.CancelFunc
	ended   chan struct{}
}

type member struct {
	places chan []Placement
	err    error // of the pass, once places is closed
	left   chan struct{}
}

// places yields the placements of all users at a moment after the call. The slowest reader of a pass sets its speed.
func (ps *passes) places(ctx context.Context) iter.Seq2[Placement, error] {
	return func(yield func(Placement, error) bool) {
		m, leave := ps.join(ctx)
		defer leave()
		for {
			select {
			case chunk, more := <-m.places:
				if !more {
					if m.err != nil {
						yield(Placement{}, m.err)
					}
					return
				}
				for _, p := range chunk {
					if !yield(p, nil) {
						return
					}
				}
			case <-ctx.Done():
				yield(Placement{}, context.Cause(ctx))
				return
			}
		}
	}
}

// join enters the next pass. The last reader that leaves ends it.
func (ps *passes) join(ctx context.Context) (m *member, leave func()) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.next == nil {
		ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
		ps.next = &pass{stop: stop, ended: make(chan struct{})}
		go ps.run(ctx, ps.next)
	}
	p := ps.next
	m = &member{places: make(chan []Placement, 1), left: make(chan struct{})}
	p.members = append(p.members, m)
	p.present++
	return m, func() {
		close(m.left)
		if ps.leave(p) {
			p.stop()
			<-p.ended
		}
	}
}

func (ps *passes) leave(p *pass) (last bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p.present--; p.present > 0 {
		return false
	}
	ps.close(p)
	return true
}

// close prevents further readers from joining.
func (ps *passes) close(p *pass) {
	if ps.next == p {
		ps.next = nil
	}
}

func (ps *passes) run(ctx context.Context, p *pass) {
	defer close(p.ended)
	select {
	case <-time.After(ps.joinWindow):
	case <-ctx.Done():
		return
	}
	ps.mu.Lock()
	ps.close(p)
	ps.mu.Unlock()
	err := ps.read(ctx, func(chunk []Placement) error {
		for _, m := range p.members {
			select {
			case m.places <- chunk:
			case <-m.left:
			}
		}
		return ctx.Err()
	})
	for _, m := range p.members {
		m.err = err
		close(m.places)
	}
}

// readPlaces calls fn with the present placements of all users, in chunks.
func (bs *Boards) readPlaces(ctx context.Context, fn func([]Placement) error) error {
	const piece = 500
	users, tallies := make([]accounts.ID, 0, piece), make([]streak.Tally, 0, piece)
	flush := func() error {
		if len(users) == 0 {
			return nil
		}
		clocks, err := bs.cfg.Clocks(ctx, users)
		if err != nil {
			return err
		}
		granted, err := bs.sql.freezesGranted(ctx, users[0], users[len(users)-1])
		if err != nil {
			return err
		}
		histories, err := bs.skipping(ctx, users, clocks)
		if err != nil {
			return err
		}
		now, chunk := bs.now(), make([]Placement, 0, len(users))
		for i, user := range users {
			p := tallied(bs.freezes, user, clocks[user], tallies[i], granted[user])
			if h, skips := histories[user]; skips {
				p, _ = placementFrom(bs.freezes, user, clocks[user], h)
			}
			if !p.Dies.After(now) {
				p.Streak = 0
			}
			if p.Total > 0 {
				chunk = append(chunk, p)
			}
		}
		users, tallies = users[:0], tallies[:0]
		return fn(chunk)
	}
	err := bs.sql.everybody(ctx, func(user accounts.ID, t streak.Tally) error {
		if users, tallies = append(users, user), append(tallies, t); len(users) == piece {
			return flush()
		}
		return nil
	})
	if err != nil {
		return err
	}
	return flush()
}

// skipping returns the histories of the users whose zone skips a date, because the row of that date may not be written
// yet.
func (bs *Boards) skipping(ctx context.Context, users []accounts.ID,
	clocks map[accounts.ID]civil.Clock) (map[accounts.ID]streak.History, error) {
	var skippers []accounts.ID
	for _, user := range users {
		if _, skips := clocks[user].Skipped(); skips {
			skippers = append(skippers, user)
		}
	}
	if len(skippers) == 0 {
		return nil, nil
	}
	return bs.cfg.Logged(ctx, skippers)
}
