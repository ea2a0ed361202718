// Package eventually waits for a state in the tests of this module. All tests poll with this package, so that one
// timeout serves all of them. The timeout is far longer than any machine needs; it only ends a test that would
// otherwise hang. In a bubble of package testing/synctest, the same calls take no real time.
package eventually

import (
	"reflect"
	"testing"
	"time"
)

const (
	// timeout bounds every wait. The slowest system is Sentinel: after its machine has stalled for two seconds, it does
	// nothing for half a minute, and it retries an interrupted failover after two minutes.
	timeout = 5 * time.Minute
	// minPause and maxPause are the pauses between two checks. They start short, because most states are reached at
	// once. They get longer, so that a slow test does not take the processor from the code that it waits for.
	minPause, maxPause = time.Millisecond, 20 * time.Millisecond
)

// True waits until ok returns true. If that does not happen in time, it ends the test with a failure that names what.
func True(t testing.TB, what string, ok func() bool) {
	t.Helper()
	if !poll(timeout, ok) {
		t.Fatalf("waited %v in vain for %s", timeout, what)
	}
}

// Equal waits until got returns want, compared with [reflect.DeepEqual]. If that does not happen in time, it ends the
// test with a failure that shows the last value.
func Equal[T any](t testing.TB, what string, want T, got func() T) {
	t.Helper()
	var last T
	if !poll(timeout, func() bool { last = got(); return reflect.DeepEqual(last, want) }) {
		t.Fatalf("waited %v in vain for %s: got %+v, want %+v", timeout, what, last, want)
	}
}

// NoError waits until try returns nil. If that does not happen in time, it ends the test with a failure that shows the
// last error.
func NoError(t testing.TB, what string, try func() error) {
	t.Helper()
	var last error
	if !poll(timeout, func() bool { last = try(); return last == nil }) {
		t.Fatalf("waited %v in vain for %s: %v", timeout, what, last)
	}
}

// poll checks once more after the timeout, because the machine may have stalled.
func poll(timeout time.Duration, ok func() bool) bool {
	pause := minPause
	for end := time.Now().Add(timeout); time.Now().Before(end); pause = min(2*pause, maxPause) {
		if ok() {
			return true
		}
		time.Sleep(pause)
	}
	return ok()
}
