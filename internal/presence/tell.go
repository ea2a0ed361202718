package presence

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/foundation/events"
)

// change is what friends are to be told of a user.
type change struct {
	status Status
	at     time.Time
	hidden bool // to the friends the user is off line from now on
	shown  bool // the user has just let the friends see them
	own    bool // the user's devices are told, too: one of them may have made the change
}

// tells are changes of which nobody was told yet. A later one of the same user takes the
// earlier one's place.
type tells struct {
	wake chan struct{}

	mu      sync.Mutex
	pending map[accounts.ID]change
}

func newTells() tells {
	return tells{wake: make(chan struct{}, 1), pending: map[accounts.ID]change{}}
}

func (t *tells) add(user accounts.ID, c change) {
	t.mu.Lock()
	before := t.pending[user]
	c.hidden, c.own = c.hidden || before.hidden && !c.shown, c.own || before.own
	t.pending[user] = c
	t.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

func (t *tells) take(n int) (users []accounts.ID, changes []change) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for u, c := range t.pending {
		if len(users) == n {
			break
		}
		users, changes = append(users, u), append(changes, c)
		delete(t.pending, u)
	}
	return users, changes
}

// tellers is how many users' friends are looked up at a time.
const tellers = 16

// tell tells friends, until ctx ends.
func (s *Service) tell(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.tells.wake:
		}
		for users, changes := s.tells.take(atOnce); len(users) > 0; users, changes = s.tells.take(atOnce) {
			s.tellAll(ctx, users, changes)
		}
	}
}

func (s *Service) tellAll(ctx context.Context, users []accounts.ID, changes []change) {
	ask, cancel := context.WithTimeout(ctx, writeTime)
	all, err := s.store.read(ask, users)
	cancel()
	if err == nil {
		for i, k := range all {
			changes[i] = changes[i].still(k)
		}
	}
	standings, err := accounts.Standings(ctx, s.db, users...) // no copy: what is told cannot be taken back
	if err != nil {
		s.log.Warn("presence: friends are not told of changes", "users", len(users), "err", err)
		return
	}
	var g errgroup.Group
	g.SetLimit(tellers)
	for i, u := range users {
		c := changes[i]
		if c == (change{}) {
			continue
		}
		who, known := standings[u]
		gone := !known || who.Deleted || who.Banned
		if gone && c.status == Offline {
			c.hidden = true // a deleted or banned user has gone, and friends learn no more than that
		}
		g.Go(func() error { s.tellOf(ctx, u, c, !gone && who.Presence == accounts.ToFriends); return nil })
	}
	_ = g.Wait() // none of them fails
}

// still returns what is to be told by now: nothing where another change has come, of
// which whoever made it tells.
func (c change) still(k kept) change {
	switch {
	case k.told:
		if c.status == Offline && !c.hidden {
			return change{}
		}
		c.status = k.wish.status()
	case c.hidden:
		c.status = Offline
	case c.status != Offline:
		return change{}
	}
	return c
}

// tellOf tells of one user.
func (s *Service) tellOf(ctx context.Context, user accounts.ID, c change, visible bool) {
	s.metrics.changes.WithLabelValues(c.status.String()).Inc()
	seen := Seen{User: user, Status: c.status, Last: c.at}
	var batch []events.Event
	if c.own {
		batch = append(batch, s.event(user, c, seen))
	}
	if visible {
		if err := s.store.announce(ctx, s.event(user, c, seen)); err != nil {
			s.log.Debug("presence: programs beside the server are not told of a change", "err", err)
		}
	}
	if visible || c.hidden {
		friends, err := s.cfg.Friends.FriendIDs(ctx, user)
		if err != nil {
			s.log.Warn("presence: friends are not told of a change", "user", user, "err", err)
		}
		if c.hidden {
			seen = Seen{User: user}
		}
		for _, f := range friends {
			batch = append(batch, s.event(f, c, seen))
		}
	}
	s.cfg.Bus.Publish(batch)
}

// event is what one user is told of another, or of themselves.
func (s *Service) event(to accounts.ID, c change, seen Seen) events.Event {
	data, _ := json.Marshal(seen.wire()) // texts and a time
	e := events.New(api.EventPresenceChanged, to.String(), c.at, data)
	e.Fleeting = true
	return e
}
