//go:build race

package bubble

import "runtime"

// The race detector keeps one context for all timers of a bubble, and the runtime
// (Go 1.26, timer.unlockAndRun) does not lock it: two threads that fire timers of one
// bubble at the same time crash the process. With one processor no two threads do. The
// detector finds the same races then, for it goes by what happens before what, and not
// by what happens at once.
func init() { runtime.GOMAXPROCS(1) }
