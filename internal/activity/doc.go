// Package activity counts the users who are active on a day, in a week and in a month. It also counts how many of the
// users who registered on a day come back.
//
// # Active users
//
// A user is active on a day if the server accepted one of their access tokens on it: for a request, for opening a
// socket or an event stream, or for the check of an open one, at least twice a minute. Days start at midnight in one
// zone for all users, the setting activity.zone (UTC). The days of check-in are those of each user; these are the
// operator's.
//
// # Recording
//
// [Service.Seen] is called for each accepted token and costs a lookup in memory: a user who is found there was recorded
// today. Other users wait for at most a second and are sent to Redis together, a thousand per command. So a node sends
// at most one command per user and day, and far fewer with several users. No request waits for it or fails because of
// it. While Redis is unavailable users wait in memory, and are sent when it is back, even on the next day. A node
// remembers up to a million users of a day ([most]). With more users it forgets those that were sent. They are sent
// again when they come back, which does not change a set.
//
// # Storage
//
// Redis has a set of user ids per day, stats:dau, or a HyperLogLog, stats:dau_hll, if the setting activity.count is
// approximate. The sets live for 30 days after their day, and two more for the nightly job that counts a finished month
// of 31 days.
//
// SQL has the numbers permanently: activity_days by day, activity_ranges by week and month, activity_retention by the
// day of registration. A job counts today and yesterday every two minutes. Another job closes each finished day a
// quarter of an hour after its end, and again a day later for late users. It counts the day, its week and its month.
// It also counts how many of the users who registered 1 to 30, 60 and 90 days before were active.
//
// This is the only domain whose source of truth is in Redis before SQL: the active users are stored nowhere else,
// because a row per user and day would cost SQL as much as check-in. So users that Redis loses are lost, and the number
// is marked.
//
// # Losing Redis
//
// Nodes remember the users of today, and until an hour after midnight those of yesterday. They send all of them again
// when Redis may have lost data: when the bus reports it (Lost), or when a set is smaller than what this node has sent.
// So an emptied Redis is complete again within seconds, unless nodes were restarted on that day.
//
// A stored number never decreases: SQL keeps the largest count. If a set has fewer users than were counted before, the
// number is marked as partial: it is a lower bound. The job checks a second time after seventy seconds, because nodes
// may be about to send the users again. A loss that other users make up for between two counts is not detected. The
// number of a week or month is partial if one of its days is.
//
// # Ranges
//
// The number of active users in a range is not the sum of its days. The sets of the days are in different slots of a
// cluster, so no command can unite them. This process does not load them either: it reads each day in pages of users,
// checks the page against the later days, and counts users who are in none ([redisStore.union]). The result is exact,
// the memory is one page, and each command has one key. The HyperLogLogs of all days share a slot, so that one PFCOUNT
// unites them.
//
// # Erasure
//
// A random id replaces an erased user in all sets, so that no number changes and no id leads back to the user. The bus
// informs all nodes, which forget the user. Otherwise the id would return when they send users again.
package activity
