// Package events tells users' devices, other parts of the server and other nodes what
// has happened, after it was committed.
//
// An [Event] goes to a channel: the personal channel of the user it happened to, whose
// name is the user's id, or another one that it names. Whoever listens on any node gets
// it, by [Bus.Listen] or [Bus.Subscribe].
//
// # How it gets there
//
// Redis knows for each channel which nodes listen (gateway:nodes), where the channel
// stands (gateway:meta: an epoch, and the offset of its newest event) and its latest 200
// events for five minutes (gateway:stream). The sender of a node takes all events that
// wait, asks in one round trip which of their channels anybody listens to, in a second one
// gives these events their offsets, and in a third one hands them to the nodes concerned:
// a node subscribes in Redis to one channel, its own (gateway:node), whatever it listens to.
// So an event of a user who is off line costs a part of an MGET, and listening costs one
// script and no subscription.
//
// # What is promised
//
//   - A listener gets the events of its channel in the order of their offsets, each once, or
//     is told [Listener].Lost: then it looks at the truth.
//   - Redis' pub/sub is at most once. A node that sees a gap between two offsets, or whose
//     subscription was interrupted, reads from the stream what it missed.
//   - Where the stream cannot tell (Redis was emptied, another server took over, events
//     were lost on the way) the channel begins a new epoch, and every listener is told so.
//   - While Redis is away events reach the listeners of the node that publishes, without an
//     offset. When it is back, and has what these events were about ([Bus.SetBehind]), the
//     channels concerned begin a new epoch. An event that Redis took without an answer may
//     come twice before that.
//   - A fleeting event of a user's own channel that cannot be sent, or that comes while many others
//     wait, is left out, and nobody is told of that.
//   - A node that dies takes with it the events that it has not sent yet. What must survive
//     that is not an event alone: it is committed, and found by whoever looks (a message by the
//     sequence of its conversation).
//
// Positions, epochs and resuming are as in Centrifugo, whose clients know them.
//
// [Bus.Nodes] is the deployment's other bus, for what nodes tell each other: there a node
// that misses an event knows it at once, and every event goes to every node.
package events
