package presence

import (
	"slices"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/cluster"
)

// holding is one connection of this node. held.mu guards its fields, except user and c, which never change.
type holding struct {
	user accounts.ID
	c    Connection

	closed time.Time // time of closing; zero: it is open
	gone   bool      // to be removed from Redis
	sent   bool      // Redis may have it
	noted  bool      // Redis has it
	told   bool      // the friends see the user as online
	missed bool      // it was to be removed, and was not there
	queued bool
	renew  time.Time // when its TTL is to be renewed
}

// held has the connections of this node, and those that have just closed.
type held struct {
	wake chan struct{} // signals that todo is not empty, or that Redis may have lost data

	mu        sync.Mutex
	last      uint64 // number of the newest connection
	byID      map[string]*holding
	byUser    map[accounts.ID][]*holding
	lingering []*holding // closed, by the time of closing
	todo      []*holding // to be stored in Redis or to be removed
}

func newHeld() held {
	return held{wake: make(chan struct{}, 1), byID: map[string]*holding{}, byUser: map[accounts.ID][]*holding{}}
}

// add adds an opened connection. The user's lingering connections on this node no longer need to linger.
func (hs *held) add(id string, user accounts.ID, c Connection) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if hs.byID[id] != nil {
		return
	}
	hs.last++
	c.Number = hs.last
	h := &holding{user: user, c: c}
	for _, other := range hs.byUser[user] {
		h.told = h.told || other.told
	}
	hs.byID[id] = h
	hs.queue(h) // before the removals, so that the user stays online
	for _, other := range hs.byUser[user] {
		if !other.closed.IsZero() && !other.gone { // one that is gone is already being removed
			hs.dismiss(other)
		}
	}
	hs.byUser[user] = append(hs.byUser[user], h)
}

// remove marks a connection as closed. It lingers, unless the user has another one.
func (hs *held) remove(id string, now time.Time) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	h := hs.byID[id]
	if h == nil {
		return
	}
	delete(hs.byID, id)
	h.closed = now
	for _, other := range hs.byUser[h.user] {
		if other.closed.IsZero() {
			hs.dismiss(h)
			return
		}
	}
	hs.lingering = append(hs.lingering, h)
}

// dismiss queues a connection for removal. The caller holds mu.
func (hs *held) dismiss(h *holding) {
	h.gone = true
	hs.queue(h)
}

// queue queues a connection for its next write. The caller holds mu.
func (hs *held) queue(h *holding) {
	if h.queued {
		return
	}
	h.queued = true
	hs.todo = append(hs.todo, h)
	hs.wakeUp()
}

// wakeUp wakes Run.
func (hs *held) wakeUp() {
	select {
	case hs.wake <- struct{}{}:
	default:
	}
}

// due dismisses the connections that have lingered long enough.
func (hs *held) due(now time.Time) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	for len(hs.lingering) > 0 && now.Sub(hs.lingering[0].closed) >= linger {
		if h := hs.lingering[0]; !h.gone {
			hs.dismiss(h)
		}
		hs.lingering = hs.lingering[1:]
	}
}

// take returns up to n connections: those to be stored, and those to be removed that Redis may have. It forgets the
// other removals.
func (hs *held) take(n int) (in, out []*holding) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	for len(hs.todo) > 0 && len(in)+len(out) < n {
		h := hs.todo[0]
		hs.todo[0], hs.todo = nil, hs.todo[1:]
		h.queued = false
		switch {
		case h.gone && h.sent:
			out = append(out, h)
		case h.gone:
			hs.forget(h)
		case !h.noted:
			h.sent = true
			in = append(in, h)
		}
	}
	return in, out
}

// again queues connections for a retry.
func (hs *held) again(some []*holding) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	for _, h := range some {
		hs.queue(h)
	}
}

// forget deletes a connection from memory. The caller holds mu.
func (hs *held) forget(h *holding) {
	rest := hs.byUser[h.user][:0:0]
	for _, other := range hs.byUser[h.user] {
		if other != h {
			rest = append(rest, other)
		}
	}
	if len(rest) == 0 {
		delete(hs.byUser, h.user)
	} else {
		hs.byUser[h.user] = rest
	}
}

// wasNoted records that Redis has a connection, and reports whether the friends already saw the user as online.
func (hs *held) wasNoted(h *holding, renew time.Time) (told bool) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	told = h.told
	for _, other := range hs.byUser[h.user] {
		other.told = true
	}
	h.noted, h.renew = true, renew
	return told
}

// lingerAgain stores a connection again that was to be removed and was missing in Redis, and lets it linger once more.
// Meanwhile, the user's other lost connections are stored again. again is false if the connection has already waited.
// lost reports whether Redis had the connection.
func (hs *held) lingerAgain(h *holding, now time.Time) (lost, again bool) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if h.missed {
		return false, false
	}
	lost = h.noted
	h.missed, h.gone, h.noted, h.closed = true, false, false, now
	hs.queue(h)
	hs.lingering = append(hs.lingering, h)
	return lost, true
}

// untold records that users are published as offline, because Redis has none of their connections. Redis has lost those
// that remain here, so they are stored and published again.
func (hs *held) untold(users []accounts.ID) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	for _, u := range users {
		for _, h := range hs.byUser[u] {
			if !h.gone {
				h.told, h.noted = false, false
				hs.queue(h)
			}
		}
	}
}

// tookOut forgets connections that Redis no longer has, and returns the users without any other connection here.
func (hs *held) tookOut(some []*holding) (left []accounts.ID) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	for _, h := range some {
		hs.forget(h)
		if len(hs.byUser[h.user]) == 0 {
			left = append(left, h.user)
		}
	}
	return left
}

// putBack queues all connections to be stored again. With swept, the users were published as offline.
func (hs *held) putBack(swept bool) (n int) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	for _, all := range hs.byUser {
		for _, h := range all {
			if h.gone {
				continue
			}
			h.noted, h.told = false, h.told && !swept
			hs.queue(h)
			n++
		}
	}
	return n
}

// dismissStrays removes connections of a node that Redis has for users and the node does not. It returns their number.
func (hs *held) dismissStrays(node cluster.ID, users []accounts.ID, all []kept, now time.Time) (n int) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	for i, u := range users {
		for _, c := range all[i].connections {
			if c.Node != node || slices.ContainsFunc(hs.byUser[u], func(h *holding) bool { return h.c.name() == c.name() }) {
				continue
			}
			h := &holding{user: u, c: c, closed: now, sent: true, missed: true}
			hs.byUser[u] = append(hs.byUser[u], h)
			hs.dismiss(h)
			n++
		}
	}
	return n
}

// renewDue queues the connections whose TTL is to be renewed.
func (hs *held) renewDue(now time.Time) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	for _, all := range hs.byUser {
		for _, h := range all {
			if h.noted && !h.gone && now.After(h.renew) {
				h.noted = false
				hs.queue(h)
			}
		}
	}
}

// of returns a user's connections, including those that linger.
func (hs *held) of(user accounts.ID) (all []Connection) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	for _, h := range hs.byUser[user] {
		if !h.gone {
			all = append(all, h.c)
		}
	}
	return all
}

// holds reports whether the node has any connection of a user, even one that is being removed.
func (hs *held) holds(user accounts.ID) bool {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	return len(hs.byUser[user]) > 0
}

// open reports whether a user's connection is open.
func (hs *held) open(user accounts.ID, number uint64) bool {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	for _, h := range hs.byUser[user] {
		if h.c.Number == number {
			return h.closed.IsZero()
		}
	}
	return false
}

// idle reports whether all connections are in Redis, and no removal is queued.
func (hs *held) idle() bool {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	return len(hs.todo) == 0
}

// count returns the number of open connections.
func (hs *held) count() int {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	return len(hs.byID)
}
