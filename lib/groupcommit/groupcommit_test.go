package groupcommit_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
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

// Two groups of eight would need two commits for each round of all callers.
func TestBatch_FewCallersJoinOneGroup(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const rounds = 100
		commits := 0
		c := start(t, func(ctx context.Context, reqs []int) ([]string, error) {
			commits++
			time.Sleep(1500 * time.Microsecond)
			return double(ctx, reqs)
		}, options{After: func(context.Context, []int, []string) { time.Sleep(500 * time.Microsecond) }})
		synctest.Wait()
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				time.Sleep(time.Duration(i/8) * 10700 * time.Microsecond) // the second eight start during a commit
				for range rounds {
					_, _ = c.Do(t.Context(), i)
				}
			})
		}
		wg.Wait()
		if commits > rounds+20 {
			t.Errorf("%d commits for %d rounds, want one for each, and some at the start and end", commits, rounds)
		}
	})
}

func TestBatch_WaitIsBoundedByCommit(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := start(t, func(ctx context.Context, reqs []int) ([]string, error) {
			time.Sleep(time.Millisecond)
			return double(ctx, reqs)
		}, options{After: func(_ context.Context, reqs []int, _ []string) {
			if reqs[0] < 11 {
				time.Sleep(time.Hour)
			}
		}})
		synctest.Wait()
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

func TestDo_LoneCallerRunsCommitAndAfter(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		own := func() bool { return strings.Contains(string(debug.Stack()), t.Name()+".func1(") }
		c := start(t, func(ctx context.Context, reqs []int) ([]string, error) {
			if !own() {
				t.Error("another goroutine commits")
			}
			return double(ctx, reqs)
		}, options{After: func(context.Context, []int, []string) {
			if !own() {
				t.Error("another goroutine calls After")
			}
		}})
		synctest.Wait()
		for i := range 3 {
			if got, err := c.Do(t.Context(), i); err != nil || got != fmt.Sprint(2*i) {
				t.Errorf("Do(%d): got %q, %v", i, got, err)
			}
		}
	})
}

type ownKey struct{}

func TestDo_LoneCallerReturnsAtItsDeadline(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		errLost, errRefused := errors.New("outcome unknown"), errors.New("refused")
		var committed, applied []int
		var failed error
		c := start(t, func(ctx context.Context, reqs []int) ([]string, error) {
			if _, limited := ctx.Deadline(); limited { // the database does not respond
				if ctx.Value(ownKey{}) != true {
					t.Error("the commit of a lone caller does not have the values of its context")
				}
				<-ctx.Done()
				return nil, errLost
			}
			if bubble.Sleep(time.Second); reqs[0] == 2 {
				return nil, errRefused
			}
			committed = append(committed, reqs...)
			return double(ctx, reqs)
		}, options{
			Retry:  func(err error) bool { return errors.Is(err, errLost) },
			After:  func(_ context.Context, reqs []int, _ []string) { applied = append(applied, reqs...) },
			Failed: func(_ int, err error) { failed = err },
		})
		synctest.Wait()
		for _, req := range []int{1, 2} {
			ctx, stop := context.WithTimeout(context.WithValue(t.Context(), ownKey{}, true), 5*time.Second)
			began := time.Now()
			if _, err := c.Do(ctx, req); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 5*time.Second {
				t.Errorf("Do(%d): got %v after %v, want its deadline's error after 5s", req, err, time.Since(began))
			}
			stop()
			if got, err := c.Do(t.Context(), 3); err != nil || got != "6" {
				t.Errorf("the caller behind: got %q, %v, want 6", got, err)
			}
		}
		if want := []int{1, 3, 3}; !slices.Equal(committed, want) || !slices.Equal(applied, want) {
			t.Errorf("got commits %v and After of %v, want %v", committed, applied, want)
		}
		if !errors.Is(failed, errLost) || !errors.Is(failed, errRefused) {
			t.Errorf("Failed got %v, want the errors of both runs", failed)
		}
	})
}

// A retried batch whose outcome is unknown at the deadline of its lone caller is not written again, if Retry refuses that
// outcome.
func TestDo_UnknownOutcomeAtTheDeadlineIsNotRetried(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		errDeadlock, errLost := errors.New("deadlock"), errors.New("outcome unknown")
		var committed []int
		var failed error
		c := start(t, func(ctx context.Context, reqs []int) ([]string, error) {
			if committed == nil {
				committed = []int{}
				return nil, errDeadlock
			}
			committed = append(committed, reqs...)
			if _, limited := ctx.Deadline(); limited { // the response is lost
				<-ctx.Done()
				return nil, errLost
			}
			return double(ctx, reqs)
		}, options{
			Retry:  func(err error) bool { return errors.Is(err, errDeadlock) },
			Failed: func(_ int, err error) { failed = err },
		})
		synctest.Wait()
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
		defer stop()
		if _, err := c.Do(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the caller's deadline", err)
		}
		synctest.Wait()
		if !slices.Equal(committed, []int{1}) || !errors.Is(failed, errLost) {
			t.Errorf("committed %v, and Failed got %v; want one commit with an unknown outcome", committed, failed)
		}
	})
}

// slowFirst is an After that takes an hour for request 0 and nothing for others.
func slowFirst(_ context.Context, reqs []int, _ []string) {
	if reqs[0] == 0 {
		bubble.Sleep(time.Hour)
	}
}

func TestDo_AfterOfLoneCallerDelaysNoBatch(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var finished atomic.Int32
		c := start(t, func(ctx context.Context, reqs []int) ([]string, error) {
			time.Sleep(time.Millisecond)
			return double(ctx, reqs)
		}, options{MaxBatch: 10, After: func(ctx context.Context, reqs []int, res []string) {
			finished.Add(int32(len(reqs)))
			slowFirst(ctx, reqs, res)
		}})
		synctest.Wait()
		var lone, others sync.WaitGroup
		began := time.Now()
		lone.Go(func() { _, _ = c.Do(t.Context(), 0) })
		synctest.Wait()
		for i := range 100 {
			others.Go(func() {
				if got, err := c.Do(t.Context(), i+1); err != nil || got != fmt.Sprint(2*i+2) {
					t.Errorf("Do(%d): got %q, %v", i+1, got, err)
				}
			})
		}
		others.Wait()
		if took := time.Since(began); took != 11*time.Millisecond {
			t.Errorf("ten batches behind the lone caller ended after %v, want 11ms", took)
		}
		lone.Wait()
		if finished.Load() != 101 {
			t.Errorf("After got %d requests, want 101", finished.Load())
		}
	})
}

// A lone caller and the batch behind it leave callers that are due. In each second round, only one of them submits.
func TestBatch_FruitlessWaitsBecomeRare(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := start(t, func(ctx context.Context, reqs []int) ([]string, error) {
			time.Sleep(time.Millisecond)
			return double(ctx, reqs)
		}, options{After: func(context.Context, []int, []string) { time.Sleep(time.Millisecond) }})
		waits := make([]int, 4) // in each quarter of the test
		for i := range 400 {
			var wg sync.WaitGroup
			for range 2 {
				wg.Go(func() { _, _ = c.Do(t.Context(), 1) })
			}
			wg.Wait()
			time.Sleep(time.Second)
			began := time.Now()
			_, _ = c.Do(t.Context(), 2)
			if time.Since(began) > 2*time.Millisecond {
				waits[i/100]++
			}
			time.Sleep(time.Second)
		}
		if first := waits[0]; first < 3 || first > 10 {
			t.Errorf("waits by quarter: %v, want 3 to 10 in the first", waits)
		}
		if last := waits[3]; last < 1 || last > 5 {
			t.Errorf("waits by quarter: %v, want 1 to 5 in the last", waits)
		}
	})
}

func TestBatch_CrowdIsExpectedOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := start(t, func(ctx context.Context, reqs []int) ([]string, error) {
			time.Sleep(time.Millisecond)
			return double(ctx, reqs)
		}, options{After: func(context.Context, []int, []string) { time.Sleep(time.Millisecond) }})
		synctest.Wait()
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() { _, _ = c.Do(t.Context(), 1) })
		}
		wg.Wait()
		waits := 0
		for range 10 {
			began := time.Now()
			if _, _ = c.Do(t.Context(), 2); time.Since(began) > 2*time.Millisecond {
				waits++
			}
			time.Sleep(time.Second)
		}
		if waits != 1 {
			t.Errorf("%d of 10 later callers waited for the crowd, want 1", waits)
		}
	})
}

// Independent callers arrive every 2 ms on average, and a commit takes 5 ms. Without waits, a caller takes half of the
// commit before its own, its own commit and After.
func TestBatch_PacedCallersDoNotWait(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := start(t, func(ctx context.Context, reqs []int) ([]string, error) {
			time.Sleep(5 * time.Millisecond)
			return double(ctx, reqs)
		}, options{After: func(context.Context, []int, []string) { time.Sleep(500 * time.Microsecond) }})
		const callers = 2000
		random := rand.New(rand.NewPCG(1, 2))
		var total atomic.Int64
		var wg sync.WaitGroup
		for i := range callers {
			time.Sleep(time.Duration(random.ExpFloat64() * float64(2*time.Millisecond)))
			wg.Go(func() {
				began := time.Now()
				_, _ = c.Do(t.Context(), i)
				total.Add(int64(time.Since(began)))
			})
		}
		wg.Wait()
		if mean := time.Duration(total.Load() / callers); mean > 8250*time.Microsecond {
			t.Errorf("a caller takes %v on average, want at most 8.25ms", mean)
		}
	})
}

// Callers that submit again after each result share commits, even if other callers arrive that do not come back.
func TestBatch_StrangersDoNotDivideCallers(t *testing.T) {
	for _, tt := range []struct {
		name  string
		pace  time.Duration // mean time between two callers that do not come back
		after time.Duration
		size  int // least mean size of the batches
	}{
		{"none, one group", 0, 100 * time.Microsecond, 63},
		{"none, halves", 0, time.Millisecond, 31},
		{"strangers, one group", 2 * time.Millisecond, 100 * time.Microsecond, 60},
		{"strangers, halves", 2 * time.Millisecond, time.Millisecond, 31},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				commits, requests := 0, 0
				c := start(t, func(ctx context.Context, reqs []int) ([]string, error) {
					commits++
					requests += len(reqs)
					time.Sleep(1500 * time.Microsecond)
					return double(ctx, reqs)
				}, options{After: func(context.Context, []int, []string) { time.Sleep(tt.after) }})
				random := rand.New(rand.NewPCG(1, 2))
				done := make(chan struct{})
				var wg, strangers sync.WaitGroup
				for i := range 64 {
					away := time.Duration(random.IntN(100)) * time.Microsecond
					wg.Go(func() {
						for range 200 {
							time.Sleep(away)
							_, _ = c.Do(t.Context(), i)
						}
					})
				}
				if tt.pace > 0 {
					strangers.Go(func() {
						for {
							select {
							case <-done:
								return
							case <-time.After(time.Duration(random.ExpFloat64() * float64(tt.pace))):
								strangers.Go(func() { _, _ = c.Do(t.Context(), 0) })
							}
						}
					})
				}
				wg.Wait()
				close(done)
				strangers.Wait()
				if requests < commits*tt.size {
					t.Errorf("%d commits of %d requests, want batches of at least %d on average", commits, requests, tt.size)
				}
			})
		})
	}
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
		committed := make(chan int, 2)
		c := start(t, func(ctx context.Context, reqs []int) ([]string, error) {
			time.Sleep(time.Second)
			if ctx.Err() == nil {
				committed <- reqs[0]
			}
			return double(ctx, reqs)
		}, options{})
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Millisecond, cancel)
		var wg sync.WaitGroup
		wg.Go(func() {
			began := time.Now()
			_, err := c.Do(ctx, 4)
			if took := time.Since(began); !errors.Is(err, context.Canceled) || took != time.Second {
				t.Errorf("the caller that commits: got %v after %v, want its context's error after its commit", err, took)
			}
		})
		synctest.Wait()
		if _, err := c.Do(ctx, 5); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the error of the caller's context", err)
		}
		wg.Wait()
		for _, want := range []int{4, 5} {
			if got := <-committed; got != want {
				t.Errorf("committed %d, want %d", got, want)
			}
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

func TestDo_PanicOfLoneCallerFailsItAlone(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var failed, after []int
		var observed []error
		c := start(t, func(ctx context.Context, reqs []int) ([]string, error) {
			if reqs[0] == 1 {
				panic("commit")
			}
			return double(ctx, reqs)
		}, options{
			After: func(_ context.Context, reqs []int, _ []string) {
				if after = append(after, reqs...); reqs[0] == 2 {
					panic("After")
				}
			},
			Failed:  func(req int, _ error) { failed = append(failed, req) },
			Observe: func(b groupcommit.Batch) { observed = append(observed, b.Err) },
		})
		synctest.Wait()
		for req, want := range map[int]string{1: "", 2: "4", 3: "6"} {
			if got, err := c.Do(t.Context(), req); got != want || (err == nil) != (req > 1) {
				t.Errorf("Do(%d): got %q, %v", req, got, err)
			}
		}
		slices.Sort(after)
		if !slices.Equal(failed, []int{1}) || !slices.Equal(after, []int{2, 3}) {
			t.Errorf("Failed got %v and After %v, want 1, and 2 and 3", failed, after)
		}
		faults := slices.DeleteFunc(observed, func(err error) bool { return err == nil })
		if len(observed) != 3 || len(faults) != 2 {
			t.Errorf("Observe got the errors %v, want two", faults)
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

func TestRun_StartsAllCommitters(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := groupcommit.New(func(ctx context.Context, reqs []int) ([]string, error) {
			time.Sleep(time.Second)
			return double(ctx, reqs)
		}, options{Committers: 3, MaxBatch: 2})
		var submitted, run sync.WaitGroup
		for i := range 6 {
			submitted.Go(func() { _, _ = c.Do(t.Context(), i) })
		}
		synctest.Wait() // all wait for Run
		ctx, cancel := context.WithCancel(t.Context())
		run.Go(func() { _ = c.Run(ctx) })
		began := time.Now()
		submitted.Wait()
		if took := time.Since(began); took != time.Second {
			t.Errorf("three batches took %v, want 1s", took)
		}
		cancel()
		run.Wait()
	})
}

func TestRun_WaitsForLoneCaller(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var applied atomic.Int32
		c := groupcommit.New(func(ctx context.Context, reqs []int) ([]string, error) {
			time.Sleep(time.Second)
			return double(ctx, reqs)
		}, options{After: func(ctx context.Context, reqs []int, _ []string) {
			if time.Sleep(time.Second); ctx.Err() == nil {
				applied.Add(int32(len(reqs)))
			}
		}})
		var wg sync.WaitGroup
		ran := make(chan error, 1)
		go func() { ran <- c.Run(ctx) }()
		synctest.Wait()
		submit := func(req int, want error) {
			if _, err := c.Do(t.Context(), req); !errors.Is(err, want) {
				t.Errorf("Do(%d): got %v, want %v", req, err, want)
			}
		}
		wg.Go(func() { submit(1, nil) })
		synctest.Wait()
		wg.Go(func() { submit(2, nil) }) // waits for the commit of the first
		synctest.Wait()
		began := time.Now()
		cancel()
		synctest.Wait()
		submit(3, groupcommit.ErrClosed)
		if err := <-ran; err != nil {
			t.Errorf("Run: %v", err)
		}
		if took := time.Since(began); took != 3*time.Second || applied.Load() != 2 {
			t.Errorf("Run ended after %v with %d requests applied, want 3s and 2", took, applied.Load())
		}
		wg.Wait()
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

// BenchmarkLoad reports the requests per second and the latency of callers that submit again after each result, and of
// independent callers at 500 a second.
func BenchmarkLoad(b *testing.B) {
	for _, callers := range []int{1, 8, 64, 256, 0} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			c := groupcommit.New(func(ctx context.Context, reqs []int) ([]string, error) {
				time.Sleep(1500 * time.Microsecond)
				return double(ctx, reqs)
			}, options{After: func(context.Context, []int, []string) { time.Sleep(500 * time.Microsecond) }})
			ctx, cancel := context.WithCancel(b.Context())
			var running, wg sync.WaitGroup
			running.Go(func() { _ = c.Run(ctx) })
			took := make([]time.Duration, b.N)
			var next atomic.Int64
			began := time.Now()
			submit := func(i int) {
				start := time.Now()
				_, _ = c.Do(ctx, i)
				took[i] = time.Since(start)
			}
			for range callers {
				wg.Go(func() {
					for i := int(next.Add(1)) - 1; i < b.N; i = int(next.Add(1)) - 1 {
						submit(i)
					}
				})
			}
			for i := 0; callers == 0 && i < b.N; i++ {
				time.Sleep(time.Duration(rand.ExpFloat64() * float64(2*time.Millisecond)))
				wg.Go(func() { submit(i) })
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "req/s")
			slices.Sort(took)
			b.ReportMetric(float64(took[b.N/2])/1e6, "p50-ms")
			b.ReportMetric(float64(took[b.N*99/100])/1e6, "p99-ms")
			cancel()
			running.Wait()
		})
	}
}
