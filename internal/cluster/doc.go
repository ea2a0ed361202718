// Package cluster knows which nodes a deployment has, and which of them live.
//
// Every second a node renews its lease, cluster:lease:{node}, which lives four
// seconds: the node lives while it is there. Beside it the node leaves an entry
// of a minute, cluster:node:{node}, that says what it is and where: that one is
// for people. cluster:nodes_active lists both kinds, those that live and those that
// were there a minute ago.
//
// Nothing here is the truth about anything else, and all of it may be lost: a
// second later it is there again. While Redis is away it is unknown which
// nodes live, and [Service.Live] returns an error.
//
// No clock is compared with another machine's. A lease and an entry end by the
// clock of the Redis server; the times in an entry are the node's own and for
// people. How old a node's last heartbeat is follows from what its entry has left to
// live.
//
// A node that stops takes its lease away and leaves an entry that says "stopped".
// One that dies is found by the first other node that misses its lease; that one
// alone marks it and publishes node.left. A node that finds a listed node without an
// entry takes it off the list. On the bus, topic "nodes", come node.joined and
// node.left; they hasten what each node sees by itself within a second.
//
// An operator's order to a node ([Tell]) is a key that the node reads with each round: to drain, or to serve
// again. Its entry then has the order's id, and how many sockets are left.
//
// Each round costs a node one command for each node of the deployment, in two
// round trips: 0.2 ms among ten nodes, 0.6 ms among a hundred, which together ask
// 10,000 times a second.
package cluster
