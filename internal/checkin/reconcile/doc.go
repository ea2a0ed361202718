// Package reconcile does the long work of check-in on all users. It compares Redis with SQL and repairs the
// differences, rebuilds boards and records, and writes months and totals for reports. Each task is a kind of run
// (package runs): a server does it in slices, and any node resumes it where another one stopped.
//
// The truth is the log of check-ins in SQL, which package checkin writes. This package only reads it. The functions of
// [Config] call package checkin for the rest: days that Redis has and SQL does not have yet, a new state of Redis, and
// the data of erased users.
//
//	runs.go        the kinds of runs, their options and their results.
//	reconciler.go  the dependencies of a [Reconciler], and its scheduled runs.
//	compare.go     users, records and members of boards that differ, and their repair.
//	rebuild.go     boards and records, again from SQL.
//	snapshot.go    months and totals, from the days in SQL, and the alarm if they shrink.
//
// Invariants:
//
//   - A user who differs is compared twice, some time apart. A check-in in progress is no difference: the data of a
//     user in Redis must be between the log of a minute ago and the log of now.
//
//   - Each difference is a line of the repair log, which is stored together with the progress of the run.
//
//   - A run may be done twice, or by two nodes. It has the same effect as once.
package reconcile
