package ratelimit

import (
	"strconv"
	"testing"
	"time"
)

func TestLocal_KeysWithoutRoomShareCounter(t *testing.T) {
	l := &local{max: 3}
	lim, other := Limit{2, time.Minute}, Limit{2, time.Hour}
	now := time.Now()
	ask := func(key string, lim Limit, at time.Time) bool {
		r, _ := l.count(key, lim, at)
		return r.Allowed
	}
	for _, key := range []string{"a", "b", "c"} {
		ask(key, lim, now)
	}
	steps := []struct {
		key  string
		lim  Limit
		at   time.Duration
		want bool
	}{
		{"d", lim, 0, true}, // no room: uses the shared counter
		{"e", lim, 0, true},
		{"f", lim, 0, false},  // the shared counter is full
		{"f", other, 0, true}, // another limit has another counter
		{"a", lim, 0, true},   // known keys keep their own counters
		{"a", lim, 0, false},
		{"g", lim, time.Minute - 1, false},
		{"g", lim, time.Minute, true}, // expired windows were evicted
		{"h", lim, time.Minute, true},
		{"g", lim, time.Minute, true},
		{"g", lim, time.Minute, false},
	}
	for i, s := range steps {
		if got := ask(s.key, s.lim, now.Add(s.at)); got != s.want {
			t.Errorf("step %d, %s: allowed %v, want %v", i, s.key, got, s.want)
		}
	}
}

func TestLocal_ManyKeysStayBounded(t *testing.T) {
	l := &local{max: maxLocalKeys}
	now := time.Now()
	lim := Limit{1, time.Minute}
	for i := range 5 * maxLocalKeys {
		l.count(strconv.Itoa(i), lim, now)
	}
	if n := len(l.windows); n > maxLocalKeys+1 {
		t.Errorf("%d counters, want at most %d and one shared", n, maxLocalKeys)
	}
	// No window ends within a minute, and local stores that. Otherwise each call would search all counters, 50,000
	// times 10,000. So a counter that expires earlier here is not found.
	l.windows[bucket{key: "0"}].end = now
	if _, w := l.count("new", lim, now); w.b.key != "" {
		t.Error("a call searches all counters for an expired one")
	}
}

func TestLocal_GiveBackNeedsSameWindow(t *testing.T) {
	l := &local{max: 1}
	now := time.Now()
	lim := Limit{2, time.Minute}
	_, w := l.count("a", lim, now)
	l.giveBack(w)
	l.giveBack(w) // never below zero
	if r, _ := l.count("a", lim, now); r.Remaining != 1 {
		t.Errorf("remaining %d, want 1", r.Remaining)
	}
	later := now.Add(time.Minute)
	l.count("a", lim, later)
	l.giveBack(w)
	if r, _ := l.count("a", lim, later); r.Remaining != 0 {
		t.Errorf("remaining %d after a give-back from the window before, want 0", r.Remaining)
	}
}

func TestLocal_ShorterWindowApplies(t *testing.T) {
	l := &local{max: 1}
	now := time.Now()
	l.count("a", Limit{2, time.Hour}, now)
	if r, _ := l.count("a", Limit{2, time.Minute}, now); r.Reset != time.Minute || r.Remaining != 0 {
		t.Errorf("got %+v, want a minute and nothing left", r)
	}
}
