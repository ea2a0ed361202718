package ratelimit

import (
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
)

var counters = keyspace.Def2[keyspace.Text, keyspace.Hashed](keyspace.New("limit"), "limit:{name}:{of}", keyspace.CounterKind(),
	keyspace.UpTo(24*time.Hour),
	keyspace.Doc{Purpose: "the calls of one caller in a window"})

// Named returns the counter of a limit without a declared family: limit:name:of. of is the subject of the limit, such
// as an address; the key contains its hash. A window may be up to one day. To choose the keys, or to have them in a
// catalogue, declare a family of [keyspace.CounterKind]; everything else stays the same.
func Named(name, of string) keyspace.Counter {
	return counters.At(keyspace.Text{S: name}, keyspace.Hashed{S: of})
}
