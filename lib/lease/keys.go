package lease

import (
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
)

var (
	namedSchema = keyspace.New("lease")
	namedLeases = keyspace.Def1[keyspace.Text](namedSchema, "lease:{{name}}", keyspace.BytesOf("token nonce owner"),
		keyspace.Lease(24*time.Hour),
		keyspace.Doc{Purpose: "the process that holds the named lease"})
	namedFences = keyspace.Def1[keyspace.Text](namedSchema, "lease:{{name}}:fence", keyspace.CounterKind(),
		keyspace.Forever("tokens must rise"),
		keyspace.Doc{Purpose: "the last fencing token"})
)

// Named returns the keys of a lease without declared families: lease:{name} and lease:{name}:fence. The life may be up
// to one day. To choose the keys, or to have them in a catalogue, declare two families and make the Keys from them;
// everything else stays the same.
func Named(name string) Keys {
	n := keyspace.Text{S: name}
	return Keys{Lease: namedLeases.At(n), Fence: namedFences.At(n)}
}
