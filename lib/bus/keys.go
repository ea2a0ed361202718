package bus

import "github.com/stoa-dev/stoa/lib/keyspace"

var (
	named       = keyspace.New("bus")
	namedEvents = keyspace.DefChannel1[keyspace.Text](named, "bus:{name}", keyspace.RawMessages("id, id before, topic, name, data"), keyspace.Doc{Purpose: "what happened, at once"})
	namedLogs   = keyspace.Def1[keyspace.Text](named, "bus:{name}", keyspace.StreamOf("topic, name, data"), keyspace.Forever("trimmed by this package"),
		keyspace.Doc{Purpose: "what happened, to catch up from"})
)

// Named returns the keys of a bus that needs no declared families: bus:name, a channel and a stream. Whoever wants
// keys of their own form, or the keys in a catalogue, declares the two and makes the Keys of them: nothing
// else changes.
func Named(name string) Keys {
	n := keyspace.Text{S: name}
	return Keys{Events: namedEvents.At(n), Log: namedLogs.At(n)}
}
