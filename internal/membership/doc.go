// Package membership has the rules that groups and rooms share.
//
// A parent is a group or a room. Its domain has the row of the parent, the members and their rights. This package has
// the statements and rules of the rows below it, which are the same in both domains: [Links].
//
// Methods with a transaction run under the lock of the parent's row. So a limit holds for any number of concurrent
// changes. The type parameter P of a type is the type of the parent, so that no link of a room is used for a group.
package membership
