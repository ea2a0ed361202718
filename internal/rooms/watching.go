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
	// unusedDelay is the time until a node stops following the danmaku of a room without viewers.
	unusedDelay = time.Minute
	// roundTime bounds one beat.
	roundTime = 5 * time.Second
	// loadTime bounds the part of a beat that loads danmaku from SQL, because writing viewers needs only Redis.
	loadTime = time.Second
	// countTime bounds the wait of a response for the number of viewers.
	countTime = 500 * time.Millisecond
	// maxOnline is the largest number of viewers in a list.
	maxOnline = 200
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
	viewer, err := ids.Parse[Participant](user)
	if !ok || err != nil {
		return ErrRoom
	}
	_, _, err = s.roomAndMember(ctx, id, viewer)
	return err
}

// Subscribed records that a connection of this node has subscribed to a channel. It does no I/O.
func (s *Service) Subscribed(user, connection, channel string) {
	id, ok := roomOf(channel)
	viewerID, err := ids.Parse[Participant](user)
	if !ok || err != nil {
		return
	}
	s.watched.add(id, viewerID, connection, s.db.Now())
}

// Unsubscribed records that a connection of this node has left a channel. It does no I/O.
func (s *Service) Unsubscribed(user, connection, channel string) {
	id, ok := roomOf(channel)
	viewerID, err := ids.Parse[Participant](user)
	if !ok || err != nil {
		return
	}
	s.watched.remove(id, viewerID, connection)
}

// watch runs a beat each second until ctx ends. Then it deletes this node's viewers from Redis and stores changed
// registers.
func (s *Service) watch(ctx context.Context) {
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			lastCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), roundTime)
			defer cancel()
			s.deleteViewers(lastCtx)
			s.checkpointChanged(lastCtx, true)
			return
		case <-beat.C:
			roundCtx, cancel := context.WithTimeout(ctx, roundTime)
			s.beat(roundCtx, time.Now())
			cancel()
		}
	}
}

func (s *Service) beat(ctx context.Context, now time.Time) {
	loadCtx, cancel := context.WithTimeout(ctx, loadTime)
	s.loadWatched(loadCtx)
	cancel()
	dirty := s.writeViewers(ctx, now)
	s.countViewers(ctx, now, dirty)
	s.recheckRegisters(ctx)
	s.releaseHeld(ctx)
	s.checkpointChanged(ctx, false)
	s.touch(ctx, now)
	s.watched.removeUnused(now)
}

// recheckRegisters publishes registers whose command got no reply. It rebuilds a register if Redis has an older one
// than this node published or SQL stores.
func (s *Service) recheckRegisters(ctx context.Context) {
	published, seen := map[ID]int64{}, map[ID]int64{}
	due := s.watched.filter(func(id ID, r *watch) bool {
		if !r.needsRecheck {
			return false
		}
		published[id], seen[id] = r.register.Stamp(), r.senderStamp
		r.needsRecheck, r.senderStamp = false, 0
		return true
	})
	for chunk := range slices.Chunk(due, sweepBatch) {
		stored, err := selectStamps(ctx, s.db, chunk) // read before Redis, which is never behind SQL
		states, stateErr := s.redis.states(ctx, chunk)
		err = errors.Join(err, stateErr)
		for id, state := range states {
			switch stamp := state.Stamp(); {
			case stamp < max(published[id], stored[id]):
				if _, reissueErr := s.reissue(ctx, id, state); !errors.Is(reissueErr, ErrRoom) { // otherwise the room was closed
					err = errors.Join(err, reissueErr)
				}
				delete(states, id)
			case stamp == max(published[id], seen[id]): // viewers have it already
				delete(states, id)
			case published[id] == 0 && (seen[id] == 0 || seen[id] > stamp): // events were lost, and all viewers read it again
				delete(states, id)
			default:
				s.publishState(id, state)
			}
		}
		s.checkpoint(ctx, states)
		if err != nil {
			s.log.Debug("rooms: playback state not read", "rooms", len(chunk), "err", err)
			for _, id := range chunk {
				s.watched.requestRecheck(id, playback.State{})
			}
		}
	}
}

// releaseHeld checks whether held rooms still wait for players.
func (s *Service) releaseHeld(ctx context.Context) {
	for _, id := range s.watched.filter(func(_ ID, r *watch) bool { return r.held && len(r.viewers) > 0 }) {
		if err := s.updateHold(ctx, id, ParticipantID{}, false); err != nil {
			s.log.Debug("rooms: hold not rechecked", "room", id, "err", err)
		}
	}
}

// checkpointChanged stores changed registers in SQL, at most once per checkpointEvery, or at once if now is true.
func (s *Service) checkpointChanged(ctx context.Context, now bool) {
	if !now && !s.watched.startTurn(&s.watched.checkpointed, time.Now(), checkpointEvery) {
		return
	}
	changed := s.watched.filter(func(_ ID, r *watch) bool {
		due := r.needsCheckpoint
		r.needsCheckpoint = false
		return due
	})
	for chunk := range slices.Chunk(changed, sweepBatch) {
		states, err := s.redis.states(ctx, chunk)
		if err != nil {
			for _, id := range chunk {
				s.watched.markChanged(id)
			}
			continue
		}
		s.checkpoint(ctx, states)
	}
}

// touch updates the last activity of rooms with viewers, once per touchEvery. It also marks the guests among the viewers
// as seen, and counts the rooms for the metric.
func (s *Service) touch(ctx context.Context, now time.Time) {
	if !s.watched.startTurn(&s.watched.touched, now, touchEvery) {
		return
	}
	list := s.watched.filter(func(_ ID, r *watch) bool { return len(r.viewers) > 0 })
	s.metrics.watched.Set(float64(len(list)))
	s.markSeen(ctx, now)
	for chunk := range slices.Chunk(list, sweepBatch) {
		if err := touchRooms(ctx, s.db, chunk, s.db.Now().Add(-touchEvery/2)); err != nil {
			s.log.Debug("rooms: activity not updated", "err", err)
		}
	}
}

// markSeen records which guests are watching, a few times within guestIdle for each guest.
func (s *Service) markSeen(ctx context.Context, now time.Time) {
	for chunk := range slices.Chunk(s.watched.unseen(now), sweepBatch) {
		if err := markSeen(ctx, s.db, chunk); err != nil {
			s.log.Debug("rooms: guests not marked as seen", "err", err) // guests who watch remain, see tidyIdle
		}
	}
}

// deleteViewers deletes this node's viewers from Redis.
func (s *Service) deleteViewers(ctx context.Context) {
	var reports []viewerReport
	var leave []func()
	s.watched.all(func(id ID, r *watch) {
		left := append(slices.Collect(maps.Keys(r.viewers)), r.left...)
		reports = append(reports, viewerReport{room: id, left: left})
		if r.leave != nil {
			leave = append(leave, r.leave)
			r.leave = nil
		}
	})
	if err := s.redis.writeOnline(ctx, s.cfg.Node, reports); err != nil {
		s.log.Debug("rooms: viewers not deleted from Redis", "err", err) // other nodes detect that this node is gone
	}
	for _, f := range leave {
		f()
	}
}
