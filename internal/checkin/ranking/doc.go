// Package ranking has the boards of check-in: streak and total days for all time, and the days of a week and of a
// month. [Boards] returns the top, the place of a user, and the neighbours of that user.
//
// All data here is derived. The truth is the log of check-ins in SQL. Package checkin writes the log, and this package
// only reads it. In Redis, package leaderboard stores a board in one of two kinds. A compact board is a log of moves
// that is folded every five seconds into its best thousand users and the counts of all others. An exact board is a sorted
// set. A lost board costs one pass over the log.
//
//	placement.go  what a check-in means for the user's boards, by the former record
//	              or by the whole history; it does no I/O.
//	redis.go      the moves, as commands that check-in sends together with its own,
//	              and all other Redis calls for boards.
//	boards.go     the reads, and the loads of boards from SQL.
//	passes.go     one pass over the log, shared by the boards that are loaded at once.
//	fallback.go   boards counted in SQL while Redis is away or a board is loaded.
//	compare.go    the right entry by the log, for the weekly reconciliation.
//	jobs.go       the jobs that load, sweep and delete boards.
//
// Invariants: a reader never waits for a Redis that is away. A dead streak is neither shown nor counted. Applying a
// move twice, or late, does no lasting harm: if a compact board cannot detect it, its counts are marked as in doubt and
// counted again. The deaths on the streak board depend on the rules of freezes, so the board stores the rules that it
// was made with.
package ranking
