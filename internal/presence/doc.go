// Package presence knows which users are on line, on which devices, and tells their friends.
//
// # What is what
//
// A connection is one of a device to a node: a socket, or a stream of events. A user is on
// line while one of their connections is held by a node that lives. What the user wishes to
// be while on line (online, away, busy) is kept apart from that, and survives it.
//
// Redis has for each user the connections, user:connection, one small value in which each
// connection names its node, its device and since when it is there; and for a user who ever
// set one, the wish: user:status. A connection counts while package cluster says that its
// node lives. So a heartbeat costs a node one command whatever it holds, and the users of a
// node that dies are off line when its lease ends, without anything being written.
//
// # What friends are told
//
// A user's value in user:connection exists exactly while the friends believe that the user
// is on line. Whoever makes it tells them, and so does whoever takes the last connection
// out of it; a script finds out who that is, so each change is told once. For that
// reason an entry stays there for five seconds after its connection has closed
// ([linger]): a user who is back by then, on whichever node, was never away. For the same reason
// entries of a dead node stay until the job presence.sweep has found it missing for five
// seconds, takes them out, and tells the friends of those who are not back. They count for nobody meanwhile.
//
// A node has a set of the users that it holds, presence:node, so that the sweep needs to look at
// no others. All nodes are in presence:nodes; a sweep leaves a mark there, by which a node that
// was only cut off knows that its users were told of as off line.
//
// What is told is an event, presence.changed, for whoever listens at that moment, on the personal
// channels of friends and of the user's own devices, and on channel:user_status. An
// event may be lost, with the node that was to send it or with Redis: what is read is right
// all the same.
//
// Each event and each answer has the version of the user's status, user:presence_version. The script that stores a
// change draws it: higher than the last one, and at least the Unix milliseconds of the node's clock. An event has the
// status and the version of one read, so a higher version never has an older status.
//
// # Who sees it
//
// A user's friends, unless the user's setting says nobody. A block ends the friendship in the
// transaction that makes it, so neither side of a block sees anything; both sides' copies of
// their friends are fenced by it (package social). For everybody else, for users that never
// were, and for deleted or banned ones the answer is "off line", and it is the same one.
//
// # Truth, and what losing a key costs
//
// Nodes know their own connections: they are the truth. A node that finds its mark in
// presence:nodes gone, or hears that Redis may have lost something, puts all its
// connections back within a second or two, and tells nobody, because nothing has changed. Its mark
// is "writing" until all of them are written. An answer is partial unless the marks, read after the connections, say
// that those of every node are complete: of each node that lives, and of each that this process saw live within the last five
// seconds, because an emptied Redis has lost the leases too. Each user who got a partial answer gets presence.complete. A beat
// later it takes out those that Redis has of it and that have closed: Redis may have been set back.
// The wish, and when a user was last seen, are in SQL (table presence); the copy of the
// wish in Redis has a version, so that an older one never replaces a newer one. Keys live for a day
// and are renewed every six to eight hours.
//
// While Redis is away a node answers from its own connections and SQL, and the answer is partial. Users who come and go meanwhile are told of when it is back.
package presence
