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
	mu      sync.Mutex
	rooms   map[ID]*watch
	kept    time.Time // time of the last checkpoints
	touched time.Time // time of the last update of rooms' activity
}

// watch is the state of a room with viewers on this node.
type watch struct {
	viewers map[ViewerID]*viewer
	dirty   bool       // viewers came, left or were active
	gone    []ViewerID // viewers who left since the last write
	count   int        // viewers on all nodes
	latest  []Presence // the viewers at the last count; nil before it
	counted time.Time
	renewed time.Time // time when entries were written
	kept    time.Time // time when the count was written to Redis

	moved    bool           // the register has changed since the last checkpoint
	held     bool           // the room waits for players, or this node does not know whether it does
	register playback.State // the newest register that this node published or received, or else the first that it returned
	unsure   bool           // Redis may have another register
	asked    int64          // stamp of the newest register that the sender of a command without a reply had seen

	ring    danmaku.Ring[api.Danmaku]
	filling chan struct{} // full while the ring is loaded from SQL
	filled  bool
	doubts  int    // number of calls of doubt
	leave   func() // leaves the channel
	used    time.Time
}

// viewer is a user or guest with connections to this node.
type viewer struct {
	connections map[string]struct{}
	active      time.Time
	seen        time.Time // time of the last update in SQL, if a guest
}

// of returns a room's watch. The caller holds w.mu.
func (w *watched) of(id ID, now time.Time) *watch {
	if w.rooms == nil {
		w.rooms = map[ID]*watch{}
	}
	r := w.rooms[id]
	if r == nil {
		r = &watch{viewers: map[ViewerID]*viewer{}, filling: make(chan struct{}, 1)}
		w.rooms[id] = r
	}
	r.used = now
	return r
}

// active records an activity of a viewer.
func (w *watched) active(id ID, user ViewerID, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.rooms[id]; r != nil && r.viewers[user] != nil {
		r.viewers[user].active = now
		r.renewed = time.Time{}
	}
}

// has reports whether a viewer watches a room on this node.
func (w *watched) has(id ID, user ViewerID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.rooms[id]
	return r != nil && r.viewers[user] != nil
}

// holds records whether a room waits for players.
func (w *watched) holds(id ID, held bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.rooms[id]; r != nil {
		r.held = held
	}
}

// changed records that a room's register differs from its checkpoint.
func (w *watched) changed(id ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.of(id, time.Now()).moved = true
}

// shown records that this node has published a room's register.
func (w *watched) shown(id ID, state playback.State) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.of(id, time.Now()).moves(state)
}

// moves records that a room's register has changed.
func (r *watch) moves(state playback.State) {
	r.moved = true
	if state.Newer(r.register) {
		r.register = state
	}
}

// newest returns the newest register of a room that this node knows, or the zero one.
func (w *watched) newest(id ID) playback.State {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.rooms[id]; r != nil {
		return r.register
	}
	return playback.State{}
}

// unsure makes the next beat read a room's register. The register may be newer than the one that the sender of a
// command claims to have seen.
func (w *watched) unsure(id ID, seen playback.State) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.of(id, time.Now())
	r.unsure, r.asked = true, max(r.asked, seen.Stamp())
}

// read records a register that was returned to a caller. If it is newer than all registers that this node published,
// received or returned before, its node may have died before publishing it. The next beat then checks.
func (w *watched) read(id ID, state playback.State) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.rooms[id]; r != nil {
		known := r.register != playback.State{}
		r.unsure = r.unsure || known && state.Newer(r.register)
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
		return r.count, len(r.viewers) > 0 && !r.kept.IsZero()
	}
	return 0, false
}

// online returns at most mostOnline viewers of a room, from this node's last count. It returns nil if this node has no
// viewer of the room, or has not counted yet.
func (w *watched) online(id ID) []Presence {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.rooms[id]; r != nil && len(r.viewers) > 0 {
		return r.latest
	}
	return nil
}
