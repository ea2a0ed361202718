package ratelimit

import (
	"strconv"
	"testing"
	"time"
)

func TestKeysWithoutRoomShareOneCounterOfTheirLimit(t *testing.T) {
	l := &local{max: 3}
	lim, other := Limit{2, time.Minute}, Limit{2, time.Hour}
	now := time.Now()
	ask := func(key string, lim Limit, at time.Time) bool {
		r, _ := l.take(key, lim, at)
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
		{"d", lim, 0, true}, // no room: shares
		{"e", lim, 0, true},
		{"f", lim, 0, false},  // two of all strangers
		{"f", other, 0, true}, // another limit, another counter
		{"a", lim, 0, true},   // known keys keep their own
		{"a", lim, 0, false},
		{"g", lim, time.Minute - 1, false},
		{"g", lim, time.Minute, true}, // windows ended and made room
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

func TestAFloodOfKeysStaysBounded(t *testing.T) {
	l := &local{max: localKeys}
	now := time.Now()
	lim := Limit{1, time.Minute}
	for i := range 5 * localKeys {
		l.take(strconv.Itoa(i), lim, now)
	}
	if n := len(l.windows); n > localKeys+1 {
		t.Errorf("%d counters, want at most %d and one shared", n, localKeys)
	}
	// No window ends before a minute, which is remembered: each of the flood would else
	// look at all counters, 50,000 times 10,000. So one that is ended here is not found.
	l.windows[bucket{key: "0"}].end = now
	if _, w := l.take("new", lim, now); w.b.key != "" {
		t.Error("a call of a flood looks at all counters for one that has ended")
	}
}

func TestALocalGiveBackNeedsItsOwnWindow(t *testing.T) {
	l := &local{max: 1}
	now := time.Now()
	lim := Limit{2, time.Minute}
	_, w := l.take("a", lim, now)
	l.giveBack(w)
	l.giveBack(w) // never below zero
	if r, _ := l.take("a", lim, now); r.Remaining != 1 {
		t.Errorf("remaining %d, want 1", r.Remaining)
	}
	later := now.Add(time.Minute)
	l.take("a", lim, later)
	l.giveBack(w)
	if r, _ := l.take("a", lim, later); r.Remaining != 0 {
		t.Errorf("remaining %d after a give-back from the window before, want 0", r.Remaining)
	}
}

func TestAShorterWindowCutsTheLocalOne(t *testing.T) {
	l := &local{max: 1}
	now := time.Now()
	l.take("a", Limit{2, time.Hour}, now)
	if r, _ := l.take("a", Limit{2, time.Minute}, now); r.Reset != time.Minute || r.Remaining != 0 {
		t.Errorf("got %+v, want a minute and nothing left", r)
	}
}
