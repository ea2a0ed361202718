package transfers

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
)

const (
	// uploadsOfTransfer is how many uploads of one transfer a node takes at once: one that gets on, and one whose line
	// is dead, which the node does not know yet.
	uploadsOfTransfer = 2

	// takeOverTime is how long an upload waits until another has stored what came, and its place is free.
	takeOverTime = 5 * time.Second
)

// places bound the uploads that a node takes at once: each has buffers, and may have parts that do not count yet.
type places struct {
	most int // of a user

	mu sync.Mutex
	of map[accounts.ID][]*placed // the oldest first
}

// placed is an upload that has a place.
type placed struct {
	id   ID
	cut  func() // ends it soon; nil where it ends by itself
	left chan struct{}
}

// enter gives an upload a place, which it has until leave is called. Where there is none, it takes over from an older one,
// which is cut. ErrBusy, also where that one has not left in time.
func (p *places) enter(ctx context.Context, user accounts.ID, id ID, cut func()) (leave func(), err error) {
	u := &placed{id, cut, make(chan struct{})}
	late := time.After(takeOverTime)
	for {
		entered, older := p.try(user, u)
		switch {
		case entered:
			return func() { p.leave(user, u) }, nil
		case older == nil:
			return nil, ErrBusy
		case older.cut != nil:
			older.cut()
		}
		select {
		case <-older.left:
		case <-late:
			return nil, ErrBusy
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// try gives an upload a place if there is one. Else it returns from which it is to take over: the oldest of its own
// transfer beyond two, and beyond the user's most the oldest behind which another of the same transfer has come.
func (p *places) try(user accounts.ID, u *placed) (entered bool, older *placed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.of[user]
	count := map[ID]int{u.id: 1}
	for _, other := range all {
		count[other.id]++
	}
	crowded := count[u.id] > uploadsOfTransfer
	if !crowded && len(all) < p.most {
		p.of[user] = append(all, u)
		return true, nil
	}
	i := slices.IndexFunc(all, func(other *placed) bool { return count[other.id] > 1 && (!crowded || other.id == u.id) })
	if i < 0 {
		return false, nil
	}
	return false, all[i]
}

func (p *places) leave(user accounts.ID, u *placed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(u.left)
	p.of[user] = slices.DeleteFunc(p.of[user], func(other *placed) bool { return other == u })
	if len(p.of[user]) == 0 {
		delete(p.of, user)
	}
}
