package rooms

import (
	"context"
	"slices"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/realtime/events"
)

// writeViewers writes to Redis the viewers who came or left, and renews entries that are due. It returns the rooms
// whose viewers changed.
func (s *Service) writeViewers(ctx context.Context, now time.Time) (changed []ID) {
	var reports []viewerReport
	changed = s.watched.filter(func(id ID, r *watch) (isChanged bool) {
		if !r.dirty && (now.Sub(r.renewed) < renewEvery || len(r.viewers) == 0) {
			return false
		}
		m := viewerReport{room: id, present: map[ParticipantID]time.Time{}, held: r.held}
		for _, user := range r.left {
			if r.viewers[user] == nil { // otherwise they have returned
				m.left = append(m.left, user)
			}
		}
		for user, v := range r.viewers {
			m.present[user] = v.active
		}
		isChanged = r.dirty
		reports, r.dirty, r.renewed, r.left = append(reports, m), false, now, nil
		return isChanged
	})
	if err := s.redis.writeOnline(ctx, s.cfg.Node, reports); err != nil {
		s.watched.restore(reports)
		s.log.Debug("rooms: viewers not written to Redis", "err", err)
	}
	return changed
}

// countViewers counts the viewers of rooms that are due, and publishes changed numbers.
func (s *Service) countViewers(ctx context.Context, now time.Time, dirty []ID) {
	due := s.watched.filter(func(id ID, r *watch) bool {
		isDue := slices.Contains(dirty, id) || len(r.viewers) > 0 && now.Sub(r.counted) >= countEvery
		if isDue {
			r.counted = now
		}
		return isDue
	})
	if len(due) == 0 {
		return
	}
	found, err := s.onlineIn(ctx, due, 0, s.watched.has)
	if err != nil {
		return // the number is unknown
	}
	toStore, toPublish := map[ID]int{}, map[ID]int{}
	s.watched.each(due, func(id ID, r *watch) {
		users, first := found[id].users, found[id].first
		n := len(users)
		if r.count != n || now.Sub(r.countStored) >= renewEvery {
			toStore[id], r.countStored = n, now
		}
		// One node publishes: a node that noticed the change itself, or the node with the lowest id.
		if r.count != n && (slices.Contains(dirty, id) || first == s.cfg.Node) {
			toPublish[id] = n
		}
		r.count, r.latest = n, slices.Clone(users[:min(n, maxOnline)])
	})
	if len(toStore) > 0 {
		if err := s.redis.writeCounts(ctx, s.cfg.Node, toStore); err != nil {
			s.log.Debug("rooms: viewer counts not written to Redis", "err", err)
		}
	}
	var batch []events.Event
	for id, n := range toPublish {
		batch = s.appendEvent(batch, id, ParticipantID{}, api.EventRoomViewers, s.db.Now(), api.RoomViewers{Room: id.String(), Viewers: n})
	}
	s.cfg.Bus.Publish(batch)
}

// audience are the viewers of a room on live nodes, each once, the most recently active first.
type audience struct {
	users []Presence
	first string // the lowest node id
}

// onlineIn returns the viewers of rooms, from at most limit entries for each room (0: all), and deletes entries of dead
// nodes. It also deletes entries of this node if isPresent returns false for the viewer. Redis has such entries after
// it was set back to an earlier state. Only the goroutine that writes this node's viewers to Redis may pass isPresent;
// other callers pass nil.
func (s *Service) onlineIn(ctx context.Context, list []ID, limit int, isPresent func(ID, ParticipantID) bool) (map[ID]audience, error) {
	found, err := s.redis.online(ctx, list, limit)
	if err != nil {
		return nil, err
	}
	live, err := s.cfg.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	all := make(map[ID]audience, len(found))
	for id, list := range found {
		a, seen := audience{}, map[ParticipantID]bool{}
		var dead []Presence
		for _, p := range list {
			switch {
			case !slices.Contains(live, p.node), isPresent != nil && p.node == s.cfg.Node && !isPresent(id, p.User):
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
			if err := s.redis.dropOnline(ctx, id, dead); err != nil {
				s.log.Debug("rooms: invalid viewer entries not deleted", "room", id, "err", err)
			}
		}
	}
	return all, nil
}

// Online returns at most maxOnline viewers of a room, the most recently active first. It sends no command to Redis if
// this node has a viewer of the room and has counted its viewers. It returns ErrRoom.
func (s *Service) Online(ctx context.Context, user ParticipantID, id ID) (_ []Presence, err error) {
	defer errs.Wrap(&err, "rooms.Online %s", id)
	if _, _, err := s.roomAndMember(ctx, id, user); err != nil {
		return nil, err
	}
	if known := s.watched.online(id); known != nil {
		return known, nil
	}
	found, err := s.onlineIn(ctx, []ID{id}, 2*maxOnline, nil) // some viewers have several nodes
	if redisUnavailable(err) {
		return nil, nil // no viewers are known
	}
	users := found[id].users
	return users[:min(len(users), maxOnline)], err
}

// viewersOf returns the number of viewers of a room. It sends no command to Redis if this node has a viewer of the room and
// has counted its viewers.
func (s *Service) viewersOf(ctx context.Context, id ID) int {
	if n, known := s.watched.viewers(id); known {
		return n
	}
	ctx, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()
	return s.viewers(ctx, []ID{id})[id]
}

// viewers returns the numbers of viewers of rooms; they are 0 while Redis is unavailable. It counts again if the node
// that stored a number is dead.
func (s *Service) viewers(ctx context.Context, list []ID) map[ID]int {
	all := make(map[ID]int, len(list))
	if len(list) == 0 {
		return all
	}
	counts, err := s.redis.counts(ctx, list)
	if err != nil {
		return all
	}
	live, err := s.cfg.Nodes(ctx)
	if err != nil {
		return all
	}
	var recount []ID
	for id, c := range counts {
		if all[id] = c.n; c.n > 0 && !slices.Contains(live, c.node) {
			recount = append(recount, id)
		}
	}
	if len(recount) > 0 {
		if found, err := s.onlineIn(ctx, recount, 0, nil); err == nil {
			for _, id := range recount {
				all[id] = len(found[id].users)
			}
		}
	}
	return all
}
