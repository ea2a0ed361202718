package ratelimit

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// step is a pause, followed by calls on one node.
type step struct {
	pause       time.Duration
	node, calls int
}

// No window allows more than Max calls, on any nodes, and an earlier refusal is only due to permits of other nodes.
func TestPermits_NodesNeverExceedMax(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		lim := Limit{Max: rapid.IntRange(1, 300).Draw(rt, "max"), Window: time.Duration(rapid.IntRange(1, 60).Draw(rt, "window")) * time.Second}
		nodes := rapid.IntRange(1, 4).Draw(rt, "nodes")
		steps := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) step {
			pause := rapid.IntRange(0, 3000).Draw(rt, "ms") * rapid.IntRange(0, 1).Draw(rt, "pause")
			return step{time.Duration(pause) * time.Millisecond, rapid.IntRange(0, nodes-1).Draw(rt, "node"),
				rapid.IntRange(1, 60).Draw(rt, "calls")}
		}), 1, 40).Draw(rt, "steps")
		var fault string
		bubble.Test(t, func(t *testing.T) { fault = play(t, lim, nodes, steps) })
		if fault != "" {
			rt.Fatal(fault)
		}
	})
}

// tick is the largest delay of an expiry in the embedded Redis.
const tick = 200 * time.Millisecond

// play runs steps and returns what was wrong, or "".
func play(t *testing.T, lim Limit, nodes int, steps []step) string {
	db, key := redistest.Open(t, "embedded"), perUser.At(keyspace.Int{N: 1})
	limiters := make([]*Limiter, nodes)
	for i := range limiters {
		limiters[i] = New(db)
	}
	missing := 0 // permits that other nodes may have
	if lim.Max >= minBlockMax && lim.Window >= minBlockWindow {
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
			if res.Limit != lim.Max || res.Remaining >= lim.Max || nodes == 1 && res.Remaining != lim.Max-passed ||
				(res.Reset-time.Until(end)).Abs() > tick {
				return fmt.Sprintf("step %d: %+v after %d of %d, %s before the end", i, res, passed, lim.Max, time.Until(end))
			}
		}
	}
	return ""
}

func TestPermits_FewRoundTrips(t *testing.T) {
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

func TestPermits_UnusedAreReturned(t *testing.T) {
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
		// Permits are not returned to a window that began later.
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

func TestPermits_EndWithWindow(t *testing.T) {
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

// Many keys, such as addresses, use no more memory than the permits of maxPermitKeys keys. Other keys count each call
// in Redis, and the keys are searched at most once a second.
func TestPermits_KeysWithoutRoom(t *testing.T) {
	lim, now := Limit{Max: 600, Window: time.Minute}, time.Now()
	fill := func(p *permits) {
		for i := range maxPermitKeys {
			p.demandFor(strconv.Itoa(i), lim, now)
			p.record(strconv.Itoa(i), lim, demand{want: 1, block: true}, 3, 3, lim.Window, now) // two remain
		}
	}
	holds := func(p *permits, key string, at time.Duration) bool { return p.demandFor(key, lim, now.Add(at)).block }
	t.Run("a window that ended makes room, and not before the next look", func(t *testing.T) {
		p := new(permits)
		fill(p)
		if holds(p, "new", 0) {
			t.Error("a key without room has permits")
		}
		p.keys["7"].end = now
		if holds(p, "new", holdTime-1) || len(p.keys) != maxPermitKeys {
			t.Error("each call searches all keys for an expired window")
		}
		if !holds(p, "new", holdTime) || len(p.keys) != maxPermitKeys || p.keys["7"] != nil {
			t.Error("an expired window was not evicted")
		}
	})
	t.Run("so do permits that are used up and of no use any longer, unless more are asked for", func(t *testing.T) {
		for name, c := range map[string]struct {
			harm func(*held)
			want bool
		}{
			"used up":            {func(h *held) { h.n = 0 }, true},
			"used up, and asked": {func(h *held) { h.n, h.asking = 0, true }, false},
			"left":               {func(*held) {}, false}, // they are returned by the next call
			"fresh":              {func(h *held) { h.n, h.fresh = 0, now.Add(2*holdTime) }, false},
		} {
			p := new(permits)
			fill(p)
			c.harm(p.keys["7"])
			if got := holds(p, "new", holdTime); got != c.want {
				t.Errorf("%s: there is room: %v, want %v", name, got, c.want)
			}
		}
	})
}

func TestPermits_OneRequestAtATime(t *testing.T) {
	p, lim, now := new(permits), Limit{Max: 600, Window: time.Minute}, time.Now()
	first := p.demandFor("a", lim, now)
	if second := p.demandFor("a", lim, now); !first.block || second != (demand{want: 1}) {
		t.Errorf("asks %+v, then %+v; want permits, and then one call while Redis is asked for them", first, second)
	}
	p.failed("a", first)
	if third := p.demandFor("a", lim, now); !third.block {
		t.Errorf("asks %+v after Redis did not answer, want permits", third)
	}
}
