// Package rooms is for watching something together: who is in a room and what each may do there, what is
// on and where it is, what people say to it, and who is on line.
//
// # Truth
//
// SQL: rooms, room_members (guests are among them), room_bans, room_restrictions (of users who left), room_links,
// room_items (the playlist), room_lines (the chat), room_danmaku. Every change of a room or of who is in it happens under the
// lock of its row in rooms; under it the rules of rules.go decide, from what SQL says then. So for any
// number of changes at the same time, on any number of nodes:
//
//   - a room that is not closed has exactly one owner;
//   - it has no more members than the settings allow, and counts those that it has;
//   - nobody in it is banned;
//   - a link lets in as many people as it says, and no more;
//   - what somebody says was allowed, and they were not muted, when it was committed.
//
// # Playback
//
// The register of package playback is in Redis, and is what counts while it is there. A command carries
// the generation and the version that its sender saw, and a script refuses it otherwise. Whoever joins
// reads only. room_playback has a checkpoint, which each command writes; if that fails, a node with viewers of the room does within
// 30 seconds. When Redis has lost a register it is rebuilt under a higher generation, so that no client takes it for older than
// what it has seen: from the checkpoint, or from the register that the node has shown if that is newer. Holds are lost. So it is
// when Redis was set back to an older register than a node or SQL has, as by a failover; what a client claims to have seen proves
// nothing. While Redis is away commands are refused, and readers get the checkpoint or what their node has shown.
//
// All moments of a register are of one clock, the Redis servers', as [bus.Bus.Time] knows it: nodes' own
// clocks may be wrong, and it is the clock of the place where the order of commands is decided. Danmaku have their
// moments by it, too, so that they fly for as long on every node.
//
// # What is derived
//
// In Redis, through package cache: rooms, members, playlists, checkpoints, and how an item is fetched. Six events drop
// them, each exactly the keys that docs/rooms.md lists. No rule rests on a copy: copies answer reads, and
// let listeners in.
//
// Who is on line: room:{{room}}:online has each viewer with their node, and an entry counts while that node
// lives. How many they are is counted from it, and kept for a minute in room:{room}:viewers. Lost, both come back
// within some seconds.
//
// In memory: the danmaku of the last ten seconds, of rooms that somebody on this node watches. A node that begins to
// watch a room reads them from SQL.
//
// # Blocks
//
// Whom a viewer blocks, they do not hear: the gateway leaves such events out for each subscriber, by a filter
// on the sender's id, and lists leave them out as well.
package rooms
