// Package bus broadcasts events between the nodes of a deployment. No node misses an event without detecting it, and
// each node knows how fresh its knowledge is.
//
//	b := bus.New(db, bus.Named("cluster"), bus.Config{Node: "node-7"})
//	b.Handle("rooms", bus.Handler{
//		Event: func(e bus.Event) { … },  // quick: drop a cache entry, wake a subscriber
//		Lost:  func() { … },             // drop everything that an event could have changed
//	})
//	go b.Run(ctx, func() {})
//	err := b.Publish(ctx, "rooms", "room.closed", id)
//
// # Idea
//
// Redis pub/sub is fast but loses messages that are published while a subscriber is disconnected. A stream stores its
// entries but has to be polled. The bus uses both: one script adds an event to the log, a stream of bounded length, and
// publishes it together with the id of the event before it. A node whose last event is another one has missed
// something, and reads the log at once.
//
// The beat detects a lost message with no message after it: every 100 ms, or 300 ms without calls of [Bus.Seen], a node
// reads the log from the last event that it handled. If the log still begins with that event, the entries after it are
// all that was missed. If not, the log was trimmed, emptied or replaced, and the missed events cannot be known. The bus
// then calls [Handler.Lost] of every topic and continues from the end of the log. Lost is not an error but part of the
// guarantee: an event is handled, or covered by a later Lost.
//
// The beat then identifies the servers, see [redis.DB.KnownFingerprint]. If a server was restarted or a replica took
// over, the newest events may be missing from the log, and so may other keys: the bus calls Lost again, and [Bus.Era]
// changes.
//
// # Freshness
//
// [Bus.Seen] is the moment before the last successful beat was sent. Every event that was in the log then has been
// handled here or is covered by a Lost. A cache may therefore trust its copies as long as Seen is recent enough, and
// detects a lost connection without asking Redis, because Seen does not advance. In a cluster this happens while any
// owner of keys is unavailable, because a replica may be about to replace it. Seen costs an atomic load, and [Now] one
// reading of the clock. The clocks of two machines are never compared.
//
// # Guarantees
//
//   - Events of other nodes are handled in the order of the log, each once. A node does not handle its own events.
//   - An event whose Publish succeeded is handled by every running node, or Lost is called there after it. In either
//     case this happens before Seen passes the moment of the return of Publish.
//   - After a start, Lost is called and events count from then on.
//   - An event of [Bus.Pass] is delivered at most once, in no order relative to the others, and no Lost covers it. It
//     is for events that are only useful at once.
//
// There are no guarantees under a network partition with two masters (split brain): the nodes on each
// side only receive each other's events. The Redis setting min-replicas-to-write bounds how long the old master accepts
// events.
//
// # Names and a cluster
//
// In a cluster the script's channel and log must share a slot, and the channel is sharded. Use the same name for both:
// in Redis, keys and channels only share the computation of the slot.
//
// # Costs
//
// With Redis on the same machine and two busy cores, an event takes 0.1 ms from Publish to the handler on another node
// at the median, and 0.3 ms at p99. Publish takes 0.12 ms alone, and many callers reach 25,000 a second; it needs 29 µs
// of the server's time. Pass takes half as long, and less than 1 µs of the server's time for the message itself. A beat
// takes 0.15 ms, or 0.5 ms on a cluster of three, and 16 µs of the server's time: ten a second on 100 nodes are 2 % of
// a server. At most once a second, a beat of a single server also costs two INFO and a TIME. An event with four bytes of
// data takes 34 bytes in the log. The embedded server, which has no other nodes, runs the script in a millisecond.
package bus
