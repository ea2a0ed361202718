package bubble

import (
	"sync"
	"testing"
	"time"
)

func TestBubble_TimeIsVirtual(t *testing.T) {
	if In(t) {
		t.Error("a test outside is taken for one in a bubble")
	}
	Test(t, func(t *testing.T) {
		if !In(t) {
			t.Error("a test in a bubble is not known as one")
		}
		if now := time.Now(); !now.Equal(Began) {
			t.Errorf("a bubble begins at %v, want %v", now, Began)
		}
		rang := 0
		time.AfterFunc(24*time.Hour, func() { rang++ })
		Sleep(24 * time.Hour)
		if now := time.Now(); rang != 1 || !now.Equal(Began.Add(24*time.Hour)) {
			t.Errorf("after a day it is %v, and what was due rang %d times", now, rang)
		}
	})
}

func TestBubble_EmptiesPools(t *testing.T) {
	var pool sync.Pool
	Test(t, func(*testing.T) {
		for range 100 { // the race detector makes pools drop some objects
			pool.Put(time.NewTimer(time.Hour))
		}
	})
	if kept := pool.Get(); kept != nil {
		t.Errorf("a pool keeps a %T of a bubble that has ended", kept)
	}
}
