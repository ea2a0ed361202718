// Package checkin records one check-in per user and day and keeps streaks,
// calendars and leaderboards.
//
// # Truth
//
// One SQL table, checkins: a row for each user's day, written once and never
// changed. A row says why the day counts: tapped, made up, covered by a freeze, or
// left out by a change of zone. Beside it are the freezes that operators granted.
// Nothing is counted anywhere: streaks, totals, calendars, what is left of the
// freezes, and boards all follow from these rows.
//
// # What is derived
//
// In Redis: a 108-byte record for each user and year, from which everything a
// user sees follows by counting bits (package records), and four boards (package ranking).
// Losing a record costs one SELECT at the next read, losing a board one pass over the
// log; neither ever costs a day.
//
// In SQL, for reports alone: months as bitmaps, and totals, written each night (package
// reconcile).
//
// # The way of a check-in
//
//	http.go     the caller's zone and the server's clock fix the day
//	service.go  Mark hands the request to the committer and waits
//	commit.go   many requests, one commit to the log (log.go): in durable-first mode a
//	            transaction of SQL; beside it their records are collected, as this
//	            node left them (records/cache.go) or from Redis; then, beside the next
//	            commit:
//	freeze.go   the missed days before, if freezes cover them, become rows, too
//	ranking     the record of before and the day say which boards the user moves
//	            on, from where to where, and when the streak dies (placement.go)
//	records     the days are set, the records read back and the moves appended to
//	            the boards, in one round trip; a user who stands elsewhere than
//	            expected moves again; the callers wake
//
// Three other ways lead into the log: makeup.go (a missed day, in a transaction of
// its own that counts the month's), package transfer (imports, which Redis hears of
// through the queue), and settle in freeze.go (a start finds the freezes that a
// dead node still owed). All of them have the user's part of Redis computed anew, in
// the one way of agree.go.
//
// # What holds, whatever is killed or emptied
//
//   - An answered check-in is on SQL's disk, also when it only finds that the day
//     is signed; it counts once, and is visible to every read that begins
//     afterwards on any node that reaches Redis. If Redis answers this node too late
//     and the others in time, they may read what was before until it has the check-in;
//     after it was away for all, SQL answers until it has everything.
//
//   - A read never waits for a Redis that is away: SQL answers. A board may then
//     be five seconds old, or, where counting everybody takes more than a quarter
//     of a second, twenty times as long as that (package ranking).
//
//   - What Redis missed is applied when it is back, by this node or, if this one
//     is dead, by another (package projection).
//
//   - Applying anything twice, or late, changes nothing. Where a compact board
//     cannot know, its counts are in doubt and are counted again (package ranking).
//
//   - What differs all the same is found, repaired and written down once a week
//     (package reconcile), in slices that any node can go on with.
//
//   - What was erased stays erased (erase.go): what comes late of a user who has
//     no account any more goes with the next weekly comparison.
//
// # Redis first
//
// In redis-first mode an answered check-in is in a stream in Redis and reaches SQL a
// moment later; what Redis loses before that is lost. The two modes are two
// implementations of checkinLog (log.go): sqlLog, and streamLog (redisfirst.go). No other
// code asks for the mode.
//
// # Streaks
//
// A streak is the number of signed days in the unbroken run that ends today or
// yesterday. Covered days (a freeze, a date that a change of zone left out)
// bridge the run and do not add to it. While a gap is open, the freezes that cover
// it are derived from what the user owns; the row that closes it has them written
// down, and then they stand, whatever the rules become. The moment a day is missed
// for good the streak is 0 and leaves its board: each entry carries the instant of
// its death.
package checkin
