// Package playback defines the register that lets all viewers of a room play the same item at the same position. Its
// rules are pure functions. A script in Redis follows the same rules (command.lua in package rooms), and a test
// compares the two.
//
// A register has the position at one moment of one clock, and the rate of playback. From these, every client can
// compute the present position, so that no events are needed during playback.
package playback

import "math"

// The bounds of a register's values.
const (
	Normal      = 1000               // the rate of real time, in thousandths
	Slowest     = 250                // all browsers play rates from here to Fastest with sound
	Fastest     = 4000               //
	MaxPosition = 30 * 24 * 3600_000 // ms: longer than any item, and exact in a float
	Fence       = int64(1) << 32     // number of versions in one generation
	MaxAhead    = 5000               // largest lead, in ms, of a register's time over the clock, for example after a failover
)

// State is a room's register.
type State struct {
	// Generation changes whenever the register is rebuilt from SQL, because Redis had lost it. Version counts the
	// changes since then. The state with the higher generation is newer; Version decides if they are equal.
	Generation, Version int64

	Item     string // of the playlist; empty: no item
	Position int64  // ms from the beginning of the item, at Time
	Time     int64  // Unix ms of the servers' clock
	Rate     int64  // thousandths of the normal rate
	Paused   bool
	Held     bool // paused because a viewer's player waits for data; playback resumes automatically
}

// At returns the position at a time of the servers' clock. After the clock was set back, now may be before the state's
// time. It then counts as the state's time.
func (s State) At(now int64) int64 {
	if s.Paused || now <= s.Time {
		return s.Position
	}
	return min(MaxPosition, s.Position+(now-s.Time)*s.Rate/Normal)
}

// Made returns the time of the state, given the present time of the servers' clock. A time far ahead is from a wrong
// clock. The state then counts as made now, so that playback does not stop until the clock reaches that time.
func (s State) Made(now int64) int64 {
	if s.Time > now+MaxAhead {
		return now
	}
	return s.Time
}

// Newer reports whether s was made after other.
func (s State) Newer(other State) bool {
	return s.Generation > other.Generation || s.Generation == other.Generation && s.Version > other.Version
}

// Stamp returns generation and version as one increasing number.
func (s State) Stamp() int64 { return s.Generation*Fence + min(s.Version, Fence-1) }

// Stamped returns a state with the generation and version of a [State.Stamp].
func Stamped(stamp int64) State { return State{Generation: stamp / Fence, Version: stamp % Fence} }

// Verb is the action of a command. It is an argument of the script.
type Verb string

// The verbs. Hold and Release are sent only by the server, for players that wait for data. They are valid for every
// version.
const (
	Play    Verb = "play"
	Pause   Verb = "pause"
	Seek    Verb = "seek"
	SetRate Verb = "rate"
	Load    Verb = "load" // loads another item at Position; an empty item ends playback
	Hold    Verb = "hold"
	Release Verb = "release"
)

// Command changes a register if its sender saw the current version.
type Command struct {
	Generation, Version int64 // of the state that the sender saw

	Verb     Verb
	Position int64  // of Seek and Load, ms
	Rate     int64  // of SetRate, in thousandths
	Item     string // of Load
}

// Apply returns the state after a command at a time of the servers' clock. It returns false and the unchanged state if
// the sender saw another state. Hold and Release have no effect if there is nothing to hold or release. The server runs
// lua/command.lua of package rooms; tests compare it with Apply.
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

// Valid reports whether clients may send the command and its values are within their bounds.
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

// Thousandths returns a rate in the unit of registers.
func Thousandths(rate float64) int64 { return int64(math.Round(rate * Normal)) }
