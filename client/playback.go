package client

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/stoa-dev/stoa/api"
)

// PlaybackSync synchronises one player with a room. Its inputs are the servers' clock, the register and the player's
// position; its output is a correction for the player. It has no network and no timers, so that tests can use virtual
// time. It is not safe for concurrent use.
//
// A player that is off by less than [PlaybackSync.Drift] is not changed. If it is off by more, its rate becomes a
// little higher or lower, which users do not notice. If it is off by [PlaybackSync.Jump], it seeks. While the room is
// paused, a player always seeks.
type PlaybackSync struct {
	Drift time.Duration // see api.Room
	Jump  time.Duration // see api.Room

	pings []ping
	state api.Playback
	known bool
}

// ping is one measurement of the servers' clock.
type ping struct {
	trip   time.Duration
	offset time.Duration // the servers' clock minus the local clock
}

const (
	// pingsKept is the number of stored measurements.
	pingsKept = 16
	// pingsUsed is the number of best measurements that are used. The median of several prevents that a single lucky one
	// decides.
	pingsUsed = 5
	// clocksDiffer bounds the difference of the servers' clocks, and the drift of the local clock, during pingsKept
	// measurements.
	clocksDiffer = 250 * time.Millisecond
	// nudge is the largest change of a player's rate, as a part of the rate. Up to this limit, pitch-corrected sound
	// sounds the same.
	nudge = 0.1
	// settle is the time to correct a small deviation.
	settle = time.Second
)

// AddClock adds a response of rooms.clock. sent and came are the local times of the request and the response.
func (s *PlaybackSync) AddClock(sent, came time.Time, at api.RoomClock) {
	trip := came.Sub(sent)
	if trip < 0 {
		return // the local clock was set back meanwhile
	}
	offset := time.UnixMilli(at.Time).Sub(sent.Add(trip / 2))
	// A measurement is wrong by at most half its round trip. If two differ by more, the local clock was set between them.
	s.pings = slices.DeleteFunc(s.pings, func(p ping) bool { return (p.offset - offset).Abs() > (p.trip+trip)/2+clocksDiffer })
	if s.pings = append(s.pings, ping{trip, offset}); len(s.pings) > pingsKept {
		s.pings = slices.Delete(s.pings, 0, 1)
	}
}

// Offset returns how far the servers' clock is ahead of the local clock. It is the median of the offsets with the
// shortest round trips, which have the smallest error.
func (s *PlaybackSync) Offset() time.Duration {
	if len(s.pings) == 0 {
		return 0
	}
	best := slices.SortedFunc(slices.Values(s.pings), func(a, b ping) int { return cmp.Compare(a.trip, b.trip) })
	best = best[:min(len(best), pingsUsed)]
	slices.SortFunc(best, func(a, b ping) int { return cmp.Compare(a.offset, b.offset) })
	return best[len(best)/2].offset
}

// Take stores a register from any source, and reports whether it is newer than the stored one.
func (s *PlaybackSync) Take(p api.Playback) bool {
	if s.known && (p.Generation < s.state.Generation || p.Generation == s.state.Generation && p.Version <= s.state.Version) {
		return false
	}
	s.state, s.known = p, true
	return true
}

// State returns the stored register.
func (s *PlaybackSync) State() api.Playback { return s.state }

// Position returns the position of the room at a time of the local clock.
func (s *PlaybackSync) Position(now time.Time) time.Duration {
	at := time.Duration(s.state.Position) * time.Millisecond
	since := now.Add(s.Offset()).Sub(time.UnixMilli(s.state.ServerTime))
	if s.state.Paused || since < 0 {
		return at
	}
	return at + time.Duration(float64(since)*s.state.Rate)
}

// Correction is the required change of a player.
type Correction struct {
	Paused bool
	Seek   bool          // seek to To first
	To     time.Duration // the position of the room
	Rate   float64       // the playback rate
}

// Correct returns the correction for a player that is at a position at a time of the local clock. Call it a few times a
// second.
func (s *PlaybackSync) Correct(now time.Time, position time.Duration) Correction {
	c := Correction{Paused: s.state.Paused, To: s.Position(now), Rate: s.state.Rate}
	off := c.To - position
	switch {
	case !s.known:
		c.Paused, c.Rate = true, 1
	case s.state.Paused:
		c.Seek = off.Abs() > time.Millisecond
	case off.Abs() >= s.Jump:
		c.Seek = true
	case off.Abs() > s.Drift:
		c.Rate *= 1 + math.Copysign(min(nudge, float64(off.Abs())/float64(settle)), float64(off))
	}
	return c
}
