package gateway

import (
	"sync"
	"sync/atomic"
)

// maxIdleWorkers is the largest number of goroutines that wait for the next call.
const maxIdleWorkers = 64

// workers run functions in goroutines that are used again. A new goroutine has a small stack, and growing it would take
// a tenth of the processor time of a call.
type workers struct {
	running sync.WaitGroup // functions
	next    chan func()    // to an idle worker
	idle    atomic.Int32
	stopped chan struct{}
}

func newWorkers() *workers {
	return &workers{next: make(chan func()), stopped: make(chan struct{})}
}

// run runs f in a worker, and does not wait for it.
func (w *workers) run(f func()) {
	w.running.Add(1)
	select {
	case w.next <- f:
	default:
		go w.work(f)
	}
}

func (w *workers) work(f func()) {
	for {
		f()
		w.running.Done()
		if w.idle.Add(1) > maxIdleWorkers {
			w.idle.Add(-1)
			return
		}
		select {
		case f = <-w.next:
			w.idle.Add(-1)
		case <-w.stopped:
			return
		}
	}
}

// stop waits for the running functions, and ends the idle workers.
func (w *workers) stop() {
	w.running.Wait()
	close(w.stopped)
}
