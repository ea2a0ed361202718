package client

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/stoa-dev/stoa/api"
)

// PlaybackSync keeps one player in step with a room. It is told of the servers' clock, of the register, and of where
// the player is, and says what the player is to do. It does nothing by itself and knows no network, so that it can be
// tried in virtual time. It is not safe for concurrent use.
//
// A player that is off by less than [PlaybackSync.Drift] is left alone. One that is off by more drifts back: its rate is a
// little higher or lower, which nobody hears. One that is off by [PlaybackSync.Jump] seeks. While the room is paused a
// player seeks in any case.
type PlaybackSync struct {
	Drift time.Duration // api.Room has it
	Jump  time.Duration // api.Room has it

	pings []ping
	state api.Playback
	known bool
}

// ping is one question for the servers' clock.
type ping struct {
	trip   time.Duration
	offset time.Duration // of the servers' clock from the one here
}

const (
	// pingsKept is of how many questions the best are taken.
	pingsKept = 16
	// pingsUsed is how many of them are: the middle of a few, so that one that was lucky decides nothing.
	pingsUsed = 5
	// clocksDiffer is by how much the servers' clocks differ, and the one here runs another way, while that many are asked.
	clocksDiffer = 250 * time.Millisecond
	// nudge is by how much, as a part of the rate, a player drifts at most. Sound whose pitch is kept
	// sounds the same up to there.
	nudge = 0.1
	// settle is in which time a player that is off a little is to be back.
	settle = time.Second
)

// AddClock notes an answer of rooms.clock: when it was asked for and came, by this machine's clock, and what it says.
func (s *PlaybackSync) AddClock(sent, came time.Time, at api.RoomClock) {
	trip := came.Sub(sent)
	if trip < 0 {
		return // the clock here was set back meanwhile
	}
	offset := time.UnixMilli(at.Time).Sub(sent.Add(trip / 2))
	// An answer is wrong by half its round trip at most: where two are farther apart, the clock here was set between them.
	s.pings = slices.DeleteFunc(s.pings, func(p ping) bool { return (p.offset - offset).Abs() > (p.trip+trip)/2+clocksDiffer })
	if s.pings = append(s.pings, ping{trip, offset}); len(s.pings) > pingsKept {
		s.pings = slices.Delete(s.pings, 0, 1)
	}
}

// Offset is how far the servers' clock is ahead of the one here: the middle of the offsets that came with the shortest
// round trips, which had the least time to be wrong.
func (s *PlaybackSync) Offset() time.Duration {
	if len(s.pings) == 0 {
		return 0
	}
	best := slices.SortedFunc(slices.Values(s.pings), func(a, b ping) int { return cmp.Compare(a.trip, b.trip) })
	best = best[:min(len(best), pingsUsed)]
	slices.SortFunc(best, func(a, b ping) int { return cmp.Compare(a.offset, b.offset) })
	return best[len(best)/2].offset
}

// Take takes a register, from whichever way it came, and reports whether it is newer than the one that is known.
func (s *PlaybackSync) Take(p api.Playback) bool {
	if s.known && (p.Generation < s.state.Generation || p.Generation == s.state.Generation && p.Version <= s.state.Version) {
		return false
	}
	s.state, s.known = p, true
	return true
}

// State is the register that is known.
func (s *PlaybackSync) State() api.Playback { return s.state }

// Position is where the room is at a moment of this machine's clock.
func (s *PlaybackSync) Position(now time.Time) time.Duration {
	at := time.Duration(s.state.Position) * time.Millisecond
	since := now.Add(s.Offset()).Sub(time.UnixMilli(s.state.ServerTime))
	if s.state.Paused || since < 0 {
		return at
	}
	return at + time.Duration(float64(since)*s.state.Rate)
}

// Correction is what a player is to do.
type Correction struct {
	Paused bool
	Seek   bool          // go to To first
	To     time.Duration // where the room is
	Rate   float64       // to play at
}

// Correct says what a player is to do that is at a position at a moment of this machine's clock. Ask a few times a second.
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
