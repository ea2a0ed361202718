package presence

import (
	"slices"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/cluster"
)

// localConnection is one connection to this node. localConnections.mu guards its fields, except user and conn, which
// never change.
type localConnection struct {
	user accounts.ID
	conn Connection

	closedAt        time.Time // zero: it is open
	removing        bool      // it is to be removed from Redis
	sent            bool      // Redis may have it
	stored          bool      // Redis has it
	publishedOnline bool      // the user is published as online, and not yet as offline
	lingeredAgain   bool      // Redis did not have it at its removal, see lingerAgain
	queued          bool      // it is in pending
	renewAt         time.Time // the TTL of its key is renewed then
}

// localConnections has the open connections to this node, and those that have just closed.
type localConnections struct {
	wake chan struct{} // signals that pending is not empty, or that Redis may have lost data

	mu         sync.Mutex
	lastNumber uint64 // number of the newest connection
	byID       map[string]*localConnection
	byUser     map[accounts.ID][]*localConnection
	lingering  []*localConnection // closed connections, by the time of closing
	pending    []*localConnection // to be stored in Redis or removed from it
}

func newLocalConnections() localConnections {
	return localConnections{wake: make(chan struct{}, 1), byID: map[string]*localConnection{}, byUser: map[accounts.ID][]*localConnection{}}
}

// add adds an opened connection. It ends the lingering of the user's closed connections to this node.
func (cs *localConnections) add(id string, user accounts.ID, conn Connection) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.byID[id] != nil {
		return
	}
	cs.lastNumber++
	conn.Number = cs.lastNumber
	c := &localConnection{user: user, conn: conn}
	for _, other := range cs.byUser[user] {
		c.publishedOnline = c.publishedOnline || other.publishedOnline
	}
	cs.byID[id] = c
	cs.enqueue(c) // before the removals, so that Redis always has a connection of the user
	for _, other := range cs.byUser[user] {
		if !other.closedAt.IsZero() && !other.removing {
			cs.enqueueRemoval(other)
		}
	}
	cs.byUser[user] = append(cs.byUser[user], c)
}

// close marks a connection as closed. The connection lingers, unless the user has another open one here.
func (cs *localConnections) close(id string, now time.Time) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c := cs.byID[id]
	if c == nil {
		return
	}
	delete(cs.byID, id)
	c.closedAt = now
	for _, other := range cs.byUser[c.user] {
		if other.closedAt.IsZero() {
			cs.enqueueRemoval(c)
			return
		}
	}
	cs.lingering = append(cs.lingering, c)
}

// enqueueRemoval enqueues a connection to be removed from Redis. The caller has locked mu.
func (cs *localConnections) enqueueRemoval(c *localConnection) {
	c.removing = true
	cs.enqueue(c)
}

// enqueue enqueues a connection for its next write. The caller has locked mu.
func (cs *localConnections) enqueue(c *localConnection) {
	if c.queued {
		return
	}
	c.queued = true
	cs.pending = append(cs.pending, c)
	cs.wakeUp()
}

// wakeUp wakes [Service.Run].
func (cs *localConnections) wakeUp() {
	select {
	case cs.wake <- struct{}{}:
	default:
	}
}

// endLingering enqueues the removal of connections that closed at least [linger] ago.
func (cs *localConnections) endLingering(now time.Time) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for len(cs.lingering) > 0 && now.Sub(cs.lingering[0].closedAt) >= linger {
		if c := cs.lingering[0]; !c.removing {
			cs.enqueueRemoval(c)
		}
		cs.lingering = cs.lingering[1:]
	}
}

// dequeue returns up to n connections that are to be stored, or to be removed. It deletes connections that are to be
// removed and were never sent to Redis.
func (cs *localConnections) dequeue(n int) (toStore, toRemove []*localConnection) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for len(cs.pending) > 0 && len(toStore)+len(toRemove) < n {
		c := cs.pending[0]
		cs.pending[0], cs.pending = nil, cs.pending[1:]
		c.queued = false
		switch {
		case c.removing && c.sent:
			toRemove = append(toRemove, c)
		case c.removing:
			cs.delete(c)
		case !c.stored:
			c.sent = true
			toStore = append(toStore, c)
		}
	}
	return toStore, toRemove
}

// requeue enqueues connections for a retry.
func (cs *localConnections) requeue(failed []*localConnection) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, c := range failed {
		cs.enqueue(c)
	}
}

// delete deletes a connection from memory. The caller has locked mu.
func (cs *localConnections) delete(c *localConnection) {
	rest := cs.byUser[c.user][:0:0]
	for _, other := range cs.byUser[c.user] {
		if other != c {
			rest = append(rest, other)
		}
	}
	if len(rest) == 0 {
		delete(cs.byUser, c.user)
	} else {
		cs.byUser[c.user] = rest
	}
}

// markStored records that Redis has a connection. It reports whether the user was already published as online.
func (cs *localConnections) markStored(c *localConnection, renewAt time.Time) (publishedOnline bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	publishedOnline = c.publishedOnline
	for _, other := range cs.byUser[c.user] {
		other.publishedOnline = true
	}
	c.stored, c.renewAt = true, renewAt
	return publishedOnline
}

// lingerAgain handles a connection that was to be removed and is missing in Redis. Redis may also have lost the user's
// other connections. If the connection were removed now, friends might see a false "offline". Therefore it is stored
// again, and lingers a second time. Meanwhile, the user's other lost connections are stored again. lingers is false for
// a connection that has already lingered a second time. lost reports whether Redis had the connection before.
func (cs *localConnections) lingerAgain(c *localConnection, now time.Time) (lost, lingers bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if c.lingeredAgain {
		return false, false
	}
	lost = c.stored
	c.lingeredAgain, c.removing, c.stored, c.closedAt = true, false, false, now
	cs.enqueue(c)
	cs.lingering = append(cs.lingering, c)
	return lost, true
}

// markOffline records that users are published as offline, because Redis has none of their connections. If connections
// of such a user remain here, Redis has lost them: they are stored and published again.
func (cs *localConnections) markOffline(users []accounts.ID) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, u := range users {
		for _, c := range cs.byUser[u] {
			if !c.removing {
				c.publishedOnline, c.stored = false, false
				cs.enqueue(c)
			}
		}
	}
}

// deleteRemoved deletes connections that Redis no longer has. It returns their users without another connection here.
func (cs *localConnections) deleteRemoved(removed []*localConnection) (left []accounts.ID) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, c := range removed {
		cs.delete(c)
		if len(cs.byUser[c.user]) == 0 {
			left = append(left, c.user)
		}
	}
	return left
}

// requeueAll enqueues all connections to be stored again, and returns their number. If swept is set, the users were
// published as offline.
func (cs *localConnections) requeueAll(swept bool) (n int) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, list := range cs.byUser {
		for _, c := range list {
			if c.removing {
				continue
			}
			c.stored, c.publishedOnline = false, c.publishedOnline && !swept
			cs.enqueue(c)
			n++
		}
	}
	return n
}

// enqueueStrays enqueues the removal of strays: connections to the node that Redis has and the node does not. It
// returns their number.
func (cs *localConnections) enqueueStrays(node cluster.ID, users []accounts.ID, states []userState, now time.Time) (n int) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for i, u := range users {
		for _, conn := range states[i].connections {
			if conn.Node != node || slices.ContainsFunc(cs.byUser[u], func(c *localConnection) bool { return c.conn.name() == conn.name() }) {
				continue
			}
			c := &localConnection{user: u, conn: conn, closedAt: now, sent: true, lingeredAgain: true}
			cs.byUser[u] = append(cs.byUser[u], c)
			cs.enqueueRemoval(c)
			n++
		}
	}
	return n
}

// enqueueRenewals enqueues the connections whose TTL is to be renewed.
func (cs *localConnections) enqueueRenewals(now time.Time) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, list := range cs.byUser {
		for _, c := range list {
			if c.stored && !c.removing && now.After(c.renewAt) {
				c.stored = false
				cs.enqueue(c)
			}
		}
	}
}

// ofUser returns a user's connections, including those that linger.
func (cs *localConnections) ofUser(user accounts.ID) (all []Connection) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, c := range cs.byUser[user] {
		if !c.removing {
			all = append(all, c.conn)
		}
	}
	return all
}

// hasUser reports whether the node has any connection of a user, even one that is being removed.
func (cs *localConnections) hasUser(user accounts.ID) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return len(cs.byUser[user]) > 0
}

// isOpen reports whether a user's connection is open.
func (cs *localConnections) isOpen(user accounts.ID, number uint64) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, c := range cs.byUser[user] {
		if c.conn.Number == number {
			return c.closedAt.IsZero()
		}
	}
	return false
}

// isIdle reports whether no write to Redis is pending.
func (cs *localConnections) isIdle() bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return len(cs.pending) == 0
}

// count returns the number of open connections.
func (cs *localConnections) count() int {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return len(cs.byID)
}
