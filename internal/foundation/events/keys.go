package events

import (
	"github.com/stoa-dev/stoa/bus"
	"github.com/stoa-dev/stoa/keyspace"
)

// Keys is what nodes tell each other through.
var Keys = keyspace.New("events")

// keepEvents is over a minute of 150 changes a second, in a megabyte or two.
const keepEvents = 10_000

// The channel and the log have one name, and so one slot in a cluster.
var between = bus.Keys{
	Events: keyspace.DefChannel0(Keys, "cluster:events", "previous event, entry, event; see package bus",
		keyspace.Doc{Purpose: "what happened on one node, for the others, at once"}).At(),
	Log: keyspace.Def0(Keys, "cluster:events", keyspace.StreamOf("e: id, node, topic, name, Unix ms and data of an event"),
		keyspace.Forever("holds the latest 10,000; emptied, the nodes drop what events would have changed"),
		keyspace.Doc{Purpose: "what happened on one node, for others to catch up", MaxBytes: 16 << 20}).At(),
}
