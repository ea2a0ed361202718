package presence

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/realtime/events"
)

// change is a change of a user that is to be published to friends.
type change struct {
	status Status
	at     time.Time
	hidden bool // to the friends the user is offline from now on
	shown  bool // the user has just become visible to the friends
	own    bool // it is also published to the user's devices, because one of them may have made the change

	version int64 // of the status; a newer status has a higher one
}

// tells has the changes that are not yet published. A later change of a user replaces the earlier one.
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
	c.hidden, c.own, c.version = c.hidden || before.hidden && !c.shown, c.own || before.own, max(c.version, before.version)
	t.pending[user] = c
	t.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// back queues a change again, merged with a later change of the user.
func (t *tells) back(user accounts.ID, c change) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if later, ok := t.pending[user]; ok {
		later.hidden, later.own, later.version = later.hidden || c.hidden && !later.shown, later.own || c.own, max(later.version, c.version)
		c = later
	}
	t.pending[user] = c
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

// tellers is the number of users whose friends are read at a time.
const tellers = 16

// tell publishes changes, until ctx ends. While SQL is away, changes wait.
func (s *Service) tell(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.tells.wake:
		}
		for users, changes := s.tells.take(atOnce); len(users) > 0; users, changes = s.tells.take(atOnce) {
			if err := s.tellAll(ctx, users, changes); err != nil {
				s.log.Warn("presence: friends are told of changes later", "users", len(users), "err", err)
				select {
				case <-ctx.Done():
					return
				case <-time.After(beatEvery):
				}
			}
		}
	}
}

// tellAll publishes changes. After an error, the unpublished ones wait.
func (s *Service) tellAll(ctx context.Context, users []accounts.ID, changes []change) error {
	ask, cancel := context.WithTimeout(ctx, writeTime)
	all, err := s.redis.read(ask, users)
	cancel()
	if err == nil {
		for i, k := range all {
			changes[i] = changes[i].still(k)
		}
	}
	ask, cancel = context.WithTimeout(ctx, writeTime)         // an unavailable Redis has used up the other
	standings, err := accounts.Standings(ask, s.db, users...) // no copy, because an event cannot be revoked
	cancel()
	if err != nil {
		for i, u := range users {
			if changes[i] != (change{}) {
				s.tells.back(u, changes[i])
			}
		}
		return err
	}
	var g errgroup.Group
	g.SetLimit(tellers)
	for i, u := range users {
		c := changes[i]
		if c == (change{}) {
			continue
		}
		who, known := standings[u]
		gone := !known || who.IsInactive()
		if gone && c.status == Offline {
			c.hidden = true // a deleted or banned user is offline, and friends see no more than that
		}
		g.Go(func() error {
			err := s.tellOf(ctx, u, c, !gone && who.Presence == accounts.ToFriends)
			if err != nil {
				s.tells.back(u, c)
			}
			return err
		})
	}
	return g.Wait()
}

// still returns what is still to be published. It returns the zero change if another change has followed, because its
// writer publishes that.
func (c change) still(k kept) change {
	c.version = max(c.version, k.version)
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

// tellOf publishes the change of one user. After an error, it has published none of it.
func (s *Service) tellOf(ctx context.Context, user accounts.ID, c change, visible bool) error {
	var friends []accounts.ID
	if visible || c.hidden {
		var err error
		if friends, err = s.cfg.Friends.FriendIDs(ctx, user); err != nil {
			return err
		}
	}
	s.metrics.changes.WithLabelValues(c.status.String()).Inc()
	seen := data(Seen{User: user, Status: c.status, Last: c.at, Version: c.version})
	var batch []events.Event
	if c.own {
		batch = append(batch, event(user, c, seen))
	}
	if visible {
		if err := s.redis.announce(ctx, event(user, c, seen)); err != nil {
			s.log.Debug("presence: programs beside the server are not told of a change", "err", err)
		}
	}
	if c.hidden {
		seen = data(Seen{User: user, Version: c.version})
	}
	for _, f := range friends {
		batch = append(batch, event(f, c, seen))
	}
	return s.cfg.Bus.PublishPaced(ctx, batch) // many users may leave at once, with many friends each
}

// data returns the data of a user in events.
func data(seen Seen) json.RawMessage {
	text, _ := json.Marshal(seen.wire()) // texts and a time
	return text
}

// event returns the event for one user about another, or about themselves.
func event(to accounts.ID, c change, seen json.RawMessage) events.Event {
	e := events.New(api.EventPresenceChanged, to.String(), c.at, seen)
	e.Fleeting = true
	return e
}
