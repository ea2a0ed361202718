// Package events publishes committed changes to users' devices, to other parts of the server and to other nodes.
//
// An [Event] goes to a channel: the personal channel of its user, whose name is the user's id, or another channel
// that the event names. Subscribers on any node get it, by [Bus.Listen] or [Bus.Subscribe].
//
// # Delivery
//
// For each channel, Redis stores which nodes have subscribers (gateway:nodes), the channel's position (gateway:meta:
// an epoch, and the offset of the newest event) and its latest 200 events for five minutes (gateway:stream). A node's
// sender takes all queued events. One round trip finds which of their channels have subscribers. A second one gives
// these events their offsets. A third one delivers them to the nodes concerned. One Redis channel per node (gateway:node)
// carries the events of all its subscribers. An event of an offline user therefore costs only a part of an MGET, and a
// subscription costs one script and no Redis subscription.
//
// # Guarantees
//
//   - A listener gets the events of its channel in the order of their offsets, or [Listener].Lost is called and it loads the
//     current state. It gets each event once, except after an unanswered command, see below.
//   - Redis' pub/sub delivers at most once. A node that sees a gap between two offsets, or whose subscription was
//     interrupted, reads the missing events from the stream.
//   - If the stream cannot fill the gap (Redis was emptied or failed over, events were lost on the way), the channel begins
//     a new epoch, and every listener is notified.
//   - While Redis is unavailable, events reach the listeners of the publishing node only, without an offset. When Redis is
//     back and contains the changes behind these events ([Bus.DelayEpochsWhile]), the channels concerned begin a new epoch. Before that,
//     an event whose command got no reply may arrive twice.
//   - A fleeting event of a user's own channel is dropped silently if it cannot be sent, or if many other events are queued.
//   - A node that crashes loses the events that it has not sent yet. Data that must survive a crash is committed as well, and
//     clients find it when they load the state (for example a message by its sequence number).
//
// Positions, epochs and resuming work as in Centrifugo, so that its clients can be used.
//
// [Bus.Nodes] is the bus between the nodes of the deployment. There a node detects a missed event at once, and every
// event goes to every node.
package events
