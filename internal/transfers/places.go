package transfers

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
)

const (
	// uploadsOfTransfer is the largest number of concurrent uploads of one transfer on a node: an active one, and one
	// with a broken connection that the node has not yet detected.
	uploadsOfTransfer = 2

	// replaceTime bounds the wait of an upload until an older one has stored its bytes and released its place.
	replaceTime = 5 * time.Second
)

// places bounds the concurrent uploads on a node, because each has buffers and may have parts that do not count yet.
type places struct {
	most int // for each user

	mu     sync.Mutex
	byUser map[accounts.ID][]*placed // the oldest first
}

// placed is an upload with a place.
type placed struct {
	id       ID
	cut      func() // ends it soon; nil if it ends by itself
	released chan struct{}
}

// enter gives an upload a place until leave is called. If there is no free place, it ends an older upload and takes its
// place. It returns ErrBusy if there is none, or if the older one has not ended in time.
func (p *places) enter(ctx context.Context, user accounts.ID, id ID, cut func()) (leave func(), err error) {
	u := &placed{id, cut, make(chan struct{})}
	late := time.After(replaceTime)
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
		case <-older.released:
		case <-late:
			return nil, ErrBusy
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// try gives an upload a place if there is one. Otherwise it returns the upload to end. If the transfer has too many
// uploads, this is its oldest. If the user has too many, it is the oldest upload whose transfer has another one.
func (p *places) try(user accounts.ID, u *placed) (entered bool, older *placed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.byUser[user]
	count := map[ID]int{u.id: 1}
	for _, other := range all {
		count[other.id]++
	}
	crowded := count[u.id] > uploadsOfTransfer
	if !crowded && len(all) < p.most {
		p.byUser[user] = append(all, u)
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
	close(u.released)
	p.byUser[user] = slices.DeleteFunc(p.byUser[user], func(other *placed) bool { return other == u })
	if len(p.byUser[user]) == 0 {
		delete(p.byUser, user)
	}
}
