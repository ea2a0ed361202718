// Package activity knows how many users are active on a day, in a week and in a month, and
// how many of those who registered on a day come back.
//
// # Who is active
//
// A user is active on a day when the server took an access token of theirs on it: for a
// request, for a socket or a stream of events that was opened, or for one that was still
// open and looked at again, which happens at least twice a minute. Days begin at midnight
// in one zone for all users, that of the setting activity.zone (UTC): the days of check-in
// are the users' own, and these are the operator's.
//
// # How it is noted
//
// [Service.Seen] is told of every token that is taken, and costs a look into this process'
// memory: a user who is known there was noted today. Others wait for at most a second, and go
// to Redis together, a thousand of them in one command, so that a node sends at most one
// command for each user and day, and far fewer than one as soon as there are several users.
// Nothing waits for it, and nothing fails with it. While Redis is away users wait in memory,
// and go there when it is back, also on the day after. A node remembers up to a million users of a day
// ([most]); with more it forgets all that were sent, who are sent once more when they come
// back: a set does not mind.
//
// # What is kept where
//
// Redis has for each day a set of user ids, stats:dau, or, where the setting activity.count
// is approximate, a HyperLogLog, stats:dau_hll. The sets live for 30 days after their day,
// and two more, in which the night's job counts a month of 31 days that has just ended.
//
// SQL has the numbers, for good: activity_days by day, activity_ranges by week and month,
// activity_retention by the day of registration. A job counts today and yesterday every
// two minutes. Another one closes each day that has ended, a quarter of an hour after its end, and
// once more a day later for what came late: it counts the day, looks up who of the
// users that registered 1 to 30, 60 and 90 days before it were active, and counts the week and
// the month of the day.
//
// This is the one domain whose truth is in Redis before it is in SQL: which user was active is
// written nowhere else, because a row for each user and day would cost SQL as much as check-in
// does, for a number. So what Redis loses is lost, and the number says so.
//
// # What losing Redis costs
//
// Nodes remember whom they noted today, and until an hour after midnight whom they noted yesterday. When Redis may have
// lost something, by what the bus says (Lost) or because a set is smaller than what this
// node has sent, all of these are sent again; so an emptied Redis is complete again within
// seconds, unless nodes were restarted on that day.
//
// A kept number never falls: SQL keeps the largest that was ever counted. Where a set
// has fewer users than were counted before, the number is marked as partial: there were at
// least so many. The job looks a second time before it says so, seventy seconds later, for nodes may
// be about to make it good. A loss that is made up for by other users between two counts is not
// noticed. The number of a week or month is partial when one of its days is.
//
// # Ranges
//
// How many users were active in a range of days is not the sum of the days. The sets of
// days are spread over the slots of a cluster, so no command can unite them. Nor does
// this process: of each day it reads a page of users and asks the later days who of them is
// there; those that none has are counted ([redisStore.union]). The result is exact, the memory is
// a page, and every command has one key. The HyperLogLogs of all days share a slot, so that
// one PFCOUNT unites them.
//
// # Erasure
//
// In the sets a random id takes the place of a user who is erased: the same in all sets, so that
// no number changes, and none leads back to the user. All nodes are told by the bus and forget the
// user, whose id would come back with what they send once more.
package activity
