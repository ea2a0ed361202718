// Package bubble runs a test in virtual time. Everything that the test starts, even a whole node with its SQLite and
// its embedded Redis, runs in a bubble of package [testing/synctest]. Time only advances while no goroutine can run. So
// an hour of waiting takes no real time, a machine that stalls has no effect, and all code uses the one clock of
// time.Now.
//
// A bubble cannot have sockets, pipes or child processes, because a goroutine that waits for the kernel stops virtual
// time. Everything that the test starts has to end before the test does. A mutex must not be held during a sleep if
// another goroutine waits for the mutex.
package bubble

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Began is the time at the start of a bubble, a Saturday.
var Began = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// bubbleTests has the tests that run in a bubble.
var bubbleTests sync.Map

// Test runs a test in a bubble. The t of the test does not support Run and Parallel: call them outside, and give each
// subtest its own bubble.
func Test(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	defer emptyPools()
	synctest.Test(t, func(t *testing.T) {
		bubbleTests.Store(t, nil)
		defer bubbleTests.Delete(t)
		time.Sleep(time.Until(Began)) // before the test starts anything that could wake up during this sleep
		test(t)
	})
}

// emptyPools empties every [sync.Pool] of the process. All bubbles share the pools. If a library gets a timer or a
// channel of one bubble from its pool in another bubble, the process panics. The second garbage collection drops the
// objects of a pool.
func emptyPools() {
	runtime.GC()
	runtime.GC()
}

// In reports whether a test runs in a bubble, for test helpers that also support real servers.
func In(t testing.TB) bool {
	_, ok := bubbleTests.Load(t)
	return ok
}

// Sleep advances the time by d and then waits until everything that is due has happened. Only the test itself may call
// it; code that the test has started may call time.Sleep.
func Sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
