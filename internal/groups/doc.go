// Package groups knows who belongs to which group, and what each member may do there.
//
// # Truth
//
// SQL: chat_groups, group_members, group_bans, group_links and group_requests. Every change
// of a group happens under the lock of its row in chat_groups. Under it the rules of rules.go
// decide, from what SQL says then. So the following holds for any number of changes at the
// same time, on any number of nodes:
//
//   - a group that is not dissolved has exactly one owner;
//   - it has no more members and admins than the settings allow;
//   - no member is banned;
//   - a link lets in as many users as it says, and no more;
//   - at most one request of a user waits in a group.
//
// # Versions
//
// Each change takes the group's next version, one for each member that it concerns, and leaves it
// in the member's row. "What has changed since 17" is then a range of rows. A member who is
// gone stays as a row for 90 days, and for as long as they are muted; a client that was away longer reads
// the list whole. The row says nothing but until when they are muted, which holds when they come again,
// and the version of their own settings.
//
// What only the member sees (remark, notify, seen) takes no version of the group. It has a version of its own, which grows
// with each change and when the user joins again. Both versions change under the lock of the group.
//
// # What is derived
//
// In Redis, through package cache: the members of a group with their roles, nicknames and mutes. A
// change applies itself to the copy that is loaded. No rule of this package rests on it: it says whom
// to tell of a change.
//
// # Who is told
//
// A user who joins, leaves or asks is told on all devices, and so are the admins of a request. A
// change of a group goes to all members of one that has up to 200. In a larger group it goes
// to those whom it concerns, the admins and the owner; the others ask for what has changed.
package groups
