// Package wholeserver tests whole servers in one process, started by package testkit. The tests cover the behaviour of
// domains over HTTP, the promises of docs/security.md for every operation, and the behaviour of nodes among each other.
// Its files are named after the domain that they test. The package contains only tests.
//
// They are not external tests of the domains (such as package checkin_test). A package that also has internal tests
// would be compiled a second time for them, together with every package between it and testkit.
package wholeserver
