package groupcommit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// ErrClosed is returned to callers that come after the committer has stopped.
var ErrClosed = errors.New("groupcommit: closed")

// ErrNotTaken is wrapped into the error of a caller whose context ended before
// its request was queued: it is certainly not committed.
var ErrNotTaken = errors.New("groupcommit: not taken")

// Options tune a [Committer]. The zero value is one committer that never
// retries and never splits.
type Options[Req, Res any] struct {
	// Committers is how many batches may commit at once: 1 for a database with
	// one writer, 2 for others, so that one gathers rows while one flushes.
	// Zero means 1.
	Committers int
	// MaxBatch bounds the requests of a batch. Zero means 512.
	MaxBatch int
	// Queue bounds how many requests wait; more callers block in Do until there
	// is room or their context ends. Zero means 16 times MaxBatch.
	Queue int
	// Retry reports errors after which the same batch is tried again, at most
	// five times in all with a short random pause: deadlocks, lock time-outs, a
	// lost connection. Nil means never. A batch that is given up fails with the
	// errors of all its tries, joined: any of them may have committed it.
	Retry func(error) bool
	// Split reports errors that one row may cause for all. Nil means never.
	Split func(error) bool
	// After sees each committed batch before its callers wake and may change
	// the results in place. It overlaps the next commit; up to four run at once
	// for each committer. Nil means nothing to do, and that no batch waits for
	// further requests.
	After func(ctx context.Context, reqs []Req, results []Res)
	// Failed is called with every request that was given up, before its caller
	// wakes. With After it sees each request exactly once. Nil: it is not called.
	Failed func(req Req, err error)
	// Observe is called with every batch when it is done. Nil: it is not called.
	Observe func(Batch)
}

// Batch is what [Options.Observe] learns.
type Batch struct {
	Size   int           // requests
	Commit time.Duration // time in the commit function, retries included
	After  time.Duration // time in After
	Err    error         // why the batch as a whole failed
}

// Committer gathers requests and commits them together. Make one with [New].
type Committer[Req, Res any] struct {
	commit func(context.Context, []Req) ([]Res, error)
	o      Options[Req, Res]
	queue  chan *call[Req, Res]

	closed  chan struct{} // no further request is taken
	drained chan struct{} // and none is left to finish

	// Estimates of the callers beyond the queue; see next. They may be slightly out
	// of date.
	asleep    atomic.Int64  // committed, and not woken yet
	due       atomic.Int64  // woken, and not taken from the queue again yet
	woke      chan struct{} // holds an entry when some have been woken
	afterTook atomic.Int64  // ns of an After, of late
}

type call[Req, Res any] struct {
	req  Req
	res  Res
	err  error
	done chan struct{}
}

const (
	attempts     = 5
	afterAtOnce  = 4 // a slow After must not block the commits behind it
	longestPause = 20 * time.Millisecond
	smallest     = 16 // the fixed cost of a batch is that of about so many rows
)

// New returns a committer around commit, which writes a batch in one
// transaction and returns one result for each request, in order. Nothing is
// committed until [Committer.Run].
func New[Req, Res any](commit func(ctx context.Context, reqs []Req) ([]Res, error), o Options[Req, Res]) *Committer[Req, Res] {
	if o.Committers == 0 {
		o.Committers = 1
	}
	if o.MaxBatch == 0 {
		o.MaxBatch = 512
	}
	if o.Queue == 0 {
		o.Queue = 16 * o.MaxBatch
	}
	never := func(error) bool { return false }
	if o.Retry == nil {
		o.Retry = never
	}
	if o.Split == nil {
		o.Split = never
	}
	return &Committer[Req, Res]{commit: commit, o: o, queue: make(chan *call[Req, Res], o.Queue),
		closed: make(chan struct{}), drained: make(chan struct{}), woke: make(chan struct{}, 1)}
}

// Do submits req and returns its result once it is committed and After has run.
// It returns ctx's error when ctx ends first, in which case req may or may not
// be committed, unless the error is [ErrNotTaken] as well.
func (c *Committer[Req, Res]) Do(ctx context.Context, req Req) (res Res, err error) {
	own := &call[Req, Res]{req: req, done: make(chan struct{})}
	select {
	case <-c.closed:
		return res, ErrClosed
	default:
	}
	select {
	case c.queue <- own:
	case <-c.closed:
		return res, ErrClosed
	case <-ctx.Done():
		return res, fmt.Errorf("%w: %w", ErrNotTaken, context.Cause(ctx))
	}
	select {
	case <-own.done:
		return own.res, own.err
	case <-ctx.Done():
		return res, context.Cause(ctx)
	case <-c.drained:
		select {
		case <-own.done:
			return own.res, own.err
		default: // the request was queued while Run was ending, and is not committed
			return res, ErrClosed
		}
	}
}

// Run commits until ctx ends, then finishes what has been submitted and
// returns nil. The batches themselves do not end with ctx. Run only once.
func (c *Committer[Req, Res]) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	work := context.WithoutCancel(ctx)
	for range c.o.Committers {
		wg.Go(func() { c.loop(ctx, work) })
	}
	<-ctx.Done()
	close(c.closed)
	wg.Wait()
	close(c.drained)
	return nil
}

func (c *Committer[Req, Res]) loop(ctx, work context.Context) {
	var after sync.WaitGroup
	defer after.Wait()
	slots := make(chan struct{}, afterAtOnce)
	var took time.Duration // a commit, of late
	for {
		batch := c.next(ctx, took)
		if batch == nil {
			return
		}
		reqs := make([]Req, len(batch))
		for i, own := range batch {
			reqs[i] = own.req
		}
		start := time.Now()
		results, errs := c.write(work, reqs)
		commit := time.Since(start)
		took = smooth(took, commit)
		seen := Batch{Size: len(batch), Commit: commit, Err: errors.Join(errs[:min(1, len(errs))]...)}
		c.asleep.Add(int64(len(batch)))
		slots <- struct{}{}
		after.Go(func() {
			c.finish(work, batch, reqs, results, errs, seen)
			<-slots
		})
	}
}

// smooth is the moving average of a duration.
func smooth(mean, next time.Duration) time.Duration {
	if mean == 0 {
		return next
	}
	return mean + (next-mean)/8
}

// next returns the next batch, or nil when ctx has ended and nothing waits.
//
// Many callers that each submit again and again fall into two halves, of which one
// commits while the other is in After. Where After is short beside a commit, all go
// together: two flushes for the same callers would cost more than the overlap gains.
// Either way the first of the callers that were just woken must not get a commit of
// its own: next waits until they have submitted again, but no longer than commit or
// After take. Without After it does not wait.
func (c *Committer[Req, Res]) next(ctx context.Context, commit time.Duration) []*call[Req, Res] {
	var batch []*call[Req, Res]
	select {
	case own := <-c.queue:
		batch = append(batch, own)
	case <-ctx.Done():
		select {
		case own := <-c.queue: // drain what came before the end
			batch = append(batch, own)
		default:
			return nil
		}
	}
	c.came(1)
	after := time.Duration(c.afterTook.Load())
	halves := after > commit/4
	var late <-chan time.Time
	for {
		had, room := len(batch), true
		batch, room = c.take(batch, halves)
		if !room || c.o.After == nil || c.due.Load() == 0 && (halves || c.asleep.Load() == 0) {
			return batch
		}
		if len(batch) > had {
			runtime.Gosched() // callers that were woken need a processor to submit again
			continue
		}
		if late == nil {
			late = time.After(max(commit, after))
		}
		select {
		case own := <-c.queue:
			batch = append(batch, own)
			c.came(1)
		case <-c.woke:
		case <-late:
			c.due.Store(0) // the callers that were woken do not submit again
			return batch
		}
	}
}

// take adds requests of the queue, up to half of all known callers or up to all. It
// reports whether there is room for more.
func (c *Committer[Req, Res]) take(batch []*call[Req, Res], halves bool) ([]*call[Req, Res], bool) {
	most := c.o.MaxBatch
	if halves {
		known := len(batch) + len(c.queue) + int(c.asleep.Load())
		most = min(most, max((known+1)/2, smallest))
	}
	had := len(batch)
	defer func() { c.came(len(batch) - had) }()
	for len(batch) < most {
		select {
		case own := <-c.queue:
			batch = append(batch, own)
		default:
			return batch, true
		}
	}
	return batch, false
}

// came notes that n requests were taken from the queue. Were callers to note it
// themselves before they queue, one that is delayed between the two steps would count
// as queued, and the batch would not wait for it.
func (c *Committer[Req, Res]) came(n int) {
	for {
		due := c.due.Load()
		if c.due.CompareAndSwap(due, max(due-int64(n), 0)) {
			return
		}
	}
}

// write commits reqs, halving the batch where one row spoils it. errs is nil
// when all went well, else it has one entry for each request.
func (c *Committer[Req, Res]) write(ctx context.Context, reqs []Req) (results []Res, errs []error) {
	results, err := c.attempt(ctx, reqs)
	if err == nil {
		return results, nil
	}
	if len(reqs) > 1 && c.o.Split(err) {
		half := len(reqs) / 2
		left, leftErrs := c.write(ctx, reqs[:half])
		right, rightErrs := c.write(ctx, reqs[half:])
		return append(left, right...), append(pad(leftErrs, half), pad(rightErrs, len(reqs)-half)...)
	}
	errs = make([]error, len(reqs))
	for i := range errs {
		errs[i] = err
	}
	return make([]Res, len(reqs)), errs
}

func pad(errs []error, n int) []error {
	if errs == nil {
		return make([]error, n)
	}
	return errs
}

func (c *Committer[Req, Res]) attempt(ctx context.Context, reqs []Req) (results []Res, err error) {
	var before []error
	for n := 1; ; n++ {
		results, err = c.guarded(ctx, reqs)
		if err == nil {
			return results, nil
		}
		if n == attempts || !c.o.Retry(err) {
			if before != nil { // an earlier try may have committed, which the last error does not say
				err = errors.Join(append(before, err)...)
			}
			return results, err
		}
		before = append(before, err)
		time.Sleep(rand.N(longestPause * time.Duration(n) / attempts))
	}
}

func (c *Committer[Req, Res]) guarded(ctx context.Context, reqs []Req) (results []Res, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("groupcommit: commit panicked: %v", p)
		}
	}()
	results, err = c.commit(ctx, reqs)
	if err == nil && len(results) != len(reqs) {
		err = fmt.Errorf("groupcommit: commit returned %d results for %d requests", len(results), len(reqs))
	}
	return results, err
}

// finish runs After for the rows that were committed and wakes the callers.
func (c *Committer[Req, Res]) finish(ctx context.Context, batch []*call[Req, Res], reqs []Req, results []Res, errs []error, seen Batch) {
	start := time.Now()
	defer func() {
		if p := recover(); p != nil {
			seen.Err = errors.Join(seen.Err, fmt.Errorf("groupcommit: After panicked: %v", p))
		}
		seen.After = time.Since(start)
		c.afterTook.Store(int64(smooth(time.Duration(c.afterTook.Load()), seen.After)))
		c.asleep.Add(-int64(len(batch)))
		c.due.Add(int64(len(batch)))
		for i, own := range batch {
			own.res = results[i]
			if errs != nil {
				own.err = errs[i]
			}
			close(own.done)
		}
		select {
		case c.woke <- struct{}{}:
		default:
		}
		if c.o.Observe != nil {
			c.o.Observe(seen)
		}
	}()
	if errs == nil {
		if c.o.After != nil {
			c.o.After(ctx, reqs, results)
		}
		return
	}
	var good []int
	for i, err := range errs {
		switch {
		case err == nil:
			good = append(good, i)
		case c.o.Failed != nil:
			c.o.Failed(reqs[i], err)
		}
	}
	if len(good) == 0 || c.o.After == nil {
		return
	}
	goodReqs, goodResults := make([]Req, len(good)), make([]Res, len(good))
	for i, at := range good {
		goodReqs[i], goodResults[i] = reqs[at], results[at]
	}
	c.o.After(ctx, goodReqs, goodResults)
	for i, at := range good {
		results[at] = goodResults[i]
	}
}
