// Package streak has the rules of check-in: what a user's signed and covered days
// come to. It does no I/O and reads no clock; time and calendar are arguments.
//
// [History] is what the log has of one user. [Tally] counts a history one day at a
// time, and [Record] is the same knowledge of one year in 108 bytes, as Redis keeps
// it. [Freezes] are the rules by which missed days are covered.
//
// A streak is the number of signed days in the unbroken run that ends today or
// yesterday. Covered days (a freeze, a date that a change of zone left out) bridge
// the run and do not add to it. While a gap is open, the freezes that cover it are
// derived from what the user owns; the row that closes the gap has them written
// down, and then they stand, whatever the rules become.
package streak
