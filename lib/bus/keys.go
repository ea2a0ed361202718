package bus

import "github.com/stoa-dev/stoa/lib/keyspace"

var (
	named       = keyspace.New("bus")
	namedEvents = keyspace.DefChannel1[keyspace.Text](named, "bus:{name}", keyspace.RawMessages("id, id before, topic, name, data"),
		keyspace.Doc{Purpose: "events, pushed to the nodes"})
	namedLogs = keyspace.Def1[keyspace.Text](named, "bus:{name}", keyspace.StreamOf("topic, name, data"),
		keyspace.Forever("trimmed by this package"),
		keyspace.Doc{Purpose: "events, from which nodes catch up"})
)

// Named returns the keys of a bus that needs no declared families: bus:name, a channel and a stream. To use keys of
// another form, or to list the keys in a catalogue, declare the two families and make the Keys from them: nothing else
// changes.
func Named(name string) Keys {
	n := keyspace.Text{S: name}
	return Keys{Events: namedEvents.At(n), Log: namedLogs.At(n)}
}
