package supervise

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// diary records events in order.
type diary struct {
	mu   sync.Mutex
	said []string
}

func (d *diary) note(s string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.said = append(d.said, s)
}

func (d *diary) lines() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.said)
}

// part takes up to be ready and down to stop, and records both. The times are those of the test's bubble.
func (d *diary) part(name string, up, down time.Duration) Part {
	return Part{Name: name, Run: func(ctx context.Context, ready func()) error {
		d.note("+" + name)
		<-time.After(up)
		d.note(name + " ready")
		ready()
		<-ctx.Done()
		<-time.After(down)
		d.note("-" + name)
		return ctx.Err()
	}}
}

func want(t *testing.T, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestGroup_StartsInOrderAndStopsInReverse(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var d diary
		var g Group
		g.Add(d.part("sql", time.Second, time.Second), d.part("bus", 0, 2*time.Second), d.part("http", time.Second, 0))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := g.Run(ctx); err != nil {
			t.Errorf("Run: got %v, want nil", err)
		}
		want(t, d.lines(), []string{"+sql", "sql ready", "+bus", "bus ready", "+http", "http ready", "-http", "-bus", "-sql"})
	})
}

func TestGroup_OneFailureStopsAll(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		boom := errors.New("boom")
		var d diary
		var g Group
		g.Add(d.part("sql", 0, 0), Part{Name: "bus", Run: func(ctx context.Context, ready func()) error {
			ready()
			time.Sleep(time.Minute)
			return boom
		}}, d.part("http", 0, 0))
		err := g.Run(t.Context())
		if !errors.Is(err, boom) || err.Error() != "bus: boom" {
			t.Errorf("Run: got %v, want bus: boom", err)
		}
		want(t, d.lines(), []string{"+sql", "sql ready", "+http", "http ready", "-http", "-sql"})
	})
}

func TestGroup_EarlyReturnIsAFailure(t *testing.T) {
	for name, run := range map[string]func(context.Context, func()) error{
		"before it is ready": func(context.Context, func()) error { return nil },
		"after":              func(_ context.Context, ready func()) error { ready(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			var g Group
			g.Add(Part{Name: "bus", Run: run})
			if err := g.Run(t.Context()); !errors.Is(err, ErrEnded) || !strings.HasPrefix(err.Error(), "bus: ") {
				t.Errorf("Run: got %v, want bus: %v", err, ErrEnded)
			}
		})
	}
}

func TestGroup_FailureDuringStartStopsIt(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		boom := errors.New("boom")
		var d diary
		var g Group
		g.Add(Part{Name: "sql", Run: func(ctx context.Context, ready func()) error {
			ready()
			time.Sleep(time.Second)
			return boom
		}}, d.part("slow", 30*time.Second, 0), d.part("never", 0, 0))
		g.Grace = time.Minute
		if err := g.Run(t.Context()); !errors.Is(err, boom) {
			t.Errorf("Run: got %v, want boom", err)
		}
		want(t, d.lines(), []string{"+slow", "slow ready", "-slow"})
	})
}

func TestGroup_StopDuringStartIsNoFailure(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var d diary
		var g Group
		g.Add(d.part("sql", 0, 0), d.part("slow", 10*time.Second, 0), d.part("never", 0, 0))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := g.Run(ctx); err != nil {
			t.Errorf("Run: got %v, want nil", err)
		}
		want(t, d.lines(), []string{"+sql", "sql ready", "+slow", "slow ready", "-slow", "-sql"})
	})
}

func TestGroup_StartTimeoutNamesThePart(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var d diary
		g := Group{Start: 5 * time.Second}
		g.Add(d.part("sql", 4*time.Second, 0))
		g.Add(Part{Name: "redis", Start: 3 * time.Second, Run: func(ctx context.Context, ready func()) error {
			<-ctx.Done()
			return nil
		}})
		begun := time.Now()
		err := g.Run(t.Context())
		if !errors.Is(err, ErrNotReady) || err.Error() != "redis: not ready in time (3s)" {
			t.Errorf("Run: got %v, want redis: not ready in time (3s)", err)
		}
		if got := time.Since(begun); got != 7*time.Second {
			t.Errorf("gave up after %v, want 7s", got)
		}
		want(t, d.lines(), []string{"+sql", "sql ready", "-sql"})
	})
}

func TestGroup_StuckPartIsNamed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		var d diary
		g := Group{Grace: 10 * time.Second}
		g.Add(d.part("sql", 0, 0))
		g.Add(Part{Name: "stuck", Grace: time.Second, Run: func(ctx context.Context, ready func()) error {
			ready()
			<-release
			return nil
		}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		err := g.Run(ctx)
		if !errors.Is(err, ErrStuck) || err.Error() != "stuck: did not stop in time (1s)" {
			t.Errorf("Run: got %v, want stuck: did not stop in time (1s)", err)
		}
		want(t, d.lines(), []string{"+sql", "sql ready", "-sql"})
	})
}

func TestGroup_PanicIsAnErrorWithStack(t *testing.T) {
	var g Group
	g.Add(Part{Name: "bus", Run: func(context.Context, func()) error { panic("out of tickets") }})
	err := g.Run(t.Context())
	if err == nil || !strings.HasPrefix(err.Error(), "bus: panic: out of tickets\n") || !strings.Contains(err.Error(), "supervise_test.go") {
		t.Errorf("Run: got %v, want the panic and its place", err)
	}
}

func TestGroup_JoinsErrorsOfTheStop(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		first, second := errors.New("first"), errors.New("second")
		fails := func(name string, err error) Part {
			return Part{Name: name, Run: func(ctx context.Context, ready func()) error { ready(); <-ctx.Done(); return err }}
		}
		var g Group
		g.Add(fails("a", second), fails("b", first))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := g.Run(ctx); err == nil || err.Error() != "b: first\na: second" {
			t.Errorf("Run: got %v, want b: first and a: second", err)
		}
	})
}

func TestStates_ShowStartAndStop(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var d diary
		var g Group
		g.Add(d.part("sql", 0, time.Second), d.part("redis", time.Second, 0))
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan error)
		go func() { over <- g.Run(ctx) }()

		check := func(when string, want ...State) {
			t.Helper()
			synctest.Wait()
			if got := g.States(); !slices.Equal(got, want) {
				t.Errorf("%s: got %+v, want %+v", when, got, want)
			}
		}
		check("while redis starts", State{Name: "sql", Ready: true}, State{Name: "redis"})
		time.Sleep(time.Second)
		check("after the start", State{Name: "sql", Ready: true}, State{Name: "redis", Ready: true})
		cancel()
		check("while it stops", State{Name: "sql"}, State{Name: "redis"})
		if err := <-over; err != nil {
			t.Errorf("Run: got %v, want nil", err)
		}
	})
}

func TestNamesAreUnique(t *testing.T) {
	var g Group
	g.Add(Part{Name: "sql"})
	defer func() {
		if recover() == nil {
			t.Error("Add of a name twice: got no panic, want one")
		}
	}()
	g.Add(Part{Name: "sql"})
}
