package events

import (
	"time"

	"github.com/stoa-dev/stoa/lib/bus"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

// Keys are the channel and the log between nodes, and the subscriptions of channels.
var Keys = keyspace.New("events")

// logLength is the number of events in the log: more than a minute of 150 changes a second, in one or two megabytes.
const logLength = 10_000

// The channel and the log have one name, and so one slot in a cluster.
var (
	busLog = keyspace.Def0(Keys, "cluster:events", keyspace.StreamOf("e: id, node, topic, name, Unix ms and data of an event"),
		keyspace.Forever("holds the latest 10,000; if it is emptied, nodes drop the cache entries that events would have invalidated"),
		keyspace.Doc{Purpose: "events of all nodes, so that a node can catch up", MaxBytes: 16 << 20})
	busChannel = keyspace.DefChannel0(Keys, "cluster:events",
		keyspace.RawMessages("previous event, entry, event; see package bus").LoggedIn(busLog.Family),
		keyspace.Doc{Purpose: "events of one node, for the others, at once", MaxBytes: 1 << 20, Version: 2})
	busKeys = bus.Keys{Events: busChannel.At(), Log: busLog.At()}
)

const (
	// listenTTL is the TTL of a subscription, which is renewed every renewInterval.
	listenTTL     = 25 * time.Hour
	renewInterval = 8 * time.Hour
	resumeTTL     = 5 * time.Minute // after the last listener has left, or after an event
	streamLength  = 200             // events of one channel
	eventBytes    = 64 << 10        // largest size of one event, in bytes
)

// The keys of one channel share a slot.
var (
	nodesKeys = keyspace.Def1[keyspace.Text](Keys, "gateway:nodes:{{channel}}", keyspace.BytesOf("nodes, with spaces between them"),
		keyspace.UpTo(listenTTL), keyspace.Doc{Purpose: "nodes with subscribers to a channel; empty while a client may resume",
			Together: "channel"})
	metaKeys = keyspace.Def1[keyspace.Text](Keys, "gateway:meta:{{channel}}", keyspace.HashOf("e: epoch; o: offset of the newest event"),
		keyspace.UpTo(listenTTL), keyspace.Doc{Purpose: "position of a channel: epoch and newest offset", Together: "channel"})
	streamKeys = keyspace.Def1[keyspace.Text](Keys, "gateway:stream:{{channel}}",
		keyspace.StreamOf("d: event as JSON; the id begins with its offset"),
		keyspace.Expire(resumeTTL), keyspace.Doc{Purpose: "the latest 200 events of a channel, for resuming clients",
			MaxBytes: streamLength * eventBytes, Together: "channel"})

	nodeChannels = keyspace.DefChannel1[keyspace.Text](Keys, "gateway:node:{node}",
		keyspace.RawMessages("JSON list of channel, epoch, offset and event"),
		keyspace.Doc{Purpose: "events of the channels with subscribers on a node", MaxBytes: 16 << 20})
)

// keysOf returns the keys of a channel's scripts.
func keysOf(channel string) (nodes, meta, stream keyspace.Key) {
	c := keyspace.Text{S: channel}
	return nodesKeys.At(c).Key, metaKeys.At(c).Key, streamKeys.At(c).Key
}
