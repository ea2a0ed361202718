// Package social has the friends, friend requests and blocks of users.
//
// # Truth
//
// SQL is the truth: friends, friend_requests, blocks, and one row for each user in friend_lists. A friendship is two
// rows, one in each user's list, written in one transaction. A user's own row has the remark, tag and order of a
// friend. At most one request is pending between two users: a unique column has the pair while it is pending.
//
// Each change that concerns two users holds the locks of both their rows in friend_lists, taken in the order of their
// ids. Under these locks the rules of social.go decide with the data of SQL. So the following is true for any number of
// concurrent requests on any number of nodes:
//
//   - friendship is symmetric at every moment;
//   - between two friends no request is pending, and neither blocks the other;
//   - if one of two users blocks the other, no request is pending between them.
//
// The lock of the receiver's list guards a pending request: a transaction that closes or deletes one holds it.
//
// # Versions
//
// Each change of a list takes the list's next number and writes it to the changed row. Because of the locks, a reader
// never sees a higher number before a lower one. The changes since version 17 are then a range of rows. A removed
// friend stays as a row without content for 90 days. A client that was offline for longer reads the whole list.
//
// The red dot is the number of pending requests that are newer than the newest one when the user last opened the list.
// No two requests to one user have the same time.
//
// # Derived data
//
// Redis has, through package cache, a user's friends with remarks and tags, the users whom a user blocks, the senders
// of pending requests, and the unread count. A check of one user, or of a hundred, is one command. A change updates the
// cached copies of both users, and drops them if several changes met. A lost copy costs one SELECT at the next read. A
// change continues without Redis.
//
// No rule of this package uses these copies. Other domains that call [Service.IsFriend] or [Service.IsBlocked] may read
// the earlier state for at most half a second. It takes longer only on a node without Redis, while another node still
// reaches it.
//
// # Privacy
//
// A blocked user gets no event of the block. They see only a refusal, or the end of a friendship. A request gets the
// same refusal if the other user blocks the sender, accepts no requests, or has too many.
//
// A deleted account is shown as deleted until its erasure. Then [Service.Erase] removes all its data here.
package social
