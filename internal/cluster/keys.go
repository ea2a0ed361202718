package cluster

import (
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
)

// Keys is the cluster's part of the keyspace.
var Keys = keyspace.New("cluster")

const (
	// leaseLife lets three heartbeats fail before a node counts as dead.
	leaseLife = 4 * time.Second
	// entryLife is how long a node that died is shown.
	entryLife = time.Minute
)

var (
	leaseKeys = keyspace.Def1[ID](Keys, "cluster:lease:{node}", keyspace.BytesOf("boot id"),
		keyspace.Lease(leaseLife), keyspace.Doc{Purpose: "a node lives while it is there", MaxBytes: 64})

	entryKeys = keyspace.Def1[ID](Keys, "cluster:node:{node}", keyspace.JSONOf[Node](),
		keyspace.Expire(entryLife), keyspace.Doc{Purpose: "what a node is and where, for people", MaxBytes: 4096, Version: 2})

	orderKeys = keyspace.Def1[ID](Keys, "cluster:order:{node}", keyspace.JSONOf[Order](),
		keyspace.Expire(entryLife), keyspace.Doc{Purpose: "what an operator tells a node to do: to drain, or to serve again", MaxBytes: 256})

	nodesKey = keyspace.Def0(Keys, "cluster:nodes_active", keyspace.ZSetOf("node → Unix ms of its last heartbeat, by its clock; negative once it is gone"),
		keyspace.Forever("a node is taken off when its entry is gone"),
		keyspace.Doc{Purpose: "which nodes there are, and were a minute ago"})
)
