package live

import (
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/lease"
)

// Keys are the key families of this package.
var Keys = keyspace.New("live")

const (
	// leaseLife is the time until a stream accepts another publisher after a node's death.
	leaseLife = 10 * time.Second
	// fenceLife is larger than any difference between the clocks of two nodes.
	fenceLife = 24 * time.Hour
	// infoLife and statsLife are longer than short absences of a publisher's node. The lease decides whether a stream
	// is live.
	infoLife  = 5 * time.Minute
	statsLife = 10 * time.Minute
	// subscribersLife is the TTL of a set that no node renews. Its entries are valid for viewerLife.
	subscribersLife = 5 * time.Minute
)

var (
	publisherKeys = keyspace.Def1[ID](Keys, "stream:publisher:{{stream}}", keyspace.BytesOf("token, nonce and node"),
		keyspace.Lease(leaseLife), keyspace.Doc{Purpose: "which node publishes a stream", Together: "stream", MaxBytes: 128})
	fenceKeys = keyspace.Def1[ID](Keys, "stream:fence:{{stream}}", keyspace.CounterKind(),
		keyspace.Expire(fenceLife), keyspace.Doc{Purpose: "the fencing token of a stream's newest publisher", Together: "stream"})
	infoKeys = keyspace.Def1[ID](Keys, "stream:info:{{stream}}", keyspace.JSONOf[OnAir](),
		keyspace.Expire(infoLife), keyspace.Doc{Purpose: "where a stream is published, and with which codecs; it counts while the lease has " +
			"its token", Together: "stream", MaxBytes: 1 << 10})
	statsKeys = keyspace.Def1[ID](Keys, "stream:stats:{{stream}}", keyspace.HashOf("viewers; bitrate in bits a second; packets; bytes; lost"),
		keyspace.Expire(statsLife), keyspace.Doc{Purpose: "what is counted of a stream's publisher", Together: "stream", MaxBytes: 1 << 10})
	subscriberKeys = keyspace.Def1[ID](Keys, "stream:subscribers:{{stream}}",
		keyspace.ZSetOf("session.node.user by the Unix ms, of the servers, until when it counts"),
		keyspace.Expire(subscribersLife), keyspace.Doc{Purpose: "who watches a stream, and at which node", Together: "stream", MaxBytes: 4 << 20})

	streamKeys = keyspace.Def1[ID](Keys, "cache:stream:{stream}", keyspace.CachedOf[Stream](),
		keyspace.Expire(10*time.Minute).Jitter(time.Minute).Negative(time.Minute),
		keyspace.Doc{Purpose: "a stream with its settings, and since when it is published",
			InvalidatedBy: []string{StreamChanged.Name(), StreamDeleted.Name(), StreamStarted.Name(), StreamStopped.Name()}, MaxBytes: 2 << 10})
)

func leaseKeys(id ID) lease.Keys {
	return lease.Keys{Lease: publisherKeys.At(id), Fence: fenceKeys.At(id)}
}
