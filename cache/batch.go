package cache

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/bus"
	"github.com/stoa-dev/stoa/keyspace"
)

// GetMany returns the values of keys; what does not exist is absent. It is one
// round trip to Redis for all that are not at hand, and, for those that are not
// there either, two more around one call of the source.
func (c *Cache[K, V]) GetMany(ctx context.Context, ks []K) (map[K]V, error) {
	out := make(map[K]V, len(ks))
	rest := c.atHand(ks, func(i int, e *copied[V]) {
		if !e.missing {
			out[ks[i]] = e.value
		}
	})
	return out, c.missMany(ctx, ks, rest, out)
}

// GetAll is [Cache.GetMany] in the order of ks, with nil for what does not exist.
// Nothing that is at hand is copied, which makes it the fastest way to read many
// values: these are the ones that all callers share, so do not change them.
func (c *Cache[K, V]) GetAll(ctx context.Context, ks []K) ([]*V, error) {
	all := make([]*V, len(ks))
	rest := c.atHand(ks, func(i int, e *copied[V]) {
		if !e.missing {
			all[i] = &e.value
		}
	})
	if len(rest) == 0 {
		return all, nil
	}
	out := make(map[K]V, len(rest))
	if err := c.missMany(ctx, ks, rest, out); err != nil {
		return nil, err
	}
	for _, i := range rest {
		if v, there := out[ks[i]]; there {
			all[i] = &v
		}
	}
	return all, nil
}

// atHand calls found for each key of which this process has a copy, and returns
// where the others are.
func (c *Cache[K, V]) atHand(ks []K, found func(i int, e *copied[V])) (rest []int) {
	now := bus.Now()
	trusted, sampled := c.trusted(now), c.sampled(now)
	for i, k := range ks {
		var e *copied[V]
		if trusted {
			e = c.copyAt(k, now)
		}
		if e == nil {
			rest = append(rest, i)
			continue
		}
		if sampled {
			c.aged(Process, time.Duration(now-e.loaded))
		}
		found(i, e)
	}
	c.stats.hits.add(now, uint64(len(ks)-len(rest)))
	return rest
}

// missMany adds the values of the keys at rest to out.
func (c *Cache[K, V]) missMany(ctx context.Context, ks []K, rest []int, out map[K]V) error {
	if len(rest) == 0 {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	b := batch[K, V]{c: c, out: out}
	seen := make(map[K]bool, len(rest))
	now := bus.Now()
	for _, i := range rest {
		if k := ks[i]; !seen[k] {
			seen[k] = true
			key := c.key(k)
			r := c.read(k, key, c.rt.watch(key.String()), now)
			b.reads = append(b.reads, &r)
		}
	}
	toLoad, err := b.look(ctx)
	if err != nil {
		return err
	}
	toLoad, leases, others := b.acquire(ctx, toLoad)
	if err := b.load(ctx, toLoad, leases); err != nil {
		return err
	}
	return b.join(ctx, others)
}

// A batch is a read of several keys past the process' own memory.
type batch[K comparable, V any] struct {
	c     *Cache[K, V]
	reads []*reading[K, V]
	out   map[K]V
}

func (b *batch[K, V]) answer(r *reading[K, V]) {
	if r.best == nil {
		return
	}
	b.c.aged(r.tier, time.Duration(bus.Now()-r.best.loaded))
	if !r.best.missing {
		b.out[r.k] = r.best.value
	}
}

// look asks Redis and returns the reads that are to be loaded.
func (b *batch[K, V]) look(ctx context.Context) (toLoad []*reading[K, V], err error) {
	c := b.c
	for _, r := range b.reads {
		if err := r.begin(); err != nil {
			return nil, err
		}
	}
	if b.reads[0].era == 0 { // the same for all
		return b.reads, nil
	}
	keys := make([]keyspace.Key, len(b.reads))
	for i, r := range b.reads {
		keys[i] = r.key
	}
	tagged := resolveTags(c.rt, b.reads...)
	for i, reply := range c.rt.mget(keys) {
		r := b.reads[i]
		slot, _, err := reply.Text()
		if err != nil || tagged != nil {
			r.era = 0
			c.stats.failed.add(1)
			toLoad = append(toLoad, r)
		} else if r.take(ctx, slot) == settled {
			b.answer(r)
		} else {
			toLoad = append(toLoad, r)
		}
	}
	return toLoad, nil
}

// acquire takes leases, in one round trip. It returns what is to be loaded here,
// with the lease of each or "", and what somebody else is loading.
func (b *batch[K, V]) acquire(ctx context.Context, reads []*reading[K, V]) (toLoad []*reading[K, V], leases []string, others []*reading[K, V]) {
	c := b.c
	var asked []*reading[K, V]
	var tokens []string
	var cmds []keyspace.Cmd
	for _, r := range reads {
		if r.era == 0 {
			toLoad, leases = append(toLoad, r), append(leases, "")
			continue
		}
		mine := token()
		asked, tokens, cmds = append(asked, r), append(tokens, mine), append(cmds, r.acquireCmd(mine))
	}
	if len(cmds) == 0 {
		return toLoad, leases, nil
	}
	for i, reply := range c.rt.do(cmds...) {
		r := asked[i]
		slot, held, err := reply.Text()
		switch {
		case err != nil:
			c.stats.failed.add(1)
			toLoad, leases = append(toLoad, r), append(leases, "")
		case !held:
			toLoad, leases = append(toLoad, r), append(leases, tokens[i])
		case kind(slot) == isFence:
			c.stats.fenced.add(1)
			toLoad, leases = append(toLoad, r), append(leases, "")
		case kind(slot) == isValue && r.take(ctx, slot) == settled:
			b.answer(r)
		case r.best != nil: // somebody else is at it
			c.stats.stale.add(1)
			b.answer(r)
		default:
			others = append(others, r)
		}
	}
	return toLoad, leases, others
}

// load calls the source and stores what it returns.
func (b *batch[K, V]) load(ctx context.Context, reads []*reading[K, V], leases []string) error {
	if len(reads) == 0 {
		return nil
	}
	c := b.c
	loading, cancel := context.WithTimeout(ctx, c.policy.LoadTimeout)
	defer cancel()
	began := bus.Now()
	values, err := c.askMany(loading, reads)
	took := time.Duration(bus.Now() - began)

	cmds := make([]keyspace.Cmd, 0, len(reads))
	var filled []func(stored bool)
	for i, r := range reads {
		v, there := values[r.k]
		if err != nil {
			if r.best == nil {
				there = false
			} else {
				c.stats.stale.add(1)
				b.answer(r)
			}
		} else if there {
			b.out[r.k] = v
		}
		if leases[i] == "" {
			continue
		}
		env, life, sealErr := c.seal(v, !there, took, r.era, r.under)
		text := env.textOr(life)
		if err != nil || sealErr != nil {
			text = "" // give the lease up
		}
		cmds = append(cmds, fillScript.Cmd([]keyspace.Key{r.key}, leases[i], text, millis(life)))
		filled = append(filled, func(stored bool) {
			if stored && text != "" {
				c.keepLoaded(r.k, v, env, r.mark, r.tags)
			} else if text != "" {
				c.stats.refused.add(1)
			}
		})
	}
	if len(cmds) > 0 {
		for i, reply := range c.rt.do(cmds...) {
			n, _ := reply.Int()
			filled[i](n == 1)
		}
	}
	if err == nil {
		return nil
	}
	for _, r := range reads {
		if r.best == nil {
			return err
		}
	}
	return nil
}

// askMany calls the source, with the others' leave.
func (c *Cache[K, V]) askMany(ctx context.Context, reads []*reading[K, V]) (values map[K]V, err error) {
	if c.source.LoadMany != nil {
		ks := make([]K, len(reads))
		for i, r := range reads {
			ks[i] = r.k
		}
		err = c.admitted(ctx, len(ks), func(ctx context.Context) (err error) {
			values, err = c.source.LoadMany(ctx, ks)
			return err
		})
		return values, err
	}
	values = make(map[K]V, len(reads))
	var mu sync.Mutex
	err = each(reads, func(r *reading[K, V]) error {
		v, err := c.ask(ctx, r.k)
		if errors.Is(err, ErrNotFound) {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			values[r.k] = v
		}
		return err
	})
	return values, err
}

// join waits for what others load.
func (b *batch[K, V]) join(ctx context.Context, reads []*reading[K, V]) error {
	var mu sync.Mutex
	return each(reads, func(r *reading[K, V]) error {
		found, err := b.c.beyond(ctx, r.k, bus.Now())
		mu.Lock()
		defer mu.Unlock()
		if err == nil && !found.Missing {
			b.out[r.k] = found.Value
		}
		return err
	})
}

// each calls do for every item, eight at a time, and returns an error if there
// was one.
func each[T any](items []T, do func(T) error) error {
	if len(items) == 0 {
		return nil
	}
	var all sync.WaitGroup
	var first error
	var once sync.Once
	turns := make(chan struct{}, 8)
	for _, it := range items {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			if err := do(it); err != nil {
				once.Do(func() { first = err })
			}
		})
	}
	all.Wait()
	return first
}

// Warming says how a cache is warmed up.
type Warming struct {
	Batch    int            // keys read at once; 0 means 100
	AtOnce   int            // batches under way; 0 means 4
	Progress func(done int) // told after each batch how many keys were read; nil is allowed
}

// Warm reads keys so that they are at hand, the most wanted last if there are
// more than fit. It ends with the first error, or with ctx.
func (c *Cache[K, V]) Warm(ctx context.Context, keys iter.Seq[K], w Warming) error {
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
	turns := make(chan struct{}, w.AtOnce)
	read := func(part []K) {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			if _, err := c.GetMany(ctx, part); err != nil {
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
	part := make([]K, 0, w.Batch)
	for k := range keys {
		if ctx.Err() != nil {
			break
		}
		if part = append(part, k); len(part) == w.Batch {
			read(part)
			part = make([]K, 0, w.Batch)
		}
	}
	if len(part) > 0 && ctx.Err() == nil {
		read(part)
	}
	all.Wait()
	return context.Cause(ctx)
}
