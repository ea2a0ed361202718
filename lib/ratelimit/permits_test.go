package ratelimit

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// step is a pause, and then calls in a row on one node.
type step struct {
	pause       time.Duration
	node, calls int
}

// Whoever calls on whichever node: no window lets more than Max through, and a refusal
// before that is owed to permits that other nodes hold.
func TestNodesThatHoldPermitsNeverLetTooManyThrough(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		lim := Limit{Max: rapid.IntRange(1, 300).Draw(rt, "max"), Window: time.Duration(rapid.IntRange(1, 60).Draw(rt, "window")) * time.Second}
		nodes := rapid.IntRange(1, 4).Draw(rt, "nodes")
		steps := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) step {
			pause := rapid.IntRange(0, 3000).Draw(rt, "ms") * rapid.IntRange(0, 1).Draw(rt, "pause")
			return step{time.Duration(pause) * time.Millisecond, rapid.IntRange(0, nodes-1).Draw(rt, "node"), rapid.IntRange(1, 60).Draw(rt, "calls")}
		}), 1, 40).Draw(rt, "steps")
		var fault string
		bubble.Test(t, func(t *testing.T) { fault = play(t, lim, nodes, steps) })
		if fault != "" {
			rt.Fatal(fault)
		}
	})
}

// tick is how late keys of an embedded Redis may end.
const tick = 200 * time.Millisecond

// play returns what was wrong, or "".
func play(t *testing.T, lim Limit, nodes int, steps []step) string {
	db, key := redistest.Open(t, "embedded"), perUser.At(keyspace.Int{N: 1})
	limiters := make([]*Limiter, nodes)
	for i := range limiters {
		limiters[i] = New(db)
	}
	missing := 0 // what other nodes may hold
	if lim.Max >= smallestHeld && lim.Window >= shortestHeld {
		missing = (nodes - 1) * (lim.Max / 20)
	}
	var end time.Time
	passed := 0
	for i, s := range steps {
		bubble.Sleep(s.pause)
		if now := time.Now(); now.After(end.Add(-tick)) {
			bubble.Sleep(max(0, end.Add(tick).Sub(now)))
			end, passed = time.Now().Add(lim.Window), 0
		}
		for range s.calls {
			res, err := limiters[s.node].Allow(t.Context(), key, lim)
			switch {
			case err != nil:
				return err.Error()
			case res.Allowed:
				passed++
			case passed+missing < lim.Max:
				return fmt.Sprintf("step %d: the call after %d of %d was refused", i, passed, lim.Max)
			}
			if passed > lim.Max {
				return fmt.Sprintf("step %d: %d of %d were let through", i, passed, lim.Max)
			}
			if res.Limit != lim.Max || res.Remaining >= lim.Max || nodes == 1 && res.Remaining != lim.Max-passed || (res.Reset-time.Until(end)).Abs() > tick {
				return fmt.Sprintf("step %d: %+v after %d of %d, %s before the end", i, res, passed, lim.Max, time.Until(end))
			}
		}
	}
	return ""
}

func TestARunOfCallsAsksRedisFewTimes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		db := redistest.Open(t, "embedded")
		l, k, lim := New(db), perUser.At(keyspace.Int{N: 1}), Limit{Max: 600, Window: time.Minute}
		asked, passed := 0, 0
		for range 700 {
			if _, held := l.permits.keys[k.String()]; !held || l.permits.keys[k.String()].n == 0 {
				asked++
			}
			res, err := l.Allow(t.Context(), k, lim)
			if err != nil {
				t.Fatal(err)
			}
			if res.Allowed {
				passed++
				if want := lim.Max - passed; res.Remaining != want {
					t.Fatalf("call %d: %d remain, want %d", passed, res.Remaining, want)
				}
			}
		}
		if passed != lim.Max || asked > 210 { // 100 of them are those refused
			t.Errorf("%d were let through and Redis was asked %d times", passed, asked)
		}
	})
}

func TestWhatANodeDoesNotUseGoesBack(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		db := redistest.Open(t, "embedded")
		l, other, k, lim := New(db), New(db), perUser.At(keyspace.Int{N: 1}), Limit{Max: 600, Window: time.Minute}
		allow := func(l *Limiter) Result {
			t.Helper()
			res, err := l.Allow(t.Context(), k, lim)
			if err != nil || !res.Allowed {
				t.Fatal(res, err)
			}
			return res
		}
		for range 8 { // 1, then 2, 4 and 8, of which 1 is used
			allow(l)
		}
		if got := allow(other).Remaining; got != 600-15-1 {
			t.Errorf("%d remain for another node, want %d", got, 600-15-1)
		}
		time.Sleep(holdTime)
		if got := allow(l).Remaining; got != 600-8-1-1 {
			t.Errorf("%d remain, want %d", got, 600-8-1-1)
		}
		time.Sleep(holdTime)
		if got := allow(other).Remaining; got >= 600-8-1-1 {
			t.Errorf("%d remain for another node, want fewer than %d", got, 600-8-1-1)
		}
		// Nothing goes back to a window that has begun since.
		for range 8 {
			allow(l)
		}
		time.Sleep(time.Minute)
		if got := allow(other).Remaining; got != 599 {
			t.Errorf("%d remain of a new window, want 599", got)
		}
		if got := allow(l).Remaining; got != 598 {
			t.Errorf("%d remain of a new window, want 598", got)
		}
	})
}

func TestPermitsEndWithTheirWindow(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		db := redistest.Open(t, "embedded")
		l, other, k, lim := New(db), New(db), perUser.At(keyspace.Int{N: 1}), Limit{Max: 600, Window: time.Minute}
		calls := func(l *Limiter, n int) (allowed int) {
			for range n {
				if res, err := l.Allow(t.Context(), k, lim); err != nil {
					t.Fatal(err)
				} else if res.Allowed {
					allowed++
				}
			}
			return allowed
		}
		calls(l, 1)
		time.Sleep(lim.Window - holdTime/2)
		calls(l, 20)
		if l.permits.keys[k.String()].n == 0 {
			t.Fatal("no permits are held over the window's end")
		}
		time.Sleep(holdTime * 3 / 4)
		if got := calls(other, 700) + calls(l, 50); got != lim.Max {
			t.Errorf("%d were let through in a new window, want %d", got, lim.Max)
		}
	})
}
