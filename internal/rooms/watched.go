package rooms

import (
	"sync"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/rooms/danmaku"
	"github.com/stoa-dev/stoa/internal/rooms/playback"
)

// watched are the rooms in which somebody is by this node, or was a moment ago.
type watched struct {
	mu      sync.Mutex
	rooms   map[ID]*watch
	kept    time.Time // registers that had changed were kept in SQL
	touched time.Time // rooms were noted as active
}

// watch is a room that somebody on this node watches.
type watch struct {
	viewers map[ViewerID]*viewer
	dirty   bool       // viewers came, went, or did something
	gone    []ViewerID // since the last writing
	count   int        // viewers by all nodes
	latest  []Presence // of them, as they were counted; nil before that
	counted time.Time
	renewed time.Time // entries were written
	kept    time.Time // the count was written to Redis

	moved    bool           // the register has changed since the last checkpoint
	held     bool           // it waits for players, or this node does not know whether it does
	register playback.State // the newest register that this node has published or received, or else the first that it has given out
	unsure   bool           // Redis may have another one
	asked    int64          // stamp of the newest register that the sender of a command without a reply had seen

	ring    danmaku.Ring[api.Danmaku]
	filling chan struct{} // full while the ring is read from SQL
	filled  bool
	doubts  int    // times that the ring has come into doubt
	leave   func() // the channel
	used    time.Time
}

// viewer is somebody with connections to this node.
type viewer struct {
	connections map[string]struct{}
	active      time.Time
	seen        time.Time // recorded in SQL, if a guest
}

// of returns a room's watch; the caller holds w.mu.
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

// active notes that somebody has done something.
func (w *watched) active(id ID, user ViewerID, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.rooms[id]; r != nil && r.viewers[user] != nil {
		r.viewers[user].active = now
		r.renewed = time.Time{}
	}
}

// has reports whether somebody watches a room by this node.
func (w *watched) has(id ID, user ViewerID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.rooms[id]
	return r != nil && r.viewers[user] != nil
}

// holds notes whether a room waits for players.
func (w *watched) holds(id ID, held bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.rooms[id]; r != nil {
		r.held = held
	}
}

// changed notes that a room's register is another one than the checkpoint.
func (w *watched) changed(id ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.of(id, time.Now()).moved = true
}

// shown notes that this node has told of a room's register.
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

// newest returns the newest register of a room that this node knows; the zero one if it knows none.
func (w *watched) newest(id ID) playback.State {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.rooms[id]; r != nil {
		return r.register
	}
	return playback.State{}
}

// unsure has the next beat read a room's register, which may be newer than the one that the sender of a command claims to have seen.
func (w *watched) unsure(id ID, seen playback.State) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.of(id, time.Now())
	r.unsure, r.asked = true, max(r.asked, seen.Stamp())
}

// read notes which register somebody was given. Where it is newer than what this node has told, heard or given out before,
// the node that made it may have died before it told anybody: the next beat looks.
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

// viewers is how many watch a room; false where nobody does by this node, which therefore does not count them, or has not yet.
func (w *watched) viewers(id ID) (n int, known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.rooms[id]; r != nil {
		return r.count, len(r.viewers) > 0 && !r.kept.IsZero()
	}
	return 0, false
}

// online returns up to mostOnline of those who watch a room, as this node has counted them; nil where nobody does by this node, or it
// has not counted yet.
func (w *watched) online(id ID) []Presence {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.rooms[id]; r != nil && len(r.viewers) > 0 {
		return r.latest
	}
	return nil
}
