// Package messaging carries messages between users, and in groups.
//
// # Truth
//
// SQL: conversations, direct_chats (which conversation two users have), chat_members (a
// member's marks and settings), messages, message_edits, message_files, reactions and hidden_messages.
//
//   - The messages of a conversation are numbered 1, 2, 3 and so on without gaps: seq. It is
//     given in the transaction that stores the message, under the lock of the
//     conversation's row, and (conversation, seq) is the primary key.
//   - What changes of messages that are there (an edit, a recall, a reaction, a message
//     that somebody deletes for themselves) takes the conversation's next rev, and leaves it in
//     the message's row. A client that knows seq and rev up to which it has a conversation
//     asks for what came after, and has it whole.
//   - A message is identified by conversation, sender and the id that the client chose:
//     sent again, with the same content, it is the same message.
//   - Marks (read, delivered) only go forward. Sending moves one's own read mark, so that one's own
//     messages are never unread. A system message moves no mark.
//   - unread is seq less the mark, less the messages after the mark that need no reading: system messages,
//     recalled ones, and ones that the member has deleted for themselves. The conversation's row has the numbers of
//     the former two among the latest 100 messages (uncounted), and each transaction that stores, recalls or
//     erases a message writes them. See unread.go and decision 31.
//   - A message is acknowledged after its commit. Commits are shared: see commit.go.
//
// # Redis
//
// What users look at most is read from Redis, in one round trip and without SQL: the list of
// chats with what waits in each and in all, and the latest messages of a chat. All of it is
// derived, and package projection keeps it complete; without Redis SQL answers the same.
//
//   - The state of a user's chat is read from SQL after each commit that concerns it, and written
//     unless Redis has a newer one: its version is a sum of numbers that only grow. So it makes
//     no difference in what order nodes write. Where Redis does not have all chats of a user, which a
//     field says, one chat is read from SQL by itself; for a list all are read, and stored.
//   - The latest messages of a chat lie beside the seq and rev of which they are. They follow
//     commits step by step, and a reader who finds others than the user's chat says takes SQL's.
//
// Of the chat of a group, Redis has once where it stands, with the newest message, and for each member only
// marks and settings of their own. A list of chats is put together from both when it is read, so a
// message costs the same in a group of any size. See decision 21.
//
// # Groups
//
// The conversation of a group has the group's id. This package follows package groups: what changes there
// is recorded here in the same transaction, as members who come and go and as system messages (group.go).
// Whether a member may write is decided in the transaction that stores the message, under the lock of the
// conversation, which a change of rights takes as well.
//
// # Files
//
// A message may have a file that its sender has uploaded to package transfers: a row of message_files says so, from the transaction
// that stores the message to the one that takes its content away. Who sees the message may fetch the file. See files.go and decision 24.
//
// # Who may write
//
// Between two users of whom one blocks the other no message goes, and a user says who may
// write: friends, everybody or nobody. The rules are asked for when a message comes, from
// copies that may be half a second old. A refusal does not tell a block from a setting.
//
// # Events
//
// What was committed goes as an event to the personal channels of both users (package
// events), and of a group's members: see tellGroup. An event is a hint: a gap in seq or rev tells a client to ask.
//
// A user who deletes a message for themselves, or clears a chat, changes nothing for the
// other. A recalled message keeps its place and loses its content.
package messaging
