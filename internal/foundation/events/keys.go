package events

import (
	"github.com/stoa-dev/stoa/bus"
	"github.com/stoa-dev/stoa/keyspace"
)

// Keys are the channel and the log between nodes, and the channels of events.
var Keys = keyspace.New("events")

// keepEvents is over a minute of 150 changes a second, in a megabyte or two.
const keepEvents = 10_000

// The channel and the log have one name, and so one slot in a cluster.
var (
	log = keyspace.Def0(Keys, "cluster:events", keyspace.StreamOf("e: id, node, topic, name, Unix ms and data of an event"),
		keyspace.Forever("holds the latest 10,000; emptied, the nodes drop what events would have changed"),
		keyspace.Doc{Purpose: "what happened on one node, for others to catch up", MaxBytes: 16 << 20})
	channel = keyspace.DefChannel0(Keys, "cluster:events", keyspace.RawMessages("previous event, entry, event; see package bus").LoggedIn(log.Family),
		keyspace.Doc{Purpose: "what happened on one node, for the others, at once", MaxBytes: 1 << 20, Version: 2})

	between = bus.Keys{Events: channel.At(), Log: log.At()}
)
