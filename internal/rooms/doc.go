// Package rooms is for watching videos together. It has members and their permissions, playback, chat, danmaku, and the
// viewers who are online.
//
// # Truth
//
// SQL is the source of truth. Its tables are rooms, room_members (with guests), room_bans, room_restrictions (of users
// who left), room_links, room_items (the playlist), room_lines (the chat) and room_danmaku. Every change of a room or
// of its members happens under the lock of the room's row. Under the lock, the rules of rules.go and of package
// membership decide from the current rows of SQL. So these invariants hold for any number of concurrent changes on any
// number of nodes:
//
//   - a room that is not closed has exactly one owner;
//   - a room has no more members than the settings allow, and its member count is exact;
//   - no member is banned: checkJoin refuses a banned user, a ban removes the membership, and all other rules need a
//     membership;
//   - a link admits no more users than its limit;
//   - when a line or danmaku is committed, its sender is allowed to send it and is not muted.
//
// A banned user still sees an open room as other users do who are not in it, and may come back as a guest if the room
// allows guests.
//
// # Playback
//
// Redis stores the register of package playback, which is authoritative while it exists. A command has the generation
// and version that its sender saw; a script refuses the command if they are not current. Hold and release, which only
// the server sends, are valid for every register. Joining clients only read the playback state. Each command, except
// hold and release, also writes a checkpoint to room_playback. If that write fails, a node with viewers of the room
// retries within 30 seconds.
//
// A register that Redis has lost is rebuilt with a higher generation, so that clients accept it as newer. The source is
// the checkpoint, or the register that the node published if that is newer. Holds are lost. The same happens if Redis
// returns an older register than a node or SQL has, for example after a failover. A client's claim to have seen a newer
// register proves nothing. While Redis is unavailable, commands are refused, and readers get the checkpoint or the
// register that their node published.
//
// All times of a register are from one clock, the clock of the Redis servers, as [bus.Bus.Time] estimates it. Clocks of
// nodes may be wrong, and Redis decides the order of commands. Danmaku use the same clock, so that they are shown
// equally long on every node.
//
// # What is derived
//
// Redis stores, through package cache, rooms, members, playlists, checkpoints, and the sources of items. Six events
// drop these entries, except sources, which expire; docs/rooms.md lists the exact keys of each event. No rule depends
// on cache entries: they serve reads and admit subscribers.
//
// The key room:{{room}}:online has each viewer with the viewer's node. An entry is valid while its node is alive. The
// number of viewers is computed from it, and stored for a minute in room:{{room}}:viewers. If Redis loses both, they are
// rebuilt within seconds.
//
// Memory has the danmaku of the last ten seconds, for rooms with viewers on this node. A node loads them from SQL when
// its first viewer opens the room.
//
// # Blocks
//
// A viewer gets no events from users whom the viewer blocks. The gateway filters them for each subscriber by the
// sender's id, and lists omit them as well.
package rooms
