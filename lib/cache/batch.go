package cache

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/lib/bus"
	"github.com/stoa-dev/stoa/lib/cache/internal/slots"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

// missMany reads keys that have no local copy; the result for a key is nil if its value does not exist. With an error,
// some results may still be set.
func (c *core) missMany(ctx context.Context, ks []any) (answers []*localCopy, err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	from := Redis
	ctx, answered := c.rt.asking(ctx, Redis, c.Name(), len(ks))
	defer func() { answered(from, err) }()
	now := bus.Now()
	reads, byName, same := make([]*reading, 0, len(ks)), make(map[string]*reading, len(ks)), make([]*reading, len(ks))
	for i, k := range ks {
		key := c.key(k)
		r := byName[key.String()]
		if r == nil {
			r = new(c.read(k, key, now))
			reads, byName[key.String()] = append(reads, r), r
		}
		same[i] = r
	}
	from, err = c.readMany(ctx, reads)
	answers = make([]*localCopy, len(ks))
	for i, r := range same {
		if r.answer != nil && !r.answer.missing {
			answers[i] = r.answer
		}
	}
	return answers, err
}

// readMany answers the reads, and returns the furthest tier that was asked.
func (c *core) readMany(ctx context.Context, reads []*reading) (Tier, error) {
	misses, err := c.manyFromRedis(ctx, reads)
	if err != nil {
		return Redis, err
	}
	misses, leases, leasedElsewhere := c.acquireMany(ctx, misses)
	from := Redis
	if len(misses) > 0 {
		from = Origin
	}
	if err := c.loadMany(ctx, misses, leases); err != nil {
		return from, err
	}
	return from, forEach(leasedElsewhere, func(r *reading) error {
		found, err := c.readThrough(ctx, r.k, bus.Now(), 0)
		if err == nil {
			r.answer = found.Value
		}
		return err
	})
}

// useBest makes the best value found the answer.
func (r *reading) useBest() {
	if r.best != nil {
		r.c.reportAge(r.tier, time.Duration(bus.Now()-r.best.loaded))
		r.answer = r.best
	}
}

// manyFromRedis answers the reads that Redis can answer, and returns those that have to be loaded.
func (c *core) manyFromRedis(ctx context.Context, reads []*reading) (misses []*reading, err error) {
	asked := make([]*reading, 0, len(reads))
	for _, r := range reads {
		switch err := r.begin(); {
		case err != nil:
			return nil, err
		case r.era == 0:
			misses = append(misses, r)
		default:
			asked = append(asked, r)
		}
	}
	if len(asked) == 0 {
		return misses, nil
	}
	keys := make([]keyspace.Key, len(asked))
	for i, r := range asked {
		keys[i] = r.key
	}
	tagErr := resolveTags(c.rt, asked...)
	for i, reply := range c.rt.reads.mget(keys) {
		r := asked[i]
		slot, _, err := reply.Text()
		if err != nil || tagErr != nil {
			r.era = 0
			c.stats.failed.add(1)
			misses = append(misses, r)
		} else if r.accept(ctx, slot) == settled {
			r.useBest()
		} else {
			misses = append(misses, r)
		}
	}
	return misses, nil
}

// acquireMany acquires leases in one round trip. It returns the reads to be loaded here, with the lease of each or "",
// and the reads whose lease another node or flight holds.
func (c *core) acquireMany(ctx context.Context, reads []*reading) (misses []*reading, leases []string, leasedElsewhere []*reading) {
	var asked []*reading
	var tokens []string
	var cmds []keyspace.Cmd
	for _, r := range reads {
		if r.era == 0 {
			misses, leases = append(misses, r), append(leases, "")
			continue
		}
		mine := c.rt.leases.token()
		asked, tokens, cmds = append(asked, r), append(tokens, mine), append(cmds, r.acquireCmd(mine))
	}
	if len(cmds) == 0 {
		return misses, leases, nil
	}
	for i, reply := range c.rt.reads.do(cmds...) {
		r := asked[i]
		slot, held, err := reply.Text()
		switch {
		case err != nil:
			c.stats.failed.add(1)
			c.rt.leases.disown(tokens[i], releaseCmd(r.key, tokens[i]), c.leaseLife(), err)
			misses, leases = append(misses, r), append(leases, "")
		case !held:
			misses, leases = append(misses, r), append(leases, tokens[i])
		case slots.Kind(slot) == slots.IsFence:
			c.stats.fenced.add(1)
			misses, leases = append(misses, r), append(leases, "")
		case slots.Kind(slot) == slots.IsValue && r.accept(ctx, slot) == settled:
			r.useBest()
		case r.best != nil: // another node holds the lease; serve stale
			c.stats.stale.add(1)
			r.useBest()
		default:
			leasedElsewhere = append(leasedElsewhere, r)
		}
	}
	return misses, leases, leasedElsewhere
}

// loadMany answers reads from the source, which runs in a goroutine of its own: this caller may leave, and the source
// may continue after its context has ended. If the source fails, the best value found before is the answer.
func (c *core) loadMany(ctx context.Context, reads []*reading, leases []string) error {
	if len(reads) == 0 {
		return nil
	}
	loads := make([]*reading, len(reads)) // copies, so that nothing is written to reads after the caller has left
	for i, r := range reads {
		loads[i] = new(*r)
	}
	loading, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.policy.LoadTimeout)
	ended := make(chan error, 1)
	c.rt.begin(func() {
		defer cancel()
		err := errAborted
		defer func() { ended <- err }()
		err = recovered(func() error { return c.fillMany(loading, loads, leases) })
	})
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-loading.Done():
		select {
		case err = <-ended: // it ended in time
		default:
			err = fmt.Errorf("cache: %s: %w", c.fam.Pattern, context.Cause(loading))
		}
	}
	if err == nil {
		for i, r := range reads {
			r.answer = loads[i].answer
		}
		return nil
	}
	var unanswered error
	for _, r := range reads {
		if r.best == nil {
			unanswered = err
			continue
		}
		c.stats.stale.add(1)
		r.useBest()
	}
	return unanswered
}

// fillMany calls the source and stores the values that it returns.
func (c *core) fillMany(ctx context.Context, reads []*reading, leases []string) error {
	began := bus.Now()
	err := c.askMany(ctx, reads)
	took := time.Duration(bus.Now() - began)

	cmds := make([]keyspace.Cmd, 0, len(reads))
	var filled []func(stored bool, err error)
	for i, r := range reads {
		e := r.answer
		if leases[i] == "" {
			continue
		}
		cmd, life, env := releaseCmd(r.key, leases[i]), time.Duration(0), slots.Envelope{}
		replaced := false
		if err == nil {
			if sealed, l, sealErr := c.seal(e, took, r); sealErr == nil {
				cmd, life, env, replaced = fillCmd(r.key, leases[i], &sealed, l), l, sealed, true
			}
		}
		cmds = append(cmds, cmd)
		filled = append(filled, func(stored bool, err error) {
			if err != nil {
				c.rt.leases.disown(leases[i], releaseCmd(r.key, leases[i]), c.leaseLife(), nil)
			}
			switch {
			case !replaced:
			case life <= 0:
				r.forgetReplaced()
			case stored:
				c.storeLoaded(e, &env, r)
			default:
				c.stats.refused.add(1)
			}
		})
	}
	if len(cmds) > 0 {
		for i, reply := range c.rt.reads.do(cmds...) {
			n, err := reply.Int()
			filled[i](n == 1, err)
		}
	}
	return err
}

// askMany answers the reads from the source; with an error their answers are invalid.
func (c *core) askMany(ctx context.Context, reads []*reading) error {
	if c.types.loadMany == nil {
		return forEach(reads, func(r *reading) (err error) {
			if r.answer, err = c.ask(ctx, r.k); r.answer.missing {
				return nil
			}
			return err
		})
	}
	es := make([]*localCopy, len(reads))
	for i, r := range reads {
		r.answer = c.types.newCopy(r.k)
		es[i] = r.answer
	}
	return c.admitted(ctx, len(es), func(ctx context.Context) error { return c.types.loadMany(ctx, es) })
}

// forEach calls do for every read, eight at a time, and returns an error if there was one.
func forEach(reads []*reading, do func(*reading) error) error {
	if len(reads) == 0 {
		return nil
	}
	var all sync.WaitGroup
	var first error
	var once sync.Once
	limit := make(chan struct{}, 8)
	for _, r := range reads {
		limit <- struct{}{}
		all.Go(func() {
			defer func() { <-limit }()
			if err := recovered(func() error { return do(r) }); err != nil {
				once.Do(func() { first = err })
			}
		})
	}
	all.Wait()
	return first
}

// recovered turns a panic in do into an error, because callers cannot recover a panic on a goroutine of the cache.
func recovered(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = aborted(p)
		}
	}()
	return do()
}

// Warming configures how a cache is warmed up.
type Warming struct {
	Batch    int            // keys read at once; 0 means 100
	AtOnce   int            // batches under way; 0 means 4
	Progress func(done int) // called after each batch with the number of keys read so far; may be nil
}

// warm calls read for keys in batches, several at once.
func (c *core) warm(ctx context.Context, keys iter.Seq[any], w Warming, read func(ctx context.Context, part []any) error) error {
	if w.Batch <= 0 {
		w.Batch = 100
	}
	if w.AtOnce <= 0 {
		w.AtOnce = 4
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var all sync.WaitGroup
	var mu sync.Mutex
	done := 0
	limit := make(chan struct{}, w.AtOnce)
	start := func(part []any) {
		limit <- struct{}{}
		all.Go(func() {
			defer func() { <-limit }()
			if err := recovered(func() error { return read(ctx, part) }); err != nil {
				stop(fmt.Errorf("cache: warm %s: %w", c.fam.Pattern, err))
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if done += len(part); w.Progress != nil {
				w.Progress(done)
			}
		})
	}
	part := make([]any, 0, w.Batch)
	for k := range keys {
		if ctx.Err() != nil {
			break
		}
		if part = append(part, k); len(part) == w.Batch {
			start(part)
			part = make([]any, 0, w.Batch)
		}
	}
	if len(part) > 0 && ctx.Err() == nil {
		start(part)
	}
	all.Wait()
	return context.Cause(ctx)
}
