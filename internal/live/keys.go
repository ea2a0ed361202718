package live

import (
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/lease"
)

// Keys are the families of this domain.
var Keys = keyspace.New("live")

const (
	// leaseLife is how long a stream waits for another publisher after the death of a node.
	leaseLife = 10 * time.Second
	// fenceLife is more than the clocks of two nodes differ.
	fenceLife = 24 * time.Hour
	// infoLife and statsLife outlast a publisher's node that is away for a while; whether a stream is live the lease says.
	infoLife  = 5 * time.Minute
	statsLife = 10 * time.Minute
	// subscribersLife is that of a set which nobody renews; its entries count for viewerLife.
	subscribersLife = 5 * time.Minute
)

var (
	publisherKeys = keyspace.Def1[ID](Keys, "stream:publisher:{{stream}}", keyspace.BytesOf("token, nonce and node"),
		keyspace.Lease(leaseLife), keyspace.Doc{Purpose: "which node publishes a stream", Together: "stream", MaxBytes: 128})
	fenceKeys = keyspace.Def1[ID](Keys, "stream:fence:{{stream}}", keyspace.CounterKind(),
		keyspace.Expire(fenceLife), keyspace.Doc{Purpose: "the fencing token of a stream's newest publisher", Together: "stream"})
	infoKeys = keyspace.Def1[ID](Keys, "stream:info:{{stream}}", keyspace.JSONOf[OnAir](),
		keyspace.Expire(infoLife), keyspace.Doc{Purpose: "where a stream is published, and with which codecs; it counts while the lease has its token", Together: "stream", MaxBytes: 1 << 10})
	statsKeys = keyspace.Def1[ID](Keys, "stream:stats:{{stream}}", keyspace.HashOf("viewers; bitrate in bits a second; packets; bytes; lost"),
		keyspace.Expire(statsLife), keyspace.Doc{Purpose: "what is counted of a stream's publisher", Together: "stream", MaxBytes: 1 << 10})
	subscriberKeys = keyspace.Def1[ID](Keys, "stream:subscribers:{{stream}}", keyspace.ZSetOf("session.node.user by the Unix ms, of the servers, until when it counts"),
		keyspace.Expire(subscribersLife), keyspace.Doc{Purpose: "who watches a stream, and at which node", Together: "stream", MaxBytes: 4 << 20})

	streamKeys = keyspace.Def1[ID](Keys, "cache:stream:{stream}", keyspace.CachedOf[Stream](),
		keyspace.Expire(10*time.Minute).Jitter(time.Minute).Negative(time.Minute),
		keyspace.Doc{Purpose: "a stream with its settings, and since when it is published",
			InvalidatedBy: []string{StreamChanged.Name(), StreamDeleted.Name(), StreamStarted.Name(), StreamStopped.Name()}, MaxBytes: 2 << 10})
)

func leaseKeys(id ID) lease.Keys {
	return lease.Keys{Lease: publisherKeys.At(id), Fence: fenceKeys.At(id)}
}
