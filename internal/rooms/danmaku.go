package rooms

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/rooms/danmaku"
)

// loadWatched loads the danmaku of rooms with viewers into memory, for viewers who join.
func (s *Service) loadWatched(ctx context.Context) {
	for _, id := range s.watched.filter(func(_ ID, r *watch) bool { return len(r.viewers) > 0 && (r.leave == nil || !r.filled) }) {
		if _, err := s.recentDanmaku(ctx, id); err != nil {
			s.log.Debug("rooms: danmaku not read", "room", id, "err", err)
		}
	}
}

// recentDanmaku returns the danmaku of the last ten seconds in a room. Earlier danmaku are loaded from SQL. From then
// on, this node listens to the room's channel, until it has had no viewer of the room for a minute.
func (s *Service) recentDanmaku(ctx context.Context, id ID) ([]api.Danmaku, error) {
	r, recent, ready := s.watched.danmaku(id, s.Clock())
	if ready {
		return recent, nil
	}
	select {
	case r.filling <- struct{}{}:
	case <-ctx.Done(): // another caller fills the ring and waits for SQL
		return nil, asKind(ctx, ctx.Err())
	}
	defer func() { <-r.filling }()
	if r.leave == nil {
		_, leave := s.cfg.Bus.Listen(ctx, api.RoomChannel(id.String()), &events.Listener{
			Event: func(e events.Event, _ events.Position) { s.watched.applyEvent(r, e) },
			Lost:  func() { s.watched.eventsLost(r) },
		})
		s.watched.setLeave(r, leave)
	}
	for {
		now := s.Clock()
		recent, invalidations, filled := s.watched.ringOf(r, now)
		if filled {
			return recent, nil
		}
		stored, err := latestComments(ctx, s.db, id, now-danmaku.Life, danmaku.MaxComments)
		if err != nil {
			return nil, asKind(ctx, err)
		}
		s.watched.fill(r, id, stored, now, invalidations)
	}
}

// fill puts the rows that SQL returned, latest first, before the danmaku that this node received and the rows lack.
// queriedAt is a time before the query, and invalidations is the value of r.invalidations then. If it has changed, the
// rows are too old and fill does nothing.
func (w *watched) fill(r *watch, id ID, stored []Comment, queriedAt int64, invalidations int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.invalidations != invalidations {
		return
	}
	var all danmaku.Ring[api.Danmaku]
	isStored := map[string]bool{}
	for _, c := range slices.Backward(stored) {
		all.Add(c.At, c.wire(id))
		isStored[c.ID.String()] = true
	}
	for _, d := range r.ring.Recent(queriedAt) {
		if !isStored[d.ID] { // it arrived during the query
			all.Add(d.At.UnixMilli(), d)
		}
	}
	r.ring, r.filled = all, true
}

// danmaku returns a room's watch, its danmaku of the last ten seconds, and whether they are complete.
func (w *watched) danmaku(id ID, now int64) (r *watch, recent []api.Danmaku, complete bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r = w.getOrAdd(id, time.Now())
	return r, r.ring.Recent(now), r.filled && r.leave != nil
}

// ringOf returns the danmaku of the last ten seconds in the ring of r, the number of calls of invalidate, and whether
// the ring is filled.
func (w *watched) ringOf(r *watch, now int64) (recent []api.Danmaku, invalidations int, filled bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return r.ring.Recent(now), r.invalidations, r.filled
}

// setLeave records the function that leaves the room's channel.
func (w *watched) setLeave(r *watch, leave func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.leave = leave
}

// invalidate empties the ring so that it is loaded again, because an event may be missing or rows were deleted.
func (r *watch) invalidate() {
	r.ring.Clear()
	r.filled = false
	r.invalidations++
}

// applyEvent applies an event of a room to this node's memory.
func (w *watched) applyEvent(r *watch, e events.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch e.Type {
	case api.EventRoomDanmaku:
		var d api.Danmaku
		if json.Unmarshal(e.Data, &d) == nil {
			r.ring.Add(d.At.UnixMilli(), d)
		}
	case api.EventRoomDanmakuCleared:
		r.invalidate()
	case api.EventRoomPlayback:
		var p api.Playback
		if json.Unmarshal(e.Data, &p) == nil {
			r.held = p.Held
			r.setRegister(stateOf(p)) // in case the node that changed it dies
		}
	case api.EventRoomViewers:
		var v api.RoomViewers
		if json.Unmarshal(e.Data, &v) == nil && r.count != v.Viewers {
			r.count, r.counted = v.Viewers, time.Time{} // clients that get this event may ask for the list of viewers
		}
	}
}

// eventsLost handles missing events of a room. The next beat loads its danmaku again, and checks its hold and its
// register in Redis. It also writes and counts the room's viewers again.
func (w *watched) eventsLost(r *watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.invalidate()
	r.held, r.needsRecheck, r.dirty = true, true, true
}
