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

// change is a change of a user's presence that is to be published to friends.
type change struct {
	status Status
	at     time.Time
	hidden bool // the friends see the user as offline from now on
	shown  bool // the user has just become visible to the friends
	own    bool // the user's own devices also get the event, because one of them may have made the change

	version int64 // of the status; a newer status has a higher one
}

// changeQueue has the changes that are not yet published. A later change of a user replaces the earlier one.
type changeQueue struct {
	wake chan struct{}

	mu      sync.Mutex
	pending map[accounts.ID]change
}

func newChangeQueue() changeQueue {
	return changeQueue{wake: make(chan struct{}, 1), pending: map[accounts.ID]change{}}
}

func (q *changeQueue) add(user accounts.ID, c change) {
	q.mu.Lock()
	before := q.pending[user]
	c.hidden, c.own, c.version = c.hidden || before.hidden && !c.shown, c.own || before.own, max(c.version, before.version)
	q.pending[user] = c
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// requeue enqueues a change again. If a later change of the user is pending, it merges the two.
func (q *changeQueue) requeue(user accounts.ID, c change) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if later, ok := q.pending[user]; ok {
		later.hidden, later.own, later.version = later.hidden || c.hidden && !later.shown, later.own || c.own, max(later.version, c.version)
		c = later
	}
	q.pending[user] = c
}

func (q *changeQueue) dequeue(n int) (users []accounts.ID, changes []change) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for u, c := range q.pending {
		if len(users) == n {
			break
		}
		users, changes = append(users, u), append(changes, c)
		delete(q.pending, u)
	}
	return users, changes
}

// maxConcurrentPublishes is the largest number of users whose changes are published at the same time.
const maxConcurrentPublishes = 16

// publishChanges publishes changes, until ctx ends. While SQL is unavailable, changes wait.
func (s *Service) publishChanges(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.changes.wake:
		}
		for users, changes := s.changes.dequeue(batchSize); len(users) > 0; users, changes = s.changes.dequeue(batchSize) {
			if err := s.publishBatch(ctx, users, changes); err != nil {
				s.log.Warn("presence: changes not published yet", "users", len(users), "err", err)
				select {
				case <-ctx.Done():
					return
				case <-time.After(beatEvery):
				}
			}
		}
	}
}

// publishBatch publishes changes. After an error, it has requeued the unpublished ones.
func (s *Service) publishBatch(ctx context.Context, users []accounts.ID, changes []change) error {
	readCtx, cancel := context.WithTimeout(ctx, writeTimeout)
	all, err := s.redis.read(readCtx, users)
	cancel()
	if err == nil {
		for i, st := range all {
			changes[i] = changes[i].recheck(st)
		}
	}
	readCtx, cancel = context.WithTimeout(ctx, writeTimeout)      // an unavailable Redis uses up the first deadline
	standings, err := accounts.Standings(readCtx, s.db, users...) // not from a cache, because an event cannot be revoked
	cancel()
	if err != nil {
		for i, u := range users {
			if changes[i] != (change{}) {
				s.changes.requeue(u, changes[i])
			}
		}
		return err
	}
	var g errgroup.Group
	g.SetLimit(maxConcurrentPublishes)
	for i, u := range users {
		c := changes[i]
		if c == (change{}) {
			continue
		}
		standing, found := standings[u]
		inactive := !found || standing.IsInactive()
		if inactive && c.status == Offline {
			c.hidden = true // friends of a deleted or banned user get no last-seen time
		}
		g.Go(func() error {
			err := s.publishChange(ctx, u, c, !inactive && standing.Presence == accounts.ToFriends)
			if err != nil {
				s.changes.requeue(u, c)
			}
			return err
		})
	}
	return g.Wait()
}

// recheck compares c with the user's present state in Redis, and returns the change to be published. It returns the
// zero change if a later change contradicts c: the writer of the later change publishes that one.
func (c change) recheck(st userState) change {
	c.version = max(c.version, st.version)
	switch {
	case st.publishedOnline:
		if c.status == Offline && !c.hidden {
			return change{}
		}
		c.status = st.wish.status()
	case c.hidden:
		c.status = Offline
	case c.status != Offline:
		return change{}
	}
	return c
}

// publishChange publishes the change of one user. After an error, it has published no event.
func (s *Service) publishChange(ctx context.Context, user accounts.ID, c change, visible bool) error {
	var friends []accounts.ID
	if visible || c.hidden {
		var err error
		if friends, err = s.cfg.Friends.FriendIDs(ctx, user); err != nil {
			return err
		}
	}
	data := encodeStatus(UserStatus{User: user, Status: c.status, LastSeen: c.at, Version: c.version})
	var batch []events.Event
	if c.own {
		batch = append(batch, newEvent(user, c, data))
	}
	dataOfFriends := data
	if c.hidden {
		dataOfFriends = encodeStatus(UserStatus{User: user, Version: c.version})
	}
	for _, f := range friends {
		batch = append(batch, newEvent(f, c, dataOfFriends))
	}
	if err := s.cfg.Bus.PublishPaced(ctx, batch); err != nil { // many users with many friends may leave at once
		return err
	}
	s.metrics.changes.WithLabelValues(c.status.String()).Inc()
	if visible {
		if err := s.redis.publish(ctx, newEvent(user, c, data)); err != nil {
			s.log.Debug("presence: change not published to channel:user_status", "err", err)
		}
	}
	return nil
}

// encodeStatus returns the data of an event.
func encodeStatus(status UserStatus) json.RawMessage {
	data, _ := json.Marshal(status.wire()) // cannot fail
	return data
}

// newEvent returns the event of a change for the user to.
func newEvent(to accounts.ID, c change, data json.RawMessage) events.Event {
	e := events.New(api.EventPresenceChanged, to.String(), c.at, data)
	e.Fleeting = true
	return e
}
