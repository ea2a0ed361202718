// Package leaderboard keeps rankings in Redis: the best n entries, and the rank and neighbours of any member. Ties go
// to the member that was first, and entries can expire.
//
//	board := leaderboard.Exact(db, leaderboard.Named("season-12"))
//	_, err := leaderboard.Ensure(ctx, board, now, fromSQL)                          // at start, and periodically
//	err = board.Put(ctx, leaderboard.Entry{Member: "ada", Value: 7, Restart: true}) // after the commit in SQL
//	best, mine, ok, err := board.Read(ctx, now, 10, leaderboard.Entry{Member: "ada"})
//
// [Board.Update] returns the commands of Put, to send them to Redis among others.
//
// There are two kinds, with one suite of tests for both. An [Exact] board stores every member in a sorted set, a
// hundred bytes each, or twice that with a death. A [Compact] board stores the best thousand and counts the rest: tens
// of kilobytes for any number of members. Below the best, equal values share a rank, and neighbours are not known. Each
// update of a compact board has to include the member's previous standing. A caller that has the truth next to the
// board, such as a domain with a database, knows it.
//
// # Order and expiry
//
// A score is one number of 53 bits,
//
//	value · 2³² + (2³² − 1 − seconds since 2020-01-01 UTC)
//
// so that a greater value ranks higher, and among equal values the one that was reached earlier does. (Composite scores
// are a common technique with sorted sets; the Redis documentation describes them under "lexicographical scores".)
// Members that reached the same value in the same second are ordered by their bytes, the greater first. A sorted set's
// score is a double, which is exact up to 2⁵³. Values range from 0 to [MaxValue]; others are refused ([ErrValue]). For
// larger figures, such as points by the million, use a larger unit, or a plain [keyspace.ZSet] without times. Times
// range from 2020 to 2156; a time outside is replaced by the nearest.
//
// An entry expires at the moment Dies, its death: a streak expires at a midnight. Reads never return or count expired
// entries, even if no sweep has run.
//
// # Exact boards
//
// One sorted set has the scores, a second one the deaths. A read checks, in one round trip of plain commands, whether
// any entry has expired, and gets the result. If an entry has expired, a script removes the expired entries and the
// read is repeated.
//
// The board is derived data: the caller has the truth elsewhere and can apply any part of it again, in any order, any
// number of times, on any node. Consider all entries of one member in the order of their times. A run is a part of that
// sequence with rising values; each run begins with an entry that has Restart set. After every entry was applied at
// least once, both sets contain the newest entry, provided that
//
//  1. the same value in the same run has the same time, because At is when it was reached, and two entries of one
//     second are the same entry. If they are not, because the truth was corrected, a replay with Restart has to end
//     with the newer; a later Dies alone may also be sent as an update;
//  2. Dies never moves back along the history, unless only the newest entry of the member is ever applied again. A
//     concurrent load may leave the later death in place;
//  3. an entry without Restart is applied only while the stored entry, if any, belongs to the same run. A caller that
//     cannot know this, as in a replay after a crash, sets Restart on every entry: that is always right.
//
// Entries without Restart are written by ZADD GT. The greatest score and the latest death of one run are those of its
// newest entry, and a maximum does not depend on order or repetition. The first entry of a run has to replace a greater
// score, so a script writes it, with the rule that the later time wins. That rule does not depend on order either. The
// two agree within a run. Across runs GT would be wrong, hence the third condition.
//
// In the same second a restart replaces the stored entry, so that a correction can lower a value and keep its time.
//
// # Compact boards
//
// A compact board is a small state and a log of changes. An update is one RPUSH to the log, whatever its size. The
// state is a hash: the best with scores and deaths, and the number of members by time of death and value. A fold reads
// the state and the first elements of the log, computes the new state in Go, and stores it if no other fold has
// happened since; the cost for the server is only that of two short texts. Readers fold a log that has grown, and
// [Board.Sweep] does so every second or so. Each read gets the rest of the log and then the version of the state. A
// state of one version never changes, so each process caches the one it has read last, and reads it again only if the
// version differs. It answers from state and log together, so it includes every update in Redis.
//
// For the best, the rules of an exact board apply, as long as the changes of each member reach Redis in their order: a
// member that has fallen below the best leaves no trace to compare an older change with. Every member
// above the floor, the best place ever cut off, is among the best. If so many of them have expired that a read needs
// more than are known, it returns [ErrNotLoaded]. Before that, [Board.Complete] becomes false: load the board again.
//
// The counts are a sum of changes. Each change goes from a member's previous standing to the new one, so each has to be
// applied once. An expiry needs no change, because the counts of a past death are ignored. Four rules prevent lasting
// errors on a board:
//
//   - the next change undoes a change that was sent with a wrong standing (Told);
//   - a change that may have been applied before (Replay) leaves the counts unchanged and makes the board not Complete;
//   - a load during which a value is sent with a later time than in the truth, against rule 1, or with an earlier
//     death, makes the board not Complete: the next load has the truth alone;
//   - a load counts all members again. Load a compact board regularly, for example hourly, in any case.
//
// # When Redis loses data
//
// A board that is not marked as loaded returns [ErrNotLoaded]. [Board.Load] then streams the truth into it, during live
// traffic. It writes a random token to Redis before it begins. It marks the board only if that token still exists and
// the servers are still the same. A FLUSHALL, a restart or a failover during the load therefore leaves no board that
// looks complete but is not. The mark does not show that the data alone was removed: use a Redis that does not evict,
// and declare all families [keyspace.Forever].
//
// Several nodes may load an exact board at once and share the token; each relies only on its own writes. A compact
// board has one load at a time, and others wait for it. A load that was silent for three seconds counts as dead. During
// a load, all changes are still applied to the old state, and are also held. At the end, each member that has moved is
// set to its new place, wherever the load had counted it. The load stores 24 bytes for each member for that. It ends a
// second after it has read the truth, so that no change that it has read is still on its way to Redis: give up sending
// a change after less than a second.
//
// # Limits
//
// There is no increment. Every update may be applied again, in any order and on any node, which makes a board
// repairable; an increment that is applied again counts twice. Add up in the truth, and send the sum. For a figure that
// exists only in Redis, use ZINCRBY on a [keyspace.ZSet] instead of a board.
//
// There are no values of 53 bits either. A value has 21 bits, because the other 32 bits of a score are its time. The
// time breaks ties and distinguishes restarts from repetitions. A board without times would be another kind with other
// rules, not an option of this one. A [keyspace.ZSet] has whole doubles.
//
// Pages are parts of the best [MaxTop]: read them once with Top, and divide them. Ranks change between two requests, so
// pages that begin at a rank would repeat members or miss them. Around finds a member further down on an exact board; a
// compact board does not know such members by name.
//
// # Costs
//
// The figures are times on the server, Redis 7.0, with two cores that had much other work, so ratios are more reliable
// than figures; bench/boards measures them again, in one run. A plain ZREVRANGE of ten from a small set takes 1 µs, and
// 10 µs with its scores, which are long to print.
//
//	                                    exact, 1 M     compact, 1 M    5 M
//	top of ten                          11.5 µs        1.6 µs          1.7 µs
//	my rank                             11.4 µs        1.4 µs          1.6 µs
//	my rank, among the best             4.5 µs         5.2 µs          5.1 µs
//	both in one                         20 µs          1.8 µs          2.1 µs
//	around me, five on each side        22–55 µs       1.6–5.1 µs      1.7–4.9 µs
//	update, a member in a batch of 32   7.0 µs         0.25 µs         0.30 µs
//	sweep of all, in all                4 s            1 ms            7 ms
//	both boards of 100,000 members      31 MB          0.09 MB
//
// These figures are for a compact board that is read completely. If the process has the state in memory, a read takes
// 1.0 to 1.3 µs, for the best members and for others.
//
// The longest command of a compact board took 2.4 ms, in a load of five million members during traffic. It took 5.9 ms
// once, on a machine with ten times more work than it can do. An exact board handles at most 250 members at a time.
//
// The embedded server sorts the whole set of an exact board for each query, which takes 18 ms with ten thousand
// members. A compact board takes 0.4 ms: use those with the embedded server.
package leaderboard
