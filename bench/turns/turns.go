// Package turns lets several ways to do the same thing take turns, so that other load on the machine affects all of
// them.
package turns

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"
)

// A Side is one way to do the same thing n times.
type Side struct {
	Name string
	Do   func(n int)
}

// A Result has the cost of one call: medians of time and of this process' processor time, and allocations. Other load
// on the machine makes the time longer, and hardly the processor time.
type Result struct{ Nanos, Work, Allocs float64 }

// Compare gives each side that many turns of about that length. It prints and returns the results.
func Compare(rounds int, round time.Duration, sides ...Side) []Result {
	per := make([]int, len(sides))
	for i, s := range sides { // number of calls that fit into a turn
		n := 1
		for {
			began := time.Now()
			s.Do(n)
			if took := time.Since(began); took > round/10 {
				per[i] = max(1, int(float64(n)*float64(round)/float64(took)))
				break
			}
			n *= 2
		}
	}
	nanos, work, allocs := make([][]float64, len(sides)), make([][]float64, len(sides)), make([]float64, len(sides))
	for range rounds {
		for i, s := range sides {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began, worked := time.Now(), processor()
			s.Do(per[i])
			took, did := time.Since(began), processor()-worked
			runtime.ReadMemStats(&after)
			nanos[i] = append(nanos[i], float64(took)/float64(per[i]))
			work[i] = append(work[i], float64(did)/float64(per[i]))
			allocs[i] = float64(after.Mallocs-before.Mallocs) / float64(per[i])
		}
	}
	out := make([]Result, len(sides))
	for i, s := range sides {
		out[i] = Result{median(nanos[i]), median(work[i]), allocs[i]}
		fmt.Printf("  %-44s %10.0f ns %10.0f ns of work %8.2f allocs\n", s.Name, out[i].Nanos, out[i].Work, out[i].Allocs)
	}
	return out
}

func median(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}

// processor returns the processor time of this process.
func processor() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // cannot fail for this process
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Crowd calls one n times, with so many callers at once.
func Crowd(callers int, one func(i int)) func(n int) {
	return func(n int) {
		var all sync.WaitGroup
		for w := range min(callers, n) {
			all.Go(func() {
				for i := w; i < n; i += callers {
					one(i)
				}
			})
		}
		all.Wait()
	}
}
