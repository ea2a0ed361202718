package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	defaultTimeout = time.Minute
	defaultGrace   = 5 * time.Second // and as long again to end, before a supervisor gives up

	// The wait after the first failure in a row; it doubles up to maxBackoff or
	// the job's own period, whichever is longer.
	firstBackoff = time.Second
	maxBackoff   = time.Minute

	// leaseRetry is how often the lease is asked for again while there is no server to ask.
	leaseRetry = 10 * time.Second
)

// ErrLeaseAway is what a [Lease] returns, wrapped or not, when there is no server
// to ask: neither this node nor any other is known to hold it.
var ErrLeaseAway = errors.New("worker: leases are away")

// Lease runs fn while this node, and no other, holds the lease for singletons. It
// waits until the lease is free, ends fn's context when it is lost, gives it
// up when fn returns, and returns when fn has returned, when ctx has ended or
// with [ErrLeaseAway]. There is one for all of a pool's singletons: one for each costs Redis
// three scripts for each job, node and life of a lease, and a node that was first has them all anyway.
type Lease func(ctx context.Context, fn func(ctx context.Context) error) error

// Job is work that recurs. Either Every or Next is set.
type Job struct {
	// Name is the label in logs and metrics, such as "codes.sweep".
	Name string

	// Every is the time from the end of one run to the start of the next. The
	// first comes after a random part of it, so that nodes started together
	// spread.
	Every time.Duration

	// Next returns when to run next, later than now: for times of the day.
	Next func(now time.Time) time.Time

	// Jitter is the most that a random wait adds to every start. Zero is a tenth
	// of Every, and none with Next.
	Jitter time.Duration

	// Timeout ends a run's context. Zero means a minute.
	Timeout time.Duration

	// Singleton runs the job on one node at a time, the same one for all singletons. While the
	// lease is away it does not run, unless RunWithoutLease is set: then it may run on several
	// nodes at once, which must do no harm but cost. A run whose context ends has to return, for
	// the lease is not sought again before all have.
	Singleton, RunWithoutLease bool

	// Run does it. Its error is logged, counted and retried with back-off.
	Run func(ctx context.Context) error
}

// PoolConfig is what a Pool needs.
type PoolConfig struct {
	// Lease guards singletons. Nil is for a process that is surely alone: every
	// singleton then runs here.
	Lease Lease

	// Grace is how long runs may go on after the stop. Zero means 5 s.
	Grace time.Duration

	// Log gets one line per failed run. Nil discards.
	Log *slog.Logger

	// Metrics gets stoa_job_*. Nil keeps none.
	Metrics prometheus.Registerer
}

// Pool runs jobs.
type Pool struct {
	cfg  PoolConfig
	jobs []Job

	runs, failures *prometheus.CounterVec
	seconds        *prometheus.HistogramVec
	lastSuccess    *prometheus.GaugeVec
}

// NewPool checks the jobs; all faults come back joined.
func NewPool(cfg PoolConfig, jobs ...Job) (*Pool, error) {
	cfg.Grace = cmp.Or(cfg.Grace, defaultGrace)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	label := []string{"job"}
	p := &Pool{
		cfg: cfg,
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stoa_job_runs_total", Help: "Finished runs of a job."}, label),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stoa_job_failures_total", Help: "Runs of a job that failed."}, label),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "stoa_job_seconds", Help: "Duration of a run.", Buckets: prometheus.ExponentialBuckets(0.001, 4, 9)}, label),
		lastSuccess: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "stoa_job_last_success_timestamp_seconds", Help: "Unix time of the last run that succeeded here."}, label),
	}
	var faults []error
	seen := map[string]bool{}
	for _, j := range jobs {
		switch {
		case j.Name == "" || seen[j.Name]:
			faults = append(faults, fmt.Errorf("job %q: no name, or one that is taken", j.Name))
		case (j.Every > 0) == (j.Next != nil):
			faults = append(faults, fmt.Errorf("job %q: needs Every or Next", j.Name))
		case j.Run == nil:
			faults = append(faults, fmt.Errorf("job %q: no Run", j.Name))
		}
		seen[j.Name] = true
		j.Jitter = cmp.Or(j.Jitter, j.Every/10)
		j.Timeout = cmp.Or(j.Timeout, defaultTimeout)
		p.jobs = append(p.jobs, j)
		p.failures.WithLabelValues(j.Name) // from 0: what a counter begins with is no increase to Prometheus
	}
	if cfg.Metrics != nil {
		for _, c := range []prometheus.Collector{p.runs, p.failures, p.seconds, p.lastSuccess} {
			faults = append(faults, cfg.Metrics.Register(c))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("worker.NewPool: %w", err)
	}
	return p, nil
}

// Run runs the jobs until ctx ends, then waits for the runs under way, at most
// PoolConfig.Grace. It returns nil.
func (p *Pool) Run(ctx context.Context) error {
	hard, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var all sync.WaitGroup
	var singletons []*schedule
	for _, j := range p.jobs {
		s := &schedule{Pool: p, job: j, next: time.Now().Add(jitter(j.Every)), running: make(chan struct{}, 1)}
		if j.Next != nil {
			s.next = j.Next(time.Now()).Add(jitter(j.Jitter))
		}
		if j.Singleton && p.cfg.Lease != nil {
			singletons = append(singletons, s)
			continue
		}
		all.Go(func() { s.loop(ctx, hard, time.Time{}) })
	}
	if len(singletons) > 0 {
		all.Go(func() { p.leased(ctx, hard, singletons) })
	}
	<-ctx.Done()
	defer time.AfterFunc(p.cfg.Grace, cancel).Stop()
	all.Wait()
	return nil
}

// schedule is when one job runs. next outlives a change of the lease's holder.
type schedule struct {
	*Pool
	job      Job
	next     time.Time
	failures int // in a row

	running chan struct{} // of one: holds a value during a run
}

// loop runs the job at its times until soft or hard ends, or, between two
// runs, until the time until if that is set.
func (s *schedule) loop(soft, hard context.Context, until time.Time) {
	for {
		wake := s.next
		if !until.IsZero() && until.Before(wake) {
			wake = until
		}
		timer := time.NewTimer(time.Until(wake))
		select {
		case <-soft.Done():
			timer.Stop()
			return
		case <-hard.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		if !until.IsZero() && !time.Now().Before(until) {
			return
		}
		s.run(soft, hard)
	}
}

// leased runs singletons while the lease is held.
func (p *Pool) leased(soft, hard context.Context, singletons []*schedule) {
	var unguarded []*schedule
	for _, s := range singletons {
		if s.job.RunWithoutLease {
			unguarded = append(unguarded, s)
		}
	}
	// Waiting for the lease ends at once with soft, runs are waited for.
	asking, cancel := context.WithCancel(hard)
	defer cancel()
	defer context.AfterFunc(soft, func() {
		for _, s := range singletons {
			s.running <- struct{}{}
			defer func() { <-s.running }()
		}
		cancel()
	})()
	told := false
	for soft.Err() == nil {
		err := p.cfg.Lease(asking, func(held context.Context) error {
			told = false
			loops(singletons, soft, held, time.Time{})
			return nil
		})
		if soft.Err() != nil {
			return
		}
		if err == nil {
			continue // the lease was lost; queue for it again
		}
		away := errors.Is(err, ErrLeaseAway)
		if !told && !errors.Is(err, context.Canceled) { // a node that drains has no lease, which is no fault
			told = true
			running := 0
			if away {
				running = len(unguarded)
			}
			p.cfg.Log.LogAttrs(soft, slog.LevelWarn, "there is no lease for the jobs of one node", slog.Int("jobs", len(singletons)),
				slog.Int("that_run_without", running), slog.Any("err", err))
		}
		again := time.Now().Add(leaseRetry)
		if away {
			loops(unguarded, soft, hard, again)
		}
		select {
		case <-soft.Done():
		case <-time.After(time.Until(again)):
		}
	}
}

// loops runs several loops and waits for them.
func loops(all []*schedule, soft, hard context.Context, until time.Time) {
	var wait sync.WaitGroup
	for _, s := range all {
		wait.Go(func() { s.loop(soft, hard, until) })
	}
	wait.Wait()
}

// run does one run and fixes the time of the next.
func (s *schedule) run(soft, hard context.Context) {
	s.running <- struct{}{}
	defer func() { <-s.running }()
	if soft.Err() != nil || hard.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(hard, s.job.Timeout)
	defer cancel()
	start := time.Now()
	err := safely(ctx, s.job.Run)
	now := time.Now()
	s.runs.WithLabelValues(s.job.Name).Inc()
	s.seconds.WithLabelValues(s.job.Name).Observe(now.Sub(start).Seconds())

	if err == nil {
		s.failures = 0
		s.lastSuccess.WithLabelValues(s.job.Name).Set(float64(now.UnixMilli()) / 1000)
		if s.job.Next != nil {
			s.next = s.job.Next(now).Add(jitter(s.job.Jitter))
		} else {
			s.next = now.Add(s.job.Every + jitter(s.job.Jitter))
		}
		return
	}
	if hard.Err() != nil {
		// The job itself did not fail. The next holder of the lease runs it; this node
		// does as soon as it has the lease again.
		s.next = now
		why := "a run ended: its lease was lost"
		if soft.Err() != nil {
			why = "a run ended: the process stops"
		}
		s.cfg.Log.LogAttrs(soft, slog.LevelWarn, why, slog.String("job", s.job.Name), slog.Any("err", err))
		return
	}
	s.failures++
	s.Pool.failures.WithLabelValues(s.job.Name).Inc()
	wait := max(maxBackoff, s.job.Every)
	if n := s.failures - 1; n < 30 {
		wait = min(wait, firstBackoff<<n)
	}
	wait += jitter(wait / 5)
	s.next = now.Add(wait)
	s.cfg.Log.LogAttrs(soft, slog.LevelError, "job failed", slog.String("job", s.job.Name),
		slog.Int("failures", s.failures), slog.Duration("again_in", wait), slog.Any("err", err))
}

// safely turns run's panic into an error that carries the stack.
func safely(ctx context.Context, run func(context.Context) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	return run(ctx)
}

// jitter is a random time below d, or 0.
func jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return rand.N(d)
}
