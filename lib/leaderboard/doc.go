// Package leaderboard keeps rankings in Redis: the best n, anybody's rank and
// neighbours, with ties going to whoever was first, and with entries that can die.
//
//	board := leaderboard.Exact(db, leaderboard.Named("season-12"))
//	_, err := leaderboard.Ensure(ctx, board, now, fromSQL)                        // at start, and now and then
//	err = board.Put(ctx, leaderboard.Entry{Member: "ada", Value: 7, Restart: true}) // after SQL has it
//	best, mine, ok, err := board.Read(ctx, now, 10, leaderboard.Entry{Member: "ada"})
//
// [Board.Update] is Put as commands, to go to Redis among others.
//
// There are two kinds, and one suite of tests for both. An [Exact] board keeps
// everybody in a sorted set, a hundred bytes each, twice that with a death. A [Compact] board
// keeps the best thousand and counts the rest: tens of kilobytes for any number
// of members. Below its best equal values share a rank, neighbours are not known,
// and it has to be told where each member stood before. A caller that
// has the truth beside the board, such as a domain with a database, can tell.
//
// # Order and death
//
// A score is one number of 53 bits,
//
//	value · 2³² + (2³² − 1 − seconds since 2020-01-01 UTC)
//
// so that a greater value ranks higher, and among equal values the one reached
// earlier does. (Composite scores are an old habit with sorted sets; Redis'
// own documentation has them under "lexicographical scores".) Who reached the
// same value in the same second is ordered by the bytes of the member, the
// greater first. A sorted set's score is a double, which is exact up to 2⁵³:
// values go from 0 to [MaxValue], others are refused ([ErrValue]): larger figures, such as
// points by the million, want a unit of their own, or a plain [keyspace.ZSet] without times.
// Times go from 2020 to 2156; what lies outside is cut to the nearest.
//
// An entry stops to count at the moment it Dies: a streak dies at a midnight.
// Reads never show nor count the dead, whether or not a sweeper has run.
//
// # Exact boards
//
// One sorted set has the scores, a second one the deaths. A read asks, in one
// round trip of plain commands, whether anybody has died and what it came for; if
// somebody has, a script removes them and it asks again.
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
//     the member is ever applied again. A load that runs beside that may leave the
//     later death in place;
//  3. an entry without Restart is applied only while what is stored, if anything,
//     belongs to the same run. A caller that cannot know this, as in a replay
//     after a crash, sets Restart on every entry: that is always right.
//
// For entries without Restart are written by ZADD GT. The greatest score and the
// latest death of one run are those of its newest entry, and a maximum does not
// care about order or repetition. A run's first entry has to undercut what is
// stored, so it is written by a script in which the later time wins, a rule that
// does not care about order either. The two agree within a run. Across runs GT
// would be wrong, hence the third condition.
//
// In the same second a restart wins over what is stored, so that a correction
// can lower a value and keep its time.
//
// # Compact boards
//
// A compact board is a small state and a log of changes. An update is one RPUSH
// to the log, whatever it carries. The state is a hash: the best with scores and
// deaths, and for each moment at which somebody dies how many members have which
// value. A fold reads the state and the log's first elements, computes the new
// state here, in Go, and puts it in place if nobody else has folded since; what
// costs the server something is the two short texts. Readers fold a log that has
// grown, and [Board.Sweep] does every second or so. Each read takes what is left of
// the log and then the state's version. What a state of that version holds never
// changes, so each process keeps the one it has read last, and reads it anew only
// where the version is another one. It answers from state and log together, so it
// sees every update that Redis has.
//
// Of the best the rules are those of an exact board, as long as one member's
// changes reach Redis in their order: who has fallen below the best leaves no
// trace there that an older change could be held against. Everybody above the
// floor, the best one ever cut off, is among the best. When so many of them have
// died that a read wants more than is known, it returns [ErrNotLoaded], and
// before that [Board.Complete] turns false: load it again.
//
// The counts are a sum of changes, each from where its member stood to where it
// stands, so each has to be applied once. A death needs no change: the counts of
// one that has passed are left out. Four things keep a board from
// being wrong for good:
//
//   - a change that was foretold wrongly is taken back by the next (Told);
//   - a change that may have been applied before (Replay) leaves the counts alone
//     and the board not Complete;
//   - a load beside which a value is told with a later time than the truth has, against rule 1, or with
//     an earlier death, leaves the board not Complete: the next load has the truth alone;
//   - a load counts everybody anew. Load a compact board now and then, hourly for
//     instance, whatever happens.
//
// # When Redis forgets
//
// A board that is not marked as loaded answers [ErrNotLoaded]. [Board.Load] then
// streams the truth in, beside live traffic. It leaves a random token in Redis
// before it begins and marks the board only if that token is still there and the
// servers are still the same ones, so that a FLUSHALL, a restart or a failover in
// mid-load leaves no board that looks complete and is not. What cannot be seen is
// that somebody removes the data and leaves the mark: use a Redis that does not
// evict, and declare all families [keyspace.Forever].
//
// Several nodes may load an exact board at once and share the token; each relies
// on nothing but its own writes. A compact board has one load at a time, others
// wait for it, and one that was silent for three seconds is dead. While it runs
// all changes go on being applied to what is there, and are kept beside: in the
// end each member that has moved is put where it moved, wherever the load had
// counted it. The load remembers that in 24 bytes for each member. It ends a
// second after it has read the truth, so that what it has read cannot be on its
// way to Redis any more: give up sending a change after less than that.
//
// # What it leaves out
//
// There is no increment. Every update may be applied again, in any order and on any
// node, which is what makes a board repairable; an increment that is applied again counts
// twice. Add up where the truth is, and send the sum. For a figure whose only home is Redis, ZINCRBY
// on a [keyspace.ZSet] is the right tool, and no board.
//
// There are no values of 53 bits either. A value has 21 bits, because the other 32 of a score are its time:
// by that ties are broken and restarts told from repetitions: a board without times would be another
// kind with other rules, not an option of this one. A [keyspace.ZSet] has whole doubles.
//
// Pages are cut from the best [MaxTop]: read them once with Top, and cut. Ranks move between two
// requests, so a page that began at a rank would show members twice or not at all. Whoever is further
// down is found by Around on an exact board; a compact one does not know them by name.
//
// # Costs
//
// Time on the server, Redis 7.0, two cores that had much other work, so ratios are
// worth more than figures; bench/boards measures them again, in one run. A plain
// ZREVRANGE of ten from a small set takes 1 µs, and 10 µs with its scores, which
// are long to print.
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
// That is a compact board of which all is read. Where the process knows the state,
// a read takes 1.0 to 1.3 µs, one of the best or not.
//
// The longest command of a compact board took 2.4 ms, in a load of five million
// with traffic beside, and once 5.9 ms of a machine with ten times more to do than
// it can. An exact board does at most 250 members at a time.
//
// The embedded server sorts an exact board's whole set for each question, 18 ms
// with ten thousand members. A compact board takes it 0.4 ms: use those there.
package leaderboard
