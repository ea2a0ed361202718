// Package checkin records one check-in per user and day and keeps streaks, calendars and leaderboards.
//
// # Truth
//
// One SQL table, checkins, has one row for each user and day. A row is written once and never changed. It states why
// the day counts: tapped, made up, covered by a freeze, or skipped by a change of time zone. A second table has the
// freezes that operators granted. SQL stores no counters: streaks, totals, calendars, remaining freezes and boards all
// follow from these rows.
//
// # What is derived
//
// Redis has a 108-byte record for each user and year, and four boards (package ranking). All figures that a user sees
// follow from the bits of the record (package records). If Redis loses a record, the next read runs one SELECT. If it
// loses a board, one pass over the log loads it again. Neither loss ever costs a day.
//
// SQL also has months as bitmaps, and totals, for reports alone. They are written each night (package reconcile).
//
// # The path of a check-in
//
//	http.go     fixes the day, from the caller's zone and the server's clock
//	service.go  Mark submits the request to the committer and waits
//	commit.go   commits many requests to the log at once (log.go): in
//	            durable-first mode, a transaction of SQL. Meanwhile it collects
//	            their records, from this node's cache (records/cache.go) or from
//	            Redis. During the next commit, it applies them:
//	freeze.go   if freezes cover the missed days before, writes rows for them
//	ranking     computes from the record and the day which boards the user moves
//	            on, between which places, and when the streak ends (placement.go)
//	records     sets the days, reads the records back and appends the moves on the
//	            boards, in one round trip. If a user was at another place than
//	            expected, a second move follows. Then the callers get the result.
//
// Three other paths lead into the log: makeup.go, package transfer, and settle in freeze.go. makeup.go signs a missed
// day in a transaction of its own that counts the make-ups of the month. Package transfer imports rows, and a message
// of the queue applies them to Redis. At a start, settle finds the freezes that a dead node still owed. After all
// three, agree.go computes the user's part of Redis again.
//
// # What holds through crashes and data loss in Redis
//
//   - An acknowledged check-in is on SQL's disk, even if the day was already signed. It counts once. Every read that
//     begins afterwards returns it, on any node that reaches Redis. If Redis is too slow for this node only, the other
//     nodes may return the former state until Redis has the check-in. If Redis was away for all nodes, reads use SQL
//     until Redis is complete.
//
//   - A read never waits for a Redis that is away: it uses SQL. A board may then be five seconds old. If counting all
//     users takes more than a quarter of a second, it may be twenty times as old as that count takes (package ranking).
//
//   - Changes that Redis missed are applied when it is back. If this node is dead, another node applies them (package
//     projection).
//
//   - Applying a change twice, or late, changes nothing. If a compact board cannot detect this, its counts are marked
//     as in doubt and counted again (package ranking).
//
//   - Package reconcile finds, repairs and logs all remaining differences once a week. It works in slices that any node
//     can resume.
//
//   - Erased data stays erased (erase.go). The next weekly reconciliation deletes rows that arrive late for a deleted
//     account.
//
// # Redis first
//
// In redis-first mode, an acknowledged check-in is in a stream in Redis and reaches SQL a moment later. It is lost if
// Redis loses it before that. The two modes are two implementations of checkinLog (log.go): sqlLog, and streamLog
// (redisfirst.go). No other code checks the mode.
//
// # Streaks
//
// A streak is the number of signed days in the unbroken run that ends today or yesterday. Covered days (a freeze, a
// skipped date) bridge the run and do not add to it. While a gap is open, the covering freezes are derived from what
// the user owns. The row that closes the gap causes rows for them, and these rows stay valid even if the rules change.
// When a missed day can no longer be covered, the streak is 0 and leaves its board: each entry carries the instant of
// its death.
package checkin
