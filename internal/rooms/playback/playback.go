// Package playback is the register by which all viewers of a room are at the same place of the same
// medium, and its rules. They are pure: a script in Redis follows the same ones (command.lua in package
// rooms), and a test holds the two against each other.
//
// A register says where the medium was at one moment of one clock, and how fast it goes on. From that
// anybody can compute where it is now, so that nothing needs to be sent while it plays.
package playback

import "math"

// The bounds of what a register takes.
const (
	Normal      = 1000               // the rate in which a second of the medium takes a second, in thousandths
	Slowest     = 250                // rates that all browsers play with sound
	Fastest     = 4000               //
	MaxPosition = 30 * 24 * 3600_000 // ms: longer than any medium, far from what a float cannot count
	Fence       = int64(1) << 32     // versions of one generation
	MostAhead   = 5000               // ms by which a register's time may be ahead of the clock, as after a failover
)

// State is a room's register.
type State struct {
	// Generation is another one whenever the register was made anew from SQL, because Redis had lost it.
	// Version counts what has happened to it since. A state is newer than another one by its generation
	// first.
	Generation, Version int64

	Item     string // of the playlist; empty: nothing is on
	Position int64  // ms from the beginning of the item, at Time
	Time     int64  // Unix ms of the servers' clock
	Rate     int64  // thousandths of the normal rate
	Paused   bool
	Held     bool // it is paused because a viewer's player waits for data, and goes on by itself
}

// At returns the position at a moment of the servers' clock. A moment before the state was made, as a
// clock that was set back may have it, counts as the one at which it was made.
func (s State) At(now int64) int64 {
	if s.Paused || now <= s.Time {
		return s.Position
	}
	return min(MaxPosition, s.Position+(now-s.Time)*s.Rate/Normal)
}

// Made returns when the state was made, by the servers' clock at a moment. A time that is far ahead was of a clock that was wrong: the
// state counts as made now, so that the medium does not stand still until the clock is there.
func (s State) Made(now int64) int64 {
	if s.Time > now+MostAhead {
		return now
	}
	return s.Time
}

// Newer reports whether s was made after other.
func (s State) Newer(other State) bool {
	return s.Generation > other.Generation || s.Generation == other.Generation && s.Version > other.Version
}

// Stamp is generation and version in one number that grows.
func (s State) Stamp() int64 { return s.Generation*Fence + min(s.Version, Fence-1) }

// Stamped returns a state of the generation and version that a [State.Stamp] has.
func Stamped(stamp int64) State { return State{Generation: stamp / Fence, Version: stamp % Fence} }

// Verb is what a command does. It is part of what the script is called with.
type Verb string

// The verbs. Hold and Release are the server's own, for players that wait for data: they come whatever
// the version is.
const (
	Play    Verb = "play"
	Pause   Verb = "pause"
	Seek    Verb = "seek"
	SetRate Verb = "rate"
	Load    Verb = "load" // another item, from Position on; an empty one ends what is on
	Hold    Verb = "hold"
	Release Verb = "release"
)

// Command changes a register that is still what its sender saw.
type Command struct {
	Generation, Version int64 // of the state that the sender saw

	Verb     Verb
	Position int64  // of Seek and Load, ms
	Rate     int64  // of SetRate, thousandths
	Item     string // of Load
}

// Apply returns the state after a command at a moment of the servers' clock; false, and the state as it
// is, for a command whose sender had seen another one. Hold and Release change nothing where there is nothing to
// hold or to release. The server runs lua/command.lua of package rooms; Apply is its twin, which tests hold against it.
func (s State) Apply(c Command, now int64) (State, bool) {
	server := c.Verb == Hold || c.Verb == Release
	if !server && (c.Generation != s.Generation || c.Version != s.Version) {
		return s, false
	}
	if c.Verb == Hold && s.Paused || c.Verb == Release && !s.Held {
		return s, true
	}
	s.Position, s.Time, s.Version = s.At(now), max(now, s.Made(now)), s.Version+1
	switch c.Verb {
	case Play, Release:
		s.Paused, s.Held = false, false
	case Pause:
		s.Paused, s.Held = true, false
	case Hold:
		s.Paused, s.Held = true, true
	case Seek:
		s.Position = c.Position
	case SetRate:
		s.Rate = c.Rate
	case Load:
		s.Item, s.Position, s.Paused, s.Held = c.Item, c.Position, c.Item == "", false
	}
	return s, true
}

// Valid reports whether a command is one that clients may send, with values in their bounds.
func (c Command) Valid() bool {
	switch c.Verb {
	case Play, Pause:
		return true
	case Seek, Load:
		return c.Position >= 0 && c.Position <= MaxPosition
	case SetRate:
		return c.Rate >= Slowest && c.Rate <= Fastest
	}
	return false
}

// Thousandths returns a rate as registers have it.
func Thousandths(rate float64) int64 { return int64(math.Round(rate * Normal)) }
