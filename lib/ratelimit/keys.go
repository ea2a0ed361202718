package ratelimit

import (
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
)

var counters = keyspace.Def2[keyspace.Text, keyspace.Hashed](keyspace.New("limit"), "limit:{name}:{of}", keyspace.CounterKind(), keyspace.UpTo(24*time.Hour),
	keyspace.Doc{Purpose: "calls of somebody in a window"})

// Named returns the counter of a limit that needs no declared family: limit:name:of, where of is whom the
// limit is for, such as an address; it is hashed in the key. A window may be up to a day. Whoever wants keys of their
// own form, or the keys in a catalogue, declares a family of [keyspace.CounterKind]: nothing else changes.
func Named(name, of string) keyspace.Counter {
	return counters.At(keyspace.Text{S: name}, keyspace.Hashed{S: of})
}
