package lease

import (
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
)

var (
	named       = keyspace.New("lease")
	namedLeases = keyspace.Def1[keyspace.Text](named, "lease:{{name}}", keyspace.BytesOf("token nonce owner"), keyspace.Lease(24*time.Hour),
		keyspace.Doc{Purpose: "which process does what has that name"})
	namedFences = keyspace.Def1[keyspace.Text](named, "lease:{{name}}:fence", keyspace.CounterKind(), keyspace.Forever("tokens must rise"),
		keyspace.Doc{Purpose: "the last token given"})
)

// Named returns the keys of a lease that needs no declared families: lease:{name} and
// lease:{name}:fence. A life may be up to a day. Whoever wants keys of their own form, or the keys in a
// catalogue, declares two families and makes the Keys of them: nothing else changes.
func Named(name string) Keys {
	n := keyspace.Text{S: name}
	return Keys{Lease: namedLeases.At(n), Fence: namedFences.At(n)}
}
