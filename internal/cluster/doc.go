// Package cluster registers the nodes of a deployment and detects which of them are alive.
//
// Each node renews its lease, cluster:leases:{{slot}}:{node}, every second. The lease expires after four seconds. A node
// is alive while its lease exists. The leases share a slot, so that one MGET reads all of them. The node also stores an
// entry for one minute, cluster:node:{node}, that describes it for people. cluster:nodes_active lists the nodes that are
// alive and those that were alive a minute ago.
//
// All of this is derived data. After a loss it is complete again within a second. While Redis is unavailable it is
// unknown which nodes are alive, and [Service.Live] returns an error.
//
// No node compares its clock with another clock. Leases and entries expire by the clock of the Redis server. The times
// in an entry are by the clock of its node, for people. The age of a heartbeat is computed from the remaining TTL of
// the entry.
//
// A node that stops deletes its lease and leaves an entry with the status "stopped". The first other node that misses
// the lease of a dead node marks it and publishes node.left. A node that finds a listed node without an entry removes
// it from the list. The bus topic "nodes" carries node.joined and node.left. Without them nodes see changes within a
// second.
//
// An operator's order to a node ([Send]) is a key that the node reads in each round: to drain, or to serve again. The
// entry of the node then contains the id of the order and the number of open sockets.
//
// A round costs a node six commands in two round trips, whatever the number of nodes.
package cluster
