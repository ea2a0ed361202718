package gateway

import (
	"bytes"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

func TestWorkers_AreUsedAgain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w, release := newWorkers(), make(chan struct{})
		var mu sync.Mutex
		seen := map[string]bool{} // goroutines
		record := func() {
			stack := make([]byte, 64)
			name, _, _ := bytes.Cut(stack[:runtime.Stack(stack, false)], []byte("["))
			mu.Lock()
			defer mu.Unlock()
			seen[string(name)] = true
		}
		const atOnce = 3 * maxIdleWorkers
		for range atOnce {
			w.run(func() { record(); <-release })
		}
		synctest.Wait()
		if len(seen) != atOnce {
			t.Errorf("%d goroutines run %d functions that wait for each other", len(seen), atOnce)
		}
		close(release)
		synctest.Wait()
		if n := w.idle.Load(); n != maxIdleWorkers {
			t.Errorf("%d goroutines are idle, want %d", n, maxIdleWorkers)
		}
		for range 100 {
			w.run(record)
			synctest.Wait()
		}
		if len(seen) != atOnce {
			t.Errorf("%d goroutines began for functions that ran one after the other", len(seen)-atOnce)
		}
		w.stop() // the bubble reports goroutines that do not end
	})
}
