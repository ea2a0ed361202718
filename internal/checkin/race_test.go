//go:build race

package checkin

// raced says that the race detector watches, under which the long randomised
// histories take ten times as long: they are fewer then. "make soak" runs them all.
const raced = true
