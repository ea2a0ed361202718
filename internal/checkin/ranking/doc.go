// Package ranking has the boards of check-in: streak and total days for all time, and
// the days of a week and of a month. [Boards] answers who is on top, where a user stands,
// and who stands next to that user.
//
// Everything here is derived. The truth is the log of check-ins in SQL, which package
// checkin writes and this package only reads. In Redis a board is kept by package
// leaderboard, in one of two kinds: a compact board is a log of moves that is folded once
// a second into its best thousand and counts of all others; an exact one is a sorted set.
// A board that is lost costs one pass over the log.
//
//	placement.go what a check-in means for the boards a user is on, by the record of
//	             before or by the whole history; it does no I/O
//	redis.go     the moves, as commands that check-in sends together with its own, and
//	             all else that Redis is asked about boards
//	boards.go    the reads, and the loads of boards from SQL
//	passes.go    one pass over the log, shared by the boards that are loaded side by side
//	fallback.go  boards that are counted in SQL while Redis is away or a board is loaded
//	compare.go   what an entry should be by the log, for the weekly reconciliation
//	jobs.go      what keeps the boards loaded, swept, and no longer than they can be read
//
// What holds: a reader never waits for a Redis that is away, and a streak that is dead is
// neither shown nor counted. Telling a board twice, or late, does no harm that lasts:
// where a compact board cannot know, its counts are in doubt and are counted again. The
// deaths on the streak board depend on how freezes are given, so the board remembers by
// which rules it was made.
package ranking
