package cache

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/stoa-dev/stoa/bus"
	"github.com/stoa-dev/stoa/keyspace"
)

// Cache keeps values of one family: in process, in Redis, and from a source. It is
// safe for concurrent use. The values it returns are shared: do not change them.
type Cache[K comparable, V any] struct {
	rt     *Runtime
	bus    *bus.Bus
	fam    *keyspace.Family
	key    func(K) keyspace.Key
	policy Policy
	source Source[K, V]

	near  *otter.Cache[K, *copied[V]] // nil: none
	stats counters

	mu         sync.Mutex
	flights    map[K]*flight[K, V]
	refreshing map[K]bool
}

// New returns the cache of a family with one argument.
func New[A keyspace.Segment, V any](rt *Runtime, f keyspace.F1[A, keyspace.Cached[V]], p Policy, s Source[A, V]) *Cache[A, V] {
	return newCache(rt, f.Family, func(a A) keyspace.Key { return f.At(a).Key }, p, s)
}

// New2 returns the cache of a family with two arguments.
func New2[A, B keyspace.Segment, V any](rt *Runtime, f keyspace.F2[A, B, keyspace.Cached[V]], p Policy, s Source[Pair[A, B], V]) *Cache[Pair[A, B], V] {
	return newCache(rt, f.Family, func(k Pair[A, B]) keyspace.Key { return f.At(k.A, k.B).Key }, p, s)
}

func newCache[K comparable, V any](rt *Runtime, fam *keyspace.Family, key func(K) keyspace.Key, p Policy, s Source[K, V]) *Cache[K, V] {
	if fam.TTL.Base == 0 {
		panic(fmt.Sprintf("cache: values of %s would live for ever", fam.Pattern))
	}
	if s.Load == nil {
		panic(fmt.Sprintf("cache: %s has no source", fam.Pattern))
	}
	c := &Cache[K, V]{rt: rt, bus: rt.bus, fam: fam, key: key, policy: p.withDefaults(), source: s,
		flights: map[K]*flight[K, V]{}, refreshing: map[K]bool{}}
	if c.policy.Entries > 0 {
		c.near = otter.Must(&otter.Options[K, *copied[V]]{MaximumSize: c.policy.Entries})
	}
	rt.register(c)
	return c
}

// Name is the family's pattern, which is what metrics call the cache.
func (c *Cache[K, V]) Name() string { return c.fam.Pattern }

// Family returns the family's declaration.
func (c *Cache[K, V]) Family() *keyspace.Family { return c.fam }

// copied is a value in process. What each hit looks at comes first.
type copied[V any] struct {
	again   bus.Moment // when to look into Redis again: before the value's life ends, by chance
	mark    mark       // of its key
	tags    []mark     // of its tags
	missing bool
	value   V

	soft   bus.Moment // when its life ends
	hard   bus.Moment // when it is not good for anything any more
	loaded bus.Moment
	id     uint64
}

// current reports that no change to the key or its tags is known here.
func (e *copied[V]) current() bool { return !e.mark.moved() && (len(e.tags) == 0 || !anyMoved(e.tags)) }

// Get returns the value of k, or an error that is [ErrNotFound].
func (c *Cache[K, V]) Get(ctx context.Context, k K) (V, error) {
	now := bus.Now()
	if e := c.hit(k, now); e != nil {
		if e.missing {
			return *new(V), ErrNotFound
		}
		return e.value, nil
	}
	found, err := c.beyond(ctx, k, now)
	if err == nil && found.Missing {
		err = ErrNotFound
	}
	return found.Value, err
}

// Lookup returns the value of k and what is known of it. That there is no such
// thing is no error here.
func (c *Cache[K, V]) Lookup(ctx context.Context, k K) (Entry[V], error) {
	now := bus.Now()
	if e := c.hit(k, now); e != nil {
		return e.entry(now, Process), nil
	}
	return c.beyond(ctx, k, now)
}

// beyond is miss, and notes how old the answer is.
func (c *Cache[K, V]) beyond(ctx context.Context, k K, now bus.Moment) (Entry[V], error) {
	found, err := c.miss(ctx, k, now)
	if err == nil && found.Tier != Origin {
		c.aged(found.Tier, found.Age)
	}
	return found, err
}

func (e *copied[V]) entry(now bus.Moment, from Tier) Entry[V] {
	return Entry[V]{Value: e.value, Missing: e.missing, Tier: from, Age: time.Duration(now - e.loaded), Stale: now >= e.soft, Version: e.id}
}

// trusted reports whether copies in process may be used: no change has been missed
// for longer than the policy allows. The clock is read anew for each call, which
// is a good part of its time: a coarse one would stand still while this process
// does, and then show it the past.
func (c *Cache[K, V]) trusted(now bus.Moment) bool {
	return now-c.bus.Seen() < bus.Moment(c.policy.MaxStale) || c.policy.CutOff == ServeStale
}

// hit returns the copy in process, if it may be used by a read that began now, or
// nil.
func (c *Cache[K, V]) hit(k K, now bus.Moment) *copied[V] {
	// In this order: what trusted says holds for marks that are looked at after
	// it. The other way round, a node that catches up in between would trust a
	// copy because of the very events that spoil it.
	if !c.trusted(now) {
		return nil
	}
	e := c.copyAt(k, now)
	if e == nil {
		return nil
	}
	c.stats.hits.add(now, 1)
	if c.sampled(now) {
		c.aged(Process, time.Duration(now-e.loaded))
	}
	return e
}

// sampled reports whether the age of what is answered from this process' memory
// is noted: of one answer in 64, chosen by the clock, which has been read anyway.
func (c *Cache[K, V]) sampled(now bus.Moment) bool {
	return now>>7&63 == 0 && c.rt.cfg.Hooks.Answered != nil
}

func (c *Cache[K, V]) aged(from Tier, age time.Duration) {
	if c.rt.cfg.Hooks.Answered != nil {
		c.rt.cfg.Hooks.Answered(c.Name(), from, age)
	}
}

// copyAt returns the copy in process if it is good at now, or nil.
func (c *Cache[K, V]) copyAt(k K, now bus.Moment) *copied[V] {
	if c.near == nil {
		return nil
	}
	e, ok := c.near.GetIfPresent(k)
	if !ok || now >= e.again || !e.current() {
		return nil
	}
	return e
}

// errAborted is what callers get when a read ended in the middle.
var errAborted = errors.New("cache: the read was aborted")

// A flight is a read under way, which all callers of this process share.
type flight[K comparable, V any] struct {
	reading[K, V]
	tagged []mark // of its tags, from before the read

	// With the cache's mutex:
	landed bool
	entry  Entry[V]
	failed error
	done   chan struct{} // made by the first who waits
}

// miss reads a value that is not at hand, together with whoever else wants it; the
// read began now.
func (c *Cache[K, V]) miss(ctx context.Context, k K, now bus.Moment) (Entry[V], error) {
	if ctx.Err() != nil {
		return Entry[V]{}, context.Cause(ctx)
	}
	key := c.key(k)
	var tagged []mark
	if c.source.Tags != nil {
		for _, t := range c.source.Tags(k) {
			tagged = append(tagged, c.rt.watch(t.key().String()))
		}
	}
	c.mu.Lock()
	// Not one that began before a change, nor one that may have without our
	// knowing: what it returns may be older than this call.
	if f := c.flights[k]; f != nil && !f.mark.moved() && !anyMoved(f.tagged) && time.Duration(now-f.began) < c.policy.MaxStale {
		c.mu.Unlock()
		return f.wait(ctx)
	}
	f := &flight[K, V]{reading: c.read(k, key, c.rt.watch(key.String()), now), tagged: tagged}
	c.flights[k] = f
	c.mu.Unlock()

	looked := false
	defer func() {
		if !looked { // a panic
			f.land(Entry[V]{}, errAborted)
		}
	}()
	next := f.look(ctx)
	looked = true
	if next == settled {
		return f.land(f.found(), f.err)
	}
	// The source is asked in a goroutine of its own: this caller may leave, and
	// the others still wait.
	apart := context.WithoutCancel(ctx)
	c.rt.work.Go(func() {
		// A source or a value's own methods may panic or end this goroutine.
		defer func() {
			err := errAborted
			if p := recover(); p != nil {
				err = fmt.Errorf("%w: %v\n%s", errAborted, p, debug.Stack())
			}
			f.land(Entry[V]{}, err)
		}()
		f.land(f.load(apart, func(early Entry[V], err error) { f.land(early, err) }))
	})
	return f.wait(ctx)
}

func (f *flight[K, V]) wait(ctx context.Context) (Entry[V], error) {
	f.c.mu.Lock()
	if f.landed {
		defer f.c.mu.Unlock()
		return f.entry, f.failed
	}
	if f.done == nil {
		f.done = make(chan struct{})
	}
	f.c.mu.Unlock()
	select {
	case <-f.done:
		return f.entry, f.failed
	case <-ctx.Done():
		return Entry[V]{}, context.Cause(ctx)
	}
}

// land gives a flight's callers their answer and returns it; only the first
// answer counts.
func (f *flight[K, V]) land(entry Entry[V], err error) (Entry[V], error) {
	c := f.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.landed {
		return entry, err
	}
	f.landed, f.entry, f.failed = true, entry, err
	if f.done != nil {
		close(f.done)
	}
	if c.flights[f.k] == f {
		delete(c.flights, f.k)
	}
	return entry, err
}

// reading is one read past the process' own memory.
type reading[K comparable, V any] struct {
	c     *Cache[K, V]
	k     K
	key   keyspace.Key
	began bus.Moment
	mark  mark
	tags  []mark   // as they were before the read
	under []uint64 // versions of the tags
	era   uint64   // 0: Redis is not to be used

	best     *copied[V] // what was found: good, or to fall back on
	tier     Tier       // where
	unwanted string     // id of what a load is to replace
	err      error
}

type step uint8

const (
	settled step = iota // best or err is the answer
	toLoad
)

func (c *Cache[K, V]) read(k K, key keyspace.Key, m mark, began bus.Moment) reading[K, V] {
	return reading[K, V]{c: c, k: k, key: key, mark: m, began: began}
}

func (r *reading[K, V]) found() Entry[V] {
	if r.best == nil {
		return Entry[V]{}
	}
	return r.best.entry(bus.Now(), r.tier)
}

// begin decides whether Redis is to be used, and finds what to fall back on
// should all else fail.
func (r *reading[K, V]) begin() error {
	c := r.c
	if !c.trusted(r.began) {
		if c.policy.CutOff == Fail {
			return ErrCutOff
		}
		c.stats.bypassed.add(1)
		return nil // a copy that may have been changed is nothing to fall back on
	}
	if c.near != nil && c.fam.TTL.Stale > 0 {
		if e, ok := c.near.GetIfPresent(r.k); ok && e.current() && r.began < e.hard {
			r.best, r.tier = e, Process
		}
	}
	r.era = c.rt.bus.Era()
	return nil
}

// look asks Redis.
func (r *reading[K, V]) look(ctx context.Context) step {
	c := r.c
	if r.err = r.begin(); r.err != nil {
		return settled
	}
	if r.era == 0 {
		return toLoad
	}
	if err := resolveTags(c.rt, r); err != nil {
		r.era = 0
		c.stats.failed.add(1)
		return toLoad
	}
	slot, _, err := c.rt.one(keyspace.Cmd{Name: "GET", Key: r.key}).Text()
	if err != nil {
		r.era = 0
		c.stats.failed.add(1)
		return toLoad
	}
	return r.take(ctx, slot)
}

// take looks at what a slot holds. A good value settles the read.
func (r *reading[K, V]) take(ctx context.Context, slot string) step {
	c := r.c
	env, ok := parse(slot)
	if ok && slot[0] == isValue {
		r.unwanted = slot[idAt : idAt+8]
	}
	if !ok || env.era != r.era || !slices.Equal(env.tags, r.under) {
		return toLoad
	}
	e, err := c.copyOf(&env, r.mark, r.tags)
	if err != nil { // another version of the program wrote it
		return toLoad
	}
	now := bus.Now()
	if now >= e.hard {
		return toLoad
	}
	r.best, r.tier = e, Redis
	if now >= e.soft {
		return toLoad
	}
	c.stats.redisHits.add(1)
	switch {
	case now >= e.again:
		e.again = e.soft
		c.refresh(ctx, r.k, r.key, r.unwanted)
	case c.policy.Renew > 0 && c.fam.TTL.Stale > 0 && !env.missing && rand.Float64() < c.policy.Renew:
		c.renew(r.key, r.unwanted, env)
	}
	c.keep(r.k, e)
	return settled
}

// copyOf is a value of Redis as it stands in process.
func (c *Cache[K, V]) copyOf(env *envelope, m mark, tags []mark) (*copied[V], error) {
	e := c.timed(env, m, tags)
	if !env.missing {
		if err := json.Unmarshal([]byte(env.payload), &e.value); err != nil {
			return nil, fmt.Errorf("cache: %s: %w", c.fam.Pattern, err)
		}
	}
	return e, nil
}

// timed is a copy whose value is still to come.
func (c *Cache[K, V]) timed(env *envelope, m mark, tags []mark) *copied[V] {
	e := &copied[V]{missing: env.missing, mark: m, tags: tags, id: env.id}
	// The envelope's times are the servers'; ours are monotonic.
	e.loaded, e.soft, e.hard = c.bus.When(env.stored), c.bus.When(env.soft), c.bus.When(env.hard)
	e.again = e.soft
	if c.policy.Beta > 0 {
		early := float64(env.took) * float64(time.Microsecond) * c.policy.Beta * -math.Log(1-rand.Float64())
		e.again -= bus.Moment(min(early, float64(e.soft-e.loaded)))
	}
	return e
}

// keep puts a copy into the process' memory.
func (c *Cache[K, V]) keep(k K, e *copied[V]) {
	if c.near != nil && e.current() {
		c.near.Set(k, e)
	}
}

// refresh loads a value again that is still good.
func (c *Cache[K, V]) refresh(ctx context.Context, k K, key keyspace.Key, unwanted string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refreshing[k] {
		return
	}
	c.refreshing[k] = true
	c.stats.refreshed.add(1)
	ctx = context.WithoutCancel(ctx)
	c.rt.work.Go(func() {
		defer func() {
			_ = recover() // the value is still good
			c.mu.Lock()
			delete(c.refreshing, k)
			c.mu.Unlock()
		}()
		r := c.read(k, key, c.rt.watch(key.String()), bus.Now())
		r.era, r.unwanted = c.rt.bus.Era(), unwanted
		if resolveTags(c.rt, &r) == nil {
			_, _ = r.load(ctx, func(Entry[V], error) {}) // a failure is counted there, and the value is still good
		}
	})
}

// renew moves the end of a value's life, at most to where its hard life ends.
func (c *Cache[K, V]) renew(key keyspace.Key, id string, env envelope) {
	env.soft = min(c.rt.clock()+c.fam.TTL.Draw().Milliseconds(), env.hard)
	c.stats.renewed.add(1)
	c.rt.work.Go(func() { c.rt.one(renewScript.Cmd([]keyspace.Key{key}, id, env.text())) })
}

// cleanUp removes copies from the process' memory that are of no use.
func (c *Cache[K, V]) cleanUp() {
	if c.near == nil {
		return
	}
	now := bus.Now()
	for k, e := range c.near.All() {
		if now >= e.hard || !e.current() {
			c.near.Invalidate(k)
		}
	}
}

// Len is how many copies there are in process.
func (c *Cache[K, V]) Len() int {
	if c.near == nil {
		return 0
	}
	return c.near.EstimatedSize()
}

// Clear forgets all copies of this process.
func (c *Cache[K, V]) Clear() {
	if c.near != nil {
		c.near.InvalidateAll()
	}
}
