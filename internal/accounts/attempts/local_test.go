package attempts

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

func TestLocal_MemoryIsBounded(t *testing.T) {
	var a local
	now := time.Now()
	for i := range localKeys {
		if ok, _ := a.count(fmt.Sprint(i), 5, time.Minute, now); !ok {
			t.Fatalf("attempt %d was refused", i)
		}
	}
	refused := 0
	for i := range 10 {
		if ok, _ := a.count(fmt.Sprint("late", i), 5, time.Minute, now); !ok {
			refused++
		}
	}
	if refused != 5 || len(a.byKey) > localKeys+1 {
		t.Errorf("ten addresses too many: %d refused, %d kept, want 5 and one more than %d", refused, len(a.byKey), localKeys)
	}
	for range 4 {
		a.count("0", 5, time.Minute, now)
	}
	if ok, left := a.count("0", 5, time.Minute, now); ok || left != time.Minute {
		t.Errorf("the sixth try of an address from before: %t, %s, want it refused for a minute", ok, left)
	}
	now = now.Add(time.Minute)
	if ok, _ := a.count("0", 5, time.Minute, now); !ok || a.byKey["0"].n != 1 {
		t.Errorf("the same address a minute later: %t, %+v, want its first try", ok, a.byKey["0"])
	}
	a.reset("0")
	if ok, _ := a.count("late0", 5, time.Minute, now); !ok || len(a.byKey) != 1 {
		t.Errorf("a minute later: %t, %d kept, want room again", ok, len(a.byKey))
	}
}

func TestLocal_IsSafeForConcurrentUse(t *testing.T) {
	var a local
	now := time.Now()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 100 {
				a.count("shared", 1000, time.Minute, now)
				a.count(fmt.Sprint(i), 5, time.Minute, now)
				a.refund(fmt.Sprint(i))
				a.reset(fmt.Sprint(i))
			}
		})
	}
	all.Wait()
	if n := a.byKey["shared"].n; n != 800 {
		t.Errorf("%d of 800 tries are counted", n)
	}
}
