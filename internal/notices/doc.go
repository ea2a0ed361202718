// Package notices stores notices for users: about requests and their results, groups, the security of the account, and
// announcements of operators.
//
// # Source of truth
//
// SQL is the source of truth: the table notices, and a row for each user in notice_lists. The notices of a user have
// rising numbers, with gaps (seq). A number is assigned while the user's row in notice_lists is locked, so that no
// reader sees a higher number before a lower one. Lists are paged by number. All notices up to a mark are read. Single
// notices above the mark may be read too.
//
// A notice is stored in the transaction of its cause ([Service.Record]), and has a source. By a constraint, a user has
// at most one notice for each source, so that a retry after a kill changes nothing. A notice that no longer applies,
// such as that of an answered request, is withdrawn ([Service.Withdraw]). Expired notices are not listed.
// The version of a list increases with each change, except if a notice expires, old notices are deleted, or an operator
// stops an announcement.
//
// # Announcements
//
// An operator writes one row ([Admin]). A worker delivers it to the users of its segment, in slices ([Service.deliver]).
// One transaction stores the notices of a slice and the progress, and locks the announcement, so that a kill loses and
// repeats nothing. The text of an announcement is read from its row, in the language of the reader. A stopped
// announcement is no longer listed. Decision 22 explains why each user has a row.
//
// # Derived data
//
// This package has no derived data. It reads lists and unread counts from SQL, from the rows of one user.
//
// # Publishing
//
// After the commit, an event is published to all devices of the user and to the Redis channel
// channel:system_notification:{uid}. The transaction also enqueues pushes to users who are offline
// ([Config].EnqueuePushes).
package notices
