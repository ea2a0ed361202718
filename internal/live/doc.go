// Package live is for live streams: who has one, who publishes it, and who watches. Pictures and sound go over WebRTC
// (package media); publishers come by WHIP (RFC 9725), viewers by WHEP (draft-ietf-wish-whep).
//
// # Truth
//
// SQL: streams (whose they are, who may watch, hashes of their keys, since when one is live) and
// stream_recordings. Keys are random and kept as hashes only.
//
// # One publisher
//
// stream:publisher:{{stream}} is a lease (package lease): at most one node holds it, and with it the number of the
// turn, its fencing token. What a publisher's node changes has the token: a script refuses it in Redis unless it is
// the newest, and SQL takes it only with streams.fence equal to it. Media count while the node knows that the lease is
// its own, which is asked for each packet. So an old publisher whose node was asleep changes nothing and shows
// nothing, whatever it believes.
//
// A lease that Redis has forgotten is taken again, and the session goes on. While Redis is away, media stop when
// the lease has run out, and a publisher is sent away half a minute later.
//
// # What is derived
//
// In Redis: stream:info:{{stream}} (which node, where, with which codecs), stream:stats:{{stream}}, and
// stream:subscribers:{{stream}} (each viewer's session, until when it counts unless its node says so again). A stream is
// live while the lease is held and the info has its token. Lost, all come back within some seconds. A copy of the row is
// in cache:stream:{stream}, which four events drop.
//
// # Other nodes
//
// A node whose viewers want what is published at another one becomes one viewer there, by WHEP and with a token that the
// nodes' common secret signs, and hands on what comes. It ends when nobody watches any more, and when the publisher's session has.
//
// # Keys
//
// The holder of the publish key may publish, and the holder of the play key may watch. New keys end the sessions of the old ones.
//
// # Ends of rights
//
// A session is derived from a right: a key, a login session, or a viewer's place in a room, which a ticket names. Each node follows the
// events that end the rights of its sessions, and then compares these sessions with SQL. It compares all sessions every half a minute, in
// case it missed an event. See [Service.follow] and [Service.mayStay].
package live
