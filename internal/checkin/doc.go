// Package checkin records one check-in per user and day and keeps streaks,
// calendars and leaderboards. It is the exemplar: every other domain looks like
// it.
//
// Truth is one SQL table, checkins: a row for each user's day, written once and
// never changed. Beside it are the freezes that operators granted. Streaks,
// totals, calendars and boards are derived from them; nothing is counted
// anywhere.
//
// Derived, in Redis: a 108-byte record for each user and year, from which
// everything a user sees follows by counting bits, and the boards. Losing a
// record costs one SELECT at the next read, losing a board one pass over the
// log; neither ever costs a day.
//
// The way of a check-in:
//
//	http.go     the caller's zone and the server's clock fix the day
//	service.go  Mark hands the request to the committer and waits
//	commit.go   many requests, one transaction; beside it Redis is asked where
//	            their users stand; then, beside the next transaction:
//	redis.go    the days are set, the records read back and the boards moved, in
//	            one round trip; who stands elsewhere than expected moves again;
//	            the callers wake
//
// What holds, whatever is killed or emptied:
//
//   - An answered check-in is on SQL's disk, also when it only finds that the day
//     is signed; it counts once, and is visible to every read that begins
//     afterwards on any node that reaches Redis. If Redis did not take it in time,
//     other nodes that reach it may read what was before until it has.
//   - A read never waits for a Redis that is away: SQL answers. A board may then
//     be five seconds old.
//   - What Redis missed is applied when it is back, by this node or, if this one
//     is dead, by another (package projection).
//
// A day that was missed is made up in a transaction of its own (makeup.go). While
// a gap is open, the freezes that cover it are derived; the row that closes it
// has them written down (freeze.go), at the same node, by a replay of the row, or
// by the next start. What is written stands, whatever the rules become.
//
// A streak is the number of signed days in the unbroken run that ends today or
// yesterday. Covered days (a freeze, a date that a change of zone left out)
// bridge the run and do not add to it. The moment a day is missed the streak is
// 0 and leaves its board: each entry carries the instant of its death.
package checkin
