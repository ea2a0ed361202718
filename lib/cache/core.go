package cache

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"math"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/stoa-dev/stoa/lib/bus"
	"github.com/stoa-dev/stoa/lib/cache/internal/slots"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

// core is a [Cache] without its types, with everything except the in-process hit. It is compiled once; the methods of
// Cache are compiled for each pair of types.
//
// The local copies are found by the hash of their key. If two keys have the same hash, the newer copy replaces the
// other, and a hit compares the key.
type core struct {
	family
	bus    *bus.Bus
	policy Policy
	types  typeFuncs
	seed   maphash.Seed // of the runtime

	local table[*localCopy] // nil: the policy allows none

	renewing sync.Map // copies that are being replaced by another copy of the same value

	mu           sync.Mutex
	flights      map[string]*flight // by logical key
	freshFlights map[string]*flight // by logical key: reads with a maxAge
	reloads      map[string]*flight // by logical key
	refreshing   map[string]bool    // by logical key
}

// table is an otter cache by hash. It is an interface because the compiler would otherwise generate otter's methods in
// each package that refers to otter's type, even as the type of a field behind a [Cache]. They are more than a thousand
// functions.
type table[V any] interface {
	GetIfPresent(hash uint64) (V, bool)
	Set(hash uint64, v V) (V, bool)
	Invalidate(hash uint64) (V, bool)
	InvalidateAll()
	All() iter.Seq2[uint64, V]
	EstimatedSize() int
}

func newTable[V any](entries int) table[V] {
	return otter.Must(&otter.Options[uint64, V]{MaximumSize: entries})
}

// newLocal returns the table of the local copies.
func (c *core) newLocal() table[*localCopy] {
	o := &otter.Options[uint64, *localCopy]{MaximumSize: c.policy.Entries}
	if most := c.policy.MaxWeight; most > 0 {
		o.MaximumSize, o.MaximumWeight = 0, most
		ofNone := uint32(min(max(most/defaultEntries, 1), math.MaxUint32))
		o.Weigher = func(_ uint64, e *localCopy) uint32 {
			if e.missing {
				return ofNone
			}
			return max(c.types.weigh(e), 1)
		}
	}
	if c.types.removed != nil {
		// otter calls this under a lock, so the reason is determined here and the listener runs on its own goroutine.
		o.OnAtomicDeletion = func(d otter.DeletionEvent[uint64, *localCopy]) {
			if _, replacing := c.renewing.Load(d.Value); !replacing && !d.Value.missing {
				reason := c.removalReason(d.Value, d.Cause)
				go c.types.removed(d.Value, reason)
			}
		}
	}
	return otter.Must(o)
}

// removalReason returns why a copy leaves the table.
func (c *core) removalReason(e *localCopy, cause otter.DeletionCause) Removal {
	switch {
	case cause == otter.CauseOverflow:
		return Evicted
	case !c.current(e):
		return Invalidated
	case bus.Now() >= e.softEnd():
		return Expired
	case cause == otter.CauseReplacement:
		return Replaced
	}
	return Invalidated
}

// typeFuncs are the operations that need a cache's types K and V. A k is a K, and a localCopy is the head of a
// typedCopy[K, V].
type typeFuncs struct {
	hash     func(k any) uint64
	newCopy  func(k any) *localCopy // has no value yet
	isOf     func(e *localCopy, k any) bool
	load     func(ctx context.Context, e *localCopy) error
	loadMany func(ctx context.Context, es []*localCopy) error // sets missing; nil: the source has none
	life     func(e *localCopy) time.Duration                 // nil: the family's
	tags     func(k any) []Tag                                // nil: none
	weigh    func(e *localCopy) uint32                        // nil: without a weight
	removed  func(e *localCopy, why Removal)                  // nil: no listener
	codec    string                                           // its name; empty means JSON
	encode   func(e *localCopy) ([]byte, error)
	decode   func(e *localCopy, body []byte) error
}

// localCopy is a value in this process. The fields that each hit reads come first. There may be millions of copies, so
// every field counts.
type localCopy struct {
	refreshAt   bus.Moment // when Redis is asked again: at a random moment before softEnd
	n           uint32     // the generation of its key, with counter
	counter     uint16
	missing     bool
	generations *[]generation // of its tags; nil: none
	typed       any           // the *typedCopy whose head this is, or a copy of that head

	loaded  bus.Moment
	soft    uint32 // ms after loaded at which the value becomes stale
	hard    uint32 // ms after loaded at which the value must no longer be used
	version uint64
}

// clampMillis returns a lifetime in ms as a copy stores it. A lifetime over 49 days is shortened, so Redis is asked
// again earlier.
func clampMillis(ms int64) uint32 { return uint32(min(max(ms, 0), math.MaxUint32)) }

func (e *localCopy) softEnd() bus.Moment { return e.after(e.soft) }
func (e *localCopy) hardEnd() bus.Moment { return e.after(e.hard) }

func (e *localCopy) after(ms uint32) bus.Moment {
	return e.loaded + bus.Moment(time.Duration(ms)*time.Millisecond)
}

// current reports whether this node knows of no change of the key or its tags since the read.
func (c *core) current(e *localCopy) bool {
	return !c.rt.changed(generation{e.n, e.counter}) && (e.generations == nil || !c.rt.anyChanged(*e.generations))
}

// entry returns the copy with its tier, age and version; its Value is the copy.
func (e *localCopy) entry(now bus.Moment, from Tier) Entry[*localCopy] {
	return Entry[*localCopy]{Value: e, Missing: e.missing, Tier: from, Age: time.Duration(now - e.loaded), Stale: now >= e.softEnd(),
		Version: e.version}
}

func newCore(rt *Runtime, fam *keyspace.Family, key func(k any) keyspace.Key, p Policy, types typeFuncs) *core {
	if fam.TTL.Base == 0 {
		panic(fmt.Sprintf("cache: values of %s would never expire", fam.Pattern))
	}
	p = rt.policy(p)
	rt.checkStale(fam, p.MaxStale)
	if (p.MaxWeight > 0) != (types.weigh != nil) {
		panic(fmt.Sprintf("cache: %s needs both MaxWeight and Weigh, or neither", fam.Pattern))
	}
	c := &core{family: family{rt: rt, fam: fam, key: key, changeTimeout: p.ChangeTimeout, loadTimeout: p.LoadTimeout, wait: p.LeaseWait,
		unfenced: p.Unfenced},
		bus: rt.bus, policy: p, types: types, seed: rt.seed, flights: map[string]*flight{}, freshFlights: map[string]*flight{},
		reloads: map[string]*flight{}, refreshing: map[string]bool{}}
	if p.Entries > 0 {
		c.local = c.newLocal()
		c.copies = c.local.EstimatedSize
	}
	rt.register(c)
	return c
}

// trusted reports whether local copies may be used: this node has received the bus' events within MaxStale, or the
// policy allows stale copies. Each call of bus.Now reads the clock, which is a good part of its time. A cached clock
// would stop when this process is paused, and then show a past time.
func (c *core) trusted(now bus.Moment) bool {
	return now-c.bus.Seen() < bus.Moment(c.policy.MaxStale) || c.policy.CutOff == ServeStale
}

// localAt returns the local copy with this hash if it may be used at now, or nil. Call trusted before: its result holds
// for generations that are compared after it. In the other order, a node that catches up in between would trust a copy
// because of the very events that invalidate it.
func (c *core) localAt(hash uint64, now bus.Moment) *localCopy {
	if c.local == nil {
		return nil
	}
	e, ok := c.local.GetIfPresent(hash)
	if !ok || now >= e.refreshAt || !c.current(e) {
		return nil
	}
	return e
}

// peek is localAt for a copy whose life has not ended. It leaves no trace in otter's access statistics.
func (c *core) peek(k any, now bus.Moment) *localCopy {
	if c.local == nil || !c.trusted(now) {
		return nil
	}
	found, ok := c.local.(*otter.Cache[uint64, *localCopy]).GetEntryQuietly(c.types.hash(k))
	if e := found.Value; ok && now < e.softEnd() && c.current(e) && c.types.isOf(e, k) {
		return e
	}
	return nil
}

// countHit counts a hit and samples its age.
func (c *core) countHit(e *localCopy, now bus.Moment) {
	c.stats.hits.add(now, 1)
	if c.sampled(now) {
		c.reportAge(Process, time.Duration(now-e.loaded))
	}
}

// sampled reports whether the age of a hit at now is reported. It selects one in 64 by the clock, which was read
// anyway.
func (c *core) sampled(now bus.Moment) bool {
	return now>>7&63 == 0 && c.rt.cfg.Hooks.Answered != nil
}

func (c *core) reportAge(from Tier, age time.Duration) {
	if c.rt.cfg.Hooks.Answered != nil {
		c.rt.cfg.Hooks.Answered(c.Name(), from, age)
	}
}

// readThrough is miss, and calls the hooks with the read and the age of the value.
func (c *core) readThrough(ctx context.Context, k any, now bus.Moment, maxAge time.Duration) (found Entry[*localCopy], err error) {
	ctx, answered := c.rt.asking(ctx, Redis, c.Name(), 1)
	defer func() {
		if err == nil && found.Missing {
			answered(found.Tier, ErrNotFound)
		} else {
			answered(found.Tier, err)
		}
	}()
	found, err = c.miss(ctx, k, now, maxAge)
	if err == nil && found.Tier != Origin {
		c.reportAge(found.Tier, found.Age)
	}
	return found, err
}

// errAborted is returned to callers when a read ended unexpectedly.
var errAborted = errors.New("cache: the read was aborted")

// aborted returns the error of a read that panicked.
func aborted(p any) error { return fmt.Errorf("%w: %v\n%s", errAborted, p, debug.Stack()) }

// A flight is a read under way that all callers of this process share.
type flight struct {
	reading
	flights map[string]*flight // the core's map that holds this flight
	tagged  []generation       // of its tags, from before the read
	urge    urge

	// Guarded by the cache's mutex:
	finished bool
	entry    Entry[*localCopy]
	err      error
	done     chan struct{} // made by the first caller that waits
}

// miss reads a value that has no local copy, as one flight for all callers; the read began at now. A maxAge of 0 sets
// no limit; see tooOld.
func (c *core) miss(ctx context.Context, k any, now bus.Moment, maxAge time.Duration) (Entry[*localCopy], error) {
	if ctx.Err() != nil {
		return Entry[*localCopy]{}, context.Cause(ctx)
	}
	flights := c.flights
	if maxAge != 0 {
		flights = c.freshFlights
	}
	f, joined := c.join(ctx, flights, k, now)
	if joined {
		found, err := f.wait(ctx)
		if err == nil && found.Tier != Origin && tooOld(found.Value, now, maxAge) { // it was young enough for the caller that began the flight
			return c.miss(ctx, k, bus.Now(), maxAge)
		}
		return found, err
	}
	f.maxAge = maxAge
	returned := false
	defer func() {
		if !returned { // a panic
			f.finish(Entry[*localCopy]{}, errAborted)
		}
	}()
	next := f.fromRedis(ctx)
	returned = true
	if next == settled {
		return f.finish(f.found(), f.reading.err)
	}
	return f.loadDetached(ctx, f.load)
}

// reload is [Cache.Refresh], as one flight for all callers, separate from the flights of reads.
func (c *core) reload(ctx context.Context, k any, now bus.Moment) (Entry[*localCopy], error) {
	if ctx.Err() != nil {
		return Entry[*localCopy]{}, context.Cause(ctx)
	}
	f, joined := c.join(ctx, c.reloads, k, now)
	if joined {
		return f.wait(ctx)
	}
	return f.loadDetached(ctx, f.reload)
}

// join returns the running flight of k, which the caller may only wait for, or a new one, which the caller has to
// finish.
func (c *core) join(ctx context.Context, flights map[string]*flight, k any, now bus.Moment) (f *flight, joined bool) {
	key := c.key(k)
	name := key.String()
	var tagged []generation
	if c.types.tags != nil {
		for _, t := range c.types.tags(k) {
			tagged = append(tagged, c.rt.generationOf(t.key().String()))
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// A flight is not joined if it began before a change, or may have because this node has missed events: its result
	// may be older than this call.
	if f := flights[name]; f != nil && !c.rt.changed(f.generation) && !c.rt.anyChanged(f.tagged) &&
		time.Duration(now-f.began) < c.policy.MaxStale {
		f.urge.signalIfLoad(ctx)
		return f, true
	}
	f = &flight{reading: c.read(k, key, now), tagged: tagged, flights: flights, urge: newUrge()}
	flights[name] = f
	return f, false
}

// loadDetached runs load in a goroutine of its own and waits for the result, because this caller may leave while others
// still wait.
func (f *flight) loadDetached(ctx context.Context,
	load func(ctx context.Context, early func(Entry[*localCopy], error)) (Entry[*localCopy], error)) (Entry[*localCopy], error) {
	detached := f.urge.withUrge(context.WithoutCancel(ctx))
	f.c.rt.begin(func() {
		// The source, or methods of the value's type, may panic or end this goroutine.
		defer func() {
			err := errAborted
			if p := recover(); p != nil {
				err = aborted(p)
			}
			f.finish(Entry[*localCopy]{}, err)
		}()
		f.finish(load(detached, func(early Entry[*localCopy], err error) { f.finish(early, err) }))
	})
	return f.wait(ctx)
}

func (f *flight) wait(ctx context.Context) (Entry[*localCopy], error) {
	f.c.mu.Lock()
	if f.finished {
		defer f.c.mu.Unlock()
		return f.entry, f.err
	}
	if f.done == nil {
		f.done = make(chan struct{})
	}
	f.c.mu.Unlock()
	select {
	case <-f.done:
		return f.entry, f.err
	case <-ctx.Done():
		return Entry[*localCopy]{}, context.Cause(ctx)
	}
}

// finish sets the result for a flight's callers and returns it; only the first result counts.
func (f *flight) finish(entry Entry[*localCopy], err error) (Entry[*localCopy], error) {
	c := f.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.finished {
		return entry, err
	}
	f.finished, f.entry, f.err = true, entry, err
	if f.done != nil {
		close(f.done)
	}
	if name := f.key.String(); f.flights[name] == f {
		delete(f.flights, name)
	}
	return entry, err
}

// reading is one read of a key past the local copies.
type reading struct {
	c              *core
	k              any
	hash           uint64
	key            keyspace.Key
	began          bus.Moment
	generation     generation
	tagGenerations []generation // as they were before the read
	tagVersions    []uint64
	era            uint64 // 0: do not use Redis

	answer    *localCopy    // of a batch's read; nil or missing: the value does not exist
	best      *localCopy    // the result so far: the value that was found, or the fallback if a load fails
	tier      Tier          // of best
	replaces  string        // version in Redis that a load may replace
	forceLoad bool          // load even if Redis has a version
	maxAge    time.Duration // a version that is tooOld is not used
	overdue   string        // lease of another process on which this read waited in vain
	err       error
}

// tooOld reports whether a copy was loaded more than maxAge before a moment: never if maxAge is 0, always if it is
// negative.
func tooOld(e *localCopy, at bus.Moment, maxAge time.Duration) bool {
	return maxAge < 0 || maxAge > 0 && time.Duration(at-e.loaded) > maxAge
}

type step uint8

const (
	settled step = iota // best or err is the answer
	toLoad
)

// read prepares a read that begins at began; its generations are the present ones.
func (c *core) read(k any, key keyspace.Key, began bus.Moment) reading {
	return reading{c: c, k: k, hash: c.types.hash(k), key: key, generation: c.rt.generationOf(key.String()), began: began}
}

func (r *reading) found() Entry[*localCopy] {
	if r.best == nil {
		return Entry[*localCopy]{}
	}
	return r.best.entry(bus.Now(), r.tier)
}

// begin decides whether to use Redis, and finds the local copy to fall back on if everything else fails.
func (r *reading) begin() error {
	c := r.c
	c.rt.warnIfBusIdle()
	if !c.trusted(r.began) {
		if c.policy.CutOff == Fail {
			return ErrCutOff
		}
		c.stats.bypassed.add(1)
		return nil // a copy that may be outdated is not a fallback
	}
	if c.local != nil && c.fam.TTL.Stale > 0 && r.maxAge == 0 {
		if e, ok := c.local.GetIfPresent(r.hash); ok && c.types.isOf(e, r.k) && c.current(e) && r.began < e.hardEnd() {
			r.best, r.tier = e, Process
		}
	}
	if !c.rt.undropped.has(r.key) {
		r.era = c.era()
	}
	return nil
}

// fromRedis reads the slot in Redis.
func (r *reading) fromRedis(ctx context.Context) step {
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
	slot, _, err := c.rt.reads.one(keyspace.Cmd{Name: "GET", Key: r.key}).Text()
	if err != nil {
		r.era = 0
		c.stats.failed.add(1)
		return toLoad
	}
	return r.accept(ctx, slot)
}

// accept examines the content of a slot. A fresh value settles the read.
func (r *reading) accept(ctx context.Context, slot string) step {
	c := r.c
	env, ok := slots.Parse(slot)
	if ok && slot[0] == slots.IsValue {
		r.replaces = slot[slots.IDAt : slots.IDAt+8]
	}
	if r.forceLoad || !ok || env.Era != r.era || !slices.Equal(env.Tags, r.tagVersions) {
		return toLoad
	}
	e := c.types.newCopy(r.k)
	if !env.Missing && c.decode(e, env.Payload) != nil { // another version of the program wrote it
		return toLoad
	}
	c.setTimes(e, &env, r)
	now := bus.Now()
	if now >= e.hardEnd() || tooOld(e, r.began, r.maxAge) {
		return toLoad
	}
	r.best, r.tier = e, Redis
	if now >= e.softEnd() {
		return toLoad
	}
	c.stats.redisHits.add(1)
	switch {
	case now >= e.refreshAt:
		e.refreshAt = e.softEnd()
		c.refresh(ctx, r.k, r.key, r.replaces)
	case c.policy.Renew > 0 && c.fam.TTL.Stale > 0 && !env.Missing && rand.Float64() < c.policy.Renew && !c.hasOwnLife(e):
		c.renew(r.key, r.replaces, env)
	}
	c.storeLocal(r.hash, e)
	return settled
}

// hasOwnLife reports whether a value has a life of its own, which is not extended.
func (c *core) hasOwnLife(e *localCopy) bool { return c.types.life != nil && c.types.life(e) != 0 }

// setTimes sets the metadata of a new copy from the envelope that r read or stored.
func (c *core) setTimes(e *localCopy, env *slots.Envelope, r *reading) {
	e.missing, e.n, e.counter, e.version = env.Missing, r.generation.n, r.generation.counter, env.ID
	if len(r.tagGenerations) > 0 {
		tags := r.tagGenerations
		e.generations = &tags
	}
	// The envelope's times are by the servers' clock, a copy's by the monotonic clock of this process.
	e.loaded, e.soft, e.hard = c.bus.When(env.Stored), clampMillis(env.Soft-env.Stored), clampMillis(env.Hard-env.Stored)
	e.refreshAt = e.softEnd()
	if c.policy.Beta > 0 {
		early := float64(env.Took) * float64(time.Microsecond) * c.policy.Beta * -math.Log(1-rand.Float64())
		e.refreshAt -= bus.Moment(min(early, float64(e.softEnd()-e.loaded)))
	}
}

// storeLocal stores a local copy.
func (c *core) storeLocal(hash uint64, e *localCopy) {
	if c.local != nil && c.current(e) {
		c.local.Set(hash, e)
	}
}

// replaceLocal stores e in place of a copy of the same value.
func (c *core) replaceLocal(hash uint64, e, of *localCopy) {
	c.renewing.Store(of, nil)
	c.storeLocal(hash, e)
	c.renewing.Delete(of)
}

// refresh loads a value before it becomes stale, concurrently with its readers.
func (c *core) refresh(ctx context.Context, k any, key keyspace.Key, replaces string) {
	name := key.String()
	if !c.beginRefresh(name) {
		return
	}
	c.stats.refreshed.add(1)
	ctx = context.WithoutCancel(ctx)
	c.rt.begin(func() {
		defer func() {
			_ = recover() // the value is still fresh
			c.endRefresh(name)
		}()
		r := c.read(k, key, bus.Now())
		if r.replaces = replaces; !c.rt.undropped.has(key) {
			r.era = c.era()
		}
		if resolveTags(c.rt, &r) == nil {
			_, _ = r.load(ctx, func(Entry[*localCopy], error) {}) // load counts a failure, and the value is still fresh
		}
	})
}

// beginRefresh marks a key as being loaded, and reports false if it already was.
func (c *core) beginRefresh(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refreshing[name] {
		return false
	}
	c.refreshing[name] = true
	return true
}

func (c *core) endRefresh(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.refreshing, name)
}

// renew extends a value's soft life, at most to the end of its hard life.
func (c *core) renew(key keyspace.Key, id string, env slots.Envelope) {
	env.Soft = min(c.rt.clock()+c.fam.TTL.Draw().Milliseconds(), env.Hard)
	c.stats.renewed.add(1)
	c.rt.begin(func() { c.rt.reads.one(renewScript.Cmd([]keyspace.Key{key}, id, env.Text())) })
}

// cleanUp removes local copies that are expired or outdated.
func (c *core) cleanUp() {
	if c.local == nil {
		return
	}
	now := bus.Now()
	for hash, e := range c.local.All() {
		if now >= e.hardEnd() || !c.current(e) {
			c.local.Invalidate(hash)
		}
	}
}

func (c *core) clear() {
	if c.local != nil {
		c.local.InvalidateAll()
	}
}
