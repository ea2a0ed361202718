// Package eventually is how the module's tests wait for a state. A test polls here
// and nowhere else, so that one bound serves all of them: it is far beyond what any
// machine needs, and reaching it only ends a test that would otherwise hang. In a
// bubble of package testing/synctest the same calls take no time at all.
package eventually

import (
	"reflect"
	"testing"
	"time"
)

const (
	// patience is the bound. What waits longest by itself is Sentinel: it does nothing for
	// half a minute after its machine has stood still for two seconds, and tries a failover
	// that was interrupted again after two minutes.
	patience = 5 * time.Minute
	// first and longest are the pauses between two looks: short at first, because
	// most states are reached at once, then longer, because a test that waits long
	// must not take the processor from what it waits for.
	first, longest = time.Millisecond, 20 * time.Millisecond
)

// True returns as soon as ok does. The test fails at once, naming what it waited for,
// when that does not happen.
func True(t testing.TB, what string, ok func() bool) {
	t.Helper()
	if !poll(patience, ok) {
		t.Fatalf("waited %v in vain for %s", patience, what)
	}
}

// Equal returns as soon as got returns want, compared as [reflect.DeepEqual] does. The
// test fails at once, with the last value, when that does not happen.
func Equal[T any](t testing.TB, what string, want T, got func() T) {
	t.Helper()
	var last T
	if !poll(patience, func() bool { last = got(); return reflect.DeepEqual(last, want) }) {
		t.Fatalf("waited %v in vain for %s: got %+v, want %+v", patience, what, last, want)
	}
}

// NoError returns as soon as try returns nil. The test fails at once, with the last
// error, when that does not happen.
func NoError(t testing.TB, what string, try func() error) {
	t.Helper()
	var last error
	if !poll(patience, func() bool { last = try(); return last == nil }) {
		t.Fatalf("waited %v in vain for %s: %v", patience, what, last)
	}
}

// poll looks a last time after the bound: the machine may have stood still in between.
func poll(patience time.Duration, ok func() bool) bool {
	pause := first
	for end := time.Now().Add(patience); time.Now().Before(end); pause = min(2*pause, longest) {
		if ok() {
			return true
		}
		time.Sleep(pause)
	}
	return ok()
}
