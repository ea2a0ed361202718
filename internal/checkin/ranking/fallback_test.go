package ranking

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/checkin/checkintest"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// slowly returns a fallback whose counts take that long, and the number of counts.
func slowly(t *testing.T, took time.Duration, rank func(n int) ([]sqlRow, error)) (*fallback, *int) {
	n := 0
	f := newFallback(func(ctx context.Context, b Board) (map[Board][]sqlRow, error) {
		n++
		select {
		case <-time.After(took):
			all, err := rank(n)
			return map[Board][]sqlRow{b: all}, err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}, time.Now, errAway)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { f.run(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
		if _, err := f.ranks(context.Background(), MonthOf(0)); !errors.Is(err, errAway) {
			t.Errorf("afterwards: %v, want what says that SQL is away", err)
		}
	})
	return f, &n
}

var aWeek = WeekOf(civil.DayOf(2026, 11, 20))

func valued(n int) []sqlRow { return []sqlRow{sqlRowOf(n, time.Now(), accounts.ID{})} }

func TestStandings_SharedByCallersAndSurviveCancel(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		f, taken := slowly(t, 20*time.Second, func(n int) ([]sqlRow, error) { return valued(n), nil })
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := f.ranks(short, aWeek); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who waits a second got %v", err)
		}
		began := time.Now()
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if got, err := f.ranks(t.Context(), aWeek); err != nil || got[0].value() != 1 {
					t.Errorf("got %v, %v", got, err)
				}
			})
		}
		all.Wait()
		if d := time.Since(began); d != 19*time.Second || *taken != 1 {
			t.Errorf("%d standings, after %s; want the first one's, in 19 s", *taken, d)
		}
	})
}

func TestStandings_OldServeWhileNewLoad(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		f, taken := slowly(t, time.Second, func(n int) ([]sqlRow, error) { return valued(n), nil })
		for second := range 60 {
			began := time.Now()
			if _, err := f.ranks(t.Context(), aWeek); err != nil {
				t.Fatal(err)
			}
			if d := time.Since(began); d > 0 && second > 0 {
				t.Errorf("after %d s: waited %s", second, d)
			}
			time.Sleep(time.Second)
		}
		// One count of a second each ten seconds: a tenth of the time.
		if *taken < 5 || *taken > 6 {
			t.Errorf("%d were taken in a minute", *taken)
		}
		time.Sleep(time.Minute)
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(f.have) != 0 {
			t.Error("old ones are kept though nobody asks")
		}
	})
}

func TestStandings_DeadStreaksLeaveAtMidnight(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour + 14*time.Minute + 50*time.Second)))
		midnight := time.Now().Add(10 * time.Second)
		f, taken := slowly(t, time.Second, func(int) ([]sqlRow, error) {
			one, other := sqlRowOf(7, time.Now(), accounts.ID{}), sqlRowOf(5, time.Now(), accounts.ID{})
			one.dies, other.dies = midnight.Unix(), midnight.Add(24*time.Hour).Unix()
			return []sqlRow{one, other}, nil
		})
		before, err := f.ranks(t.Context(), StreakBoard)
		if err != nil || len(before) != 2 {
			t.Fatalf("before: %v, %v", before, err)
		}
		time.Sleep(9 * time.Second)
		after, err := f.ranks(t.Context(), StreakBoard)
		if err != nil || len(after) != 1 || after[0].value() != 5 {
			t.Errorf("at midnight: %v, %v", after, err)
		}
		if len(before) != 2 || before[0].value() != 7 || *taken != 1 {
			t.Errorf("what was read before is %v now, after %d", before, *taken)
		}
	})
}

func TestStandings_FailedLoadIsRetried(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		away := errors.New("away")
		f, _ := slowly(t, time.Second, func(n int) ([]sqlRow, error) {
			if n == 1 {
				return nil, away
			}
			return valued(n), nil
		})
		if _, err := f.ranks(t.Context(), aWeek); !errors.Is(err, away) {
			t.Errorf("got %v", err)
		}
		if got, err := f.ranks(t.Context(), aWeek); err != nil || got[0].value() != 2 {
			t.Errorf("got %v, %v", got, err)
		}
	})
}

// reading is a source of places that signals when it is read.
type reading struct {
	began chan struct{}
	some  chan []Placement // until it is closed
	err   error
}

func (r *reading) read(ctx context.Context, fn func([]Placement) error) error {
	r.began <- struct{}{}
	for {
		select {
		case some, more := <-r.some:
			if !more {
				return r.err
			}
			if err := fn(some); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func total(n int) []Placement { return []Placement{{Score: streak.Score{Total: n}}} }

func TestPlaces_ConcurrentCallersShareAPass(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		r := &reading{began: make(chan struct{}, 9), some: make(chan []Placement), err: errors.New("cut off")}
		ps := &passes{read: r.read, joinWindow: time.Second}
		type heard struct {
			totals []int
			err    error
		}
		follow := func(ctx context.Context, atMost int) (out heard) {
			for p, err := range ps.places(ctx) {
				if err != nil {
					out.err = err
					break
				}
				if out.totals = append(out.totals, p.Total); len(out.totals) == atMost {
					break
				}
			}
			return out
		}
		var one, two, short, late heard
		var all, early sync.WaitGroup
		all.Go(func() { one = follow(t.Context(), 9) })
		time.Sleep(ps.joinWindow / 2)
		all.Go(func() { two = follow(t.Context(), 9) })
		early.Go(func() { short = follow(t.Context(), 1) })
		<-r.began
		r.some <- total(1)
		early.Wait()
		leaving, leave := context.WithCancel(t.Context())
		early.Go(func() { late = follow(leaving, 9) })
		<-r.began // in a pass of its own
		leave()
		early.Wait()
		r.some <- total(2)
		close(r.some)
		all.Wait()
		for what, got := range map[string]heard{"one": one, "two": two} {
			if !slices.Equal(got.totals, []int{1, 2}) || !errors.Is(got.err, r.err) {
				t.Errorf("%s heard %v", what, got)
			}
		}
		if !slices.Equal(short.totals, []int{1}) || short.err != nil {
			t.Errorf("who wanted one heard %v", short)
		}
		if len(late.totals) > 0 || !errors.Is(late.err, context.Canceled) {
			t.Errorf("who came late and left heard %v", late)
		}
	})
}

func TestPass_EndsWithoutCallers(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		r := &reading{began: make(chan struct{}, 9), some: make(chan []Placement)}
		ps := &passes{read: r.read, joinWindow: time.Second}
		ctx, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				for _, err := range ps.places(ctx) {
					if !errors.Is(err, context.Canceled) {
						t.Errorf("got %v", err)
					}
				}
			})
		}
		time.Sleep(ps.joinWindow / 2)
		leave() // before it began
		all.Wait()
		if len(r.began) > 0 || ps.next != nil {
			t.Error("it was read for nobody")
		}
	})
}

// One pass loads two boards that are loaded at the same time, and all users are on both.
func TestLoad_ConcurrentBoardsShareAPass(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Compact)
	users := checkintest.NewUsers(600) // two chunks
	w.Write(t, users, dayAt(w.Clock.Now()))
	passes := 0
	w.passes.joinWindow = 2 * time.Second // the machine may pause
	w.passes.read = func(ctx context.Context, fn func([]Placement) error) error {
		passes++
		return w.readPlaces(ctx, fn)
	}
	if err := w.LoadMissing(t.Context()); err != nil {
		t.Fatal(err)
	}
	if passes != 1 {
		t.Errorf("%d passes, want one", passes)
	}
	for _, b := range []Board{StreakBoard, TotalBoard} {
		top, err := w.Of(b).Top(t.Context(), w.Clock.Now(), 1000)
		if err != nil || len(top) != len(users) {
			t.Errorf("board %s has %d of %d users, %v", b, len(top), len(users), err)
		}
	}
}
