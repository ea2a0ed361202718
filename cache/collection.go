package cache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoa-dev/stoa/bus"
	"github.com/stoa-dev/stoa/keyspace"
)

// CollectionPolicy says how one [Hash], [Set] or [ZSet] behaves. The zero policy
// is a good one. How long collections live is the family's to say:
// [keyspace.Expire] and Jitter, and Negative for empty ones; without it those are
// not kept.
type CollectionPolicy struct {
	// MaxStale bounds how long after an acknowledged change something old may be
	// read, on any node, whatever happens to the network; 0 means 500 ms. It has
	// to be a few of the bus' beats.
	MaxStale time.Duration
	// Renew is the share of reads that look whether the collection is in the last
	// fifth of its life, and load it again then, so that one that is read a lot
	// does not expire; 0 means 0.01, a negative number none. While it is loaded
	// the old one answers, unless it has more than 500 members.
	Renew float64
	// LoadTimeout bounds a load; 0 means 5 s.
	LoadTimeout time.Duration
	// ChangeTimeout bounds what Mutate and [Runtime.Change] call; 0 means 10 s.
	// Nobody stores the collection meanwhile.
	ChangeTimeout time.Duration
	// CutOff says what reads do while this node may have missed that a server was
	// replaced, for longer than MaxStale.
	CutOff CutOff
	// Unfenced says what a change does that Redis cannot be told of beforehand.
	Unfenced Unfenced
}

func (p CollectionPolicy) withDefaults() CollectionPolicy {
	p.MaxStale = cmp.Or(p.MaxStale, 500*time.Millisecond)
	p.Renew = cmp.Or(p.Renew, 0.01)
	p.LoadTimeout = cmp.Or(p.LoadTimeout, 5*time.Second)
	p.ChangeTimeout = cmp.Or(p.ChangeTimeout, 10*time.Second)
	return p
}

const (
	// A script takes so many texts, so that it holds the server up for less than
	// a millisecond; a load sends so many scripts at once.
	partTexts = 1000
	partBytes = 64 << 10
	partsSent = 4
)

// collection is what [Hash], [Set] and [ZSet] have in common. Members and values
// are texts here: a hash's values are JSON, a sorted set's are scores, a set has
// none.
//
// There are no copies in process: a question is one command, which asks for a mark
// beside the members it is about, so Redis answers at once whether the collection
// is there and what is in it.
type collection[K comparable] struct {
	rt     *Runtime
	fam    *keyspace.Family
	key    func(K) keyspace.Key
	shape  *shape
	policy CollectionPolicy
	load   func(ctx context.Context, k K) (held, error)
	pick   func(ctx context.Context, k K, members []string) (held, error) // nil: the source cannot

	stats  counters
	loaded atomic.Pointer[string] // mark of the present era

	mu         sync.Mutex
	gatherings map[gatheringKey[K]]*gathering
	refreshing map[K]bool
}

// held are a collection's members as they came from the source, or some of them.
type held map[string]string

func newCollection[K comparable](rt *Runtime, fam *keyspace.Family, key func(K) keyspace.Key, p CollectionPolicy, hasSource bool) *collection[K] {
	switch {
	case fam.TTL.Base == 0:
		panic(fmt.Sprintf("cache: collections of %s would live for ever", fam.Pattern))
	case fam.TTL.Stale != 0:
		panic(fmt.Sprintf("cache: collections of %s would be kept past their life, which only values can be", fam.Pattern))
	case !hasSource:
		panic(fmt.Sprintf("cache: %s has no source", fam.Pattern))
	}
	return &collection[K]{rt: rt, fam: fam, key: key, shape: shapes[fam.Type], policy: p.withDefaults(),
		gatherings: map[gatheringKey[K]]*gathering{}, refreshing: map[K]bool{}}
}

// Name is the family's pattern, which is what metrics call the collection.
func (c *collection[K]) Name() string { return c.fam.Pattern }

// Family returns the family's declaration.
func (c *collection[K]) Family() *keyspace.Family { return c.fam }

// Stats returns the counts.
func (c *collection[K]) Stats() Stats { return c.stats.read() }

func (c *collection[K]) cleanUp() {} // nothing is kept in process

// Target is the collection k as a whole, for [Runtime.Change] and [Runtime.Drop]:
// it is dropped, and loaded when it is asked for.
func (c *collection[K]) Target(k K) Target {
	return Target{key: c.key(k), timeout: c.policy.ChangeTimeout, unfenced: c.policy.Unfenced}
}

// Invalidate drops collections after their source has changed. See [Runtime.Drop].
func (c *collection[K]) Invalidate(ctx context.Context, ks ...K) error {
	targets := make([]Target, len(ks))
	for i, k := range ks {
		targets[i] = c.Target(k)
	}
	return c.rt.Drop(ctx, targets...)
}

// edited is the collection k as changed by ops, which is called after the change,
// and only if the collection is there.
func (c *collection[K]) edited(k K, ops func() (puts, removes []string, err error)) Target {
	t := c.Target(k)
	t.edit = &edit{ops, &c.stats.applied}
	return t
}

// edit is what a change does to a collection that is loaded.
type edit struct {
	ops     func() (puts, removes []string, err error)
	applied *plain
}

// query is one question to Redis.
type query interface {
	// about are the members in question; nil says that a few do not suffice.
	about() []string
	cmd(key keyspace.Key, mark string) keyspace.Cmd
	take(keyspace.Reply) verdict
}

// overall is a query about all members.
type overall struct {
	ask    func(key keyspace.Key, mark string) keyspace.Cmd
	answer func(keyspace.Reply) verdict
}

func (q overall) about() []string                                { return nil }
func (q overall) cmd(key keyspace.Key, mark string) keyspace.Cmd { return q.ask(key, mark) }
func (q overall) take(r keyspace.Reply) verdict                  { return q.answer(r) }

type verdict uint8

const (
	answered verdict = iota
	absent           // the collection is not loaded
	garbled          // it is, by another version of the program
)

// read has Redis answer q, or returns at least the members that q is about.
func (c *collection[K]) read(ctx context.Context, k K, q query) (held, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	key := c.key(k)
	for {
		era, err := c.era()
		if err != nil {
			return nil, err
		}
		replace := false
		if era != 0 {
			reply := c.rt.one(q.cmd(key, c.mark(era)))
			if reply.Err != nil {
				c.stats.failed.add(1)
				era = 0
			} else {
				switch q.take(reply) {
				case answered:
					c.stats.redisHits.add(1)
					if c.policy.Renew > 0 && rand.Float64() < c.policy.Renew {
						c.refresh(ctx, k, key, era)
					}
					return nil, nil
				case garbled:
					replace = true
				}
			}
		}
		whole := q.about() == nil || c.pick == nil
		if era != 0 || whole {
			g, err := c.gather(ctx, k, key, era, whole, replace)
			if err != nil {
				return nil, err
			}
			switch g.outcome {
			case gathered:
				return g.held, nil
			case look:
				continue
			}
		}
		return c.fromSource(ctx, func(ctx context.Context) (held, error) { return c.pick(ctx, k, q.about()) })
	}
}

// mark is the member by whose presence a collection is loaded.
func (c *collection[K]) mark(era uint64) string {
	m := c.loaded.Load()
	if m == nil || eraOf(*m) != era {
		m = new(loadedMark(era))
		c.loaded.Store(m)
	}
	return *m
}

// era is that of the servers, or 0 when Redis is not to be used.
func (c *collection[K]) era() (uint64, error) {
	if bus.Now()-c.rt.bus.Seen() >= bus.Moment(c.policy.MaxStale) {
		switch c.policy.CutOff {
		case Fail:
			return 0, ErrCutOff
		case Bypass:
			c.stats.bypassed.add(1)
			return 0, nil
		}
	}
	return c.rt.bus.Era(), nil
}

// A gathering is a load under way, which all callers of this process share. Only
// whole ones bring all members in any case.
type gathering struct {
	done    chan struct{}
	began   bus.Moment
	mark    mark
	outcome outcome
	held    held // shared: nobody changes it
	err     error
}

type gatheringKey[K comparable] struct {
	k     K
	whole bool
}

type outcome uint8

const (
	gathered outcome = iota // held is the collection
	look                    // it is in Redis by now
	apart                   // it cannot be stored: ask the source for what you need
)

// gather loads a collection together with whoever else wants it.
func (c *collection[K]) gather(ctx context.Context, k K, key keyspace.Key, era uint64, whole, replace bool) (*gathering, error) {
	at := gatheringKey[K]{k, whole}
	now := bus.Now()
	c.mu.Lock()
	g := c.gatherings[at]
	// As with values: not one that may have begun before a change.
	if g == nil || g.mark.moved() || time.Duration(now-g.began) >= c.policy.MaxStale {
		g = &gathering{done: make(chan struct{}), began: now, mark: c.rt.watch(key.String())}
		c.gatherings[at] = g
		inner, mine := context.WithoutCancel(ctx), g
		c.rt.work.Go(func() {
			inner, cancel := context.WithTimeout(inner, c.policy.LoadTimeout)
			defer cancel()
			// A source that does not end with its context does not hold its callers up.
			late := context.AfterFunc(inner, func() {
				c.land(at, mine, gathered, nil, fmt.Errorf("cache: %s: %w", c.Name(), context.Cause(inner)))
			})
			defer late()
			outcome, h, err := c.fetch(inner, k, key, era, whole, replace)
			c.land(at, mine, outcome, h, err)
		})
	}
	c.mu.Unlock()
	select {
	case <-g.done:
		return g, g.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// land gives a gathering's callers their answer; only the first answer counts.
func (c *collection[K]) land(at gatheringKey[K], g *gathering, o outcome, h held, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-g.done:
		return
	default:
	}
	g.outcome, g.held, g.err = o, h, err
	close(g.done)
	if c.gatherings[at] == g {
		delete(c.gatherings, at)
	}
}

// fetch loads a collection and stores it, if no change comes between.
func (c *collection[K]) fetch(ctx context.Context, k K, key keyspace.Key, era uint64, whole, replace bool) (outcome, held, error) {
	var l lent
	if era != 0 {
		var there bool
		if l, there = c.acquire(ctx, key, era, replace); there {
			return look, nil, nil
		}
	}
	if l.token == "" && !whole {
		return apart, nil, nil
	}
	h, err := c.fill(ctx, k, key, era, l)
	return gathered, h, err
}

// fill loads a collection and, with a lease, stores it or gives the lease up.
func (c *collection[K]) fill(ctx context.Context, k K, key keyspace.Key, era uint64, l lent) (held, error) {
	h, err := c.fromSource(ctx, func(ctx context.Context) (held, error) { return c.load(ctx, k) })
	if l.token == "" {
		return h, err
	}
	life := c.fam.TTL.Draw()
	if len(h) == 0 {
		life = c.fam.TTL.Empty
	}
	switch {
	case err != nil:
		c.rt.one(c.shape.release(key, l, era))
	case life == 0:
		l.left = 0
		c.rt.one(c.shape.release(key, l, era))
	case !c.store(key, era, l, h, life):
		c.stats.refused.add(1)
		c.rt.one(c.shape.release(key, l, era)) // what is there of it
	}
	return h, err
}

// lent is a lease on a collection.
type lent struct {
	token string
	since bus.Moment
	left  int64 // ms that what is to be replaced has, if there is something
}

// acquire takes the lease on a collection, unless it is there. Without a lease it
// is to be loaded and not stored.
func (c *collection[K]) acquire(ctx context.Context, key keyspace.Key, era uint64, replace bool) (l lent, there bool) {
	patience := c.policy.LoadTimeout / 2
	if c.pick != nil {
		patience /= 5
	}
	began := bus.Now()
	for pause := firstLook; ; pause = min(2*pause, longestLook) {
		l = lent{token: token(), since: bus.Now()}
		n, err := c.rt.one(c.shape.acquire(key, l.token, era, c.leaseLife(), replace)).Int()
		switch {
		case err != nil:
			c.stats.failed.add(1)
			return lent{}, false
		case n >= 0:
			l.left = n
			return l, false
		case n == isThere:
			return lent{}, true
		case n == isFenced:
			c.stats.fenced.add(1)
			return lent{}, false
		case time.Duration(bus.Now()-began) >= patience: // whoever it was may have died
			return lent{}, false
		}
		c.stats.waited.add(1)
		wait := time.NewTimer(pause)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return lent{}, false
		}
	}
}

func (c *collection[K]) leaseLife() time.Duration { return c.policy.LoadTimeout + c.rt.cfg.Budget }

// fromSource calls the source, with the others' leave. Where there is no such
// thing the collection is empty.
func (c *collection[K]) fromSource(ctx context.Context, load func(context.Context) (held, error)) (h held, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.policy.LoadTimeout)
	defer cancel()
	err = c.rt.admitted(ctx, c.Name(), &c.stats, 1, func(ctx context.Context) (err error) {
		h, err = load(ctx)
		return err
	})
	if errors.Is(err, ErrNotFound) {
		return held{}, nil
	}
	if err == nil && h == nil {
		h = held{}
	}
	return h, err
}

// store puts a loaded collection into Redis, in parts, and reports whether it is
// there: all of it or nothing.
func (c *collection[K]) store(key keyspace.Key, era uint64, l lent, h held, life time.Duration) bool {
	var cmds []keyspace.Cmd
	send := func() bool {
		defer func() { cmds = cmds[:0] }()
		for _, r := range c.rt.do(cmds...) {
			if n, err := r.Int(); err != nil || n != 1 {
				return false
			}
		}
		return true
	}
	var part []string
	first, bytes := true, 0
	for m, v := range h {
		if len(part)+2 > partTexts || bytes > partBytes {
			cmds = append(cmds, c.shape.fill(key, l.token, era, c.leaseLife(), first, -1, part))
			first, part, bytes = false, nil, 0
			if len(cmds) == partsSent && !send() {
				return false
			}
		}
		part = c.shape.put(part, m, v)
		bytes += len(m) + len(v)
	}
	cmds = append(cmds, c.shape.fill(key, l.token, era, life, first, len(h), part))
	return send()
}

// refresh loads a collection again if it is in the last fifth of its life.
func (c *collection[K]) refresh(ctx context.Context, k K, key keyspace.Key, era uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refreshing[k] {
		return
	}
	c.refreshing[k] = true
	ctx = context.WithoutCancel(ctx)
	c.rt.work.Go(func() {
		defer func() {
			c.mu.Lock()
			delete(c.refreshing, k)
			c.mu.Unlock()
		}()
		left, err := c.rt.one(keyspace.Cmd{Name: "PTTL", Key: key}).Int()
		if err != nil || left <= 0 || left > c.fam.TTL.Base.Milliseconds()/5 {
			return
		}
		// A script, and thus not asked each time.
		members, err := c.rt.one(c.shape.size(key, era, "")).Int()
		if err != nil || members == 0 { // an empty one is meant to be short-lived
			return
		}
		ctx, cancel := context.WithTimeout(ctx, c.policy.LoadTimeout)
		defer cancel()
		l := lent{token: token(), since: bus.Now()}
		if l.left, err = c.rt.one(c.shape.acquire(key, l.token, era, c.leaseLife(), true)).Int(); err != nil || l.left < 0 {
			return
		}
		c.stats.refreshed.add(1)
		_, _ = c.fill(ctx, k, key, era, l) // a failure is counted there, and the old one is still good
	})
}

// few is a query about some members: whether they are there, and with what values.
// It is one command while the collection is loaded.
type few struct {
	shape *shape
	args  []string           // of the command: the mark, which cmd fills in, and the members
	pair  [2]string          // room for args
	use   func(f *few) error // fails on values that it cannot read; nil: they are not read
	list  []keyspace.Reply   // the answer, or
	held  held
}

// single is a query about one member.
func single(member string, use func(f *few) error) *few {
	f := &few{pair: [2]string{1: member}, use: use}
	f.args = f.pair[:]
	return f
}

func (f *few) about() []string { return f.args[1:] }

func (f *few) cmd(key keyspace.Key, mark string) keyspace.Cmd {
	f.args[0] = mark
	return keyspace.Cmd{Name: f.shape.check, Key: key, Args: f.args}
}

func (f *few) take(r keyspace.Reply) verdict {
	if len(r.List) != len(f.args) || !present(r.List[0]) {
		return absent
	}
	if f.list = r.List[1:]; f.use != nil {
		return readable(f.use(f))
	}
	return answered
}

// at is the value of the i-th member.
func (f *few) at(i int) (v string, ok bool) {
	if f.held == nil {
		return f.list[i].Str, present(f.list[i])
	}
	v, ok = f.held[f.args[1+i]]
	return v, ok
}

// ask has a query about some members answered, by Redis or the source.
func (c *collection[K]) ask(ctx context.Context, k K, f *few) (err error) {
	f.shape = c.shape
	if f.held, err = c.read(ctx, k, f); err == nil && f.held != nil && f.use != nil {
		err = f.use(f)
	}
	return err
}

// contains reports whether a member is there.
func (c *collection[K]) contains(ctx context.Context, k K, member string) (bool, error) {
	f := single(member, nil)
	if err := c.ask(ctx, k, f); err != nil {
		return false, err
	}
	_, ok := f.at(0)
	return ok, nil
}

// has returns those of ms that are there.
func has[K, M comparable](ctx context.Context, c *collection[K], k K, of *codec[M], ms []M) (map[M]bool, error) {
	args, err := of.args(ms)
	if err != nil {
		return nil, err
	}
	f := &few{args: args}
	if err := c.ask(ctx, k, f); err != nil {
		return nil, err
	}
	out := make(map[M]bool, len(ms))
	for i, m := range ms {
		if _, ok := f.at(i); ok {
			out[m] = true
		}
	}
	return out, nil
}

// present reads what HMGET, SMISMEMBER and ZMSCORE say of one member.
func present(r keyspace.Reply) bool {
	return r.Kind == keyspace.TextReply || r.Kind == keyspace.IntReply && r.N == 1
}

// count returns the number of members, of a sorted set's those above a score if
// there is one.
func (c *collection[K]) count(ctx context.Context, k K, above string, counts func(v string) bool) (int, error) {
	n := int64(0)
	h, err := c.read(ctx, k, overall{
		func(key keyspace.Key, mark string) keyspace.Cmd { return c.shape.size(key, eraOf(mark), above) },
		func(r keyspace.Reply) verdict {
			n = r.N
			return loadedIf(!r.Nil())
		}})
	if h == nil || err != nil {
		return int(n), err
	}
	for _, v := range h {
		if above == "" || counts(v) {
			n++
		}
	}
	return int(n), nil
}

func loadedIf(ok bool) verdict {
	if ok {
		return answered
	}
	return absent
}

// changes are what an edit does; of several steps about one member the last
// counts.
type changes struct {
	puts    map[string]string
	removes map[string]bool
	err     error
}

func (c *changes) put(m, v string, err error) {
	if c.err == nil {
		c.err = err
	}
	if c.puts == nil {
		c.puts = map[string]string{}
	}
	c.puts[m] = v
	delete(c.removes, m)
}

func (c *changes) remove(m string, err error) {
	if c.err == nil {
		c.err = err
	}
	if c.removes == nil {
		c.removes = map[string]bool{}
	}
	c.removes[m] = true
	delete(c.puts, m)
}

// texts are the steps as the shape's commands take them.
func (c *changes) texts(s *shape) (puts, removes []string, err error) {
	for m, v := range c.puts {
		puts = s.put(puts, m, v)
	}
	return puts, slices.Collect(maps.Keys(c.removes)), c.err
}
