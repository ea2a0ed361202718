// Package leaderboard keeps exact rankings in Redis: the best n, and anybody's
// rank, with ties going to who was first, and with entries that can die.
//
//	board := leaderboard.Exact(db, leaderboard.Keys{Scores: …, Deaths: …, Loaded: …})
//	replies := db.DoMulti(ctx, board.Update(entries)) // among other commands, if you like
//	best, err := board.Top(ctx, now, 10)
//	mine, ok, err := board.Rank(ctx, now, "V1StGXR8_Z5j")
//
// # Idea
//
// One sorted set holds every member. Its score is one number of 53 bits,
//
//	value · 2³² + (2³² − 1 − seconds since 2020-01-01 UTC)
//
// so that a greater value ranks higher, and among equal values the one reached
// earlier does. (Composite scores are an old habit with sorted sets; Redis'
// own documentation has them under "lexicographical scores".) Who reached the
// same value in the same second is ordered by the bytes of the member, the
// greater first: no two members ever share a rank. A sorted set's score is a
// double, which is exact up to 2⁵³: values go from 0 to [MaxValue], times from
// 2020 to 2156; what lies outside is cut to the nearest.
//
// A second sorted set, Deaths, holds the moment at which an entry stops to
// count: a streak dies at a midnight. [Board.Top] and [Board.Rank] first
// remove what is due, in the same script that answers, so they never show nor
// count the dead, whether or not a sweeper has run. Entries with the zero Dies
// have the death +inf.
//
// # Guarantees
//
// The board is derived data: the caller has the truth elsewhere and can apply
// any part of it again, in any order, any number of times, on any node.
// Take all entries that one member ever had, in the order of their times. A
// run is a stretch of it in which values only rise; each run begins with an
// entry that has Restart set. Then the newest entry stands, in both sets, once
// every entry was applied at least once, provided that
//
//  1. the same value in the same run has the same time, because At is when it
//     was reached, and two entries of one second are the same entry. If they
//     are not, because the truth was corrected, a replay with Restart has to
//     end with the newer; a later Dies alone may also be sent as an update;
//  2. Dies never moves back along the history, unless only the newest entry of
//     the member is ever applied again;
//  3. an entry without Restart is applied only while what is stored, if anything,
//     belongs to the same run. Who cannot know, as in a replay after a crash,
//     sets Restart on every entry: that is always right.
//
// For entries without Restart (see [Board.Update]) are written by ZADD GT. The
// greatest score and the latest death of one run are those of its newest entry,
// and a maximum does not care about order or repetition. A run's first entry has
// to undercut what is stored, so it is written by a script (see [Board.Restart])
// in which the later time wins, a rule that does not care about order either.
// The two agree within a run. Across runs GT would be wrong, hence the third
// condition.
//
// In the same second a restart wins over what is stored, so that a correction
// can lower a value and keep its time.
//
// # When Redis forgets
//
// Top and Rank return [ErrNotLoaded] while the key Loaded does not say that the
// board is complete. [Board.Load] then streams the truth in, beside live
// traffic. It leaves a random token in Loaded before it begins and marks the
// board only if that token is still there and the servers are still the same
// ones, so that a FLUSHALL, a restart or a failover in mid-load leaves no board
// that looks complete and is not. Several nodes may load at once and share the
// token; each relies on nothing but its own writes. What cannot be seen is
// that somebody removes the set and leaves the mark: use a Redis that does not
// evict, and declare all three families [keyspace.Forever].
//
// # Costs
//
// Server time with Redis 7.0 on two cores that had other work, so ratios are
// worth more than figures; the benchmarks measure them again. In batches of 500
// on a board of 100,000 where every score changes, Update took 4.5 µs for each
// member, both sets together, and Restart 10 µs. Top of 10 and Rank took 30 µs,
// with a hundred thousand members as with a million; a plain ZREVRANGE of 10
// from a hundred took 7.4 µs. Removing a thousand dead, the most that any one
// call does, blocked the server for 3 ms, a chunk of a load for 6 ms: a hundred
// thousand entries are loaded in 0.6 s and swept in 0.4 s. An entry takes 225
// bytes, its death included, with a member of 12.
//
// The embedded server sorts the whole set for each question: a millisecond with
// a thousand members, 15 with ten thousand. It is for development and small
// installations.
package leaderboard
