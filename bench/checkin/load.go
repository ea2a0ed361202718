package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/stoa-dev/stoa/bench/servers"
)

// side is one way to do the same thing.
type side struct {
	name string
	// do is called from many goroutines. n is unique over all calls, so that no user checks in twice on one day.
	do   func(ctx context.Context, n int) error
	next *atomic.Int64 // shared by sides with the same users
	node *node         // its batches are reported; nil for none
}

func newSide(name string, do func(context.Context, int) error) *side {
	return &side{name: name, do: do, next: new(atomic.Int64)}
}

// sample is the result of one measurement, or the median of several.
type sample struct {
	rate     float64 // per second
	p50, p99 float64 // ms
	idle     float64 // per cent of all cores
	others   float64 // per cent of all cores that neither this process nor its servers used
	own      float64 // µs of processor time of this process per call
	redis    float64 // the same for the Redis server
	sql      float64 // the same for the SQL server
	stages   stages  // zero for sides without a node
}

// while runs do with so many callers as long as more returns true. Each caller makes one call after another.
func (b *bench) while(ctx context.Context, s *side, callers int, more func() bool) (sample, error) {
	return b.measured(ctx, s, func(ctx context.Context, failed func(error)) []time.Duration {
		took := make([][]time.Duration, callers)
		var wg sync.WaitGroup
		for c := range callers {
			wg.Go(func() {
				for ctx.Err() == nil && more() {
					began := time.Now()
					if err := s.do(ctx, int(s.next.Add(1)-1)); err != nil {
						failed(err)
						return
					}
					took[c] = append(took[c], time.Since(began))
				}
			})
		}
		wg.Wait()
		return slices.Concat(took...)
	})
}

// closed measures for a fixed time.
func (b *bench) closed(ctx context.Context, s *side, callers int) (sample, error) {
	end := time.Now().Add(b.lasting)
	return b.while(ctx, s, callers, func() bool { return time.Now().Before(end) })
}

// exactly measures a fixed number of calls.
func (b *bench) exactly(ctx context.Context, s *side, callers, calls int) (sample, error) {
	var taken atomic.Int64
	return b.while(ctx, s, callers, func() bool { return taken.Add(1) <= int64(calls) })
}

// paced measures calls at random scheduled times, so many per second on average, even if earlier calls have not ended.
// The time of a call counts from its scheduled time.
func (b *bench) paced(ctx context.Context, s *side, perSecond int) (sample, error) {
	return b.measured(ctx, s, func(ctx context.Context, failed func(error)) []time.Duration {
		// A separate thread that sleeps in the kernel wakes within 0.1 ms. The runtime's timers may be a whole millisecond
		// late.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		var mu sync.Mutex
		var took []time.Duration
		var wg sync.WaitGroup
		due, end := time.Now(), time.Now().Add(b.lasting)
		for ctx.Err() == nil {
			due = due.Add(time.Duration(rand.ExpFloat64() / float64(perSecond) * float64(time.Second)))
			if due.After(end) {
				break
			}
			if wait := time.Until(due); wait > 0 {
				ts := syscall.NsecToTimespec(int64(wait))
				_ = syscall.Nanosleep(&ts, nil) // woken early by a signal: a call comes a little early
			}
			scheduled, n := due, int(s.next.Add(1)-1)
			wg.Go(func() {
				if err := s.do(ctx, n); err != nil {
					failed(err)
					return
				}
				d := time.Since(scheduled)
				mu.Lock()
				defer mu.Unlock()
				took = append(took, d)
			})
		}
		wg.Wait()
		return took
	})
}

func (b *bench) measured(ctx context.Context, s *side, load func(context.Context, func(error)) []time.Duration) (_ sample, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", s.name, err)
		}
	}()
	runtime.GC()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	redis, err := b.redisCPU(ctx)
	if err != nil {
		return sample{}, err
	}
	cpu, err := readCPU()
	if err != nil {
		return sample{}, err
	}
	sums, err := s.node.sums()
	if err != nil {
		return sample{}, err
	}
	start := time.Now()
	took := load(ctx, cancel)
	elapsed := time.Since(start)
	if err := context.Cause(ctx); err != nil {
		return sample{}, err
	}
	if len(took) == 0 {
		return sample{}, fmt.Errorf("nothing was done in %s", elapsed)
	}
	slices.Sort(took)
	out := sample{rate: float64(len(took)) / elapsed.Seconds(), p50: ms(took[len(took)/2]), p99: ms(took[len(took)*99/100])}
	redisNow, err := b.redisCPU(ctx)
	if err != nil {
		return sample{}, err
	}
	now, err := readCPU()
	if err != nil {
		return sample{}, err
	}
	used, calls := now.minus(cpu), float64(len(took))
	out.idle, out.others = used.share(used.idle), used.share(max(0, used.total-used.idle-used.own-used.servers)) // ticks are coarse
	out.own, out.redis, out.sql = used.own/calls, (redisNow-redis)/calls, max(0, used.servers-(redisNow-redis))/calls
	sumsNow, err := s.node.sums()
	out.stages = sumsNow.means(sums)
	return out, err
}

// redisCPU returns the working time of the Redis servers, in µs.
func (b *bench) redisCPU(ctx context.Context) (float64, error) {
	var sum float64
	for _, url := range []string{b.redisURL, b.firstURL} {
		if url == "" {
			continue
		}
		info, err := servers.Info(ctx, url, "cpu")
		if err != nil {
			return 0, err
		}
		for _, name := range []string{"used_cpu_user", "used_cpu_sys"} {
			seconds, err := strconv.ParseFloat(info[name], 64)
			if err != nil {
				return 0, err
			}
			sum += 1e6 * seconds
		}
	}
	return sum, nil
}

// turns measures each side once in every round, and returns the medians of each. A measurement that other processes
// disturbed is repeated.
func (b *bench) turns(sides []*side, measure func(*side) (sample, error)) ([]sample, error) {
	all := make([][]sample, len(sides))
	for range b.rounds {
		for i, s := range sides {
			best, err := measure(s)
			for range b.repeats {
				if err != nil || best.others <= tolerable {
					break
				}
				var again sample
				if again, err = measure(s); again.others < best.others {
					best = again
				}
			}
			if err != nil {
				return nil, err
			}
			b.others = max(b.others, best.others)
			all[i] = append(all[i], best)
		}
	}
	out := make([]sample, len(sides))
	for i := range all {
		out[i] = median(all[i])
	}
	return out, nil
}

// median returns the median of each value separately.
func median(of []sample) sample {
	by := func(value func(sample) float64) float64 {
		values := make([]float64, len(of))
		for i, s := range of {
			values[i] = value(s)
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	return sample{
		rate:   by(func(s sample) float64 { return s.rate }),
		p50:    by(func(s sample) float64 { return s.p50 }),
		p99:    by(func(s sample) float64 { return s.p99 }),
		idle:   by(func(s sample) float64 { return s.idle }),
		others: by(func(s sample) float64 { return s.others }),
		own:    by(func(s sample) float64 { return s.own }),
		redis:  by(func(s sample) float64 { return s.redis }),
		sql:    by(func(s sample) float64 { return s.sql }),
		stages: stages{
			batch:  by(func(s sample) float64 { return s.stages.batch }),
			commit: by(func(s sample) float64 { return s.stages.commit }),
			apply:  by(func(s sample) float64 { return s.stages.apply }),
		},
	}
}

var loadColumns = []column{{"per second", 0}, {"p50 ms", 2}, {"p99 ms", 2}, {"stoa is ×", 2}, {"work ×", 2}, {"own µs", 0}, {"redis µs", 0},
	{"sql µs", 0},
	{"idle %", 0}, {"others %", 0}, {"batch", 0}, {"commit ms", 2}, {"apply ms", 2}}

// values returns the values of loadColumns; ratios compare with base.
func (s sample) values(base sample) map[string]float64 {
	v := map[string]float64{"per second": s.rate, "p50 ms": s.p50, "p99 ms": s.p99, "idle %": s.idle, "others %": s.others,
		"own µs": s.own, "redis µs": s.redis, "sql µs": s.sql}
	if base.rate > 0 {
		v["stoa is ×"], v["work ×"] = base.rate/s.rate, s.work()/base.work()
	}
	if s.stages.batch > 0 {
		v["batch"], v["commit ms"], v["apply ms"] = s.stages.batch, s.stages.commit, s.stages.apply
	}
	return v
}

// work returns the processor time of all three processes for one call, in µs. Other load on the machine affects it less
// than a rate.
func (s sample) work() float64 { return s.own + s.redis + s.sql }

func addSamples(t *table, sides []*side, found []sample, base sample) {
	for i, s := range sides {
		t.add(s.name, found[i].values(base))
	}
}
