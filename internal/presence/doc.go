// Package presence stores the users who are online, with their devices, and publishes changes to their friends.
//
// # Terms
//
// A connection connects a device to a node: it is a socket or an event stream. A user is online while a live node has
// one of their connections. A wish is a user's choice of the status that others see while the user is connected:
// online, away or busy. It is stored separately, and remains when the user goes offline.
//
// Redis has the connections of each user in user:connection. This small value has the node, the device and the start
// time of each connection. Users who ever set a wish also have user:status. A connection counts while package cluster
// reports that its node is live. A node therefore sends one command for each heartbeat, with any number of connections.
// When a node dies, its users are offline as soon as its lease expires, without a write.
//
// # Published changes
//
// A user's value in user:connection exists from the published "online" to the published "offline". The writer that
// creates the value publishes that the user is online. The writer that removes the last connection publishes that the
// user is offline. A script determines the writer, so two nodes never publish the same change.
//
// An entry stays for five seconds after its connection has closed ([linger]). A user who returns within that time, on
// any node, was never offline. Entries of a dead node do not count, but stay until the node has been missing for five
// seconds. The job presence.sweep then removes them, and publishes that users without another connection are offline.
//
// Each node has the set presence:node with the users of its connections, so that the sweep reads only these.
// presence:nodes has all nodes. A sweep stores a mark there. A node that was only cut off learns from the mark that its
// users were published as offline.
//
// A change is published as the event presence.changed, to the friends and to channel:user_status. The user's own devices
// also get it if the wish or the audience changed. Only present subscribers receive it. It may be lost if Redis or the
// publishing node fails. Responses are correct even then.
//
// Each event and each response has the version of the user's status, from user:presence_version. The script that stores
// a change sets the next version. It is higher than the last one, and at least the Unix milliseconds of the node's
// clock. An event has the status and the version of one read, so a higher version never has an older status.
//
// # Audience
//
// A user's friends see the user, unless the user's setting hides them from all. A block ends the friendship in the same
// transaction, so the two users do not see each other. It also fences the cache entries of both users' friends (package
// social). All other viewers get "offline". They get the same for unknown, deleted and banned users.
//
// # Source of truth, and the cost of a lost key
//
// Nodes are the source of truth for their own connections. A node stores all its connections again within a second or
// two if its mark in presence:nodes is missing, or if the bus reports that Redis may have lost data. It publishes no
// event for that, because no status has changed. Its mark is "writing" until all connections are stored. One beat later,
// the node removes closed connections that came back, because Redis may have returned to an older state.
//
// A response is partial unless Redis has all connections to all live nodes:
//
//   - The marks of the nodes show that. They are read after the connections.
//   - Nodes that this process saw live within the last five seconds also count as live here, because an emptied Redis has
//     also lost the leases.
//   - Each user who got a partial response gets the event presence.complete later.
//
// SQL has the wish and the time when a user was last seen (table presence). The copy of the wish in Redis has a
// version, so that an older one never replaces a newer one. Keys have a TTL of one day and are renewed every six to
// eight hours.
//
// While Redis is unavailable, a node returns its own connections and the data of SQL, and the response is partial. The
// changes of that time are published when Redis is available again.
package presence
