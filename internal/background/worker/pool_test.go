package worker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/internal/background/worker"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// running starts a pool in the bubble of the test. stop stops it and waits for its end.
func running(t *testing.T, cfg worker.PoolConfig, jobs ...worker.Job) (stop func()) {
	t.Helper()
	p, err := worker.NewPool(cfg, jobs...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := p.Run(ctx); err != nil {
			t.Errorf("Run returned %v", err)
		}
	}()
	return func() { cancel(); <-done }
}

// metric returns the sum of a family's counters, gauges or observation counts that have all given labels (name=value).
func metric(t *testing.T, registry *prometheus.Registry, name string, labels ...string) (sum float64) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			matching := 0
			for _, l := range m.GetLabel() {
				if slices.Contains(labels, l.GetName()+"="+l.GetValue()) {
					matching++
				}
			}
			if matching == len(labels) {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}

func TestJob_RunsEveryPeriodWithJitter(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		start := time.Now()
		var at []time.Duration
		stop := running(t, worker.PoolConfig{}, worker.Job{Name: "j", Every: time.Minute, Run: func(context.Context) error {
			at = append(at, time.Since(start))
			return nil
		}})
		time.Sleep(time.Hour)
		synctest.Wait()
		stop()
		if len(at) < 54 || len(at) > 61 {
			t.Errorf("%d runs in an hour, want 54 to 61", len(at))
		}
		if at[0] > time.Minute {
			t.Errorf("first run after %v, want within a period", at[0])
		}
		distinct := map[time.Duration]bool{}
		for i := 1; i < len(at); i++ {
			gap := at[i] - at[i-1]
			distinct[gap] = true
			if gap < time.Minute || gap > 66*time.Second {
				t.Errorf("gap of %v, want 60 to 66 s", gap)
			}
		}
		if len(distinct) < 10 {
			t.Errorf("gaps %v, want them to differ", distinct)
		}
	})
}

func TestJob_NextSetsTheTimes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		quarter := func(now time.Time) time.Time { return now.Truncate(15 * time.Minute).Add(15 * time.Minute) }
		var at []string
		stop := running(t, worker.PoolConfig{}, worker.Job{Name: "j", Next: quarter, Run: func(context.Context) error {
			at = append(at, time.Now().UTC().Format("15:04:05"))
			time.Sleep(time.Second)
			return nil
		}})
		time.Sleep(50 * time.Minute)
		synctest.Wait()
		stop()
		if want := []string{"12:15:00", "12:30:00", "12:45:00"}; !slices.Equal(at, want) {
			t.Errorf("ran at %v, want %v", at, want)
		}
	})
}

func TestJob_BacksOffAndRecovers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		registry := prometheus.NewRegistry()
		var at []time.Time
		stop := running(t, worker.PoolConfig{Log: slog.New(slog.NewTextHandler(&log, nil)), Metrics: registry},
			worker.Job{Name: "j", Every: time.Hour, Run: func(context.Context) error {
				at = append(at, time.Now())
				switch len(at) {
				case 1, 2:
					return errors.New("boom")
				case 3:
					panic("bang")
				}
				return nil
			}})
		time.Sleep(2*time.Hour + time.Minute)
		synctest.Wait()
		stop()
		if len(at) < 4 {
			t.Fatalf("%d runs, want retries of the failed runs", len(at))
		}
		for i, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
			if gap := at[i+1].Sub(at[i]); gap < want || gap > want*12/10 {
				t.Errorf("wait %v after failure %d, want %v and up to a fifth", gap, i+1, want)
			}
		}
		if got := strings.Count(log.String(), "job failed"); got != 2 || !strings.Contains(log.String(), "panic: bang") {
			t.Errorf("%d lines for two failures and a panic, want 2:\n%s", got, &log)
		}
		for name, want := range map[string]float64{"stoa_job_failures_total": 3, "stoa_job_runs_total": float64(len(at)),
			"stoa_job_seconds": float64(len(at)), "stoa_job_last_success_timestamp_seconds": float64(at[len(at)-1].Unix())} {
			if got := float64(int(metric(t, registry, name))); got != want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
	})
}

func TestOutage_HasOneLineAMinute(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		began := time.Now()
		var jobs []worker.Job
		for i := range 30 {
			jobs = append(jobs, worker.Job{Name: fmt.Sprint("j", i), Every: 10 * time.Second, Run: func(context.Context) error {
				if passed := time.Since(began); passed > time.Minute && passed < 10*time.Minute {
					return errors.New("away")
				}
				return nil
			}})
		}
		registry := prometheus.NewRegistry()
		stop := running(t, worker.PoolConfig{Log: slog.New(slog.NewTextHandler(&log, nil)), Metrics: registry}, jobs...)
		time.Sleep(15 * time.Minute)
		synctest.Wait()
		stop()
		if got := strings.Count(log.String(), "job failed"); got < 8 || got > 10 {
			t.Errorf("got %d lines in nine minutes, want one a minute:\n%s", got, &log)
		}
		if got := strings.Count(log.String(), "jobs no longer fail"); got != 1 {
			t.Errorf("got %d lines at the end, want 1:\n%s", got, &log)
		}
		if !strings.Contains(log.String(), "j0 j1 j10") {
			t.Errorf("no line has the failing jobs:\n%s", &log)
		}
		if got := metric(t, registry, "stoa_job_failures_total"); got < 200 {
			t.Errorf("got %v failures, want all counted", got)
		}
	})
}

func TestJob_TimeoutEndsTheContext(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var got []error
		stop := running(t, worker.PoolConfig{}, worker.Job{Name: "j", Every: time.Second, Timeout: 5 * time.Second,
			Run: func(ctx context.Context) error {
				start := time.Now()
				<-ctx.Done()
				if took := time.Since(start); took != 5*time.Second {
					t.Errorf("ended after %v, want 5 s", took)
				}
				got = append(got, ctx.Err())
				return ctx.Err()
			}})
		time.Sleep(7 * time.Second)
		synctest.Wait()
		stop()
		if len(got) == 0 || !errors.Is(got[0], context.DeadlineExceeded) {
			t.Errorf("contexts ended with %v, want a deadline", got)
		}
	})
}

func TestPool_StopWaitsForRunsUpToGrace(t *testing.T) {
	for name, c := range map[string]struct{ needs, want time.Duration }{
		"a run that ends":   {4 * time.Second, 4 * time.Second},
		"a run that is cut": {time.Hour, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				began := make(chan struct{})
				lease := &leases{}
				stop := running(t, worker.PoolConfig{Lease: lease.run}, worker.Job{Name: "j", Every: time.Second, Timeout: 2 * time.Hour,
					Singleton: true, Run: func(ctx context.Context) error {
						close(began)
						select {
						case <-ctx.Done():
						case <-time.After(c.needs):
						}
						return nil
					}})
				<-began
				start := time.Now()
				stop()
				if got := time.Since(start); got != c.want {
					t.Errorf("stopped after %v, want %v", got, c.want)
				}
			})
		})
	}
}

// leases is one lease that several nodes request.
type leases struct {
	held sync.Mutex
	away atomic.Bool

	mu   sync.Mutex
	lose context.CancelFunc
}

func (l *leases) run(ctx context.Context, fn func(ctx context.Context) error) error {
	for {
		if l.away.Load() {
			return worker.ErrLeaseUnavailable
		}
		if l.held.TryLock() {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
	defer l.held.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l.mu.Lock()
	l.lose = cancel
	l.mu.Unlock()
	return fn(ctx)
}

func TestSingleton_MovesToTheNextNode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		lease := &leases{}
		var runs [2]atomic.Int64
		var stops [2]func()
		for i := range runs {
			stops[i] = running(t, worker.PoolConfig{Lease: lease.run}, worker.Job{Name: "j", Every: time.Minute, Singleton: true,
				Run: func(context.Context) error { runs[i].Add(1); return nil }})
			synctest.Wait()
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		first := runs[0].Load()
		if second := runs[1].Load(); first < 9 || second != 0 {
			t.Errorf("%d and %d runs in ten minutes, want about ten on the first node alone", first, second)
		}
		stops[0]()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if again, second := runs[0].Load(), runs[1].Load(); again != first || second < 9 {
			t.Errorf("%d and %d runs after the first node's stop, want %d and about ten", again, second, first)
		}
		stops[1]()
	})
}

// Prometheus computes increases between two scrapes, so a counter that starts with the first failure hides that
// failure.
func TestMetrics_FailuresStartAtZero(t *testing.T) {
	registry := prometheus.NewRegistry()
	_, err := worker.NewPool(worker.PoolConfig{Metrics: registry}, worker.Job{Name: "j", Every: time.Minute, Run: func(context.Context) error {
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "stoa_job_failures_total" && len(f.GetMetric()) == 1 && f.GetMetric()[0].GetCounter().GetValue() == 0 {
			return
		}
	}
	t.Error("a job without failures has no failure counter")
}

func TestSingleton_LostLeaseEndsTheRun(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		registry := prometheus.NewRegistry()
		lease := &leases{}
		ended := make(chan error, 1)
		runs := 0
		stop := running(t, worker.PoolConfig{Lease: lease.run, Log: slog.New(slog.NewTextHandler(&log, nil)), Metrics: registry},
			worker.Job{Name: "j", Every: time.Minute, Timeout: time.Hour, Singleton: true, Run: func(ctx context.Context) error {
				if runs++; runs == 1 {
					<-ctx.Done()
					ended <- ctx.Err()
				}
				return ctx.Err()
			}})
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		lease.mu.Lock()
		lease.lose()
		lease.mu.Unlock()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the run ended with %v, want canceled", err)
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		stop()
		if runs < 3 {
			t.Errorf("%d runs, want more runs under a new lease", runs)
		}
		if got := log.String(); strings.Count(got, "level=WARN") != 1 || strings.Contains(got, "level=ERROR") {
			t.Errorf("want one warning and no error, got\n%s", got)
		}
		if n := metric(t, registry, "stoa_job_failures_total"); n != 0 {
			t.Errorf("%v failures of a healthy job", n)
		}
	})
}

func TestSingleton_WithoutLeasesOnlySafeJobsRun(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		lease := &leases{}
		lease.away.Store(true)
		var safe, unsafe atomic.Int64
		count := func(n *atomic.Int64) func(context.Context) error {
			return func(context.Context) error { n.Add(1); return nil }
		}
		stop := running(t, worker.PoolConfig{Lease: func(ctx context.Context, fn func(context.Context) error) error {
			if lease.away.Load() {
				return worker.ErrLeaseUnavailable
			}
			return fn(ctx)
		}, Log: slog.New(slog.NewTextHandler(&log, nil))},
			worker.Job{Name: "safe", Every: time.Minute, Singleton: true, RunWithoutLease: true, Run: count(&safe)},
			worker.Job{Name: "unsafe", Every: time.Minute, Singleton: true, Run: count(&unsafe)})
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if s, u := safe.Load(), unsafe.Load(); s < 9 || u != 0 {
			t.Errorf("%d safe and %d unsafe runs while leases are away, want about ten and none", s, u)
		}
		lease.away.Store(false)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		stop()
		if u := unsafe.Load(); u < 9 {
			t.Errorf("%d unsafe runs after leases came back, want about ten", u)
		}
		if got := strings.Count(log.String(), "no lease"); got != 1 || !strings.Contains(log.String(), "jobs=2 running_without_lease=1") {
			t.Errorf("%d lines about it, want one:\n%s", got, &log)
		}
	})
}

func TestPool_DrainingNodeLogsNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		asked := 0
		stop := running(t, worker.PoolConfig{Lease: func(context.Context, func(context.Context) error) error {
			asked++
			return context.Canceled
		}, Log: slog.New(slog.NewTextHandler(&log, nil))},
			worker.Job{Name: "j", Every: time.Minute, Singleton: true, RunWithoutLease: true, Run: func(context.Context) error {
				t.Error("the job runs on a node that drains")
				return nil
			}})
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		stop()
		if asked < 10 || log.Len() > 0 {
			t.Errorf("it asked for the lease %d times, and said\n%s", asked, &log)
		}
	})
}

func TestNewPool_ReturnsAllFaults(t *testing.T) {
	run := func(context.Context) error { return nil }
	_, err := worker.NewPool(worker.PoolConfig{},
		worker.Job{Name: "a", Every: 1, Run: run}, worker.Job{Name: "a", Every: 1, Run: run},
		worker.Job{Name: "b", Run: run}, worker.Job{Name: "c", Every: 1},
		worker.Job{Name: "d", Every: 1, Next: func(t time.Time) time.Time { return t }, Run: run})
	for _, name := range []string{`"a"`, `"b"`, `"c"`, `"d"`} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("the error does not name job %s: %v", name, err)
		}
	}
}

// Another process adds work that a job would find at its next time.
func TestJob_StartsWhenWorkWaits(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		db := sqldbtest.SQLite(t)
		exec := func(query string) {
			t.Helper()
			if _, err := db.ExecContext(t.Context(), query); err != nil {
				t.Fatal(err)
			}
		}
		exec("CREATE TABLE work (id INTEGER)")
		defer sqldbtest.Watch(t, db)()
		var mu sync.Mutex
		var runs []time.Time
		var fail error
		take := func(next error) (at []time.Time) {
			mu.Lock()
			defer mu.Unlock()
			at, runs, fail = runs, nil, next
			return at
		}
		stop := running(t, worker.PoolConfig{DB: db}, worker.Job{Name: "j", Every: time.Hour, Waiting: &sqldb.Probe{Query: "SELECT 1 FROM work"},
			Run: func(context.Context) error {
				mu.Lock()
				defer mu.Unlock()
				runs = append(runs, time.Now())
				return fail
			}})
		defer stop()
		bubble.Sleep(2 * time.Hour)
		take(nil)
		began := time.Now()
		exec("INSERT INTO work VALUES (1)")
		bubble.Sleep(sqldb.WatchWithin)
		if at := take(nil); len(at) == 0 || len(at) == 2 && at[1].Sub(at[0]) < time.Second || len(at) > 2 {
			t.Errorf("runs at %v, %s after the work was added; want one each second", at, sqldb.WatchWithin)
		}
		db.HurryWhile(func() bool { return time.Since(began) < time.Minute })
		bubble.Sleep(30 * time.Second)
		at := take(errors.New("boom"))
		if len(at) < 20 || len(at) > 31 {
			t.Errorf("%d runs in half a minute, want about one a second", len(at))
		}
		for i := 1; i < len(at); i++ {
			if gap := at[i].Sub(at[i-1]); gap < time.Second {
				t.Errorf("two runs within %s", gap)
			}
		}
		bubble.Sleep(time.Minute)
		if at := take(nil); len(at) > 8 {
			t.Errorf("%d runs in a minute of failures, want the back-off", len(at))
		}
	})
}
