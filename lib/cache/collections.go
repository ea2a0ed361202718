package cache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoa-dev/stoa/lib/bus"
	"github.com/stoa-dev/stoa/lib/cache/internal/shapes"
	"github.com/stoa-dev/stoa/lib/cache/internal/slots"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

const (
	// A script gets at most maxPartTexts strings and maxPartBytes bytes, so that it blocks the server for less than a
	// millisecond. A load sends at most partsPerBatch scripts at once.
	maxPartTexts  = 1000
	maxPartBytes  = 64 << 10
	partsPerBatch = 4
)

// Collection is the engine behind Hash, Set and ZSet of package collection; programs use those instead.
//
// There are no copies in process. A query is one command, which also asks for a marker member, so that one reply shows
// whether the collection is loaded and what it contains.
type Collection struct {
	family
	shape  *shapes.Shape
	policy Policy
	source shapes.Source

	loaded atomic.Pointer[string] // marker of the present era

	mu         sync.Mutex
	loads      map[loadKey]*sharedLoad
	refreshing map[string]bool    // by logical key
	overdue    map[string]overdue // loads that were waited for in vain, by logical key
}

// overdue is the state of a load that was waited for in vain.
type overdue struct {
	since  bus.Moment // when that was noticed or, if broken, when the lease was dropped
	broken bool       // the lease was dropped once; the next loader may be slow, and has the full life of a lease
}

// Collection returns the collections of a family, for package collection.
func (rt *Runtime) Collection(fam *keyspace.Family, key func(k any) keyspace.Key, p Policy, s shapes.Source) *Collection {
	switch {
	case fam.TTL.Base == 0:
		panic(fmt.Sprintf("cache: collections of %s would never expire", fam.Pattern))
	case fam.TTL.Stale != 0:
		panic(fmt.Sprintf("cache: collections of %s have StaleIfError, which only values can have", fam.Pattern))
	case s.Load == nil:
		panic(fmt.Sprintf("cache: %s has no source", fam.Pattern))
	}
	p = rt.policy(p)
	rt.checkStale(fam, p.MaxStale)
	c := &Collection{family: family{rt: rt, fam: fam, key: key, changeTimeout: p.ChangeTimeout, loadTimeout: p.LoadTimeout, wait: p.LeaseWait,
		unfenced: p.Unfenced},
		shape: shapes.Of(fam), policy: p, source: s, loads: map[loadKey]*sharedLoad{}, refreshing: map[string]bool{},
		overdue: map[string]overdue{}}
	rt.register(c)
	return c
}

func (c *Collection) cleanUp() {} // there are no copies in process

// Runtime returns the runtime of the collections.
func (c *Collection) Runtime() *Runtime { return c.rt }

// Shape returns how the collections are stored in Redis.
func (c *Collection) Shape() *shapes.Shape { return c.shape }

// Embedded reports whether Redis is the embedded server.
func (c *Collection) Embedded() bool { return c.rt.db.Mode() == "embedded" }

// Target returns the collection k as a target that is dropped.
func (c *Collection) Target(k any) Target { return c.target(k) }

// Edit returns a target that applies ops to the collection k. ops is called after the change, and only if the
// collection is loaded.
func (c *Collection) Edit(k any, ops func() (puts, removes []string, err error)) Target {
	t := c.target(k)
	t.edit = &edit{ops, &c.stats.applied}
	return t
}

// ClearEverywhere drops all collections, in Redis and on all nodes.
func (c *Collection) ClearEverywhere(ctx context.Context) error { return c.clearEverywhere(ctx) }

// edit is what a change does to a loaded collection.
type edit struct {
	ops     func() (puts, removes []string, err error)
	applied *plain
}

// finishCollection applies a target's edit if the change was made and the collection was kept with left ms to live. The
// edit does not extend its life.
func finishCollection(s *shapes.Shape, t Target, f *fencing, left int64, changed bool) keyspace.Cmd {
	var puts, removes []string
	left -= time.Duration(bus.Now() - f.began).Milliseconds()
	if left <= 0 || !changed || t.edit == nil {
		left = 0
	} else {
		var err error
		if puts, removes, err = t.edit.ops(); err != nil || len(puts)+len(removes) > maxPartTexts {
			left, puts, removes = 0, nil, nil
		}
	}
	return s.Finish(t.key, f.token, slots.EraOf(t.key.Family(), f.era), left, puts, removes)
}

// Read lets Redis answer q, or returns at least the members that q asks for.
func (c *Collection) Read(ctx context.Context, k any, q shapes.Query) (shapes.Held, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	key := c.key(k)
	for {
		era, err := c.usable(key)
		if err != nil {
			return nil, err
		}
		replace := false
		if era != 0 {
			switch c.takeReply(ctx, k, key, era, q, c.rt.reads.one(q.Cmd(key, c.mark(era)))) {
			case shapes.Answered:
				return nil, nil
			case shapes.Unreadable:
				replace = true
			case shapes.Failed:
				era = 0
			}
		}
		whole := q.About() == nil || c.source.Pick == nil
		if era != 0 || whole {
			g, err := c.loadShared(ctx, k, key, era, whole, replace)
			if err != nil {
				return nil, err
			}
			switch g.outcome {
			case loadedHere:
				return g.held, nil
			case nowInRedis:
				continue
			}
		}
		return c.fromSource(ctx, func(ctx context.Context) (shapes.Held, error) { return c.source.Pick(ctx, k, q.About()) })
	}
}

// ReadSeveral lets Redis answer questions about collections of this runtime in one round trip, and returns the indexes
// of those without an answer.
func (c *Collection) ReadSeveral(ctx context.Context, questions []shapes.Question[*Collection]) (left []int, err error) {
	var cmds []keyspace.Cmd
	var asked []int
	var eras []uint64
	for i, q := range questions {
		key := q.Of.key(q.At)
		era, err := q.Of.usable(key)
		if err != nil {
			return nil, err
		}
		if era == 0 {
			left = append(left, i)
			continue
		}
		cmds = append(cmds, q.Query.Cmd(key, q.Of.mark(era)))
		asked, eras = append(asked, i), append(eras, era)
	}
	if len(cmds) == 0 {
		return left, nil
	}
	for j, r := range c.rt.reads.do(cmds...) {
		if q := questions[asked[j]]; q.Of.takeReply(ctx, q.At, cmds[j].Key, eras[j], q.Query, r) != shapes.Answered {
			left = append(left, asked[j])
		}
	}
	return left, nil
}

// usable returns the servers' era, or 0 if Redis must not be asked for key.
func (c *Collection) usable(key keyspace.Key) (uint64, error) {
	era, err := c.era()
	if c.rt.undropped.has(key) {
		era = 0
	}
	return era, err
}

// takeReply passes a reply of Redis to q, and refreshes the collection at random.
func (c *Collection) takeReply(ctx context.Context, k any, key keyspace.Key, era uint64, q shapes.Query, r keyspace.Reply) shapes.Verdict {
	if r.Err != nil {
		c.stats.failed.add(1)
		return shapes.Failed
	}
	v := q.Take(r)
	if v == shapes.Answered {
		c.stats.redisHits.add(1)
		if c.policy.Renew > 0 && rand.Float64() < c.policy.Renew {
			c.refresh(ctx, k, key, era)
		}
	}
	return v
}

// mark returns the marker member of a loaded collection.
func (c *Collection) mark(era uint64) string {
	m := c.loaded.Load()
	if m == nil || shapes.EraOf(*m) != era {
		m = new(shapes.LoadedMark(era))
		c.loaded.Store(m)
	}
	return *m
}

// era returns the servers' era, or 0 if Redis must not be used.
func (c *Collection) era() (uint64, error) {
	c.rt.warnIfBusIdle()
	if bus.Now()-c.rt.bus.Seen() >= bus.Moment(c.policy.MaxStale) {
		switch c.policy.CutOff {
		case Fail:
			return 0, ErrCutOff
		case Bypass:
			c.stats.bypassed.add(1)
			return 0, nil
		}
	}
	return c.family.era(), nil
}

// A sharedLoad is a single flight. A whole one returns all members even if they cannot be stored.
type sharedLoad struct {
	done       chan struct{}
	urge       urge
	began      bus.Moment
	generation generation
	outcome    outcome
	held       shapes.Held // shared: do not change it
	err        error
}

type loadKey struct {
	name  string // logical key
	whole bool
}

type outcome uint8

const (
	loadedHere  outcome = iota // held is the collection
	nowInRedis                 // the collection is in Redis now: read it again
	notStorable                // it cannot be stored now: ask the source for the requested members
)

// loadShared loads a collection, as a single flight for all callers of this process.
func (c *Collection) loadShared(ctx context.Context, k any, key keyspace.Key, era uint64, whole, replace bool) (*sharedLoad, error) {
	at := loadKey{key.String(), whole}
	now := bus.Now()
	c.mu.Lock()
	g := c.loads[at]
	// As with values, a flight that may have begun before a change is not joined.
	if g == nil || c.rt.changed(g.generation) || time.Duration(now-g.began) >= c.policy.MaxStale {
		g = &sharedLoad{done: make(chan struct{}), urge: newUrge(), began: now, generation: c.rt.generationOf(key.String())}
		c.loads[at] = g
		inner, mine := g.urge.withUrge(context.WithoutCancel(ctx)), g
		c.rt.begin(func() {
			inner, cancel := context.WithTimeout(inner, c.policy.LoadTimeout)
			defer cancel()
			// A source that ignores the end of its context must not block its callers.
			late := context.AfterFunc(inner, func() {
				c.finishLoad(at, mine, loadedHere, nil, fmt.Errorf("cache: %s: %w", c.Name(), context.Cause(inner)))
			})
			defer late()
			outcome, h, err := c.fetch(inner, k, key, era, whole, replace)
			c.finishLoad(at, mine, outcome, h, err)
		})
	} else {
		g.urge.signalIfLoad(ctx)
	}
	c.mu.Unlock()
	select {
	case <-g.done:
		return g, g.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// finishLoad sets the result for a flight's callers; only the first result counts.
func (c *Collection) finishLoad(at loadKey, g *sharedLoad, o outcome, h shapes.Held, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-g.done:
		return
	default:
	}
	g.outcome, g.held, g.err = o, h, err
	close(g.done)
	if c.loads[at] == g {
		delete(c.loads, at)
	}
}

// fetch loads a collection and stores it, unless a change happens in between.
func (c *Collection) fetch(ctx context.Context, k any, key keyspace.Key, era uint64, whole, replace bool) (outcome, shapes.Held, error) {
	var l grant
	if era != 0 {
		var loaded bool
		if l, loaded = c.acquire(ctx, key, era, replace); loaded {
			return nowInRedis, nil, nil
		}
	}
	if l.token == "" && !whole {
		return notStorable, nil, nil
	}
	h, err := c.fill(ctx, k, key, era, l)
	return loadedHere, h, err
}

// fill loads a collection and, with a lease, stores it or releases the lease.
func (c *Collection) fill(ctx context.Context, k any, key keyspace.Key, era uint64, l grant) (shapes.Held, error) {
	h, err := c.fromSource(ctx, func(ctx context.Context) (shapes.Held, error) { return c.source.Load(ctx, k) })
	if l.token == "" {
		return h, err
	}
	life := c.fam.TTL.Draw()
	if len(h) == 0 {
		life = c.fam.TTL.Empty
	}
	switch {
	case err != nil:
		c.release(key, l, era)
	case life == 0:
		l.left = 0
		c.release(key, l, era)
	case !c.store(key, era, l, h, life):
		c.stats.refused.add(1)
		c.release(key, l, era) // and removes the parts that were stored
	}
	return h, err
}

// grant is an acquired lease on a collection.
type grant struct {
	token string
	since bus.Moment
	left  int64 // remaining life in ms of the collection to be replaced, if there is one
}

// acquire acquires the lease on a collection, unless it is loaded. Without a lease the collection has to be loaded and
// must not be stored.
func (c *Collection) acquire(ctx context.Context, key keyspace.Key, era uint64, replace bool) (l grant, loaded bool) {
	waitUntil := bus.Now() + bus.Moment(c.leaseWait())
	for pause := firstPoll; ; pause = min(2*pause, longestPoll) {
		l = grant{token: c.rt.leases.token(), since: bus.Now()}
		n, err := c.rt.reads.one(c.shape.Acquire(key, l.token, era, c.leaseLife(), replace)).Int()
		switch {
		case err != nil:
			c.stats.failed.add(1)
			c.rt.leases.disown(l.token, c.releaseCmd(key, l, era), c.leaseLife(), err)
			return grant{}, false
		case n >= 0:
			c.forgetOverdue(key)
			l.left = n
			return l, false
		case n == shapes.IsLoaded:
			c.forgetOverdue(key)
			return grant{}, true
		case n == shapes.IsFenced:
			c.stats.fenced.add(1)
			return grant{}, false
		case c.breakOverdue(key):
			continue
		case bus.Now() >= waitUntil: // the holder may have died
			c.markOverdue(key)
			return grant{}, false
		}
		c.stats.waited.add(1)
		wait := time.NewTimer(min(pause, time.Duration(waitUntil-bus.Now())))
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return grant{}, false
		}
	}
}

// markOverdue records that another load was waited for in vain.
func (c *Collection) markOverdue(key keyspace.Key) {
	now := bus.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, o := range c.overdue {
		if time.Duration(now-o.since) > c.leaseLife() {
			delete(c.overdue, name)
		}
	}
	if _, known := c.overdue[key.String()]; !known {
		c.overdue[key.String()] = overdue{since: now}
	}
}

// forgetOverdue removes the record of a load that was waited for in vain and has ended.
func (c *Collection) forgetOverdue(key keyspace.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.overdue[key.String()].broken {
		delete(c.overdue, key.String())
	}
}

// breakOverdue drops an unfinished load of another process that has had twice the time it needs. It does so once in the
// life of a lease, because the present lease is not known and its holder may be alive. It reports whether it did.
func (c *Collection) breakOverdue(key keyspace.Key) bool {
	now, name := bus.Now(), key.String()
	c.mu.Lock()
	o, known := c.overdue[name]
	age := time.Duration(now - o.since)
	due := known && !o.broken && age >= 2*c.stats.loadTime() && age <= c.leaseLife()
	if due {
		c.overdue[name] = overdue{since: now, broken: true}
	}
	c.mu.Unlock()
	return due && c.rt.reads.one(c.shape.Drop(key)).Err == nil
}

func (c *Collection) releaseCmd(key keyspace.Key, l grant, era uint64) keyspace.Cmd {
	return c.shape.Release(key, l.token, era, max(0, l.left-time.Duration(bus.Now()-l.since).Milliseconds()))
}

// release removes a lease, and the members that were stored under it.
func (c *Collection) release(key keyspace.Key, l grant, era uint64) {
	cmd := c.releaseCmd(key, l, era)
	if err := c.rt.reads.one(cmd).Err; err != nil {
		c.rt.leases.disown(l.token, cmd, c.leaseLife(), nil)
	}
}

// fromSource calls the source when [Config.Loads] allows it. [ErrNotFound] means an empty collection.
func (c *Collection) fromSource(ctx context.Context, load func(context.Context) (shapes.Held, error)) (h shapes.Held, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.policy.LoadTimeout)
	defer cancel()
	err = c.rt.admitted(ctx, c.Name(), &c.stats, 1, func(ctx context.Context) (err error) {
		h, err = load(ctx)
		return err
	})
	if errors.Is(err, ErrNotFound) {
		return shapes.Held{}, nil
	}
	if err == nil && h == nil {
		h = shapes.Held{}
	}
	return h, err
}

// store writes a loaded collection to Redis, in parts, and reports whether it is there, completely. Otherwise none of
// it is.
func (c *Collection) store(key keyspace.Key, era uint64, l grant, h shapes.Held, life time.Duration) bool {
	var cmds []keyspace.Cmd
	send := func() bool {
		defer func() { cmds = cmds[:0] }()
		for _, r := range c.rt.reads.do(cmds...) {
			if n, err := r.Int(); err != nil || n != 1 {
				return false
			}
		}
		return true
	}
	var part []string
	first, bytes := true, 0
	for m, v := range h {
		if len(part)+2 > maxPartTexts || bytes > maxPartBytes {
			cmds = append(cmds, c.shape.Fill(key, l.token, era, c.leaseLife(), first, -1, part))
			first, part, bytes = false, nil, 0
			if len(cmds) == partsPerBatch && !send() {
				return false
			}
		}
		part = c.shape.Put(part, m, v)
		bytes += len(m) + len(v)
	}
	cmds = append(cmds, c.shape.Fill(key, l.token, era, life, first, len(h), part))
	return send()
}

// refresh loads a collection again if it is in the last fifth of its life.
func (c *Collection) refresh(ctx context.Context, k any, key keyspace.Key, era uint64) {
	name := key.String()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refreshing[name] {
		return
	}
	c.refreshing[name] = true
	ctx = context.WithoutCancel(ctx)
	c.rt.begin(func() {
		defer func() {
			c.mu.Lock()
			delete(c.refreshing, name)
			c.mu.Unlock()
		}()
		left, err := c.rt.reads.one(keyspace.Cmd{Name: "PTTL", Key: key}).Int()
		if err != nil || left <= 0 || left > c.fam.TTL.Base.Milliseconds()/5 {
			return
		}
		// Size is a script, and is therefore not part of every check.
		members, err := c.rt.reads.one(c.shape.Size(key, era, "")).Int()
		if err != nil || members == 0 { // an empty collection is a negative entry and short-lived
			return
		}
		ctx, cancel := context.WithTimeout(ctx, c.policy.LoadTimeout)
		defer cancel()
		l := grant{token: c.rt.leases.token(), since: bus.Now()}
		if l.left, err = c.rt.reads.one(c.shape.Acquire(key, l.token, era, c.leaseLife(), true)).Int(); err != nil || l.left < 0 {
			if err != nil {
				l.left = 0
				c.rt.leases.disown(l.token, c.releaseCmd(key, l, era), c.leaseLife(), err)
			}
			return
		}
		c.stats.refreshed.add(1)
		_, _ = c.fill(ctx, k, key, era, l) // fill counts a failure, and the old collection is still valid
	})
}
