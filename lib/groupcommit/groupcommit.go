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

// ErrClosed is returned to callers that submit after the committer has stopped.
var ErrClosed = errors.New("groupcommit: closed")

// ErrNotTaken is wrapped into the error of a caller whose context ended before its request was queued: the request is
// certainly not committed.
var ErrNotTaken = errors.New("groupcommit: not taken")

// Options configure a [Committer]. The zero value is one committer that never retries and never splits.
type Options[Req, Res any] struct {
	// Committers is the number of batches that may commit at once: 1 for a database with one writer, 2 for others, so
	// that one gathers rows while the other flushes. Zero means 1.
	Committers int
	// MaxBatch limits the requests of a batch. Zero means 512.
	MaxBatch int
	// Queue limits the waiting requests; further callers block in Do until there is room or their context ends. Zero
	// means 16 times MaxBatch.
	Queue int
	// Retry reports whether the same batch is retried after an error, with a short random pause and at most five
	// attempts in all: deadlocks, lock timeouts, a lost connection. Nil means never. A batch that is given up fails
	// with the errors of all attempts, joined, because any of them may have committed it.
	Retry func(error) bool
	// Split reports whether one row may have caused the error of the whole batch. Nil means never.
	Split func(error) bool
	// After gets each committed batch before its callers wake, and may change the results in place. It overlaps the
	// next commit; up to four run at once for each committer. Nil means no After, and no batch waits for further
	// requests.
	After func(ctx context.Context, reqs []Req, results []Res)
	// Failed is called with every request that was given up, before its caller wakes. After and Failed together get
	// each request exactly once. Nil: it is not called.
	Failed func(req Req, err error)
	// Observe is called with every finished batch. Nil: it is not called.
	Observe func(Batch)
}

// Batch is the argument of [Options.Observe].
type Batch struct {
	Size   int           // number of requests
	Commit time.Duration // time in the commit function, retries included
	After  time.Duration // time in After
	Err    error         // error of the whole batch
}

// Committer gathers requests and commits them together. Create one with [New].
type Committer[Req, Res any] struct {
	commit func(context.Context, []Req) ([]Res, error)
	o      Options[Req, Res]
	queue  chan *call[Req, Res]

	closed  chan struct{} // no further request is accepted
	drained chan struct{} // no request is left to finish

	// Estimates of the callers outside the queue; see next. They may be slightly out of date.
	asleep    atomic.Int64  // committed, but not woken yet
	due       atomic.Int64  // woken, but their next request is not taken from the queue yet
	woke      chan struct{} // has an entry after callers were woken
	afterTook atomic.Int64  // moving average of After in ns
}

type call[Req, Res any] struct {
	req  Req
	res  Res
	err  error
	done chan struct{}
}

const (
	attempts     = 5
	afterAtOnce  = 4 // a slow After must not block later commits
	longestPause = 20 * time.Millisecond
	smallest     = 16 // the fixed cost of a batch is that of about this number of rows
)

// New returns a committer around commit, which writes a batch in one
// transaction and returns one result for each request, in order. No request is committed before [Committer.Run].
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

// Do submits req and returns its result after it is committed and After has run. If ctx ends first, it returns ctx's
// error, and req may or may not be committed, unless the error is [ErrNotTaken] as well.
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

// Run commits until ctx ends, then finishes the submitted requests and returns nil. The batches themselves do not end
// with ctx. Call Run only once.
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
	var took time.Duration // moving average of a commit
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

// smooth returns the moving average of a duration.
func smooth(mean, next time.Duration) time.Duration {
	if mean == 0 {
		return next
	}
	return mean + (next-mean)/8
}

// next returns the next batch, or nil if ctx has ended and no request waits.
//
// Many callers that each submit repeatedly form two halves: one commits while the other is in After. If After is short
// compared with a commit, all form one group, because two flushes for the same callers would cost more than the overlap
// gains. In both cases the first of the callers that were just woken must not get a commit of its own. next therefore
// waits until they have submitted again, but no longer than commit or After take. Without After it does not wait.
func (c *Committer[Req, Res]) next(ctx context.Context, commit time.Duration) []*call[Req, Res] {
	var batch []*call[Req, Res]
	select {
	case own := <-c.queue:
		batch = append(batch, own)
	case <-ctx.Done():
		select {
		case own := <-c.queue: // drain the requests from before the end
			batch = append(batch, own)
		default:
			return nil
		}
	}
	c.countTaken(1)
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
			c.countTaken(1)
		case <-c.woke:
		case <-late:
			c.due.Store(0) // the callers that were woken do not submit again
			return batch
		}
	}
}

// take adds requests of the queue, up to half of all known callers or up to all of them. It reports whether there is
// room for more.
func (c *Committer[Req, Res]) take(batch []*call[Req, Res], halves bool) ([]*call[Req, Res], bool) {
	limit := c.o.MaxBatch
	if halves {
		known := len(batch) + len(c.queue) + int(c.asleep.Load())
		limit = min(limit, max((known+1)/2, smallest))
	}
	had := len(batch)
	defer func() { c.countTaken(len(batch) - had) }()
	for len(batch) < limit {
		select {
		case own := <-c.queue:
			batch = append(batch, own)
		default:
			return batch, true
		}
	}
	return batch, false
}

// countTaken records that n requests were taken from the queue. If callers recorded that themselves before they queue, a
// caller that is delayed between the two steps would count as queued, and the batch would not wait for it.
func (c *Committer[Req, Res]) countTaken(n int) {
	for {
		due := c.due.Load()
		if c.due.CompareAndSwap(due, max(due-int64(n), 0)) {
			return
		}
	}
}

// write commits reqs, halving the batch if one row may cause the error. errs is nil if all requests succeeded,
// otherwise it has one entry for each request.
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
			if before != nil { // an earlier attempt may have committed, which the last error does not show
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

// finish runs After for the committed rows and wakes the callers.
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
