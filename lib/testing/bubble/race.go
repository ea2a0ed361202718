//go:build race

package bubble

import "runtime"

// The race detector has one context for all timers of a bubble, and the runtime (Go 1.26, timer.unlockAndRun) does not
// lock it: two threads that fire timers of one bubble at the same time crash the process. With one processor, no two
// threads do. The detector still finds the same races, because it checks the happens-before order, not simultaneous
// execution.
func init() { runtime.GOMAXPROCS(1) }
