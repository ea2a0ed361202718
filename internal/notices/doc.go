// Package notices stores notices for users: about requests and their results, groups, the security of the account, and
// announcements of operators.
//
// # Source of truth
//
// SQL is the source of truth: the table notices, and a row per user in notice_lists. The notices of a user have the
// numbers 1, 2, 3 and so on (seq). A number is assigned while the user's row in notice_lists is locked, so that a
// reader never sees a higher number before a lower one. Lists are paged by number. All notices up to a mark
// are read; single notices above it can be read earlier.
//
// A notice is written in the transaction of its cause ([Service.Record]) and has a source. A constraint ensures that a
// user has at most one notice per source, so that a retry after a kill changes nothing. A notice that no longer
// applies, such as an answered request, is withdrawn ([Service.Withdraw]). Expired notices are not listed.
//
// # Announcements
//
// An operator writes one row ([Admin]). A worker goes through the users of its segment in slices ([Service.deliver]).
// The notices of a slice and the progress are one transaction that locks the announcement, so that a kill loses and
// repeats nothing. The text of an announcement is read from its row, in the language of the reader, and a stopped
// announcement is no longer listed. Decision 22 explains why each user has a row.
//
// # Derived data
//
// There is none: a list and its unread counts are read from SQL, each with one statement over the rows of one user.
//
// # Publishing
//
// After the commit an event goes to all devices of the user and to the Redis channel channel:system_notification:{uid}.
// The transaction also passes new notices on for pushes to users who are offline ([Config].Pushes).
package notices
