// Package membership has the rules of links, bans and mutes, which are the same in groups and in rooms.
//
// A parent is a group or a room. Its domain has the parent's row, its members, and their rights. This package has the
// rows of its [Links] and [Bans]: each domain declares its tables, and this package has the statements.
//
// SQL is the truth, and nothing is derived from it. A method with a transaction runs under the lock of the parent's
// row. So these invariants hold for any number of concurrent changes on any number of nodes:
//
//   - a link admits no more users than its limit, and none after its expiry;
//   - a link admits users only while its creator may invite;
//   - a parent has no more than [MaxLinks] open links.
//
// The type parameter P is the type of the parent, so that a link to a room is never used for a group.
package membership
