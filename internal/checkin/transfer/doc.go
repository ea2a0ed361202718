// Package transfer moves check-ins between files and SQL: [Import] and [Export]. It needs SQL alone, because it also
// serves tools next to a running server with an embedded Redis.
//
// The rows of an import are durable when it returns. They have times in the past, so a server does not find them among
// the newest rows. Their transaction therefore stores their users in the table checkin_touched and enqueues a [Touched]
// message. By this message, a server updates Redis seconds later. Of several messages for a user, a server applies the
// latest one only ([Due]), so that an import costs each user once. Package checkin handles the message. It writes its
// own late rows through [Write], for the same reason. [Arrivals] lists both kinds of rows by time.
//
// An import can be repeated, however it ended: the days, grants and numbers of make-ups in SQL do not change. An export
// has the format that an import reads.
package transfer
