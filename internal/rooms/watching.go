package rooms

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/foundation/errs"
	"github.com/stoa-dev/stoa/internal/foundation/events"
	"github.com/stoa-dev/stoa/internal/foundation/ids"
	"github.com/stoa-dev/stoa/internal/rooms/danmaku"
	"github.com/stoa-dev/stoa/internal/rooms/playback"
)

const (
	// beatEvery is how often a node looks what is to be done.
	beatEvery = time.Second
	// countEvery is how often viewers are counted where nothing is known to have happened: a node may have died.
	countEvery = 2 * time.Second
	// renewEvery is how often entries and counts are written anew.
	renewEvery = 30 * time.Second
	// checkpointEvery is how often registers that have changed are kept in SQL.
	checkpointEvery = 30 * time.Second
	// touchEvery is how often a room that is watched is noted as active.
	touchEvery = time.Minute
	// lingerFor is how long the danmaku of a room is followed in which nobody is.
	lingerFor = time.Minute
	// roundTime is how long what a beat does may take.
	roundTime = 5 * time.Second
	// followTime is how much of that may be for SQL to say what flies: who watches is for Redis alone.
	followTime = time.Second
	// countTime is how long an answer may wait for the number of viewers.
	countTime = 500 * time.Millisecond
	// mostOnline is how many viewers are named.
	mostOnline = 200
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

	moved  bool  // the register has changed since the last checkpoint
	held   bool  // it waits for players, or this node does not know whether it does
	stamp  int64 // of the newest register that this node has told or heard of, or else of the first that it has given out
	unsure bool  // Redis may have another one

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
	r := w.of(id, time.Now())
	r.moved, r.stamp = true, max(r.stamp, state.Stamp())
}

// unsure has the next beat look at a room's register, which may be newer than one that was seen.
func (w *watched) unsure(id ID, seen playback.State) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.of(id, time.Now())
	r.unsure, r.stamp = true, max(r.stamp, seen.Stamp())
}

// read notes which register somebody was given. Where it is newer than what this node has told, heard or given out before,
// the node that made it may have died before it told anybody: the next beat looks.
func (w *watched) read(id ID, state playback.State) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.rooms[id]; r != nil {
		r.unsure = r.unsure || r.stamp != 0 && r.stamp < state.Stamp()
		r.stamp = cmp.Or(r.stamp, state.Stamp())
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

// roomOf returns the room of a channel.
func roomOf(channel string) (ID, bool) {
	name, ok := strings.CutPrefix(channel, api.RoomChannel(""))
	id, err := ids.Parse[Room](name)
	return id, ok && err == nil
}

// Owns reports whether a channel is one of rooms.
func Owns(channel string) bool { return strings.HasPrefix(channel, api.RoomChannel("")) }

// MaySubscribe refuses somebody who may not have the events of a room's channel. ErrRoom, ErrStore.
func (s *Service) MaySubscribe(ctx context.Context, user, channel string) (err error) {
	defer errs.Wrap(&err, "rooms.MaySubscribe %s", channel)
	id, ok := roomOf(channel)
	who, err := ids.Parse[Viewer](user)
	if !ok || err != nil {
		return ErrRoom
	}
	_, _, err = s.inside(ctx, id, who)
	return err
}

// Subscribed notes that a connection to this node has a channel. It waits for nothing.
func (s *Service) Subscribed(user, connection, channel string) {
	id, ok := roomOf(channel)
	who, err := ids.Parse[Viewer](user)
	if !ok || err != nil {
		return
	}
	now := time.Now()
	s.watched.mu.Lock()
	defer s.watched.mu.Unlock()
	r := s.watched.of(id, now)
	if len(r.viewers) == 0 {
		r.held, r.latest = true, nil // of what was before the node may know nothing
	}
	if r.viewers[who] == nil {
		r.viewers[who], r.dirty = &viewer{connections: map[string]struct{}{}, active: s.db.Now()}, true
	}
	r.viewers[who].connections[connection] = struct{}{}
}

// Unsubscribed notes that a connection to this node has left a channel. It waits for nothing.
func (s *Service) Unsubscribed(user, connection, channel string) {
	id, ok := roomOf(channel)
	who, err := ids.Parse[Viewer](user)
	if !ok || err != nil {
		return
	}
	s.watched.mu.Lock()
	defer s.watched.mu.Unlock()
	r := s.watched.rooms[id]
	if r == nil || r.viewers[who] == nil {
		return
	}
	delete(r.viewers[who].connections, connection)
	if len(r.viewers[who].connections) == 0 {
		delete(r.viewers, who)
		r.gone, r.dirty, r.used = append(r.gone, who), true, time.Now()
	}
}

// watch does every second what is due, until ctx ends; then it takes this node's viewers out, and keeps what has changed.
func (s *Service) watch(ctx context.Context) {
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), roundTime)
			defer cancel()
			s.leaveAll(last)
			s.keepMoved(last, true)
			return
		case <-beat.C:
			round, cancel := context.WithTimeout(ctx, roundTime)
			s.beat(round, time.Now())
			cancel()
		}
	}
}

func (s *Service) beat(ctx context.Context, now time.Time) {
	ask, cancel := context.WithTimeout(ctx, followTime)
	s.followWatched(ask)
	cancel()
	dirty := s.writeViewers(ctx, now)
	s.countViewers(ctx, now, dirty)
	s.lookAtUnsure(ctx)
	s.releaseHeld(ctx)
	s.keepMoved(ctx, false)
	s.touch(ctx, now)
	s.letGo(now)
}

// writeViewers brings to Redis who has come and gone, and what is due to be written anew. It returns the rooms in
// which somebody has come or gone.
func (s *Service) writeViewers(ctx context.Context, now time.Time) (dirty []ID) {
	var marks []mark
	s.watched.mu.Lock()
	for id, r := range s.watched.rooms {
		if !r.dirty && (now.Sub(r.renewed) < renewEvery || len(r.viewers) == 0) {
			continue
		}
		m := mark{room: id, here: map[ViewerID]time.Time{}}
		for _, user := range r.gone {
			if r.viewers[user] == nil { // else they have come again
				m.gone = append(m.gone, user)
			}
		}
		for user, v := range r.viewers {
			m.here[user] = v.active
		}
		if r.dirty {
			dirty = append(dirty, id)
		}
		marks, r.dirty, r.renewed, r.gone = append(marks, m), false, now, nil
	}
	s.watched.mu.Unlock()
	if err := s.store.writeOnline(ctx, s.cfg.Node, marks); err != nil {
		s.watched.mu.Lock()
		for _, m := range marks {
			if r := s.watched.rooms[m.room]; r != nil {
				r.dirty, r.gone = true, append(r.gone, m.gone...)
			}
		}
		s.watched.mu.Unlock()
		s.log.Debug("rooms: Redis does not hear who watches", "err", err)
	}
	return dirty
}

// countViewers counts who watches in rooms that are due, and tells of numbers that have changed.
func (s *Service) countViewers(ctx context.Context, now time.Time, dirty []ID) {
	var due []ID
	s.watched.mu.Lock()
	for id, r := range s.watched.rooms {
		if slices.Contains(dirty, id) || len(r.viewers) > 0 && now.Sub(r.counted) >= countEvery {
			due = append(due, id)
			r.counted = now
		}
	}
	s.watched.mu.Unlock()
	if len(due) == 0 {
		return
	}
	found, err := s.onlineIn(ctx, due, 0, s.watched.has)
	if err != nil {
		return // nobody knows
	}
	keep, told := map[ID]int{}, map[ID]int{}
	s.watched.mu.Lock()
	for _, id := range due {
		users, first := found[id].users, found[id].first
		n := len(users)
		r := s.watched.rooms[id]
		if r == nil {
			continue
		}
		if r.count != n || now.Sub(r.kept) >= renewEvery {
			keep[id], r.kept = n, now
		}
		// One of the nodes tells: the one that has noticed first, or else the first one.
		if r.count != n && (slices.Contains(dirty, id) || first == s.cfg.Node) {
			told[id] = n
		}
		r.count, r.latest = n, slices.Clone(users[:min(n, mostOnline)])
	}
	s.watched.mu.Unlock()
	if len(keep) > 0 {
		if err := s.store.writeCounts(ctx, s.cfg.Node, keep); err != nil {
			s.log.Debug("rooms: Redis does not take how many watch", "err", err)
		}
	}
	var batch []events.Event
	for id, n := range told {
		batch = s.appendEvent(batch, id, ViewerID{}, api.EventRoomViewers, s.db.Now(), api.RoomViewers{Room: id.String(), Viewers: n})
	}
	s.cfg.Bus.Publish(batch)
}

// audience are the viewers of a room by nodes that live, each once, the last active first.
type audience struct {
	users []Presence
	first string // of the nodes
}

// onlineIn returns who watches in rooms, of each room by up to most entries, 0 for all, and takes out those of nodes that are dead. So it does with viewers of this node whom here
// does not know: Redis was set back to when they watched. Only the goroutine that brings them to Redis knows that; for others here is nil.
func (s *Service) onlineIn(ctx context.Context, list []ID, most int, here func(ID, ViewerID) bool) (map[ID]audience, error) {
	found, err := s.store.online(ctx, list, most)
	if err != nil {
		return nil, err
	}
	live, err := s.cfg.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	all := make(map[ID]audience, len(found))
	for id, list := range found {
		a, seen := audience{}, map[ViewerID]bool{}
		var dead []Presence
		for _, p := range list {
			switch {
			case !slices.Contains(live, p.node), here != nil && p.node == s.cfg.Node && !here(id, p.User):
				dead = append(dead, p)
				continue
			case a.first == "" || p.node < a.first:
				a.first = p.node
			}
			if !seen[p.User] {
				seen[p.User] = true
				a.users = append(a.users, p)
			}
		}
		all[id] = a
		if len(dead) > 0 {
			if err := s.store.dropOnline(ctx, id, dead); err != nil {
				s.log.Debug("rooms: viewers who are gone stay", "room", id, "err", err)
			}
		}
	}
	return all, nil
}

// Online returns up to mostOnline of those who watch in a room, the last active first. It costs no question to Redis where somebody
// watches by this node, which counts them anyway. ErrRoom.
func (s *Service) Online(ctx context.Context, user ViewerID, id ID) (_ []Presence, err error) {
	defer errs.Wrap(&err, "rooms.Online %s", id)
	if _, _, err := s.inside(ctx, id, user); err != nil {
		return nil, err
	}
	if known := s.watched.online(id); known != nil {
		return known, nil
	}
	found, err := s.onlineIn(ctx, []ID{id}, 2*mostOnline, nil) // some watch by more than one node
	if away(err) {
		return nil, nil // nobody is known to be
	}
	users := found[id].users
	return users[:min(len(users), mostOnline)], err
}

// viewersOf returns how many watch a room. That costs a question to Redis where nobody watches by this node.
func (s *Service) viewersOf(ctx context.Context, id ID) int {
	if n, known := s.watched.viewers(id); known {
		return n
	}
	ctx, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()
	return s.viewers(ctx, []ID{id})[id]
}

// viewers returns how many watch in rooms; while Redis is away nobody does. What a node has counted that died since is
// counted anew.
func (s *Service) viewers(ctx context.Context, list []ID) map[ID]int {
	all := make(map[ID]int, len(list))
	if len(list) == 0 {
		return all
	}
	counts, err := s.store.counts(ctx, list)
	if err != nil {
		return all
	}
	live, err := s.cfg.Nodes(ctx)
	if err != nil {
		return all
	}
	var again []ID
	for id, c := range counts {
		if all[id] = c.n; c.n > 0 && !slices.Contains(live, c.node) {
			again = append(again, id)
		}
	}
	if len(again) > 0 {
		if found, err := s.onlineIn(ctx, again, 0, nil); err == nil {
			for _, id := range again {
				all[id] = len(found[id].users)
			}
		}
	}
	return all
}

// lookAtUnsure tells of registers of which nobody has heard, since a command was carried out whose answer was lost; and has
// those be outdone to which Redis was set back, as somebody has heard of a later one, or SQL has it.
func (s *Service) lookAtUnsure(ctx context.Context) {
	told := map[ID]int64{}
	s.watched.mu.Lock()
	for id, r := range s.watched.rooms {
		if r.unsure {
			told[id], r.unsure = r.stamp, false
		}
	}
	s.watched.mu.Unlock()
	for some := range slices.Chunk(slices.Collect(maps.Keys(told)), sweepBatch) {
		kept, err := selectStamps(ctx, s.db, some) // before Redis is asked, which is never behind it
		states, stateErr := s.store.states(ctx, some)
		err = errors.Join(err, stateErr)
		for id, state := range states {
			switch stamp := state.Stamp(); {
			case stamp < max(told[id], kept[id]):
				if _, outErr := s.outdo(ctx, id, state); !errors.Is(outErr, ErrRoom) { // else it was closed
					err = errors.Join(err, outErr)
				}
				delete(states, id)
			case stamp == told[id], told[id] == 0: // it is known, or events were lost and all who watch read it again
				delete(states, id)
			default:
				s.show(id, state)
			}
		}
		s.checkpoint(ctx, states)
		if err != nil {
			s.log.Debug("rooms: nobody knows what is on", "rooms", len(some), "err", err)
			for _, id := range some {
				s.watched.unsure(id, playback.State{})
			}
		}
	}
}

// releaseHeld looks whether rooms still wait for players.
func (s *Service) releaseHeld(ctx context.Context) {
	var held []ID
	s.watched.mu.Lock()
	for id, r := range s.watched.rooms {
		if r.held && len(r.viewers) > 0 {
			held = append(held, id)
		}
	}
	s.watched.mu.Unlock()
	for _, id := range held {
		if err := s.hold(ctx, id, ViewerID{}, false); err != nil {
			s.log.Debug("rooms: nobody knows whose player waits", "room", id, "err", err)
		}
	}
}

// keepMoved keeps registers in SQL that have changed, every half minute, or all now.
func (s *Service) keepMoved(ctx context.Context, now bool) {
	s.watched.mu.Lock()
	due := now || time.Since(s.watched.kept) >= checkpointEvery
	var list []ID
	if due {
		s.watched.kept = time.Now()
		for id, r := range s.watched.rooms {
			if r.moved {
				list, r.moved = append(list, id), false
			}
		}
	}
	s.watched.mu.Unlock()
	for some := range slices.Chunk(list, sweepBatch) {
		states, err := s.store.states(ctx, some)
		if err != nil {
			for _, id := range some {
				s.watched.changed(id)
			}
			continue
		}
		s.checkpoint(ctx, states)
	}
}

// touch notes that rooms are active, a minute each.
func (s *Service) touch(ctx context.Context, now time.Time) {
	var list []ID
	s.watched.mu.Lock()
	if now.Sub(s.watched.touched) < touchEvery {
		s.watched.mu.Unlock()
		return
	}
	s.watched.touched = now
	for id, r := range s.watched.rooms {
		if len(r.viewers) > 0 {
			list = append(list, id)
		}
	}
	s.metrics.watched.Set(float64(len(list)))
	s.watched.mu.Unlock()
	for some := range slices.Chunk(list, sweepBatch) {
		if err := touchRooms(ctx, s.db, some, s.db.Now().Add(-touchEvery/2)); err != nil {
			s.log.Debug("rooms: it is not noted which are active", "err", err)
		}
	}
}

// letGo forgets rooms in which nobody has been for a while.
func (s *Service) letGo(now time.Time) {
	var leave []func()
	s.watched.mu.Lock()
	for id, r := range s.watched.rooms {
		if len(r.viewers) > 0 || r.dirty || r.moved || r.unsure || now.Sub(r.used) < lingerFor {
			continue
		}
		delete(s.watched.rooms, id)
		if r.leave != nil {
			leave = append(leave, r.leave)
		}
	}
	s.watched.mu.Unlock()
	for _, f := range leave {
		f()
	}
}

// leaveAll takes this node's viewers out.
func (s *Service) leaveAll(ctx context.Context) {
	var marks []mark
	var leave []func()
	s.watched.mu.Lock()
	for id, r := range s.watched.rooms {
		gone := append(slices.Collect(maps.Keys(r.viewers)), r.gone...)
		marks = append(marks, mark{room: id, gone: gone})
		if r.leave != nil {
			leave = append(leave, r.leave)
			r.leave = nil
		}
	}
	s.watched.mu.Unlock()
	if err := s.store.writeOnline(ctx, s.cfg.Node, marks); err != nil {
		s.log.Debug("rooms: viewers are left to the other nodes", "err", err) // which see that this one is gone
	}
	for _, f := range leave {
		f()
	}
}

// followWatched has the danmaku of rooms with viewers be here, for whoever comes.
func (s *Service) followWatched(ctx context.Context) {
	var list []ID
	s.watched.mu.Lock()
	for id, r := range s.watched.rooms {
		if len(r.viewers) > 0 && (r.leave == nil || !r.filled) {
			list = append(list, id)
		}
	}
	s.watched.mu.Unlock()
	for _, id := range list {
		if _, err := s.follow(ctx, id); err != nil {
			s.log.Debug("rooms: danmaku cannot be read", "room", id, "err", err)
		}
	}
}

// follow returns the danmaku that flies in a room. This node listens to the room from then on, until nobody
// has been there for a minute; what flew before is read from SQL.
func (s *Service) follow(ctx context.Context, id ID) ([]api.Danmaku, error) {
	s.watched.mu.Lock()
	r := s.watched.of(id, time.Now())
	ready := r.filled && r.leave != nil
	flying := r.ring.Flying(s.db.Now().UnixMilli())
	s.watched.mu.Unlock()
	if ready {
		return flying, nil
	}
	select {
	case r.filling <- struct{}{}:
	case <-ctx.Done(): // whoever fills it waits for SQL
		return nil, asKind(ctx, ctx.Err())
	}
	defer func() { <-r.filling }()
	if r.leave == nil {
		_, leave := s.cfg.Bus.Listen(ctx, api.RoomChannel(id.String()), &events.Listener{
			Event: func(e events.Event, _ events.Position) { s.heard(r, e) },
			Lost:  func() { s.lost(r) },
		})
		s.watched.mu.Lock()
		r.leave = leave
		s.watched.mu.Unlock()
	}
	for {
		now := s.db.Now().UnixMilli()
		s.watched.mu.Lock()
		filled, doubts, flying := r.filled, r.doubts, r.ring.Flying(now)
		s.watched.mu.Unlock()
		if filled {
			return flying, nil
		}
		kept, err := latestComments(ctx, s.db, id, now-danmaku.Life, danmaku.Most)
		if err != nil {
			return nil, asKind(ctx, err)
		}
		s.watched.mu.Lock()
		r.fill(id, kept, now, doubts)
		s.watched.mu.Unlock()
	}
}

// fill puts what SQL had when it was asked, the latest first, before what came since. doubts is r.doubts from before the
// question: if the number has changed, the answer is too old, and fill does nothing. The caller holds the lock of watched.
func (r *watch) fill(id ID, kept []Comment, asked int64, doubts int) {
	if r.doubts != doubts {
		return
	}
	var all danmaku.Ring[api.Danmaku]
	there := map[string]bool{}
	for _, c := range slices.Backward(kept) {
		all.Add(c.At, c.wire(id))
		there[c.ID.String()] = true
	}
	for _, d := range r.ring.Flying(asked) {
		if !there[d.ID] { // it came while SQL was read
			all.Add(d.At.UnixMilli(), d)
		}
	}
	r.ring, r.filled = all, true
}

// doubt has the ring be filled anew: an event may be missing, or what SQL had is not what it has.
func (r *watch) doubt() {
	r.ring.Clear()
	r.filled = false
	r.doubts++
}

// heard keeps what this node has to know of an event of a room.
func (s *Service) heard(r *watch, e events.Event) {
	s.watched.mu.Lock()
	defer s.watched.mu.Unlock()
	switch e.Type {
	case api.EventRoomDanmaku:
		var d api.Danmaku
		if json.Unmarshal(e.Data, &d) == nil {
			r.ring.Add(d.At.UnixMilli(), d)
		}
	case api.EventRoomDanmakuCleared:
		r.doubt()
	case api.EventRoomPlayback:
		var p api.Playback
		if json.Unmarshal(e.Data, &p) == nil {
			r.moved, r.held = true, p.Held // should the node die that changed it
			r.stamp = max(r.stamp, playback.State{Generation: p.Generation, Version: p.Version}.Stamp())
		}
	case api.EventRoomViewers:
		var v api.RoomViewers
		if json.Unmarshal(e.Data, &v) == nil && r.count != v.Viewers {
			r.count, r.counted = v.Viewers, time.Time{} // whoever hears of it may ask who they are
		}
	}
}

// lost has the danmaku be read anew, whether the room waits for players, and whether Redis has its latest register; and its
// viewers be written and counted anew.
func (s *Service) lost(r *watch) {
	s.watched.mu.Lock()
	defer s.watched.mu.Unlock()
	r.doubt()
	r.held, r.unsure, r.dirty = true, true, true
}
