// Package redistest starts real Redis servers for tests: a single one, one behind three sentinels, or a cluster. They
// are children of the test, on free loopback ports, empty, without persistence, and end with the test, even if it
// crashes. On a machine without redis-server the test fails. [Shared] and [SharedEngines] are for all tests of a
// binary, with a prefix for each.
//
//	func TestBoard(t *testing.T) {
//		for _, e := range redistest.Engines(t) {
//			t.Run(e.Name, func(t *testing.T) {
//				db := e.Open(t)
//				…
//				redistest.KeysDeclared(t, db, Keys)
//			})
//		}
//	}
package redistest
