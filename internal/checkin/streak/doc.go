// Package streak has the rules of check-in: it computes the figures that follow from a user's signed and covered days.
// It does no I/O and reads no clock; time and calendar are arguments.
//
// [History] has the log of one user. [Tally] counts a history one day at a time. [Record] has the same facts of one
// year in 108 bytes, as Redis stores it. [Freezes] are the rules that decide which missed days are covered.
//
// A streak is the number of signed days in the unbroken run that ends today or yesterday. Covered days (a freeze, a
// skipped date) bridge the run and do not add to it. While a gap is open, the covering freezes are derived from what
// the user owns. The row that closes the gap causes rows for them, and these rows stay valid even if the rules change.
package streak
