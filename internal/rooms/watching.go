package rooms

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/rooms/playback"
)

const (
	// beatEvery is the time between two rounds of a node's due work.
	beatEvery = time.Second
	// countEvery is the time between two counts of viewers without a known change, because a node may have died.
	countEvery = 2 * time.Second
	// renewEvery is the time between two renewals of entries and counts.
	renewEvery = 30 * time.Second
	// checkpointEvery is the time between two checkpoints of changed registers.
	checkpointEvery = 30 * time.Second
	// touchEvery is the time between two updates of the last activity of a room with viewers.
	touchEvery = time.Minute
	// lingerFor is the time until a node stops following the danmaku of a room without viewers.
	lingerFor = time.Minute
	// roundTime bounds one beat.
	roundTime = 5 * time.Second
	// followTime bounds the part of a beat that loads danmaku from SQL, because writing viewers needs only Redis.
	followTime = time.Second
	// countTime bounds the wait of a response for the number of viewers.
	countTime = 500 * time.Millisecond
	// mostOnline is the largest number of viewers in a list.
	mostOnline = 200
)

// roomOf returns the room of a channel.
func roomOf(channel string) (ID, bool) {
	name, ok := strings.CutPrefix(channel, api.RoomChannel(""))
	id, err := ids.Parse[Room](name)
	return id, ok && err == nil
}

// Owns reports whether a channel belongs to a room.
func Owns(channel string) bool { return strings.HasPrefix(channel, api.RoomChannel("")) }

// MaySubscribe returns an error if the user may not subscribe to a room's channel. It returns ErrRoom or ErrStore.
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

// Subscribed records that a connection of this node has subscribed to a channel. It does no I/O.
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
		r.held, r.latest = true, nil // the node may have missed events until now
	}
	if r.viewers[who] == nil {
		r.viewers[who], r.dirty = &viewer{connections: map[string]struct{}{}, active: s.db.Now()}, true
	}
	r.viewers[who].connections[connection] = struct{}{}
}

// Unsubscribed records that a connection of this node has left a channel. It does no I/O.
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

// watch runs a beat each second until ctx ends. Then it deletes this node's viewers from Redis and stores changed
// registers.
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

// lookAtUnsure publishes registers whose command got no reply. It rebuilds a register if Redis has an older one than
// this node published or SQL stores.
func (s *Service) lookAtUnsure(ctx context.Context) {
	told, asked := map[ID]int64{}, map[ID]int64{}
	s.watched.mu.Lock()
	for id, r := range s.watched.rooms {
		if r.unsure {
			told[id], asked[id] = r.register.Stamp(), r.asked
			r.unsure, r.asked = false, 0
		}
	}
	s.watched.mu.Unlock()
	for some := range slices.Chunk(slices.Collect(maps.Keys(told)), sweepBatch) {
		kept, err := selectStamps(ctx, s.db, some) // read before Redis, which is never behind SQL
		states, stateErr := s.redis.states(ctx, some)
		err = errors.Join(err, stateErr)
		for id, state := range states {
			switch stamp := state.Stamp(); {
			case stamp < max(told[id], kept[id]):
				if _, outErr := s.outdo(ctx, id, state); !errors.Is(outErr, ErrRoom) { // otherwise the room was closed
					err = errors.Join(err, outErr)
				}
				delete(states, id)
			case stamp == max(told[id], asked[id]), told[id] == 0 && (asked[id] == 0 || asked[id] > stamp): // viewers have it already, or events were lost and all viewers read it again
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

// releaseHeld checks whether held rooms still wait for players.
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

// keepMoved stores changed registers in SQL, at most once per checkpointEvery, or at once if now is true.
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
		states, err := s.redis.states(ctx, some)
		if err != nil {
			for _, id := range some {
				s.watched.changed(id)
			}
			continue
		}
		s.checkpoint(ctx, states)
	}
}

// touch updates the last activity of rooms with viewers, once per touchEvery.
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
	s.markSeen(ctx, now)
	for some := range slices.Chunk(list, sweepBatch) {
		if err := touchRooms(ctx, s.db, some, s.db.Now().Add(-touchEvery/2)); err != nil {
			s.log.Debug("rooms: it is not noted which are active", "err", err)
		}
	}
}

// markSeen records which guests are watching, a few times within guestIdle for each guest.
func (s *Service) markSeen(ctx context.Context, now time.Time) {
	var due []seat
	s.watched.mu.Lock()
	for id, r := range s.watched.rooms {
		for user, v := range r.viewers {
			if now.Sub(v.seen) >= guestIdle/4 {
				v.seen, due = now, append(due, seat{id, user})
			}
		}
	}
	s.watched.mu.Unlock()
	for chunk := range slices.Chunk(due, sweepBatch) {
		if err := markSeen(ctx, s.db, chunk); err != nil {
			s.log.Debug("rooms: guests not marked as seen", "err", err) // guests who watch remain, see tidyIdle
		}
	}
}

// letGo deletes the state of rooms without viewers after lingerFor.
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

// leaveAll deletes this node's viewers from Redis.
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
	if err := s.redis.writeOnline(ctx, s.cfg.Node, marks); err != nil {
		s.log.Debug("rooms: viewers are left to the other nodes", "err", err) // other nodes detect that this node is gone
	}
	for _, f := range leave {
		f()
	}
}
