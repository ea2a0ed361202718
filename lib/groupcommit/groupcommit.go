package groupcommit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
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
	// with the errors of all attempts, joined, because any of them may have committed it. After the deadline of a lone
	// caller, the attempts are counted again.
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

	closed  chan struct{}  // no further request is accepted
	room    chan struct{}  // has an entry for each waiting request
	slots   chan struct{}  // has an entry for each running After
	joined  chan struct{}  // has an entry after a request joined the batch that waits
	running sync.WaitGroup // batches that are not finished

	mu        sync.Mutex
	work      context.Context //nolint:containedctx // has the values of Run's context
	free      int             // committers without a batch
	gathering bool            // a batch waits for further requests
	waiting   []*call[Req, Res]

	// Estimates; see patience.
	asleep                int           // callers that were not woken after the commit of their requests
	due                   int           // callers that were woken since the last batch was taken, and have not submitted again
	commitTook, afterTook time.Duration // moving averages
	skip                  int           // number of batches that will not wait
	penalty               int           // the last value of skip, halved by each wait that paid
}

type call[Req, Res any] struct {
	req  Req
	res  Res
	err  error
	done chan struct{} // nil if the caller runs the batch
}

const (
	attempts     = 5
	afterAtOnce  = 4 // a slow After must not block later commits
	longestPause = 20 * time.Millisecond
	smallest     = 16 // the fixed cost of a batch is that of about this number of rows
	maxPenalty   = 64
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
	return &Committer[Req, Res]{commit: commit, o: o, closed: make(chan struct{}), room: make(chan struct{}, o.Queue),
		slots: make(chan struct{}, afterAtOnce*o.Committers), joined: make(chan struct{}, 1)}
}

// Do submits req and returns its result after it is committed and After has run. If ctx ends first, it returns ctx's
// error, and req may or may not be committed, unless the error is [ErrNotTaken] as well. A lone caller runs its commit and
// After itself: it returns after them, or at the deadline of ctx if req is not committed then.
func (c *Committer[Req, Res]) Do(ctx context.Context, req Req) (res Res, err error) {
	select {
	case c.room <- struct{}{}:
	case <-c.closed:
		return res, ErrClosed
	case <-ctx.Done():
		return res, fmt.Errorf("%w: %w", ErrNotTaken, context.Cause(ctx))
	}
	own := &call[Req, Res]{req: req}
	alone, err := c.submit(own)
	if err != nil {
		return res, err
	}
	if alone != nil {
		return c.runAlone(ctx, alone)
	}
	select {
	case <-own.done:
		return own.res, own.err
	case <-ctx.Done():
		return res, context.Cause(ctx)
	}
}

// runAlone runs the batch of a lone caller in the caller's goroutine, with the values of ctx. At the deadline of ctx, a
// batch that may be retried moves to another goroutine.
func (c *Committer[Req, Res]) runAlone(ctx context.Context, batch []*call[Req, Res]) (res Res, err error) {
	defer c.running.Done()
	work := context.WithoutCancel(ctx)
	if end, limited := ctx.Deadline(); limited {
		var stop context.CancelFunc
		work, stop = context.WithDeadline(work, end)
		defer stop()
	}
	if !c.run(work, batch, 0) {
		c.running.Go(func() { c.run(c.work, batch, 0) })
	}
	if work.Err() != nil {
		<-ctx.Done() // it has the same deadline, and may end a moment later
	}
	if ctx.Err() != nil {
		return res, context.Cause(ctx)
	}
	return batch[0].res, batch[0].err
}

// submit queues own. If no other request waits, and the next batch would not wait for one, it returns that batch: the
// caller has a committer and runs it.
func (c *Committer[Req, Res]) submit(own *call[Req, Res]) (alone []*call[Req, Res], err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.closed:
		<-c.room
		return nil, ErrClosed
	default:
	}
	c.due = max(c.due-1, 0)
	c.waiting = append(c.waiting, own)
	if inAll, _ := c.patience(); c.free > 0 && len(c.waiting) == 1 && inAll == 0 {
		c.free--
		c.running.Add(1)
		return c.take(), nil
	}
	own.done = make(chan struct{})
	c.start()
	if c.gathering {
		select {
		case c.joined <- struct{}{}:
		default:
		}
	}
	return nil, nil
}

// start starts a batch if requests wait and a committer is free.
func (c *Committer[Req, Res]) start() {
	if len(c.waiting) == 0 || c.free == 0 || c.gathering {
		return
	}
	c.free--
	c.running.Go(func() {
		if batch := c.next(); batch != nil {
			c.run(c.work, batch, len(batch))
		}
	})
}

// Run commits until ctx ends, then finishes the submitted requests and returns nil. The batches themselves do not end
// with ctx. Call Run only once.
func (c *Committer[Req, Res]) Run(ctx context.Context) error {
	c.mu.Lock()
	c.work, c.free = context.WithoutCancel(ctx), c.o.Committers
	c.start()
	c.mu.Unlock()
	<-ctx.Done()
	c.mu.Lock()
	close(c.closed)
	c.mu.Unlock()
	c.running.Wait()
	return nil
}

// run commits a batch, passes its committer on and finishes the batch. It wakes asleep callers. If ctx ends during the
// commit of a lone caller, and the batch may be retried, run returns false. Such a batch still has its committer.
func (c *Committer[Req, Res]) run(ctx context.Context, batch []*call[Req, Res], asleep int) bool {
	reqs := make([]Req, len(batch))
	for i, own := range batch {
		reqs[i] = own.req
	}
	began := time.Now()
	results, errs := c.write(ctx, reqs)
	if errs != nil {
		if again, ok := errors.AsType[retriedLater](errs[0]); ok {
			batch[0].err = again.error
			return false
		}
	}
	if errs != nil && batch[0].err != nil { // the first run may have committed, which the last error does not show
		errs[0] = errors.Join(batch[0].err, errs[0])
	}
	seen := Batch{Size: len(reqs), Commit: time.Since(began), Err: errors.Join(errs[:min(1, len(errs))]...)}
	c.release(seen.Commit, asleep)
	defer func() { <-c.slots }()
	c.finish(batch, reqs, results, errs, seen, asleep)
	return true
}

// release passes on the committer of a batch that took that long, after it has reserved a slot for the batch's After.
func (c *Committer[Req, Res]) release(took time.Duration, asleep int) {
	c.mu.Lock()
	c.commitTook = smooth(c.commitTook, took)
	c.asleep += asleep
	c.mu.Unlock()
	c.slots <- struct{}{}
	c.mu.Lock()
	c.free++
	c.start()
	c.mu.Unlock()
}

// smooth returns the moving average of a duration.
func smooth(mean, next time.Duration) time.Duration {
	if mean == 0 {
		return next
	}
	return mean + (next-mean)/8
}

// next returns the next batch, or nil if no request waits. It waits for further requests as long as they are expected
// to save more than the wait costs.
func (c *Committer[Req, Res]) next() []*call[Req, Res] {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) == 0 || c.gathering {
		c.free++
		return nil
	}
	start, had, waited := time.Now(), len(c.waiting), false
	for last := start; ; waited = true {
		inAll, sinceLast := c.patience()
		left := min(inAll-time.Since(start), sinceLast-time.Since(last))
		if left <= 0 {
			break
		}
		size := len(c.waiting)
		c.gathering = true
		c.mu.Unlock()
		select {
		case <-c.joined:
			runtime.Gosched() // callers that were woken need a processor to submit again
		case <-time.After(left):
		}
		c.mu.Lock()
		c.gathering = false
		if len(c.waiting) > size {
			last = time.Now()
		}
	}
	batch := c.take()
	if waited {
		c.learn(len(batch)-had, len(batch), time.Since(start))
	}
	c.start() // requests that the batch has no room for
	return batch
}

// patience returns how long the next batch may wait, in all and after its last request; doc.go has the rule. Both are
// zero if it has to start.
func (c *Committer[Req, Res]) patience() (inAll, sinceLast time.Duration) {
	limit, expected := c.limit()
	if n := len(c.waiting); c.o.After != nil && c.skip == 0 && n < limit && expected > 0 {
		return max(c.commitTook, c.afterTook), c.commitTook * time.Duration(2*expected) / time.Duration(n)
	}
	return 0, 0
}

// limit returns the largest size of the next batch and the number of callers that are expected to join it.
//
// Many callers that each submit repeatedly form two halves: one commits while the other is in After. If After is short
// compared with the fixed cost of a commit, all form one group, because two commits for the same callers would cost
// more than the overlap gains. A batch far below half joins the next half, so that it does not remain a third group.
func (c *Committer[Req, Res]) limit() (limit, expected int) {
	n := len(c.waiting)
	known := n + c.asleep
	fixed := c.commitTook * smallest / time.Duration(smallest+min(known, 4*smallest))
	if limit = min(c.o.MaxBatch, max((known+1)/2, smallest)); c.afterTook <= fixed*5/4 {
		limit = c.o.MaxBatch
	} else if n >= limit/4 {
		return limit, c.due
	}
	return limit, c.due + c.asleep
}

// take removes the next batch from the waiting requests. Callers that are still due are not expected any longer.
func (c *Committer[Req, Res]) take() []*call[Req, Res] {
	limit, _ := c.limit()
	n := min(limit, len(c.waiting))
	batch := slices.Clone(c.waiting[:n])
	c.waiting = slices.Delete(c.waiting, 0, n)
	for range n {
		<-c.room
	}
	c.due, c.skip = 0, max(c.skip-1, 0)
	return batch
}

// learn records whether a wait paid: it spared the requests that joined more than it cost the whole batch, with one half
// in favor of fewer commits. After a failure, the next batches do not wait. Their number doubles with each failure and
// halves with each success.
func (c *Committer[Req, Res]) learn(joined, size int, waited time.Duration) {
	if c.commitTook*time.Duration(3*joined) > waited*time.Duration(2*size) {
		c.penalty /= 2
		return
	}
	c.penalty = min(max(1, 2*c.penalty), maxPenalty)
	c.skip = c.penalty
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
		retry := n < attempts && c.o.Retry(err)
		if retry && ctx.Err() == nil {
			before = append(before, err)
			time.Sleep(rand.N(longestPause * time.Duration(n) / attempts))
			continue
		}
		if before != nil { // an earlier attempt may have committed, which the last error does not show
			err = errors.Join(append(before, err)...)
		}
		if retry {
			err = retriedLater{err}
		}
		return results, err
	}
}

// retriedLater is the error of a batch whose context has ended, and whose last attempt may be retried.
type retriedLater struct{ error }

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
func (c *Committer[Req, Res]) finish(batch []*call[Req, Res], reqs []Req, results []Res, errs []error, seen Batch, asleep int) {
	start := time.Now()
	defer func() {
		if p := recover(); p != nil {
			seen.Err = errors.Join(seen.Err, fmt.Errorf("groupcommit: After panicked: %v", p))
		}
		seen.After = time.Since(start)
		c.mu.Lock()
		c.afterTook = smooth(c.afterTook, seen.After)
		c.asleep -= asleep
		c.due += len(batch)
		c.mu.Unlock()
		for i, own := range batch {
			own.res = results[i]
			if errs != nil {
				own.err = errs[i]
			}
			if own.done != nil {
				close(own.done)
			}
		}
		if c.o.Observe != nil {
			c.o.Observe(seen)
		}
	}()
	if errs == nil {
		if c.o.After != nil {
			c.o.After(c.work, reqs, results)
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
	c.o.After(c.work, goodReqs, goodResults)
	for i, at := range good {
		results[at] = goodResults[i]
	}
}
