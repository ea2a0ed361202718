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

	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

const (
	defaultTimeout = time.Minute

	// After defaultGrace, runs are canceled and get the same time again before the supervisor gives up.
	defaultGrace = 5 * time.Second

	// The back-off after the first failure in a row. It doubles up to the larger of maxBackoff and the period of the
	// job.
	firstBackoff = time.Second
	maxBackoff   = time.Minute

	// wakePause is the smallest time from the end of a run to the next run because of Job.Waiting.
	wakePause = time.Second

	// leaseRetry is the interval of lease requests while leases are unavailable.
	leaseRetry = 10 * time.Second
)

// ErrLeaseUnavailable is the error of a [Lease], possibly wrapped, if leases are unavailable. The holder of the lease is
// then unknown.
var ErrLeaseUnavailable = errors.New("worker: leases unavailable")

// Lease runs fn while only this node holds the lease for singletons. It waits until the lease is free. It ends the
// context of fn when the lease is lost, and releases the lease when fn returns. It returns when fn has returned, when
// ctx has ended, or with [ErrLeaseUnavailable]. All singletons of a pool share one lease: separate leases would cost three
// Redis scripts per job, node and lease lifetime, and the first node would hold all of them anyway.
type Lease func(ctx context.Context, fn func(ctx context.Context) error) error

// Job is recurring work. Set either Every or Next.
type Job struct {
	// Name is the label in logs and metrics, such as "codes.sweep".
	Name string

	// Every is the time from the end of one run to the start of the next. The first run starts after a random part of
	// it, so that nodes that start together spread their runs.
	Every time.Duration

	// Next returns the time of the next run, which is after now. Use it for times of day.
	Next func(now time.Time) time.Time

	// Jitter bounds the random delay of each start. Zero means a tenth of Every, or none with Next.
	Jitter time.Duration

	// Waiting selects rows that show that work waits, also of other processes. While it does, a run starts before its
	// time, at most once a second, unless the last run failed. It needs PoolConfig.DB. Nil means none.
	Waiting *sqldb.Probe

	// Timeout bounds the context of a run. Zero means a minute.
	Timeout time.Duration

	// Singleton runs the job on one node at a time; all singletons run on the same node. While leases are unavailable
	// the job does not run, unless RunWithoutLease is set. Then it may run on several nodes at once, which must be
	// harmless. A run must return when its context ends, because the pool requests the lease again only after all runs
	// have returned.
	Singleton, RunWithoutLease bool

	// Run does the work. The pool logs and counts its error and retries with back-off.
	Run func(ctx context.Context) error
}

// PoolConfig configures a Pool.
type PoolConfig struct {
	// Lease guards singletons. With nil all singletons run here; use it only if there is a single process.
	Lease Lease

	// DB is the database of Job.Waiting, whose [sqldb.DB.Watch] runs.
	DB *sqldb.DB

	// Grace is the time that runs have to finish after the stop. Zero means 5 s.
	Grace time.Duration

	// Log gets a line when jobs begin to fail, one a minute while they fail, one for each panic, and one when no job
	// fails any longer. Nil discards the lines.
	Log *slog.Logger

	// Metrics registers stoa_job_*. Nil disables metrics.
	Metrics prometheus.Registerer
}

// Pool runs jobs.
type Pool struct {
	cfg  PoolConfig
	jobs []Job

	runs, failures *prometheus.CounterVec
	seconds        *prometheus.HistogramVec
	lastSuccess    *prometheus.GaugeVec

	outage outage
}

// NewPool checks the jobs and returns all faults joined.
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
			faults = append(faults, fmt.Errorf("job %q: the name is empty or not unique", j.Name))
		case (j.Every > 0) == (j.Next != nil):
			faults = append(faults, fmt.Errorf("job %q: needs Every or Next", j.Name))
		case j.Run == nil:
			faults = append(faults, fmt.Errorf("job %q: no Run", j.Name))
		case j.Waiting != nil && cfg.DB == nil:
			faults = append(faults, fmt.Errorf("job %q: Waiting needs DB", j.Name))
		}
		seen[j.Name] = true
		j.Jitter = cmp.Or(j.Jitter, j.Every/10)
		j.Timeout = cmp.Or(j.Timeout, defaultTimeout)
		p.jobs = append(p.jobs, j)
		p.failures.WithLabelValues(j.Name) // creates the counter with 0, because Prometheus counts no increase for a new series
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

// Run runs the jobs until ctx ends, then waits for the current runs, at most PoolConfig.Grace. It returns nil.
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
		all.Go(func() { p.runSingletons(ctx, hard, singletons) })
	}
	<-ctx.Done()
	defer time.AfterFunc(p.cfg.Grace, cancel).Stop()
	all.Wait()
	return nil
}

// schedule is the schedule of one job. next is kept when the lease moves to another node and back.
type schedule struct {
	*Pool
	job      Job
	next     time.Time
	ended    time.Time // of the last run
	failures int       // in a row

	running chan struct{} // capacity 1; holds a value during a run
}

// loop runs the job at its times until soft or hard ends. If until is set, loop also ends at that time, between two
// runs.
func (s *schedule) loop(soft, hard context.Context, until time.Time) {
	waiting := make(chan struct{}, 1)
	if s.job.Waiting != nil {
		defer s.cfg.DB.AddProbe(*s.job.Waiting, func(found bool, _ time.Time) {
			if found {
				select {
				case waiting <- struct{}{}:
				default:
				}
			}
		})()
	}
	for {
		wakes := waiting
		if s.failures > 0 {
			wakes = nil
		}
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
		case <-wakes:
			timer.Stop()
			if early := s.ended.Add(wakePause); early.Before(s.next) {
				s.next = early
			}
			continue
		case <-timer.C:
		}
		if !until.IsZero() && !time.Now().Before(until) {
			return
		}
		s.run(soft, hard)
	}
}

// runSingletons runs singletons while this node has the lease.
func (p *Pool) runSingletons(soft, hard context.Context, singletons []*schedule) {
	var withoutLease []*schedule
	for _, s := range singletons {
		if s.job.RunWithoutLease {
			withoutLease = append(withoutLease, s)
		}
	}
	// The wait for the lease ends with soft. Current runs may finish.
	requestCtx, cancel := context.WithCancel(hard)
	defer cancel()
	defer context.AfterFunc(soft, func() {
		for _, s := range singletons {
			s.running <- struct{}{}
			defer func() { <-s.running }()
		}
		cancel()
	})()
	logged := false
	for soft.Err() == nil {
		err := p.cfg.Lease(requestCtx, func(leaseCtx context.Context) error {
			logged = false
			loops(singletons, soft, leaseCtx, time.Time{})
			return nil
		})
		if soft.Err() != nil {
			return
		}
		if err == nil {
			continue // the lease was lost; request it again
		}
		unavailable := errors.Is(err, ErrLeaseUnavailable)
		if !logged && !errors.Is(err, context.Canceled) { // a draining node cannot get the lease, which is no fault
			logged = true
			running := 0
			if unavailable {
				running = len(withoutLease)
			}
			p.cfg.Log.LogAttrs(soft, slog.LevelWarn, "worker: no lease for singleton jobs", slog.Int("jobs", len(singletons)),
				slog.Int("running_without_lease", running), slog.Any("err", err))
		}
		retryAt := time.Now().Add(leaseRetry)
		if unavailable {
			loops(withoutLease, soft, hard, retryAt)
		}
		select {
		case <-soft.Done():
		case <-time.After(time.Until(retryAt)):
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
	for _, s := range all {
		s.recovered(time.Now())
	}
}

// run runs the job once and sets the time of the next run.
func (s *schedule) run(soft, hard context.Context) {
	s.running <- struct{}{}
	defer func() { <-s.running }()
	if soft.Err() != nil || hard.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(hard, s.job.Timeout)
	defer cancel()
	start := time.Now()
	err := recoverPanic(ctx, s.job.Run)
	now := time.Now()
	s.ended = now
	s.runs.WithLabelValues(s.job.Name).Inc()
	s.seconds.WithLabelValues(s.job.Name).Observe(now.Sub(start).Seconds())

	if err == nil {
		s.failures = 0
		s.recovered(now)
		s.lastSuccess.WithLabelValues(s.job.Name).Set(float64(now.UnixMilli()) / 1000)
		if s.job.Next != nil {
			s.next = s.job.Next(now).Add(jitter(s.job.Jitter))
		} else {
			s.next = now.Add(s.job.Every + jitter(s.job.Jitter))
		}
		return
	}
	if hard.Err() != nil {
		// This is not a failure of the job. The next holder of the lease runs it; this node runs it as soon as it holds
		// the lease again.
		s.next = now
		message := "worker: run canceled because the lease was lost"
		if soft.Err() != nil {
			message = "worker: run canceled because the process stops"
		}
		s.cfg.Log.LogAttrs(soft, slog.LevelWarn, message, slog.String("job", s.job.Name), slog.Any("err", err))
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
	_, panicked := errors.AsType[panicError](err)
	if failing, silent, shouldLog := s.outage.failed(s.job.Name, now, panicked); shouldLog {
		s.cfg.Log.LogAttrs(soft, slog.LevelError, "worker: job failed", slog.String("job", s.job.Name), slog.Int("failures", s.failures),
			slog.Duration("retry_in", wait), slog.String("failing", failing), slog.Int("failures_not_logged", silent), slog.Any("err", err))
	}
}

// recoverPanic calls run, and converts a panic into an error with the stack.
func recoverPanic(ctx context.Context, run func(context.Context) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicError{v, debug.Stack()}
		}
	}()
	return run(ctx)
}

// panicError is the panic of a run.
type panicError struct {
	value any
	stack []byte
}

func (e panicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.value, e.stack) }

// jitter returns a random duration below d, or 0.
func jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return rand.N(d)
}
