package presence

import (
	"context"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/realtime/events"
)

const (
	// linger is the time when a closed connection still counts: a user who returns within it was never away.
	// Connections of a dead node count as long.
	linger = 5 * time.Second
	// beatEvery is the time between two checks of a node's connections in Redis. A lingering connection may be removed
	// that much later.
	beatEvery = time.Second
	// atOnce is the number of connections that go to Redis in one round trip.
	atOnce = 500
	// writeTime bounds such a round trip.
	writeTime = 2 * time.Second
	// renewAfter is the age when the TTL of a connection's key is renewed. Up to a quarter is subtracted at random, so
	// that not all are renewed at once.
	renewAfter = 8 * time.Hour
	// letGoAfter is the time that a user who has left stays in the node's set in Redis. A failover meanwhile may
	// restore a connection, and the node checks the users of its set for that.
	letGoAfter = time.Minute
)

// leaving is a user without connections on this node since a time.
type leaving struct {
	user accounts.ID
	at   time.Time
}

// Watch records the connections of one kind to this node. Its methods do not block.
type Watch struct {
	s    *Service
	kind Kind
}

// Watch returns the recorder for connections of a kind.
func (s *Service) Watch(kind Kind) *Watch { return &Watch{s, kind} }

// Opened records that a user's device has opened a connection. Its name must be unique on this node.
func (w *Watch) Opened(user, device, connection string) {
	u, err := ids.Parse[accounts.User](user)
	d, derr := ids.Parse[accounts.Session](device)
	if err != nil || derr != nil {
		w.s.log.Error("presence: a connection has a malformed user or device id and is not counted", "user", user, "device", device)
		return
	}
	w.s.held.add(w.name(connection), u, Connection{Node: w.s.cfg.Node, Kind: w.kind, Device: d, Since: w.s.db.Now()})
}

// Closed records that a connection has closed.
func (w *Watch) Closed(connection string) { w.s.held.remove(w.name(connection), time.Now()) }

func (w *Watch) name(connection string) string { return string(w.kind) + connection }

// Run applies the connections of this node to Redis, and publishes changes to friends, until ctx ends. Its data in
// Redis stays: the other nodes detect that this one is gone.
func (s *Service) Run(ctx context.Context, ready func()) error {
	ready()
	s.vouch(ctx) // before the first connection, because reads of other nodes wait for it
	var parts sync.WaitGroup
	defer parts.Wait()
	parts.Go(func() { s.tell(ctx) })
	parts.Go(func() { s.writeLate(ctx) })
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-beat.C:
			s.beat(ctx)
		case <-s.held.wake:
			if s.doubt.Load() && time.Since(s.checked) >= beatEvery { // responses are partial until then
				s.beat(ctx)
			}
		}
		for s.write(ctx) {
		}
		s.vouch(ctx)
	}
}

// vouch marks this node's connections as complete, once all of them are written.
func (s *Service) vouch(ctx context.Context) {
	if s.vouched || !s.held.idle() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	if !s.marked && !s.begin(ctx) {
		return
	}
	s.vouched, _ = s.redis.vouch(ctx, s.cfg.Node) // the next beat detects a lost mark
}

// beat checks whether Redis still has the connections of this node, and does the work that is due.
func (s *Service) beat(ctx context.Context) {
	if s.astray { // since the beat before, so the restored connections are already there
		s.astray = s.findStrays(ctx) != nil
	}
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	now := time.Now()
	s.checked = now
	s.held.due(now)
	s.letGo(ctx, now)
	if now.Sub(s.renewed) > time.Minute {
		s.renewed = now
		s.held.renewDue(now)
	}
	if _, err := s.cfg.Nodes.Live(ctx); err != nil {
		s.peers.unknown()
	}
	if !s.marked {
		s.doubt.Store(false) // Redis had no connections that it may have lost
		return
	}
	m, err := s.redis.marked(ctx, s.cfg.Node)
	if err != nil {
		return // Redis is away, so the state is unknown
	}
	swept := !m.swept.IsZero()
	if swept {
		if live, err := s.cfg.Nodes.Live(ctx); err != nil || live[s.cfg.Node].IsZero() {
			return // connections that are restored before other nodes see this one as live are swept again
		}
	}
	doubt := s.doubt.Swap(false)
	if m.there && !swept && !doubt {
		return
	}
	s.marked, s.vouched, s.astray = false, false, true
	if n := s.held.putBack(swept); n > 0 {
		s.metrics.putBack.Add(float64(n))
		s.log.Info("presence: all connections are noted anew", "connections", n, "swept", swept, "lost", !m.there)
	}
}

// findStrays removes connections of this node that Redis has and the node does not. Redis was set back to an older
// state, or got a command late.
func (s *Service) findStrays(ctx context.Context) error {
	n := 0
	for cursor, more := "0", true; more; more = cursor != "0" {
		page, cancel := context.WithTimeout(ctx, writeTime)
		users, next, err := s.redis.heldFrom(page, s.cfg.Node, cursor)
		var all []kept
		if err == nil && len(users) > 0 {
			all, err = s.redis.read(page, users)
		}
		cancel()
		if err != nil {
			return err
		}
		n += s.held.dismissStrays(s.cfg.Node, users, all, time.Now())
		cursor = next
	}
	if n > 0 {
		s.log.Info("presence: connections that had closed are in Redis again, and are taken out", "connections", n)
	}
	return nil
}

// letGo removes users who left a while ago from this node's set in Redis.
func (s *Service) letGo(ctx context.Context, now time.Time) {
	var users []accounts.ID
	for len(s.left) > 0 && now.Sub(s.left[0].at) >= letGoAfter {
		if u := s.left[0].user; !s.held.holds(u) {
			users = append(users, u)
		}
		s.left = s.left[1:]
	}
	for some := range slices.Chunk(users, atOnce) {
		if err := s.redis.letGo(ctx, s.cfg.Node, some); err != nil {
			s.log.Debug("presence: a sweep may look at users in vain", "err", err)
		}
	}
}

// write stores some connections in Redis, or removes them. It reports whether it succeeded and there may be more.
func (s *Service) write(ctx context.Context) bool {
	in, out := s.held.take(atOnce)
	if len(in)+len(out) == 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	if !s.marked && !s.begin(ctx) {
		s.held.again(in)
		s.held.again(out)
		return s.pause()
	}
	whole := s.note(ctx, in)
	whole = s.takeOut(ctx, out) && whole
	return whole || s.pause()
}

// begin marks this node as one that writes its connections, and reports whether Redis has the mark.
func (s *Service) begin(ctx context.Context) bool {
	s.doubt.Store(false) // an earlier loss does not affect later writes
	s.marked = s.redis.setMark(ctx, s.cfg.Node, time.Time{}) == nil
	return s.marked
}

// pause delays the rest until the next beat.
func (s *Service) pause() bool {
	select {
	case <-s.held.wake:
	default:
	}
	return false
}

// note stores connections, and queues the changes of users who had none. It reports whether Redis stored all.
func (s *Service) note(ctx context.Context, in []*holding) bool {
	if len(in) == 0 {
		return true
	}
	users := make([]accounts.ID, len(in))
	for i, h := range in {
		users[i] = h.user
	}
	ask, cancel := context.WithTimeout(ctx, askTime)
	rows, err := selectRows(ask, s.db, users)
	cancel()
	if err != nil { // they are online all the same
		for _, u := range users {
			s.wishLater(u)
		}
	}
	batch := make([]*opening, len(in))
	for i, h := range in {
		batch[i] = &opening{user: h.user, c: h.c, wish: rows[h.user].wish}
	}
	s.redis.open(ctx, s.cfg.Node, batch)
	var failed []*holding
	for i, o := range batch {
		if o.err != nil {
			failed = append(failed, in[i])
			continue
		}
		renew := time.Now().Add(renewAfter - rand.N(renewAfter/4))
		if told := s.held.wasNoted(in[i], renew); o.first && !told {
			s.tells.add(o.user, change{status: o.wish.status(), at: s.db.Now(), version: o.version})
		}
	}
	s.held.again(failed)
	return len(failed) == 0
}

// takeOut removes connections, and queues the changes of users who have none left. It reports whether Redis replied for
// all.
func (s *Service) takeOut(ctx context.Context, out []*holding) bool {
	if len(out) == 0 {
		return true
	}
	batch := make([]*closing, len(out))
	for i, h := range out {
		batch[i] = &closing{user: h.user, prefix: h.c.name()}
	}
	s.redis.close(ctx, batch)
	var failed, done []*holding
	var off []*closing
	for i, c := range batch {
		switch {
		case c.err != nil:
			failed = append(failed, out[i])
		case c.found == 0 && s.lingers(out[i]):
		default:
			done = append(done, out[i])
			if c.last {
				off = append(off, c)
			}
		}
	}
	s.held.untold(s.wentOff(off))
	s.held.again(failed)
	for _, u := range s.held.tookOut(done) {
		s.left = append(s.left, leaving{u, time.Now()})
	}
	return len(failed) == 0
}

// lingers lets a connection that Redis did not have linger once more, see [held.lingerAgain].
func (s *Service) lingers(h *holding) bool {
	lost, again := s.held.lingerAgain(h, time.Now())
	if lost {
		s.doubt.Store(true)
	}
	return again
}

// wentOff publishes that users are offline after their last connections closed, and stores the time. It returns the users.
func (s *Service) wentOff(off []*closing) []accounts.ID {
	now := s.db.Now()
	users := make([]accounts.ID, len(off))
	for i, c := range off {
		users[i] = c.user
	}
	s.lastSeen(users, now)
	for _, c := range off {
		s.tells.add(c.user, change{status: Offline, at: now, version: c.version})
	}
	return users
}

// lastSeen queues for SQL when users were last seen.
func (s *Service) lastSeen(users []accounts.ID, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range users {
		if len(s.seen) < mostLate {
			s.seen[u] = at
		}
	}
}

// writeLate writes the queued data to SQL and Redis, with each beat, until ctx ends.
func (s *Service) writeLate(ctx context.Context) {
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
		}
		for more := true; more; {
			round, cancel := context.WithTimeout(ctx, writeTime)
			more = s.writeSeen(round)
			more = s.writeWishes(round) || more
			s.publishComplete(round)
			cancel()
		}
	}
}

// publishComplete publishes presence.complete to the users who got a partial answer, once answers are complete.
func (s *Service) publishComplete(ctx context.Context) {
	s.mu.Lock()
	n := len(s.partly)
	s.mu.Unlock()
	if n == 0 {
		return
	}
	live, err := s.cfg.Nodes.Live(ctx)
	if err != nil {
		return
	}
	if complete, err := s.complete(ctx, live); err != nil || !complete {
		return
	}
	s.mu.Lock()
	users := slices.Collect(maps.Keys(s.partly))
	clear(s.partly)
	s.mu.Unlock()
	now := s.db.Now()
	for len(users) > 0 {
		some := users[:min(atOnce, len(users))]
		batch := make([]events.Event, len(some))
		for i, u := range some {
			text, _ := json.Marshal(api.UserRef{User: u.String()}) // a text
			batch[i] = events.New(api.EventPresenceComplete, u.String(), now, text)
			batch[i].Fleeting = true
		}
		if s.cfg.Bus.PublishPaced(ctx, batch) != nil {
			break
		}
		users = users[len(some):]
	}
	for _, u := range users { // with the next beat
		s.owes(u, true)
	}
}

// writeSeen writes when some users were last seen to SQL, and reports whether there may be more.
func (s *Service) writeSeen(ctx context.Context) bool {
	s.mu.Lock()
	some := make(map[accounts.ID]time.Time, min(len(s.seen), atOnce))
	for u, at := range s.seen {
		if len(some) == atOnce {
			break
		}
		some[u] = at
	}
	s.mu.Unlock()
	if len(some) == 0 || upsertSeen(ctx, s.db, some) != nil { // next time
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for u, at := range some {
		if s.seen[u].Equal(at) {
			delete(s.seen, u)
		}
	}
	return len(s.seen) > 0
}

// writeWishes writes some wishes to Redis that it may not have, and reports whether there may be more.
func (s *Service) writeWishes(ctx context.Context) bool {
	s.mu.Lock()
	some := make([]accounts.ID, 0, min(len(s.wishes), atOnce))
	for u := range s.wishes {
		if len(some) == atOnce {
			break
		}
		some = append(some, u)
		delete(s.wishes, u) // before SQL is read, because a later wish of the user is queued again
	}
	s.mu.Unlock()
	rows, err := selectRows(ctx, s.db, some)
	for _, u := range some {
		if w := rows[u].wish; err == nil && w.Version > 0 {
			var k kept
			if k, err = s.redis.wish(ctx, u, w); err == nil && k.told {
				s.tells.add(u, change{status: w.status(), at: s.db.Now(), own: true, version: k.version})
			}
		}
		if err != nil {
			s.wishLater(u)
		}
	}
	return err == nil && len(some) == atOnce
}
