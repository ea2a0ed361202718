// Package reconcile does the long work of check-in on all users: it compares Redis with SQL
// and repairs what differs, makes boards and records anew, and writes months and totals for
// reports. Each is a kind of run (package runs): a server does it in slices, and any node goes
// on where another one stopped.
//
// The truth is the log of check-ins in SQL, which package checkin writes. This package only
// reads it, and asks package checkin, by the functions of its [Config], for what else there is
// to do: days that Redis has and SQL not yet, another state of Redis, the end of an erased user.
//
//	runs.go       the kinds of runs, what they can be asked for and what they come to
//	reconciler.go what a [Reconciler] stands on, and the runs that come round by themselves
//	compare.go    users, records and members of boards that differ, and their repair
//	rebuild.go    boards and records anew from SQL
//	snapshot.go   months and totals, by the days that SQL has, and the alarm where they shrink
//
// What holds:
//
//   - Whoever differs is looked at twice, some time apart, and a check-in that is under way is
//     no difference: whatever Redis holds of a user must lie between what the log held a
//     minute ago and what it holds now.
//
//   - Each difference is a line of the repair log, stored with how far the run is.
//
//   - A run may be done twice, or by two nodes: it changes nothing that it would not have
//     changed once.
package reconcile
