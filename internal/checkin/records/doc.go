// Package records stores users' years in Redis: for each user and year a [streak.Record] of 108 bytes. All figures that
// a user sees follow from its bits.
//
// All data here is derived. The truth is the log of check-ins in SQL. Package checkin reads the log and computes the
// records that this package stores. A lost record costs one SELECT at the next read.
//
//	redis.go  what check-ins and readers do with records (Mark, Read, Load, Drop),
//	          and the calls for comparing Redis with SQL (Scan, Held, Replace).
//	cache.go  the records that this node's check-ins have left. The next check-ins
//	          compute their expected moves from them.
//
// Invariant: days are only ever added, and numbers only ever grow. A record may therefore be loaded during check-ins,
// and twice. A wrong record is replaced as a whole, or deleted.
package records
