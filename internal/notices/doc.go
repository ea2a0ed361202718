// Package notices tells users what has happened to them: requests and what became of them, what
// was done to them in groups, the security of their account, and what operators announce.
//
// # Truth
//
// SQL: notices, and a row for each user in notice_lists. The notices of a user are numbered 1, 2, 3
// and so on: seq, which is given under the lock of the user's row in notice_lists and names the
// notice in that user's list. So a higher number is never seen before a lower one, a list is paged by it, and
// one mark says up to where all is read; single notices above it can be read before.
//
// A notice is written in the transaction of what it tells ([Service.Record]), and tells of a source. Of one source a user
// gets one notice, which a constraint sees to: what is told again, after a kill, changes nothing.
// What is over (a request that was answered) is taken back ([Service.Withdraw]); what has expired
// is not listed.
//
// # Announcements
//
// An operator writes one row ([Admin]). A worker walks through the users of its segment in
// slices ([Service.deliver]): the notices of a slice, and how far the walk has come, are one transaction under the
// lock of the announcement, so that a kill loses and doubles nothing. A notice of an announcement has no text:
// it is read from the announcement, in the language of whoever reads, and one that was stopped is
// not listed any more. Why each user has a row: decision 22.
//
// # What is derived
//
// Nothing: a list, and the numbers of its red dots, are read from SQL, each by one statement over one user's rows.
//
// # Who is told
//
// What was committed goes as an event to all devices of the user, and to the Redis channel
// channel:system_notification:{uid}. Whoever hands on what users should see while they are off line is told in the same transaction
// ([Config].Pushes).
package notices
