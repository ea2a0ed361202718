// Package bubble runs a test in virtual time: everything that the test starts, be it a
// whole node with its SQLite and its embedded Redis, lives in a bubble of package
// [testing/synctest]. Time goes on there only while nothing can run, so that an hour of
// waiting costs no time, a machine that stalls is not noticed, and time.Now is the one
// clock of all.
//
// A bubble allows no sockets, pipes or child processes: a goroutine that waits for the
// kernel keeps time from going on. What the test starts has to end with it. A mutex must
// not be held over a pause for which somebody waits.
package bubble

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Began is the moment at which a bubble begins, a Saturday.
var Began = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// inside has the tests that run in a bubble.
var inside sync.Map

// Test runs a test in a bubble. Its t knows neither Run nor Parallel, which are for
// outside: a subtest has a bubble of its own.
func Test(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	defer emptyPools()
	synctest.Test(t, func(t *testing.T) {
		inside.Store(t, nil)
		defer inside.Delete(t)
		time.Sleep(time.Until(Began)) // before the test has anything that could wake up meanwhile
		test(t)
	})
}

// emptyPools empties every [sync.Pool] of the process. A pool is the same in all bubbles,
// and a timer or a channel of one bubble that a library takes from its pool in another
// ends the process. An object of a pool is dropped by the second collection of garbage.
func emptyPools() {
	runtime.GC()
	runtime.GC()
}

// In reports that a test runs in a bubble, for the helpers of tests that run on real
// servers as well.
func In(t testing.TB) bool {
	_, ok := inside.Load(t)
	return ok
}

// Sleep lets d go by, and then whatever is due at that moment happen. Only the test
// itself may call it; what the test has started sleeps as it likes.
func Sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
