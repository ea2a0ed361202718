// Package live is for live streams: their owners, publishers and viewers. Pictures and sound are sent over WebRTC
// (package media). Publishers connect by WHIP (RFC 9725), viewers by WHEP (draft-ietf-wish-whep).
//
// # Truth
//
// SQL is the source of truth. Its tables are streams (owner, access, hashes of the keys, time since a stream is live)
// and stream_recordings. Keys are random, and only their hashes are stored.
//
// # One publisher
//
// The key stream:publisher:{{stream}} is a lease (package lease). At most one node has it, with a fencing token. All
// changes by a publisher's node have the token. In Redis, a script refuses a token that is not the newest. SQL accepts
// changes only with streams.fence equal to the token. For each packet, the node checks that its lease is still valid.
// So after the lease of a suspended node has expired, its publisher changes no data and sends no media.
//
// If Redis loses a lease, the node acquires it again and the session continues. While Redis is unavailable, media stop
// when the lease expires, and the publisher's session ends half a minute later.
//
// # What is derived
//
// Redis stores stream:info:{{stream}} (node, address and codecs), stream:stats:{{stream}}, and
// stream:subscribers:{{stream}}. The last has each viewer's session with the time when it expires unless its node
// renews it. A stream is live while the lease is held and the info has its token. If Redis loses them, all are rebuilt
// within seconds. The key cache:stream:{stream} has a cache entry of the row, which four events drop.
//
// # Other nodes
//
// A node whose viewers want a stream of another node becomes one viewer there, a relay. It uses WHEP and a token that
// is signed with the common secret of the nodes. The relay forwards media to its own viewers. It ends when it has no
// viewers, or when the publisher's session ends.
//
// # Keys
//
// The holder of the publish key may publish, and the holder of the play key may watch. New keys end the sessions of the
// old ones.
//
// # Ends of rights
//
// A session depends on a right: a key, a user's session, or a viewer's membership of a room, which a ticket names. Each
// node follows the events that end the rights of its sessions, and then compares these sessions with SQL. It compares
// all sessions every half a minute, in case it missed an event. See [Service.follow] and [Service.mayStay].
package live
