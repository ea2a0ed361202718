// Package presence has the users who are online, with their devices, and publishes changes to their friends.
//
// # Terms
//
// A connection is one of a device to a node: a socket, or a stream of events. A user is online while a live node has
// one of their connections. The user's wish for the time online (online, away, busy) is stored apart from that, and
// survives it.
//
// Redis has the connections of each user in user:connection. In this small value, each connection has its node, its
// device and its start time. Users who ever set a wish also have user:status. A connection counts while package cluster
// reports that its node is live. A heartbeat therefore costs a node one command for any number of connections. The
// users of a node that dies are offline when its lease ends, without a write.
//
// # Published changes
//
// A user's value in user:connection exists exactly while the friends see the user as online. The writer that creates
// the value publishes the change, and so does the writer that removes the last connection. A script determines that
// writer, so each change is published once. For that reason, an entry stays for five seconds after its connection has
// closed ([linger]): a user who returns within that time, on any node, was never away. Entries of a dead node stay as
// well, until the job presence.sweep has missed the node for five seconds. The job then removes them and publishes the
// users who have not returned. Meanwhile these entries do not count.
//
// Each node has the set presence:node with the users of its connections, so that the sweep reads only these.
// presence:nodes has all nodes. A sweep leaves a mark there. A node that was only cut off learns from it that its users
// were published as offline.
//
// A change is the event presence.changed. It goes to the personal channels of friends and of the user's own devices,
// and to channel:user_status. An event reaches only the present listeners, and may be lost, with the node that was to
// send it or with Redis. A read is correct all the same.
//
// Each event and each response has the version of the user's status, user:presence_version. The script that stores a
// change draws it: higher than the last one, and at least the Unix milliseconds of the node's clock. An event has the
// status and the version of one read, so a higher version never has an older status.
//
// # Audience
//
// A user's friends see the user, unless the user's setting excludes all. A block ends the friendship in its own
// transaction, so neither side of a block sees the other. It also fences both sides' copies of their friends (package
// social). All other viewers get "offline". They get the same for unknown, deleted and banned users.
//
// # Source of truth, and the cost of a lost key
//
// Nodes are the source of truth for their own connections. A node stores all its connections again within a second or
// two if its mark in presence:nodes is gone, or if the bus reports that Redis may have lost data. It publishes no event
// for that, because no status has changed. Its mark is "writing" until all of them are written. A beat later, the node
// removes the connections in Redis that have closed, because Redis may have been set back.
//
// A response is partial unless the marks, read after the connections, show that the connections of every node are
// complete. This concerns each live node, and each node that this process saw alive within the last five seconds,
// because an emptied Redis has lost the leases too. Each user who got a partial response gets presence.complete later.
//
// SQL has the wish and the time when a user was last seen (table presence). The copy of the wish in Redis has a
// version, so that an older one never replaces a newer one. Keys have a TTL of one day and are renewed every six to
// eight hours.
//
// While Redis is away, a node returns its own connections and the data of SQL, and the response is partial. Changes of
// that time are published when Redis is back.
package presence
