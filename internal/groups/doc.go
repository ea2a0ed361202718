// Package groups has the members of each group, and the rights of each member.
//
// # Truth
//
// SQL is the truth: chat_groups, group_members, group_bans, group_links, group_requests and group_pictures. Each change
// of a group holds the lock of its row in chat_groups. Under this lock the rules of rules.go and of package membership
// decide with the data of SQL. So the following is true for any number of concurrent changes on any number of nodes:
//
//   - a group that is not dissolved has exactly one owner;
//   - it has no more members and admins than the settings allow;
//   - no member is banned;
//   - a link admits no more users than its limit;
//   - at most one request of a user is pending in a group.
//
// Every way to join refuses a banned user. A ban removes the membership and closes a pending request, and all other
// changes need a membership. A banned user still sees a group that users may join without an invitation.
//
// # Versions
//
// Each change increases the group's version once for each changed member, and writes the new version to the member's
// row. A change of the group alone increases it once. The changes since a version, for example 17, are then a range of
// rows.
//
// The row of a former member is stored for 90 days, or until the mute ends if that is later. It has the times of joining
// and leaving, the inviter, the end of the mute, which applies if the user joins again, and the version of the user's own
// settings. The role, the nickname and the settings are deleted. A client that was offline for longer reads the whole
// list.
//
// Settings that only the member sees (remark, notify, seen) do not change the group's version. They have a version of
// their own, which grows with each change and when the user joins again. Both versions change under the lock of the
// group.
//
// # Derived data
//
// Redis has, through package cache, the members of a group with their roles, nicknames and mutes. A change updates the
// loaded copy. No rule of a change uses it. It selects the receivers of events, and admits subscribers.
//
// # Events
//
// A user who joins, leaves or requests to join gets an event on all devices, and the admins get one for each request. A
// change of a group with up to 200 members goes to all of them. In a larger group it goes to the members concerned, the
// admins and the owner; the other members list the changes.
package groups
