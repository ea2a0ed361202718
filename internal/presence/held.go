package presence

import (
	"slices"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/cluster"
)

// holding is one connection of this node. Its fields are guarded by held.mu, but for those
// that never change: user and c.
type holding struct {
	user accounts.ID
	c    Connection

	closed time.Time // when it was closed; zero: it is open
	gone   bool      // it is to be taken out of Redis
	sent   bool      // Redis may have it
	noted  bool      // Redis has it
	told   bool      // the friends know that the user is on line
	missed bool      // it was to be taken out, and was not there
	queued bool
	renew  time.Time // when its key's life is to begin anew
}

// held are the connections of this node, and those that were closed a moment ago.
type held struct {
	wake chan struct{} // says that todo is not empty, or that Redis may have lost something

	mu        sync.Mutex
	last      uint64 // number of the newest connection
	byID      map[string]*holding
	byUser    map[accounts.ID][]*holding
	lingering []*holding // closed, by the time of closing
	todo      []*holding // to be noted or to be taken out
}

func newHeld() held {
	return held{wake: make(chan struct{}, 1), byID: map[string]*holding{}, byUser: map[accounts.ID][]*holding{}}
}

// add notes that a connection was opened. Those of the user that linger here need not do
// so any longer.
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
	hs.queue(h) // before those that go: the user is on line throughout
	for _, other := range hs.byUser[user] {
		if !other.closed.IsZero() && !other.gone { // one that is gone is on its way out
			hs.dismiss(other)
		}
	}
	hs.byUser[user] = append(hs.byUser[user], h)
}

// remove notes that a connection was closed. It lingers, unless the user has another one.
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

// dismiss has a connection taken out. The caller holds mu.
func (hs *held) dismiss(h *holding) {
	h.gone = true
	hs.queue(h)
}

// queue has a connection be seen to. The caller holds mu.
func (hs *held) queue(h *holding) {
	if h.queued {
		return
	}
	h.queued = true
	hs.todo = append(hs.todo, h)
	hs.wakeUp()
}

// wakeUp has Run check what is to do.
func (hs *held) wakeUp() {
	select {
	case hs.wake <- struct{}{}:
	default:
	}
}

// due dismisses connections that have lingered for long enough.
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

// take returns up to n connections that are to be noted, and that are to be taken out,
// which Redis may have. The rest of these is forgotten.
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

// again has connections be seen to once more.
func (hs *held) again(some []*holding) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	for _, h := range some {
		hs.queue(h)
	}
}

// forget forgets a connection. The caller holds mu.
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

// wasNoted notes that Redis has a connection, and reports whether the friends knew already
// that the user is on line.
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

// lingerAgain has a connection that was to be taken out, and was not there, be noted and
// wait once more: others of the user that Redis has lost are put back meanwhile. It reports
// false for one that has waited already; lost, that Redis had the connection.
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

// untold notes that friends are told that users are off line, because Redis has none of
// their connections. What there still is here, it has lost: that is noted anew, and told.
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

// tookOut forgets connections that Redis has not any more, and returns the users of whom
// none is left here.
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

// putBack has all connections noted anew. With swept the friends were told that their users are off
// line.
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

// dismissStrays has connections of a node be taken out that Redis has of users, and the node has not. It returns how many they are.
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

// renewDue has those connections noted anew whose keys have lived for long.
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

// of returns a user's connections, those that linger, too.
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

// holds reports whether there is anything of a user here, be it on its way out.
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

// idle reports whether all connections are in Redis, and none waits to be taken out.
func (hs *held) idle() bool {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	return len(hs.todo) == 0
}

// count is how many connections are open.
func (hs *held) count() int {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	return len(hs.byID)
}
