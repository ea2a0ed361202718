// Package wholeserver tests whole servers in one process, as package testkit starts
// them: what a domain promises by HTTP, what docs/security.md promises of every
// operation, and what nodes promise each other. Its files are named for the domain that
// they test. There is no code in it but tests.
//
// They are not external tests of the domains (package checkin_test), because a package
// that has internal tests as well is then compiled a second time for them, and with it
// everything between the package and testkit.
package wholeserver
