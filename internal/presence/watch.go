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
	// linger is how long a closed connection still counts. A user who returns within this time was never offline.
	// Entries of a dead node are removed after the same time; they stop counting when its lease ends.
	linger = 5 * time.Second
	// beatEvery is the time between two checks of a node's connections in Redis. It may delay the removal of a
	// lingering connection.
	beatEvery = time.Second
	// batchSize is the largest number of connections that one round trip writes to Redis.
	batchSize = 500
	// writeTimeout bounds such a round trip.
	writeTimeout = 2 * time.Second
	// renewAfter is the time between two renewals of a connection's key. Up to a quarter is subtracted at random, so
	// that the renewals are spread over time.
	renewAfter = 8 * time.Hour
	// nodeSetDelay is how long a user without connections stays in the node's set in Redis. A failover may restore a
	// removed connection within this time. The node finds it, because it checks the users of its set.
	nodeSetDelay = time.Minute
)

// departure is a user whose last connection to this node was removed.
type departure struct {
	user accounts.ID
	at   time.Time
}

// Watch records the connections of one kind to this node. Its methods do not wait for Redis or SQL.
type Watch struct {
	s    *Service
	kind Kind
}

// Watch returns a recorder for connections of a kind.
func (s *Service) Watch(kind Kind) *Watch { return &Watch{s, kind} }

// Opened records that a user's device has opened a connection. Its name must be unique on this node.
func (w *Watch) Opened(user, device, connection string) {
	u, err := ids.Parse[accounts.User](user)
	d, derr := ids.Parse[accounts.Session](device)
	if err != nil || derr != nil {
		w.s.log.Error("presence: connection with a malformed user or device id not counted", "user", user, "device", device)
		return
	}
	w.s.local.add(w.name(connection), u, Connection{Node: w.s.cfg.Node, Kind: w.kind, Device: d, Since: w.s.db.Now()})
}

// Closed records that a connection has closed.
func (w *Watch) Closed(connection string) { w.s.local.close(w.name(connection), time.Now()) }

func (w *Watch) name(connection string) string { return string(w.kind) + connection }

// Run writes the connections of this node to Redis, and publishes changes to friends, until ctx ends. It does not delete
// the node's data in Redis at its end: the other nodes detect that this one is gone, and sweep it.
func (s *Service) Run(ctx context.Context, ready func()) error {
	ready()
	s.markComplete(ctx) // before the first connection, because responses of other nodes are partial until then
	var parts sync.WaitGroup
	defer parts.Wait()
	parts.Go(func() { s.publishChanges(ctx) })
	parts.Go(func() { s.writePending(ctx) })
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-beat.C:
			s.beat(ctx)
		case <-s.local.wake:
			if s.lossSuspected.Load() && time.Since(s.lastBeat) >= beatEvery { // responses are partial until then
				s.beat(ctx)
			}
		}
		for s.writeBatch(ctx) {
		}
		s.markComplete(ctx)
	}
}

// markComplete marks this node's connections as complete, once all of them are written.
func (s *Service) markComplete(ctx context.Context) {
	if s.markedComplete || !s.local.isIdle() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if !s.hasMark && !s.markWriting(ctx) {
		return
	}
	s.markedComplete, _ = s.redis.markComplete(ctx, s.cfg.Node) // the next beat detects a lost mark
}

// beat checks whether Redis still has the connections of this node, and does the work that is due.
func (s *Service) beat(ctx context.Context) {
	if s.mayHaveStrays { // set in an earlier beat, so Redis already has the connections that were stored again
		s.mayHaveStrays = s.findStrays(ctx) != nil
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	now := time.Now()
	s.lastBeat = now
	s.local.endLingering(now)
	s.removeDeparted(ctx, now)
	if now.Sub(s.lastRenewal) > time.Minute {
		s.lastRenewal = now
		s.local.enqueueRenewals(now)
	}
	if _, err := s.cfg.Nodes.Live(ctx); err != nil {
		s.peers.restart()
	}
	if !s.hasMark {
		s.lossSuspected.Store(false) // Redis had no connections to lose
		return
	}
	ownMark, err := s.redis.readMark(ctx, s.cfg.Node)
	if err != nil {
		return // Redis is unavailable, so the state is unknown
	}
	swept := !ownMark.swept.IsZero()
	if swept {
		if live, err := s.cfg.Nodes.Live(ctx); err != nil || live[s.cfg.Node].IsZero() {
			return // until other nodes see this one as live, they would sweep the connections again
		}
	}
	lossSuspected := s.lossSuspected.Swap(false)
	if ownMark.exists && !swept && !lossSuspected {
		return
	}
	s.hasMark, s.markedComplete, s.mayHaveStrays = false, false, true
	if n := s.local.requeueAll(swept); n > 0 {
		s.metrics.restored.Add(float64(n))
		s.log.Info("presence: storing all connections again", "connections", n, "swept", swept, "lost", !ownMark.exists)
	}
}

// findStrays enqueues the removal of connections to this node that Redis has and the node does not. They appear if
// Redis returns to an older state, or runs a command late.
func (s *Service) findStrays(ctx context.Context) error {
	n := 0
	for cursor, more := "0", true; more; more = cursor != "0" {
		pageCtx, cancel := context.WithTimeout(ctx, writeTimeout)
		users, next, err := s.redis.scanNodeUsers(pageCtx, s.cfg.Node, cursor)
		var states []userState
		if err == nil && len(users) > 0 {
			states, err = s.redis.read(pageCtx, users)
		}
		cancel()
		if err != nil {
			return err
		}
		n += s.local.enqueueStrays(s.cfg.Node, users, states, time.Now())
		cursor = next
	}
	if n > 0 {
		s.log.Info("presence: removing closed connections that Redis has again", "connections", n)
	}
	return nil
}

// removeDeparted removes users from this node's set in Redis, [nodeSetDelay] after their last connection.
func (s *Service) removeDeparted(ctx context.Context, now time.Time) {
	var users []accounts.ID
	for len(s.departures) > 0 && now.Sub(s.departures[0].at) >= nodeSetDelay {
		if u := s.departures[0].user; !s.local.hasUser(u) {
			users = append(users, u)
		}
		s.departures = s.departures[1:]
	}
	for chunk := range slices.Chunk(users, batchSize) {
		if err := s.redis.removeNodeUsers(ctx, s.cfg.Node, chunk); err != nil {
			s.log.Debug("presence: departed users not removed from the node's set", "err", err)
		}
	}
}

// writeBatch stores a batch of connections in Redis, or removes them. It returns true if it succeeded and more may be
// pending.
func (s *Service) writeBatch(ctx context.Context) bool {
	toStore, toRemove := s.local.dequeue(batchSize)
	if len(toStore)+len(toRemove) == 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if !s.hasMark && !s.markWriting(ctx) {
		s.local.requeue(toStore)
		s.local.requeue(toRemove)
		return s.pause()
	}
	succeeded := s.storeConnections(ctx, toStore)
	succeeded = s.removeConnections(ctx, toRemove) && succeeded
	return succeeded || s.pause()
}

// markWriting marks this node as one that writes its connections, and reports whether Redis has the mark.
func (s *Service) markWriting(ctx context.Context) bool {
	s.lossSuspected.Store(false) // an earlier loss does not affect the writes that follow
	s.hasMark = s.redis.setMark(ctx, s.cfg.Node, time.Time{}) == nil
	return s.hasMark
}

// pause removes the wake signal, so that Run retries at the next beat. It returns false.
func (s *Service) pause() bool {
	select {
	case <-s.local.wake:
	default:
	}
	return false
}

// storeConnections stores connections, and enqueues the changes of users who had none. It reports whether Redis stored
// all.
func (s *Service) storeConnections(ctx context.Context, toStore []*localConnection) bool {
	if len(toStore) == 0 {
		return true
	}
	users := make([]accounts.ID, len(toStore))
	for i, c := range toStore {
		users[i] = c.user
	}
	readCtx, cancel := context.WithTimeout(ctx, readTimeout)
	rows, err := selectRows(readCtx, s.db, users)
	cancel()
	if err != nil { // the users are online even without their wishes
		for _, u := range users {
			s.queueWish(u)
		}
	}
	batch := make([]*openRequest, len(toStore))
	for i, c := range toStore {
		batch[i] = &openRequest{user: c.user, conn: c.conn, wish: rows[c.user].wish}
	}
	s.redis.open(ctx, s.cfg.Node, batch)
	var failed []*localConnection
	for i, o := range batch {
		if o.err != nil {
			failed = append(failed, toStore[i])
			continue
		}
		renewAt := time.Now().Add(renewAfter - rand.N(renewAfter/4))
		if alreadyPublished := s.local.markStored(toStore[i], renewAt); o.first && !alreadyPublished {
			s.changes.add(o.user, change{status: o.wish.status(), at: s.db.Now(), version: o.version})
		}
	}
	s.local.requeue(failed)
	return len(failed) == 0
}

// removeConnections removes connections, and enqueues the changes of users who have none left. It reports whether Redis
// replied to all commands.
func (s *Service) removeConnections(ctx context.Context, toRemove []*localConnection) bool {
	if len(toRemove) == 0 {
		return true
	}
	batch := make([]*closeRequest, len(toRemove))
	for i, c := range toRemove {
		batch[i] = &closeRequest{user: c.user, prefix: c.conn.name()}
	}
	s.redis.close(ctx, batch)
	var failed, removed []*localConnection
	var offline []*closeRequest
	for i, c := range batch {
		switch {
		case c.err != nil:
			failed = append(failed, toRemove[i])
		case c.found == 0 && s.lingerAgain(toRemove[i]):
		default:
			removed = append(removed, toRemove[i])
			if c.last {
				offline = append(offline, c)
			}
		}
	}
	s.local.markOffline(s.enqueueOffline(offline))
	s.local.requeue(failed)
	for _, u := range s.local.deleteRemoved(removed) {
		s.departures = append(s.departures, departure{u, time.Now()})
	}
	return len(failed) == 0
}

// lingerAgain handles a connection that Redis did not have at its removal, see [localConnections.lingerAgain].
func (s *Service) lingerAgain(c *localConnection) bool {
	lost, lingers := s.local.lingerAgain(c, time.Now())
	if lost {
		s.lossSuspected.Store(true)
	}
	return lingers
}

// enqueueOffline enqueues the change to offline of users whose last connections closed, and the time. It returns the
// users.
func (s *Service) enqueueOffline(closed []*closeRequest) []accounts.ID {
	now := s.db.Now()
	users := make([]accounts.ID, len(closed))
	for i, c := range closed {
		users[i] = c.user
	}
	s.queueLastSeen(users, now)
	for _, c := range closed {
		s.changes.add(c.user, change{status: Offline, at: now, version: c.version})
	}
	return users
}

// queueLastSeen enqueues when users were last seen, for SQL.
func (s *Service) queueLastSeen(users []accounts.ID, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range users {
		if len(s.pendingLastSeen) < maxPending {
			s.pendingLastSeen[u] = at
		}
	}
}

// writePending writes the pending data to SQL and Redis, with each beat, until ctx ends.
func (s *Service) writePending(ctx context.Context) {
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
		}
		for more := true; more; {
			roundCtx, cancel := context.WithTimeout(ctx, writeTimeout)
			more = s.writeLastSeen(roundCtx)
			more = s.writeWishes(roundCtx) || more
			s.publishComplete(roundCtx)
			cancel()
		}
	}
}

// publishComplete publishes presence.complete to the users who got a partial response, once responses are complete.
func (s *Service) publishComplete(ctx context.Context) {
	s.mu.Lock()
	n := len(s.partialReaders)
	s.mu.Unlock()
	if n == 0 {
		return
	}
	live, err := s.cfg.Nodes.Live(ctx)
	if err != nil {
		return
	}
	if complete, err := s.isComplete(ctx, live); err != nil || !complete {
		return
	}
	s.mu.Lock()
	users := slices.Collect(maps.Keys(s.partialReaders))
	clear(s.partialReaders)
	s.mu.Unlock()
	now := s.db.Now()
	for len(users) > 0 {
		chunk := users[:min(batchSize, len(users))]
		batch := make([]events.Event, len(chunk))
		for i, u := range chunk {
			data, _ := json.Marshal(api.UserRef{User: u.String()}) // cannot fail
			batch[i] = events.New(api.EventPresenceComplete, u.String(), now, data)
			batch[i].Fleeting = true
		}
		if s.cfg.Bus.PublishPaced(ctx, batch) != nil {
			break
		}
		users = users[len(chunk):]
	}
	for _, u := range users { // with the next beat
		s.recordPartial(u, true)
	}
}

// writeLastSeen writes a chunk of last-seen times to SQL, and reports whether more are pending.
func (s *Service) writeLastSeen(ctx context.Context) bool {
	s.mu.Lock()
	chunk := make(map[accounts.ID]time.Time, min(len(s.pendingLastSeen), batchSize))
	for u, at := range s.pendingLastSeen {
		if len(chunk) == batchSize {
			break
		}
		chunk[u] = at
	}
	s.mu.Unlock()
	if len(chunk) == 0 || upsertLastSeen(ctx, s.db, chunk) != nil { // the next beat retries
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for u, at := range chunk {
		if s.pendingLastSeen[u].Equal(at) {
			delete(s.pendingLastSeen, u)
		}
	}
	return len(s.pendingLastSeen) > 0
}

// writeWishes writes a chunk of the pending wishes to Redis, and reports whether more may be pending.
func (s *Service) writeWishes(ctx context.Context) bool {
	s.mu.Lock()
	chunk := make([]accounts.ID, 0, min(len(s.pendingWishes), batchSize))
	for u := range s.pendingWishes {
		if len(chunk) == batchSize {
			break
		}
		chunk = append(chunk, u)
		delete(s.pendingWishes, u) // before the read, so that a later wish of the user is enqueued again
	}
	s.mu.Unlock()
	rows, err := selectRows(ctx, s.db, chunk)
	for _, u := range chunk {
		if w := rows[u].wish; err == nil && w.Version > 0 {
			var st userState
			if st, err = s.redis.storeWish(ctx, u, w); err == nil && st.publishedOnline {
				s.changes.add(u, change{status: w.status(), at: s.db.Now(), own: true, version: st.version})
			}
		}
		if err != nil {
			s.queueWish(u)
		}
	}
	return err == nil && len(chunk) == batchSize
}
