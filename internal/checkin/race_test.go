//go:build race

package checkin

// raced reports that the race detector is on. It makes the long randomised histories ten times as slow, so there are
// fewer of them. "make soak" runs them all.
const raced = true
