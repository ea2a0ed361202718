// Package records keeps users' years in Redis: for each user and year a [streak.Record] of
// 108 bytes, from which everything that a user sees follows by counting bits.
//
// Everything here is derived. The truth is the log of check-ins in SQL, which package checkin
// reads, and from which it computes what this package is given. A record that is lost costs
// one SELECT at the next read.
//
//	redis.go what check-ins and readers do with records (Mark, Read, Load, Drop), and what
//	         serves the comparison of Redis with SQL (Scan, Held, Replace)
//	cache.go the records that this node's check-ins have left: a guess what the next ones will mean
//
// What holds: days are only ever added, and numbers only ever grow, so that a record may be
// loaded beside check-ins, and twice. What is wrong in a record is replaced as a whole, or
// dropped.
package records
