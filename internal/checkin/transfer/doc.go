// Package transfer moves check-ins between files and SQL: [Import] and [Export]. It
// needs SQL alone, for tools beside a running server, whose Redis may live within that
// server.
//
// What an import writes is durable when it returns. Its rows have times in the past,
// so a server does not find them as it finds what was written a moment ago: the
// transaction notes their users in the table checkin_touched and enqueues a [Touched]
// message, by which a server brings Redis up to date seconds later. Of several messages for a user the latest
// one alone is followed ([Due]), so that an import costs each user once. Package checkin
// handles that message. It writes its own late rows through [Write], for the same reason.
// Whoever looks for rows of some time finds both kinds by [Arrivals].
//
// An import can be repeated, whatever ended it: the days, grants and numbers of made-up
// days that SQL has stay as they are. An export is in the form that an import reads.
package transfer
