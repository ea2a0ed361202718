package groupcommit_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoa-dev/stoa/lib/groupcommit"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

type options = groupcommit.Options[int, string]

// start runs a committer for the duration of the test and returns it.
func start(t *testing.T, commit func(context.Context, []int) ([]string, error), o options) *groupcommit.Committer[int, string] {
	t.Helper()
	c := groupcommit.New(commit, o)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = c.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return c
}

func double(_ context.Context, reqs []int) ([]string, error) {
	out := make([]string, len(reqs))
	for i, r := range reqs {
		out[i] = fmt.Sprint(2 * r)
	}
	return out, nil
}

func TestDo_ReturnsOwnResult(t *testing.T) {
	c := start(t, double, options{Committers: 2, MaxBatch: 7})
	var wg sync.WaitGroup
	for i := range 500 {
		wg.Go(func() {
			if got, err := c.Do(t.Context(), i); err != nil || got != fmt.Sprint(2*i) {
				t.Errorf("Do(%d): got %q, %v", i, got, err)
			}
		})
	}
	wg.Wait()
}

func TestBatch_GathersDuringCommit(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var sizes []int
		c := start(t, func(ctx context.Context, reqs []int) ([]string, error) {
			sizes = append(sizes, len(reqs))
			time.Sleep(time.Millisecond) // the flush
			return double(ctx, reqs)
		}, options{MaxBatch: 64})
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = c.Do(t.Context(), 0) })
		synctest.Wait() // the first is in its commit, alone
		for i := range 100 {
			wg.Go(func() { _, _ = c.Do(t.Context(), i) })
		}
		wg.Wait()
		if want := []int{1, 64, 36}; !slices.Equal(sizes, want) {
			t.Errorf("batches of %v, want %v", sizes, want)
		}
	})
}

// In a model with measured costs, callers submit again after a random time. If each batch took all waiting requests,
// one caller and all others would alternate forever.
func TestBatch_HalvesOrOneGroup(t *testing.T) {
	for _, tt := range []struct {
		name          string
		callers       int
		commit, after [2]int // µs: of a batch, and of each row
		away          int    // longest time in µs until callers submit again
		size          int    // size of most batches
		round         time.Duration
	}{
		{"commit and after cost about the same", 64, [2]int{200, 12}, [2]int{150, 12}, 20, 32, 1250 * time.Microsecond},
		{"so do they, and callers take their time", 60, [2]int{500, 15}, [2]int{500, 25}, 300, 30, 2600 * time.Microsecond},
		{"more callers", 256, [2]int{200, 12}, [2]int{150, 12}, 20, 128, 3700 * time.Microsecond},
		{"a slow disk", 64, [2]int{5000, 10}, [2]int{200, 12}, 20, 64, 7 * time.Millisecond},
		{"a slow disk, and callers take their time", 64, [2]int{5000, 10}, [2]int{200, 12}, 1000, 64, 8 * time.Millisecond},
		{"few callers", 4, [2]int{200, 12}, [2]int{150, 12}, 20, 4, 500 * time.Microsecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				const rounds = 100
				sizes := map[int]int{}
				cost := func(c [2]int, n int) { time.Sleep(time.Duration(c[0]+n*c[1]) * time.Microsecond) }
				c := start(t, func(ctx context.Context, reqs []int) ([]string, error) {
					sizes[len(reqs)]++
					cost(tt.commit, len(reqs))
					return double(ctx, reqs)
				}, options{After: func(_ context.Context, reqs []int, _ []string) { cost(tt.after, len(reqs)) }})
				var wg sync.WaitGroup
				began := time.Now()
				random := rand.New(rand.NewPCG(1, 2))
				for i := range tt.callers {
					away := make([]time.Duration, rounds)
					for j := range away {
						away[j] = time.Duration(random.IntN(tt.away)) * time.Microsecond
					}
					wg.Go(func() {
						for _, d := range away {
							time.Sleep(d)
							_, _ = c.Do(t.Context(), i)
						}
					})
				}
				wg.Wait()
				if round := time.Since(began) / rounds; round > tt.round {
					t.Errorf("a round of all callers takes %v, want at most %v", round, tt.round)
				}
				if least := rounds * tt.callers / tt.size * 3 / 4; sizes[tt.size] < least {
					t.Errorf("batches by size: got %v, want at least %d of %d", sizes, least, tt.size)
				}
			})
		})
	}
}

func TestBatch_WaitIsBoundedByCommit(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := start(t, func(ctx context.Context, reqs []int) ([]string, error) {
			time.Sleep(time.Millisecond)
			return double(ctx, reqs)
		}, options{After: func(_ context.Context, reqs []int, _ []string) {
			if len(reqs) > 1 {
				time.Sleep(time.Hour)
			}
		}})
		var wg sync.WaitGroup
		defer wg.Wait()
		for i := range 10 {
			wg.Go(func() { _, _ = c.Do(t.Context(), i) })
		}
		time.Sleep(10 * time.Millisecond)
		began := time.Now()
		_, _ = c.Do(t.Context(), 11)
		if took := time.Since(began); took != 2*time.Millisecond {
			t.Errorf("took %v, want the wait of one commit and one commit", took)
		}
	})
}

func TestBatch_WithoutAfterDoesNotWait(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := start(t, func(ctx context.Context, reqs []int) ([]string, error) {
			time.Sleep(time.Millisecond)
			return double(ctx, reqs)
		}, options{})
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() { _, _ = c.Do(t.Context(), i) })
		}
		wg.Wait()
		began := time.Now()
		_, _ = c.Do(t.Context(), 11)
		if took := time.Since(began); took != time.Millisecond {
			t.Errorf("took %v, want one commit", took)
		}
	})
}

func TestSplit_BadRowFailsAlone(t *testing.T) {
	bad := errors.New("row too long")
	var after, failed atomic.Int32
	c := start(t, func(ctx context.Context, reqs []int) ([]string, error) {
		if slices.Contains(reqs, 13) {
			return nil, bad
		}
		return double(ctx, reqs)
	}, options{
		Split: func(err error) bool { return errors.Is(err, bad) },
		After: func(_ context.Context, reqs []int, _ []string) { after.Add(int32(len(reqs))) },
		Failed: func(req int, err error) {
			if failed.Add(1); req != 13 || !errors.Is(err, bad) {
				t.Errorf("Failed(%d, %v)", req, err)
			}
		},
	})
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			got, err := c.Do(t.Context(), i)
			if i == 13 && !errors.Is(err, bad) {
				t.Errorf("the bad row: got %q, %v", got, err)
			}
			if i != 13 && (err != nil || got != fmt.Sprint(2*i)) {
				t.Errorf("row %d: got %q, %v", i, got, err)
			}
		})
	}
	wg.Wait()
	if after.Load() != 39 || failed.Load() != 1 {
		t.Errorf("After saw %d rows and Failed %d, want 39 good ones and 1", after.Load(), failed.Load())
	}
}

func TestRetry_DeadlockUpToFiveAttempts(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		deadlock, tries := errors.New("deadlock"), 0
		c := start(t, func(ctx context.Context, reqs []int) ([]string, error) {
			if tries++; reqs[0] == 1 && tries < 4 || reqs[0] == 2 {
				return nil, deadlock
			}
			return double(ctx, reqs)
		}, options{Retry: func(err error) bool { return errors.Is(err, deadlock) }})
		if got, err := c.Do(t.Context(), 1); err != nil || got != "2" || tries != 4 {
			t.Errorf("got %q, %v after %d tries, want 2 after 4", got, err, tries)
		}
		tries = 0
		if _, err := c.Do(t.Context(), 2); !errors.Is(err, deadlock) || tries != 5 {
			t.Errorf("got %v after %d tries, want the deadlock after 5", err, tries)
		}
	})
}

func TestRetry_ErrorJoinsAllAttempts(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		lost, refused := errors.New("connection lost, perhaps after the commit"), errors.New("connection refused")
		var failed error
		tries := []error{lost, refused}
		c := start(t, func(context.Context, []int) ([]string, error) {
			err := tries[0]
			tries = tries[1:]
			return nil, err
		}, options{
			Retry:  func(err error) bool { return errors.Is(err, lost) },
			Failed: func(_ int, err error) { failed = err },
		})
		_, err := c.Do(t.Context(), 1)
		for _, want := range []error{lost, refused} {
			if !errors.Is(err, want) || !errors.Is(failed, want) {
				t.Errorf("the caller got %v and Failed %v, want both to contain %q", err, failed, want)
			}
		}
	})
}

func TestDo_ContextEndsCallerNotBatch(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		committed := make(chan int, 1)
		c := start(t, func(ctx context.Context, reqs []int) ([]string, error) {
			time.Sleep(time.Second)
			if ctx.Err() == nil {
				committed <- reqs[0]
			}
			return double(ctx, reqs)
		}, options{})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, err := c.Do(ctx, 5); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the caller's deadline", err)
		}
		if got := <-committed; got != 5 {
			t.Errorf("committed %d, want 5", got)
		}
	})
}

func TestDo_FullQueueReturnsErrNotTaken(t *testing.T) {
	c := groupcommit.New(double, options{Queue: 1}) // never run: one request fills it
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 { // the first may or may not be queued
		_, _ = c.Do(ctx, 1)
	}
	for range 50 {
		if _, err := c.Do(ctx, 2); errors.Is(err, groupcommit.ErrNotTaken) {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want the caller's own cause too", err)
			}
			return
		}
	}
	t.Error("a full queue never returned ErrNotTaken")
}

func TestAfter_OverlapsNextCommit(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		began := time.Now()
		c := start(t, func(ctx context.Context, reqs []int) ([]string, error) {
			time.Sleep(10 * time.Millisecond)
			return double(ctx, reqs)
		}, options{MaxBatch: 1, After: func(_ context.Context, reqs []int, res []string) {
			time.Sleep(10 * time.Millisecond)
			res[0] += " applied"
		}})
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() {
				if got, err := c.Do(t.Context(), i); err != nil || got != fmt.Sprint(2*i, " applied") {
					t.Errorf("Do(%d): got %q, %v", i, got, err)
				}
			})
		}
		wg.Wait()
		if got, want := time.Since(began), 40*time.Millisecond; got != want {
			t.Errorf("three batches took %s, want %s: the stages must overlap", got, want)
		}
	})
}

func TestCommit_PanicsAndMissingResultsAreErrors(t *testing.T) {
	c := start(t, func(_ context.Context, reqs []int) ([]string, error) {
		if reqs[0] == 1 {
			panic("boom")
		}
		return nil, nil
	}, options{})
	for _, req := range []int{1, 2} {
		if _, err := c.Do(t.Context(), req); err == nil {
			t.Errorf("Do(%d): got no error", req)
		}
	}
}

func TestRun_FinishesSubmittedRequests(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := groupcommit.New(func(ctx context.Context, reqs []int) ([]string, error) {
			time.Sleep(time.Millisecond)
			return double(ctx, reqs)
		}, options{MaxBatch: 2})
		ran := make(chan error, 1)
		go func() { ran <- c.Run(ctx) }()
		var wg sync.WaitGroup
		for i := range 9 {
			wg.Go(func() {
				if _, err := c.Do(t.Context(), i); err != nil {
					t.Errorf("Do(%d), submitted before the stop: %v", i, err)
				}
			})
		}
		synctest.Wait()
		cancel()
		wg.Wait()
		if err := <-ran; err != nil {
			t.Errorf("Run: %v", err)
		}
		if _, err := c.Do(t.Context(), 1); !errors.Is(err, groupcommit.ErrClosed) {
			t.Errorf("Do after the stop: got %v, want ErrClosed", err)
		}
	})
}

func ExampleCommitter() {
	var table []string // in place of a table: the commit function appends a batch at once
	c := groupcommit.New(func(_ context.Context, names []string) ([]int, error) {
		rows := make([]int, len(names))
		for i, name := range names {
			table, rows[i] = append(table, name), len(table)+1
		}
		return rows, nil
	}, groupcommit.Options[string, int]{})

	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()
	row, err := c.Do(ctx, "ada")
	fmt.Println(row, err)
	stop()
	<-done
	// Output: 1 <nil>
}

func BenchmarkDo(b *testing.B) {
	c := groupcommit.New(double, options{})
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = c.Run(ctx) }()
	b.ReportAllocs()
	b.SetParallelism(64)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			_, _ = c.Do(ctx, 1)
		}
	})
	cancel()
	<-done
}
