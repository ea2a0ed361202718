package worker

import (
	"sync"
	"testing"
	"time"
)

func TestOutage_CountsConcurrentFailures(t *testing.T) {
	var o outage
	now := time.Now()
	o.failed("first", now, false)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 100 {
				o.failed("job", now, false)
			}
		})
	}
	all.Wait()
	if _, _, over := o.succeeded("first", now); over {
		t.Error("the outage is over while a job fails")
	}
	if _, silent, over := o.succeeded("job", now); !over || silent != 400 {
		t.Errorf("the outage is over: %t, with %d failures that were not logged, want 400", over, silent)
	}
}
