// Package activity counts the users who are active on a day, in a week and in a month. It also counts how many of the
// users who registered on a day are active later (retention).
//
// # Active users
//
// A user is active on a day if the server accepted one of their access tokens on that day. It accepts a token for a
// request, for a new socket or event stream, and when it rechecks an open one, at least twice a minute. Days start at
// midnight in one zone for all users, the setting activity.zone (UTC). In check-in, by contrast, each user has a zone.
//
// # Recording
//
// [Service.RecordActive] is called for each accepted token, and costs a lookup in memory: a user who is found there was
// recorded today. Other users wait for at most a second and are sent to Redis together, up to a thousand in a command.
// So a node sends at most one command for each user and day, and far fewer with many users. No request waits for that or
// fails because of it. While Redis is unavailable, users wait in memory. They are sent when Redis is available again,
// even on the next day. A node remembers up to a million users of a day ([maxUsers]). With more users, it deletes those
// that were sent. They are sent again at their next request, which does not change a set.
//
// # Storage
//
// Redis has a set of user ids for each day, stats:dau. If the setting activity.count is approximate, it has a
// HyperLogLog instead, stats:dau_hll. Both expire 32 days after their day. The last two days are for the nightly job
// that counts a finished month of 31 days.
//
// SQL has the numbers permanently: activity_days by day, activity_ranges by week and month, and activity_retention by
// the day of registration. A job counts today and yesterday every two minutes. Another job closes each finished day a
// quarter of an hour after its end, and again a day later because users may be sent late. To close a day, it counts the
// day, its week and its month. It also counts how many of the users who registered 1 to 30, 60 and 90 days before were
// active on the day.
//
// The data of this domain is in Redis before SQL. The active users are stored nowhere else, because a row for each user
// and day would cost SQL as much as check-in. If Redis loses users, the number is marked as partial.
//
// # Losing Redis
//
// Nodes remember the users of today and, until an hour after midnight, those of yesterday. They send all of them again
// if Redis may have lost data: if the bus reports it, or if a set has fewer users than the node has sent. An emptied
// Redis is therefore complete again within seconds, unless nodes were restarted on that day.
//
// A stored number never decreases: SQL keeps the largest count. If a set has fewer users than were counted before, the
// number is marked as partial, which means a lower bound. The job first checks again after seventy seconds, because
// nodes may be sending the users again. A loss is not detected if as many other users become active before the next
// count. The number of a week or month is partial if the number of one of its days is.
//
// # Ranges
//
// The number of active users in a range is not the sum of its days. The sets of the days are in different slots of
// Redis Cluster, so that no command can unite them. This process reads each day in pages of users, checks the page
// against the later days, and counts the users who are in none of them ([redisStore.countUnion]). The result is exact,
// needs the memory of one page, and each command has one key. The HyperLogLogs of all days share a slot, so that one
// PFCOUNT unites them.
//
// # Erasure
//
// A random id replaces an erased user in all sets, so that no number changes and no id identifies the user. The erasure
// is broadcast to all nodes, which delete the user from memory. Otherwise they could send the id again.
package activity
