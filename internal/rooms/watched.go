package rooms

import (
	"sync"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/rooms/danmaku"
	"github.com/stoa-dev/stoa/internal/rooms/playback"
)

// watched are the rooms that have viewers on this node, or had some a moment ago.
type watched struct {
	mu           sync.Mutex
	rooms        map[ID]*watch
	checkpointed time.Time // time of the last checkpoints
	touched      time.Time // time of the last update of rooms' activity
}

// watch is the state of a room with viewers on this node.
type watch struct {
	viewers     map[ParticipantID]*viewer
	dirty       bool            // viewers came, left or were active
	left        []ParticipantID // viewers who left since the last write
	count       int             // viewers on all nodes
	latest      []Presence      // the viewers at the last count; nil before it
	counted     time.Time
	renewed     time.Time // time when entries were written
	countStored time.Time // time when the count was written to Redis

	needsCheckpoint bool           // the register has changed since the last checkpoint
	held            bool           // the room waits for players, or this node does not know whether it does
	register        playback.State // the newest register that this node published or received, or else the first that it returned
	needsRecheck    bool           // Redis may have another register
	senderStamp     int64          // stamp of the newest register that the sender of a command without a reply had seen

	ring          danmaku.Ring[api.Danmaku]
	filling       chan struct{} // full while the ring is loaded from SQL
	filled        bool
	invalidations int    // number of calls of invalidate
	leave         func() // leaves the channel
	used          time.Time
}

// viewer is a user or guest with connections to this node.
type viewer struct {
	connections map[string]struct{}
	active      time.Time
	seen        time.Time // time of the last update in SQL, if a guest
}

// getOrAdd returns a room's watch. The caller holds w.mu.
func (w *watched) getOrAdd(id ID, now time.Time) *watch {
	if w.rooms == nil {
		w.rooms = map[ID]*watch{}
	}
	r := w.rooms[id]
	if r == nil {
		r = &watch{viewers: map[ParticipantID]*viewer{}, filling: make(chan struct{}, 1)}
		w.rooms[id] = r
	}
	r.used = now
	return r
}

// filter returns the rooms that match accepts. match runs with the lock, and may change the watch.
func (w *watched) filter(match func(ID, *watch) bool) (list []ID) {
	w.all(func(id ID, r *watch) {
		if match(id, r) {
			list = append(list, id)
		}
	})
	return list
}

// all calls fn, with the lock, for each room.
func (w *watched) all(fn func(ID, *watch)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, r := range w.rooms {
		fn(id, r)
	}
}

// each calls fn, with the lock, for each room of list that still has a watch.
func (w *watched) each(list []ID, fn func(ID, *watch)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range list {
		if r := w.rooms[id]; r != nil {
			fn(id, r)
		}
	}
}

// startTurn reports whether some work is due, because its last turn began at least every ago. Then it sets last to now.
func (w *watched) startTurn(last *time.Time, now time.Time, every time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	due := now.Sub(*last) >= every
	if due {
		*last = now
	}
	return due
}

// add records that a connection of a viewer watches a room; active is the time of the viewer's activity.
func (w *watched) add(id ID, user ParticipantID, connection string, active time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.getOrAdd(id, time.Now())
	if len(r.viewers) == 0 {
		r.held, r.latest = true, nil // the node may have missed events until now
	}
	if r.viewers[user] == nil {
		r.viewers[user], r.dirty = &viewer{connections: map[string]struct{}{}, active: active}, true
	}
	r.viewers[user].connections[connection] = struct{}{}
}

// remove records that a connection of a viewer no longer watches a room.
func (w *watched) remove(id ID, user ParticipantID, connection string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.rooms[id]
	if r == nil || r.viewers[user] == nil {
		return
	}
	delete(r.viewers[user].connections, connection)
	if len(r.viewers[user].connections) == 0 {
		delete(r.viewers, user)
		r.left, r.dirty, r.used = append(r.left, user), true, time.Now()
	}
}

// restore makes the next beat write reports that were not written.
func (w *watched) restore(reports []viewerReport) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range reports {
		if r := w.rooms[m.room]; r != nil {
			r.dirty, r.left = true, append(r.left, m.left...)
		}
	}
}

// unseen returns the viewers whose last update in SQL is old, and records the update.
func (w *watched) unseen(now time.Time) (due []MemberKey) {
	w.all(func(id ID, r *watch) {
		for user, v := range r.viewers {
			if now.Sub(v.seen) >= guestIdle/4 {
				v.seen, due = now, append(due, MemberKey{A: id, B: user})
			}
		}
	})
	return due
}

// removeUnused deletes the state of rooms without viewers after unusedDelay.
func (w *watched) removeUnused(now time.Time) {
	var leave []func()
	w.all(func(id ID, r *watch) {
		if len(r.viewers) > 0 || r.dirty || r.needsCheckpoint || r.needsRecheck || now.Sub(r.used) < unusedDelay {
			return
		}
		delete(w.rooms, id)
		if r.leave != nil {
			leave = append(leave, r.leave)
		}
	})
	for _, f := range leave {
		f()
	}
}

// recordActivity records an activity of a viewer.
func (w *watched) recordActivity(id ID, user ParticipantID, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.rooms[id]; r != nil && r.viewers[user] != nil {
		r.viewers[user].active = now
		r.renewed = time.Time{}
	}
}

// has reports whether a viewer watches a room on this node.
func (w *watched) has(id ID, user ParticipantID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.rooms[id]
	return r != nil && r.viewers[user] != nil
}

// setHeld records whether a room waits for players.
func (w *watched) setHeld(id ID, held bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.rooms[id]; r != nil {
		r.held = held
	}
}

// markChanged records that a room's register differs from its checkpoint.
func (w *watched) markChanged(id ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.getOrAdd(id, time.Now()).needsCheckpoint = true
}

// recordPublished records that this node has published a room's register.
func (w *watched) recordPublished(id ID, state playback.State) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.getOrAdd(id, time.Now()).setRegister(state)
}

// setRegister records that a room's register has changed.
func (r *watch) setRegister(state playback.State) {
	r.needsCheckpoint = true
	if state.Newer(r.register) {
		r.register = state
	}
}

// newest returns the newest register of a room that this node has, or the zero one.
func (w *watched) newest(id ID) playback.State {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.rooms[id]; r != nil {
		return r.register
	}
	return playback.State{}
}

// requestRecheck makes the next beat read a room's register. The register may be newer than the one that the sender of
// a command claims to have seen.
func (w *watched) requestRecheck(id ID, seen playback.State) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.getOrAdd(id, time.Now())
	r.needsRecheck, r.senderStamp = true, max(r.senderStamp, seen.Stamp())
}

// recordRead records a register that was returned to a caller. If it is newer than all registers that this node
// published, received or returned before, the node that made it may have died before it published it. The next beat then
// rechecks it.
func (w *watched) recordRead(id ID, state playback.State) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.rooms[id]; r != nil {
		known := r.register != playback.State{}
		r.needsRecheck = r.needsRecheck || known && state.Newer(r.register)
		if !known {
			r.register = state
		}
	}
}

// viewers returns the number of viewers of a room. It returns false if this node has no viewer of the room, or has not
// counted yet.
func (w *watched) viewers(id ID) (n int, known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.rooms[id]; r != nil {
		return r.count, len(r.viewers) > 0 && !r.countStored.IsZero()
	}
	return 0, false
}

// online returns at most maxOnline viewers of a room, from this node's last count. It returns nil if this node has no
// viewer of the room, or has not counted yet.
func (w *watched) online(id ID) []Presence {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.rooms[id]; r != nil && len(r.viewers) > 0 {
		return r.latest
	}
	return nil
}
