package events

import "github.com/stoa-dev/stoa/keyspace"

// Keys has the channel between nodes.
var Keys = keyspace.New("events")

// channel carries one message for each batch. Bus.encode writes them, for the
// sake of speed.
var channel = keyspace.DefChannel0(Keys, "cluster:events", keyspace.MessagesOf[envelope](),
	keyspace.Doc{Purpose: "what was committed on one node, for the others", MaxBytes: 1 << 20})
