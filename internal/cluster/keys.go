package cluster

import (
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
)

// Keys is the keyspace of the cluster.
var Keys = keyspace.New("cluster")

const (
	// leaseLife is the lease TTL. Three heartbeats may fail before a node counts as dead.
	leaseLife = 4 * time.Second
	// entryLife is how long a dead node is listed.
	entryLife = time.Minute
)

// leaseSlot is the hash tag of the leases, so that one command reads all of them in a cluster, too.
type leaseSlot struct{}

// Words implements [keyspace.Words].
func (leaseSlot) Words() []string { return []string{"nodes"} }

var (
	leaseKeys = keyspace.Def2[keyspace.Word[leaseSlot], ID](Keys, "cluster:leases:{{slot}}:{node}", keyspace.BytesOf("boot id"),
		keyspace.Lease(leaseLife), keyspace.Doc{Purpose: "the node is alive while it exists", Together: "leases", MaxBytes: 64})

	entryKeys = keyspace.Def1[ID](Keys, "cluster:node:{node}", keyspace.JSONOf[Node](),
		keyspace.Expire(entryLife), keyspace.Doc{Purpose: "description of a node, for people", MaxBytes: 4096, Version: 2})

	orderKeys = keyspace.Def1[ID](Keys, "cluster:order:{node}", keyspace.JSONOf[Order](),
		keyspace.Expire(entryLife), keyspace.Doc{Purpose: "an operator's order to a node: drain, or serve again", MaxBytes: 256})

	nodesKey = keyspace.Def0(Keys, "cluster:nodes_active",
		keyspace.ZSetOf("node → Unix ms of its last heartbeat, by its clock; negative once it is gone"),
		keyspace.Forever("a node is removed after its entry expired"),
		keyspace.Doc{Purpose: "nodes that are alive or were alive a minute ago"})
)

func leaseKey(node ID) keyspace.Key {
	return leaseKeys.At(keyspace.WordOf[leaseSlot]("nodes"), node).Key
}
