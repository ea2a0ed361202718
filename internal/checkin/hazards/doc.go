// Package hazards plays each known hole of the design that Stoa's check-in began with, twice: on that design, command
// by command, and on Stoa. A scenario asserts that the design falls into the hole and Stoa does not. A scenario that
// cannot fail is therefore found. The package has tests only. They write the results to docs/checkin-hazards.md.
//
// origin_test.go is the design, and stoa_test.go has whole servers; each has a real redis-server and SQL.
// hazards_test.go has the scenarios. All of them need the build tag hazards: make hazards-checkin.
package hazards
