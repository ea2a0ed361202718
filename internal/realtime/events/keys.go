package events

import (
	"time"

	"github.com/stoa-dev/stoa/lib/bus"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

// Keys are the channel and the log between nodes, and who listens to which channel.
var Keys = keyspace.New("events")

// keepEvents is over a minute of 150 changes a second, in a megabyte or two.
const keepEvents = 10_000

// The channel and the log have one name, and so one slot in a cluster.
var (
	busLog = keyspace.Def0(Keys, "cluster:events", keyspace.StreamOf("e: id, node, topic, name, Unix ms and data of an event"),
		keyspace.Forever("holds the latest 10,000; emptied, the nodes drop what events would have changed"),
		keyspace.Doc{Purpose: "what happened on one node, for others to catch up", MaxBytes: 16 << 20})
	busChannel = keyspace.DefChannel0(Keys, "cluster:events", keyspace.RawMessages("previous event, entry, event; see package bus").LoggedIn(busLog.Family),
		keyspace.Doc{Purpose: "what happened on one node, for the others, at once", MaxBytes: 1 << 20, Version: 2})
	between = bus.Keys{Events: busChannel.At(), Log: busLog.At()}
)

const (
	// listenLife is longer than anybody listens without [renewEvery].
	listenLife  = 25 * time.Hour
	renewEvery  = 8 * time.Hour
	resumeFor   = 5 * time.Minute // after the last listener has left, or after an event
	keepForEach = 200             // events of one channel
	eventBytes  = 64 << 10        // of one event
)

// The keys of one channel share a slot.
var (
	nodesKeys = keyspace.Def1[keyspace.Text](Keys, "gateway:nodes:{{channel}}", keyspace.BytesOf("nodes, with spaces between them"),
		keyspace.UpTo(listenLife), keyspace.Doc{Purpose: "which nodes hold somebody who listens to a channel; empty while somebody may resume", Together: "channel"})
	metaKeys = keyspace.Def1[keyspace.Text](Keys, "gateway:meta:{{channel}}", keyspace.HashOf("e: epoch; o: offset of the newest event"),
		keyspace.UpTo(listenLife), keyspace.Doc{Purpose: "where a channel stands", Together: "channel"})
	streamKeys = keyspace.Def1[keyspace.Text](Keys, "gateway:stream:{{channel}}", keyspace.StreamOf("d: event as JSON; the id begins with its offset"),
		keyspace.Expire(resumeFor), keyspace.Doc{Purpose: "the latest 200 events of a channel, for who resumes", MaxBytes: keepForEach * eventBytes, Together: "channel"})

	nodeChannels = keyspace.DefChannel1[keyspace.Text](Keys, "gateway:node:{node}", keyspace.RawMessages("JSON list of channel, epoch, offset and event"),
		keyspace.Doc{Purpose: "events of the channels to which a node listens", MaxBytes: 16 << 20})
)

// keysOf are the keys that a channel's scripts take.
func keysOf(channel string) (nodes, meta, stream keyspace.Key) {
	c := keyspace.Text{S: channel}
	return nodesKeys.At(c).Key, metaKeys.At(c).Key, streamKeys.At(c).Key
}
