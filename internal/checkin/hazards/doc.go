// Package hazards plays each hole that the design which Stoa's check-in began with
// is known to have, twice: on that design, command by command, and on Stoa. A
// scenario asserts that the one falls into the hole and the other does not, so that
// one which cannot fail is found. It writes docs/checkin-hazards.md, where the
// results stand; there is no code in it but tests.
//
// origin_test.go is the design, stoa_test.go whole servers; each has a real
// redis-server and SQL. hazards_test.go has the scenarios.
package hazards
