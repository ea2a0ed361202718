// Package messaging stores and delivers messages between two users and in groups.
//
// # Truth
//
// SQL is the truth. Its tables are conversations, direct_chats (the conversation of two users), chat_members (a
// member's marks and settings), messages, message_edits, message_files, reactions and hidden_messages.
//
//   - The messages of a conversation have numbers without gaps: seq is 1, 2, 3 and so on. The transaction that
//     stores a message assigns its seq under the lock of the conversation's row. The primary key is (conversation,
//     seq).
//   - Each change of a stored message takes the conversation's next rev and writes it to the message's row. Changes
//     are edits, recalls, reactions, and deletions by a member for themselves. A client that knows its newest seq
//     and rev lists what is newer, and then its copy is complete.
//   - Conversation, sender and the client's own id identify a message. A retry with the same content returns the
//     same message.
//   - Marks (read, delivered) only move forward. Sending a message moves the sender's read mark, so that a user's
//     own messages are never unread. In a chat of two, the conversation's row has the newest message of each user
//     for this purpose, and the rows of members have the marks that devices set. A system message moves no mark.
//   - unread is seq minus the mark, minus the messages after the mark that need no reading. These are system
//     messages, recalled messages, and messages that the member has deleted for themselves. The conversation's row
//     has the numbers of the first two kinds among the latest 100 messages (uncounted). Each transaction that
//     stores, recalls or erases a message updates them. See unread.go and decision 31.
//   - A message is acknowledged after its commit. Concurrent messages share a commit; see commit.go.
//
// # Redis
//
// The most frequent reads use Redis: one round trip and no SQL. They are the list of chats with all unread counts, and
// the latest messages of a chat. All of it is derived data. Package projection keeps it complete, and without Redis,
// SQL returns the same results.
//
//   - Each commit that concerns a user's chat has a state of the chat. The transaction of a message reads it before
//     its commit; for other changes it is read afterwards. Redis stores it unless it has a newer one. A state has
//     three versions that only grow, of the conversation and of both members, so nodes may write in any order. If
//     each of two states has a newer part, it is read from SQL again; see [versions] and decision 34.
//   - A field records whether Redis has all chats of a user. If it does not, a single chat is read from SQL alone;
//     for a list, all chats are read and stored.
//   - The latest messages of a chat are stored with the seq and rev that they belong to. They follow commits step
//     by step. A reader uses SQL if they do not match the state of the user's chat.
//
// For a group's chat, Redis stores one head with the newest message, and only marks and settings for each member. A
// list of chats combines both when it is read, so the cost of a message does not depend on the size of the group. See
// decision 21.
//
// # Groups
//
// The conversation of a group has the group's id. This package follows package groups: each change of a group is
// recorded here in the same transaction, as joined and left members and as system messages (group.go). The transaction
// that stores a message also checks whether the member may write. It holds the lock of the conversation, which a change
// of rights takes too.
//
// # Files
//
// A message may have a file that its sender has uploaded to package transfers. Its row in message_files exists from the
// transaction that stores the message to the one that removes its content. Members who see the message may get the
// file. See files.go and decision 24.
//
// # Who may write
//
// If one of two users blocks the other, no message passes between them. Each user chooses who may write: friends,
// all users or no user. The rules are checked when a message arrives, with cached data that may be half a second old. A
// refusal does not reveal whether a block or a setting caused it.
//
// # Events
//
// Each commit is published as an event to the personal channels of both users (package events). For the members of a
// group, see publishToGroup. An event is a hint: after a gap in seq or rev, a client lists what it lacks.
//
// If a user deletes a message for themselves, or clears a chat, nothing changes for the other members. A recalled
// message keeps its seq and loses its content.
package messaging
