package rooms

import (
	"context"
	"errors"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/rooms/playback"
)

// Clock returns the time of the Redis servers in Unix ms. All registers and danmaku use it.
func (s *Service) Clock() int64 { return s.cfg.Bus.Nodes().Time().UnixMilli() }

// Playback returns the register of a room. It returns ErrRoom.
func (s *Service) Playback(ctx context.Context, user ParticipantID, id ID) (_ playback.State, err error) {
	defer errs.Wrap(&err, "rooms.Playback %s", id)
	if _, _, err := s.roomAndMember(ctx, id, user); err != nil {
		return playback.State{}, err
	}
	return s.state(ctx, id)
}

// state returns the register of a room, with one command to Redis. It rebuilds a register that Redis has lost or has in
// an older version. While Redis is unavailable, it returns the checkpoint, or this node's register if that is newer.
func (s *Service) state(ctx context.Context, id ID) (playback.State, error) {
	known := s.watched.newest(id) // read before Redis: a later read from Redis is older only if Redis was set back
	found, err := s.redis.states(ctx, []ID{id})
	state, ok := found[id]
	switch {
	case err != nil:
	case !ok:
		state, err = s.rebuild(ctx, id, playback.State{})
	case known.Newer(state):
		state, err = s.reissue(ctx, id, state)
	default:
		s.watched.recordRead(id, state)
	}
	if !redisUnavailable(err) && !errors.Is(err, ErrStateAway) {
		return state, err
	}
	c, err := s.copies.checkpoints.GetFresh(ctx, id, checkpointAge)
	if state = c.state(); err == nil && known.Newer(state) {
		state = known
	}
	return state, asKind(ctx, err)
}

// checkpointAge is the largest age of a cached checkpoint. The cache entry may be on another Redis server than the
// register, so it is reloaded by age and not dropped.
const checkpointAge = time.Second

// rebuild rebuilds a register that Redis has lost or has in an older version. It uses the newest of the old register,
// the checkpoint and this node's register. It returns the register that Redis has afterwards.
func (s *Service) rebuild(ctx context.Context, id ID, old playback.State) (playback.State, error) {
	from := old
	if known := s.watched.newest(id); known.Newer(old) {
		from = known
	}
	state, err := nextGeneration(ctx, s.db, id, from, s.Clock())
	if err != nil {
		return playback.State{}, asKind(ctx, err)
	}
	s.metrics.rebuilt.Inc()
	return s.redis.load(ctx, id, state, old)
}

// reissue rebuilds a register and publishes it. Viewers have seen a newer register than old, so they accept only a
// higher generation. It returns ErrStateAway while Redis is unavailable.
func (s *Service) reissue(ctx context.Context, id ID, old playback.State) (playback.State, error) {
	state, err := s.rebuild(ctx, id, old)
	switch {
	case redisUnavailable(err):
		return playback.State{}, ErrStateAway
	case err != nil:
		return playback.State{}, err
	}
	s.publishState(id, state)
	return state, nil
}

// redisIsBehind reports whether Redis has an older register than this node or SQL, for example after a failover. It
// checks only if a caller claims to have seen a newer one. The claim itself proves nothing.
func (s *Service) redisIsBehind(ctx context.Context, id ID, seen, state playback.State) (bool, error) {
	if !seen.Newer(state) {
		return false, nil
	}
	if s.watched.newest(id).Newer(state) {
		return true, nil
	}
	stored, err := selectStamps(ctx, s.db, []ID{id})
	return stored[id] > state.Stamp(), asKind(ctx, err)
}

// Command changes the playback of a room. If the sender saw another register, it returns the current one and
// ErrVersion. It also returns ErrRoom, ErrMay, ErrCommand, ErrItem or ErrStateAway.
func (s *Service) Command(ctx context.Context, user ParticipantID, id ID, c playback.Command) (state playback.State, err error) {
	defer errs.Wrap(&err, "rooms.Command %s", id)
	if !c.Valid() {
		return playback.State{}, ErrCommand
	}
	if err := s.may(ctx, user, id, control); err != nil {
		return playback.State{}, err
	}
	if c.Verb == playback.Load && c.Item != "" {
		item, err := ids.Parse[Item](c.Item)
		if err != nil {
			return playback.State{}, ErrItem
		}
		if it, of, err := selectItem(ctx, s.db, item); err != nil || of != id || it.Removed > 0 {
			return playback.State{}, errors.Join(asKind(ctx, err), ErrItem)
		}
	}
	return s.command(ctx, id, c)
}

// command runs a command, publishes its result, and stores a checkpoint if needed. It returns ErrVersion or
// ErrStateAway.
func (s *Service) command(ctx context.Context, id ID, c playback.Command) (playback.State, error) {
	seen := playback.State{Generation: c.Generation, Version: c.Version}
	for reissued := false; ; reissued = true {
		// The command runs even if the caller disconnects, because its result is published to the room.
		cmdCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commandTime)
		state, done, err := s.redis.command(cmdCtx, id, c, s.cfg.Bus.Nodes().Time())
		cancel()
		old := errors.Is(err, errNoState)
		if err == nil && !done && !reissued {
			if old, err = s.redisIsBehind(ctx, id, seen, state); err != nil {
				return playback.State{}, err
			}
		}
		switch {
		case old: // Redis has lost the register or was set back; the rebuilt one has a new generation that no client has seen
			if _, err := s.reissue(ctx, id, state); err != nil {
				return playback.State{}, err
			}
			continue
		case err != nil:
			s.watched.requestRecheck(id, seen) // the command may have been executed
			if redisUnavailable(err) || errors.Is(err, context.DeadlineExceeded) {
				err = ErrStateAway
			}
			return playback.State{}, err
		case !done:
			s.metrics.commands.WithLabelValues("refused").Inc()
			return state, ErrVersion
		}
		s.metrics.commands.WithLabelValues("done").Inc()
		s.publishState(id, state)
		if c.Verb != playback.Hold && c.Verb != playback.Release { // a checkpoint has no holds
			storeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkpointTime)
			s.checkpoint(storeCtx, map[ID]playback.State{id: state})
			cancel()
		}
		return state, nil
	}
}

const (
	// commandTime bounds a command to Redis.
	commandTime = 5 * time.Second

	// checkpointTime bounds a checkpoint, because the caller of a command waits for it. The next round retries after a
	// timeout.
	checkpointTime = time.Second
)

// publishState publishes a register that this node created or found in Redis.
func (s *Service) publishState(id ID, state playback.State) {
	s.publishEvent(id, api.EventRoomPlayback, playbackWire(id, state))
	s.watched.recordPublished(id, state)
}

// checkpoint stores registers in SQL.
func (s *Service) checkpoint(ctx context.Context, states map[ID]playback.State) {
	if err := saveCheckpoints(ctx, s.db, states); err != nil {
		for id := range states { // the next round retries
			s.watched.markChanged(id)
		}
		s.log.Warn("rooms: checkpoints not stored", "rooms", len(states), "err", err)
	}
}

// Ended loads the next item after one that has ended. The first report of an end takes effect; later ones get the
// current register. A report of a member without the control permission counts only at the item's end, and only if its
// duration is known. It returns ErrRoom or ErrStateAway.
func (s *Service) Ended(ctx context.Context, user ParticipantID, id ID, generation, version int64) (state playback.State, err error) {
	defer errs.Wrap(&err, "rooms.Ended %s", id)
	r, m, err := s.roomAndMember(ctx, id, user)
	if err != nil {
		return playback.State{}, err
	}
	if state, err = s.state(ctx, id); err != nil {
		return playback.State{}, err
	}
	if old, err := s.redisIsBehind(ctx, id, playback.State{Generation: generation, Version: version}, state); err != nil {
		return playback.State{}, err
	} else if old {
		return s.reissue(ctx, id, state)
	}
	if state.Generation != generation || state.Version != version || state.Item == "" || state.Paused {
		return state, nil
	}
	list, err := s.copies.playlists.Get(ctx, id)
	if err != nil {
		return playback.State{}, asKind(ctx, err)
	}
	length := int64(0)
	if i := indexOf(list, itemOf(state)); i >= 0 {
		length = list[i].Duration
	}
	if m.may(r)&Control == 0 && (length == 0 || state.At(s.Clock()) < length-endSlack) {
		return state, nil // not ended by the shared clock: only members with the control permission may skip
	}
	c := nextCommand(list, state.Item, r.Loop)
	c.Generation, c.Version = generation, version
	next, err := s.command(ctx, id, c)
	if errors.Is(err, ErrVersion) {
		return next, nil
	}
	return next, err
}

// endSlack is the largest lead, in ms, of one player over the others at the end.
const endSlack = 3000

// itemOf returns the id of a register's item, or zero if the register has none.
func itemOf(s playback.State) (id ItemID) {
	_ = id.UnmarshalText([]byte(s.Item)) // registers contain only valid ids
	return id
}

// Buffering records whether a viewer's player waits for data. If the room has the Hold setting, it is held until the
// player has data, for at most maxHold. A report that a player waits is ignored if the viewer does not subscribe to
// the room's channel. It returns ErrRoom or ErrStateAway.
func (s *Service) Buffering(ctx context.Context, user ParticipantID, id ID, waiting bool) (err error) {
	defer errs.Wrap(&err, "rooms.Buffering %s", id)
	r, _, err := s.roomAndMember(ctx, id, user)
	if err != nil || !r.Hold && waiting {
		return err
	}
	if waiting {
		switch watching, err := s.isWatching(ctx, id, user); {
		case redisUnavailable(err):
			return ErrStateAway
		case err != nil || !watching:
			return err
		}
	}
	return s.updateHold(ctx, id, user, waiting)
}

// isWatching reports whether a viewer subscribes to a room's channel on any node.
func (s *Service) isWatching(ctx context.Context, id ID, user ParticipantID) (bool, error) {
	if s.watched.has(id, user) {
		return true, nil
	}
	live, err := s.cfg.Nodes(ctx)
	if err != nil || len(live) == 0 {
		return false, err
	}
	return s.redis.isWatching(ctx, id, user, live)
}

// endHolds ends the holds that a change makes invalid: those of viewers who left, or all if the room's setting is now
// off. If it fails, they expire.
func (s *Service) endHolds(ctx context.Context, d changeSet) {
	if !d.before.Hold || d.room.Hold && len(d.left) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commandTime)
	defer cancel()
	id := d.room.ID
	var err error
	if d.room.Hold {
		err = s.redis.dropWaiting(ctx, id, d.left)
	} else {
		err = s.redis.clearWaiting(ctx, id)
	}
	if err == nil {
		err = s.updateHold(ctx, id, ParticipantID{}, false)
	}
	if err != nil {
		s.log.Debug("rooms: hold not ended", "room", id, "err", err)
	}
}

// updateHold records whether a viewer's player waits, and holds or releases the room.
func (s *Service) updateHold(ctx context.Context, id ID, user ParticipantID, waiting bool) error {
	n, err := s.redis.buffer(ctx, id, user, waiting, s.cfg.Bus.Nodes().Time())
	if err == nil {
		var state playback.State
		if state, err = s.applyHold(ctx, id, n > 0); err == nil {
			s.watched.setHeld(id, state.Held)
		}
	}
	if redisUnavailable(err) {
		return ErrStateAway
	}
	return err
}

// applyHold holds or releases a room.
func (s *Service) applyHold(ctx context.Context, id ID, held bool) (playback.State, error) {
	state, err := s.state(ctx, id)
	if err != nil || held == state.Held || held && state.Paused {
		return state, err
	}
	verb := playback.Release
	if held {
		verb = playback.Hold
	}
	return s.command(ctx, id, playback.Command{Generation: state.Generation, Version: state.Version, Verb: verb})
}

// Scene returns all data that a client needs to show a room. With filled caches in this process, it sends one command
// to Redis. It returns ErrRoom.
func (s *Service) Scene(ctx context.Context, user ParticipantID, id ID) (_ Scene, err error) {
	defer errs.Wrap(&err, "rooms.Scene %s", id)
	r, m, err := s.roomAndMember(ctx, id, user)
	if err != nil {
		return Scene{}, err
	}
	list, err := s.copies.playlists.Get(ctx, id)
	if err != nil {
		return Scene{}, asKind(ctx, err)
	}
	out := Scene{Room: r, Me: m, Playlist: withoutRemoved(list)}
	if out.Playback, err = s.state(ctx, id); err != nil {
		return Scene{}, err
	}
	out.Danmaku, err = s.visibleDanmaku(ctx, m, id)
	return out, err
}

// Scene is the state of a room at one moment.
type Scene struct {
	Room     Room
	Me       Member
	Playback playback.State
	Playlist []Item
	Danmaku  []api.Danmaku // of the last ten seconds
}
