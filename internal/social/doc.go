// Package social keeps friends, friend requests and blocks between users.
//
// # Truth
//
// SQL: friends, friend_requests, blocks, and a row for each user in friend_lists.
// A friendship is two rows, one in the list of either, written in one transaction;
// what is noted of a friend (remark, tag, order) is in one's own. At most one
// request waits between two users: a unique column names the pair while it does.
//
// Every change that concerns two users happens under the locks of both their rows in
// friend_lists, taken in the order of their ids. Under them the rules of social.go
// decide, from what SQL says then. So the following holds for any number of requests at
// the same time, on any number of nodes:
//
//   - friendship is symmetric at every moment;
//   - between two friends no request waits, and neither blocks the other;
//   - between two users of whom one blocks the other no request waits.
//
// # Versions
//
// Each change of a list gives the list its next number and the row that changed
// that number; the locks make sure that a higher one is never seen before a lower
// one. "What has changed since 17" is then a range of rows. A friend who was removed
// stays as a row without content for 90 days; a client that was away longer reads
// the list whole.
//
// The red dot is the number of requests that wait and are newer than the newest one
// at which the user last looked. No two requests to one user have the same time.
//
// # What is derived
//
// In Redis, through package cache: a user's friends with what is noted of each, whom
// a user blocks, the senders of pending requests, and the unread count. Whether somebody is a
// friend, or which of a hundred are, is one command. A change applies itself to the
// copies that are loaded, of both sides, and drops them where several met; losing
// one costs a SELECT at the next read. A change goes on while Redis is away.
//
// No rule of this package rests on these copies. Other domains that ask [Service.IsFriend]
// or [Service.IsBlocked] may for a moment get what was before: half a second at
// most, and longer only on a node for which Redis was away while another node
// reached it.
//
// # What others learn
//
// A blocked user gets no event of the block: to them it is a refusal, or the end
// of a friendship. Asking a user who blocks the sender, takes no requests, or has too
// many, comes to the same refusal.
//
// A deleted account is shown as one until it is erased; then [Service.Erase] removes
// what there is of it.
package social
