package fairqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

var errFull = errors.New("full")

// world records the order of grants.
type world struct {
	*testing.T
	q *Queue

	mu      sync.Mutex
	order   []string
	refused []string
	release map[string]func()
}

func newWorld(t *testing.T, l Limits) *world {
	l.Full = errFull
	return &world{T: t, q: New(l), release: map[string]func(){}}
}

// ask sends a request whose name begins with its user's, and waits until it is granted, refused or queued.
func (w *world) ask(ctx context.Context, name string, units int64) {
	user, _, _ := strings.Cut(name, " ")
	go func() {
		release, err := w.q.Acquire(ctx, user, units)
		w.mu.Lock()
		defer w.mu.Unlock()
		if err != nil {
			w.refused = append(w.refused, fmt.Sprintf("%s: %v", name, err))
			return
		}
		w.order = append(w.order, name)
		w.release[name] = release
	}()
	synctest.Wait()
}

func (w *world) done(name string) {
	w.release[name]()
	synctest.Wait()
}

func (w *world) granted(want ...string) {
	w.Helper()
	if !slices.Equal(w.order, want) {
		w.Errorf("granted %q, want %q", w.order, want)
	}
}

func TestQueue_ServesWaitingUsersInRotation(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, Limits{Capacity: 1, Waiting: 10, PerUser: 10})
		for _, name := range []string{"ann 1", "ann 2", "ann 3", "ann 4", "bob 1", "cat 1", "bob 2"} {
			w.ask(t.Context(), name, 1)
		}
		for i := range 7 {
			w.done(w.order[i])
		}
		w.granted("ann 1", "ann 2", "bob 1", "cat 1", "ann 3", "bob 2", "ann 4")
		if len(w.q.users) != 0 || len(w.q.turns) != 0 || w.q.waiting != 0 || w.q.InUse() != 0 {
			t.Errorf("the idle queue still has %v, %v, %d, %d", w.q.users, w.q.turns, w.q.waiting, w.q.inUse)
		}
	})
}

func TestQueue_UserHoldsAtMostShare(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, Limits{Capacity: 4, Waiting: 10, PerUser: 10})
		for _, name := range []string{"ann 1", "ann 2", "ann 3", "bob 1"} {
			w.ask(t.Context(), name, 1)
		}
		w.granted("ann 1", "ann 2", "bob 1")
		w.done("bob 1")
		w.granted("ann 1", "ann 2", "bob 1")
		w.done("ann 2")
		w.granted("ann 1", "ann 2", "bob 1", "ann 3")
	})
}

func TestQueue_LargeRequestIsNotStarved(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, Limits{Capacity: 4, Waiting: 10, PerUser: 10})
		w.ask(t.Context(), "ann 1", 1)
		w.ask(t.Context(), "bob large", 9)
		w.ask(t.Context(), "cat 1", 1)
		w.granted("ann 1")
		w.done("ann 1")
		w.granted("ann 1", "bob large")
		w.done("bob large")
		w.granted("ann 1", "bob large", "cat 1")
	})
}

func TestQueue_RefusesBeyondItsBounds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, Limits{Capacity: 1, Waiting: 3, PerUser: 2, Wait: time.Minute})
		leaves, cancel := context.WithCancel(t.Context())
		for _, name := range []string{"ann 1", "ann 2", "ann 3", "ann 4"} {
			w.ask(t.Context(), name, 1)
		}
		w.ask(leaves, "bob 1", 1)
		w.ask(t.Context(), "cat 1", 1)
		cancel()
		synctest.Wait()
		w.ask(t.Context(), "dan 1", 1)
		time.Sleep(time.Hour)
		synctest.Wait()
		want := []string{"ann 4: full", "ann 3: full", "bob 1: context canceled", "ann 2: full", "cat 1: full", "dan 1: full"}
		if slices.Sort(w.refused[3:]); !slices.Equal(w.refused, want) {
			t.Errorf("refused %q, want %q", w.refused, want)
		}
		w.done("ann 1")
		w.ask(t.Context(), "eve 1", 1)
		w.granted("ann 1", "eve 1")
	})
}

func TestQueue_FullQueueAdmitsUsersWithFewerRequests(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, Limits{Capacity: 1, Waiting: 4, PerUser: 2})
		for _, name := range []string{"ann 1", "ann 2", "ann 3", "bob 1", "bob 2", "cat 1", "dan 1", "eve 1"} {
			w.ask(t.Context(), name, 1)
		}
		for i := range 5 {
			w.done(w.order[i])
		}
		w.granted("ann 1", "ann 2", "bob 1", "cat 1", "dan 1")
		if want := []string{"ann 3: full", "bob 2: full", "eve 1: full"}; !slices.Equal(w.refused, want) {
			t.Errorf("refused %q, want %q", w.refused, want)
		}
	})
}

// TestQueue_RandomHistories checks the bounds after each step, and that no request waits that would fit.
func TestQueue_RandomHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Limits{Capacity: rapid.Int64Range(1, 6).Draw(t, "capacity"), Waiting: 8, PerUser: 4, Full: errFull}
		q := New(l)
		type asked struct {
			name string
			u    *user
			r    *request
		}
		var all []asked
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			if n := len(all); n > 0 && rapid.Bool().Draw(t, "ends") {
				at := rapid.IntRange(0, n-1).Draw(t, "which")
				a := all[at]
				all = slices.Delete(all, at, at+1)
				if isClosed(a.r.granted) {
					q.release(a.name, a.u, a.r.units)
				} else {
					q.remove(a.name, a.u, a.r)
					q.grant()
				}
			} else {
				a := asked{name: rapid.SampledFrom([]string{"ann", "bob", "cat"}).Draw(t, "user"),
					r: &request{units: min(l.Capacity, rapid.Int64Range(1, 6).Draw(t, "units")), granted: make(chan struct{}), full: make(chan struct{})}}
				var full bool
				if a.u, full = q.enqueue(a.name, a.r); !full {
					all = append(all, a)
				}
				all = slices.DeleteFunc(all, func(a asked) bool { return isClosed(a.r.full) })
			}
			var inUse int64
			waiting := 0
			of := map[string]int64{}
			for _, a := range all {
				if isClosed(a.r.granted) {
					inUse += a.r.units
					of[a.name] += a.r.units
				} else {
					waiting++
				}
			}
			if inUse != q.inUse || inUse > l.Capacity || waiting != q.waiting || waiting > l.Waiting {
				t.Fatalf("%d units in use, %d wait; the queue says %d and %d", inUse, waiting, q.inUse, q.waiting)
			}
			for _, u := range q.turns {
				if r := u.waiting[0]; u.inUse == 0 || u.inUse+r.units <= q.limits.Share {
					if q.inUse+r.units <= l.Capacity {
						t.Fatalf("a request for %d waits while %d of %d are in use", r.units, q.inUse, l.Capacity)
					}
					break
				}
			}
			for name, n := range of {
				if n > q.limits.Share && !slices.ContainsFunc(all, func(a asked) bool {
					return a.name == name && isClosed(a.r.granted) && a.r.units == n
				}) {
					t.Fatalf("%s holds %d, more than %d", name, n, q.limits.Share)
				}
			}
		}
	})
}
