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

	"github.com/stoa-dev/stoa/lib/bus"
	"github.com/stoa-dev/stoa/lib/keyspace"
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
	// Renew is the share of reads that check whether the collection is in the last
	// fifth of its life, and load it again then, so that a collection that is read
	// often does not expire; 0 means 0.01, a negative number none. Meanwhile the old
	// one answers, unless it has more than 500 members.
	Renew float64
	// LeaseWait is how long a reader waits for the load of another node; see
	// [Policy.LeaseWait].
	LeaseWait time.Duration
	// LoadTimeout bounds a load; 0 means 5 s.
	LoadTimeout time.Duration
	// ChangeTimeout bounds what Mutate and [Runtime.Change] call; 0 means 10 s.
	// No node stores the collection meanwhile.
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
	// A script takes at most this many texts and bytes, so that it blocks the server
	// for less than a millisecond; a load sends at most partsSent scripts at once.
	partTexts = 1000
	partBytes = 64 << 10
	partsSent = 4
)

// collection is what [Hash], [Set] and [ZSet] have in common. Members and values
// are texts here: a hash's values are JSON, a sorted set's are scores, a set has
// none.
//
// There are no copies in process: a query is one command, which asks for a marker
// beside the members it is about, so that one answer says whether the collection is
// loaded and what is in it.
type collection struct {
	family
	shape  *shape
	policy CollectionPolicy
	load   func(ctx context.Context, k any) (held, error)
	pick   func(ctx context.Context, k any, members []string) (held, error) // nil: the source cannot

	loaded atomic.Pointer[string] // marker of the present era

	mu         sync.Mutex
	loads      map[loadKey]*sharedLoad
	refreshing map[string]bool       // by logical key
	overdue    map[string]bus.Moment // when a load of another node was waited for in vain, likewise
}

// held are members with their values as they came from the source: all of a
// collection's or some.
type held map[string]string

func newCollection(rt *Runtime, fam *keyspace.Family, key func(k any) keyspace.Key, p CollectionPolicy, hasSource bool) *collection {
	switch {
	case fam.TTL.Base == 0:
		panic(fmt.Sprintf("cache: collections of %s would never expire", fam.Pattern))
	case fam.TTL.Stale != 0:
		panic(fmt.Sprintf("cache: collections of %s would be kept past their life, which only values can be", fam.Pattern))
	case !hasSource:
		panic(fmt.Sprintf("cache: %s has no source", fam.Pattern))
	}
	p = p.withDefaults()
	rt.checkStale(fam, p.MaxStale)
	c := &collection{family: family{rt: rt, fam: fam, key: key, changeTimeout: p.ChangeTimeout, loadTimeout: p.LoadTimeout, wait: p.LeaseWait, unfenced: p.Unfenced},
		shape: shapes[fam.Type], policy: p, loads: map[loadKey]*sharedLoad{}, refreshing: map[string]bool{}, overdue: map[string]bus.Moment{}}
	rt.register(c)
	return c
}

func (c *collection) cleanUp() {} // nothing is kept in process

// edited is the collection k as changed by ops, which is called after the change,
// and only if the collection is there.
func (c *collection) edited(k any, ops func() (puts, removes []string, err error)) Target {
	t := c.target(k)
	t.edit = &edit{ops, &c.stats.applied}
	return t
}

// edit is what a change does to a collection that is loaded.
type edit struct {
	ops     func() (puts, removes []string, err error)
	applied *plain
}

// query is one query to Redis.
type query interface {
	// about are the members in question; nil: the query is about all.
	about() []string
	cmd(key keyspace.Key, mark string) keyspace.Cmd
	take(keyspace.Reply) verdict
}

// wholeQuery is a query about all members.
type wholeQuery struct {
	ask    func(key keyspace.Key, mark string) keyspace.Cmd
	answer func(keyspace.Reply) verdict
}

func (q wholeQuery) about() []string                                { return nil }
func (q wholeQuery) cmd(key keyspace.Key, mark string) keyspace.Cmd { return q.ask(key, mark) }
func (q wholeQuery) take(r keyspace.Reply) verdict                  { return q.answer(r) }

type verdict uint8

const (
	answered   verdict = iota
	absent             // the collection is not loaded
	unreadable         // it is loaded, by another version of the program
	failed             // Redis did not answer
)

// read has Redis answer q, or returns at least the members that q is about.
func (c *collection) read(ctx context.Context, k any, q query) (held, error) {
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
			switch c.took(ctx, k, key, era, q, c.rt.one(q.cmd(key, c.mark(era)))) {
			case answered:
				return nil, nil
			case unreadable:
				replace = true
			case failed:
				era = 0
			}
		}
		whole := q.about() == nil || c.pick == nil
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
		return c.fromSource(ctx, func(ctx context.Context) (held, error) { return c.pick(ctx, k, q.about()) })
	}
}

// usable is the servers' era, or 0 when Redis must not be asked for key.
func (c *collection) usable(key keyspace.Key) (uint64, error) {
	era, err := c.era()
	if c.rt.undropped.has(key) {
		era = 0
	}
	return era, err
}

// took has q take a reply of Redis, and renews what is loaded now and then.
func (c *collection) took(ctx context.Context, k any, key keyspace.Key, era uint64, q query, r keyspace.Reply) verdict {
	if r.Err != nil {
		c.stats.failed.add(1)
		return failed
	}
	v := q.take(r)
	if v == answered {
		c.stats.redisHits.add(1)
		if c.policy.Renew > 0 && rand.Float64() < c.policy.Renew {
			c.refresh(ctx, k, key, era)
		}
	}
	return v
}

// mark is the marker member that a loaded collection has.
func (c *collection) mark(era uint64) string {
	m := c.loaded.Load()
	if m == nil || eraOf(*m) != era {
		m = new(loadedMark(era))
		c.loaded.Store(m)
	}
	return *m
}

// era is the servers' era, or 0 when Redis must not be used.
func (c *collection) era() (uint64, error) {
	c.rt.sayIdle()
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

// A sharedLoad is a single flight. One that is whole returns all members even when
// they cannot be stored.
type sharedLoad struct {
	done       chan struct{}
	began      bus.Moment
	generation generation
	outcome    outcome
	held       held // shared: do not change it
	err        error
}

type loadKey struct {
	name  string // logical key
	whole bool
}

type outcome uint8

const (
	loadedHere  outcome = iota // held is the collection
	nowInRedis                 // it is in Redis by now: ask again
	notStorable                // it cannot be stored now: ask the source for the members in question
)

// loadShared loads a collection, as a single flight for all callers of this process.
func (c *collection) loadShared(ctx context.Context, k any, key keyspace.Key, era uint64, whole, replace bool) (*sharedLoad, error) {
	at := loadKey{key.String(), whole}
	now := bus.Now()
	c.mu.Lock()
	g := c.loads[at]
	// As with values: not a flight that may have begun before a change.
	if g == nil || c.rt.changed(g.generation) || time.Duration(now-g.began) >= c.policy.MaxStale {
		g = &sharedLoad{done: make(chan struct{}), began: now, generation: c.rt.generationOf(key.String())}
		c.loads[at] = g
		inner, mine := context.WithoutCancel(ctx), g
		c.rt.work.Go(func() {
			inner, cancel := context.WithTimeout(inner, c.policy.LoadTimeout)
			defer cancel()
			// A source that ignores the end of its context must not block its callers.
			late := context.AfterFunc(inner, func() {
				c.land(at, mine, loadedHere, nil, fmt.Errorf("cache: %s: %w", c.Name(), context.Cause(inner)))
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

// land gives a flight's callers their answer; only the first answer counts.
func (c *collection) land(at loadKey, g *sharedLoad, o outcome, h held, err error) {
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

// fetch loads a collection and stores it, if no change comes between.
func (c *collection) fetch(ctx context.Context, k any, key keyspace.Key, era uint64, whole, replace bool) (outcome, held, error) {
	var l grant
	if era != 0 {
		var there bool
		if l, there = c.acquire(ctx, key, era, replace); there {
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
func (c *collection) fill(ctx context.Context, k any, key keyspace.Key, era uint64, l grant) (held, error) {
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
		c.release(key, l, era)
	case life == 0:
		l.left = 0
		c.release(key, l, era)
	case !c.store(key, era, l, h, life):
		c.stats.refused.add(1)
		c.release(key, l, era) // and the parts that are stored
	}
	return h, err
}

// grant is an acquired lease on a collection.
type grant struct {
	token string
	since bus.Moment
	left  int64 // ms that what is to be replaced has, if there is something
}

// acquire takes the lease on a collection, unless that is loaded. Without a lease it
// has to be loaded and must not be stored.
func (c *collection) acquire(ctx context.Context, key keyspace.Key, era uint64, replace bool) (l grant, there bool) {
	patience := bus.Now() + bus.Moment(c.leaseWait())
	for pause := firstPoll; ; pause = min(2*pause, longestPoll) {
		l = grant{token: c.rt.leases.token(), since: bus.Now()}
		n, err := c.rt.one(c.shape.acquire(key, l.token, era, c.leaseLife(), replace)).Int()
		switch {
		case err != nil:
			c.stats.failed.add(1)
			c.rt.leases.disown(l.token, c.shape.release(key, l, era), c.leaseLife(), err)
			return grant{}, false
		case n >= 0:
			l.left = n
			return l, false
		case n == isThere:
			return grant{}, true
		case n == isFenced:
			c.stats.fenced.add(1)
			return grant{}, false
		case c.breakOverdue(key):
			continue
		case bus.Now() >= patience: // the holder may have died
			c.noteOverdue(key)
			return grant{}, false
		}
		c.stats.waited.add(1)
		wait := time.NewTimer(min(pause, time.Duration(patience-bus.Now())))
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return grant{}, false
		}
	}
}

// noteOverdue remembers that another node's load was waited for in vain.
func (c *collection) noteOverdue(key keyspace.Key) {
	now := bus.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, since := range c.overdue {
		if time.Duration(now-since) > c.leaseLife() {
			delete(c.overdue, name)
		}
	}
	if _, known := c.overdue[key.String()]; !known {
		c.overdue[key.String()] = now
	}
}

// breakOverdue drops what another node has begun to load and had the time for twice,
// and reports whether it did.
func (c *collection) breakOverdue(key keyspace.Key) bool {
	now, name := bus.Now(), key.String()
	c.mu.Lock()
	since, known := c.overdue[name]
	due := known && time.Duration(now-since) >= 2*c.stats.loadTime()
	if due {
		delete(c.overdue, name)
	}
	c.mu.Unlock()
	return due && time.Duration(now-since) <= c.leaseLife() && c.rt.one(c.shape.drop(key)).Err == nil
}

// release gives a lease up, with what was stored under it.
func (c *collection) release(key keyspace.Key, l grant, era uint64) {
	cmd := c.shape.release(key, l, era)
	if err := c.rt.one(cmd).Err; err != nil {
		c.rt.leases.disown(l.token, cmd, c.leaseLife(), nil)
	}
}

// fromSource calls the source when [Config.Loads] allows it. [ErrNotFound] is an
// empty collection.
func (c *collection) fromSource(ctx context.Context, load func(context.Context) (held, error)) (h held, err error) {
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
func (c *collection) store(key keyspace.Key, era uint64, l grant, h held, life time.Duration) bool {
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
func (c *collection) refresh(ctx context.Context, k any, key keyspace.Key, era uint64) {
	name := key.String()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refreshing[name] {
		return
	}
	c.refreshing[name] = true
	ctx = context.WithoutCancel(ctx)
	c.rt.work.Go(func() {
		defer func() {
			c.mu.Lock()
			delete(c.refreshing, name)
			c.mu.Unlock()
		}()
		left, err := c.rt.one(keyspace.Cmd{Name: "PTTL", Key: key}).Int()
		if err != nil || left <= 0 || left > c.fam.TTL.Base.Milliseconds()/5 {
			return
		}
		// This is a script, and thus not part of every check.
		members, err := c.rt.one(c.shape.size(key, era, "")).Int()
		if err != nil || members == 0 { // an empty one is a negative entry and short-lived
			return
		}
		ctx, cancel := context.WithTimeout(ctx, c.policy.LoadTimeout)
		defer cancel()
		l := grant{token: c.rt.leases.token(), since: bus.Now()}
		if l.left, err = c.rt.one(c.shape.acquire(key, l.token, era, c.leaseLife(), true)).Int(); err != nil || l.left < 0 {
			if err != nil {
				l.left = 0
				c.rt.leases.disown(l.token, c.shape.release(key, l, era), c.leaseLife(), err)
			}
			return
		}
		c.stats.refreshed.add(1)
		_, _ = c.fill(ctx, k, key, era, l) // a failure is counted there, and the old one is still good
	})
}

// memberQuery is a query about some members: whether they are there, and with what
// values. It is one command while the collection is loaded.
type memberQuery struct {
	shape *shape
	args  []string                   // of the command: the mark, which cmd fills in, and the members
	pair  [2]string                  // room for args
	use   func(f *memberQuery) error // decodes the values; nil: nothing is decoded
	list  []keyspace.Reply           // the answer, or
	held  held
}

// oneMember is a query about one member.
func oneMember(member string, use func(f *memberQuery) error) *memberQuery {
	f := &memberQuery{pair: [2]string{1: member}, use: use}
	f.args = f.pair[:]
	return f
}

func (f *memberQuery) about() []string { return f.args[1:] }

func (f *memberQuery) cmd(key keyspace.Key, mark string) keyspace.Cmd {
	f.args[0] = mark
	return keyspace.Cmd{Name: f.shape.check, Key: key, Args: f.args}
}

func (f *memberQuery) take(r keyspace.Reply) verdict {
	if len(r.List) != len(f.args) || !present(r.List[0]) {
		return absent
	}
	if f.list = r.List[1:]; f.use != nil {
		return readable(f.use(f))
	}
	return answered
}

// at is the value of the i-th member.
func (f *memberQuery) at(i int) (v string, ok bool) {
	if f.held == nil {
		return f.list[i].Str, present(f.list[i])
	}
	v, ok = f.held[f.args[1+i]]
	return v, ok
}

// ask answers a query about some members from Redis or the source.
func (c *collection) ask(ctx context.Context, k any, f *memberQuery) (err error) {
	f.shape = c.shape
	if f.held, err = c.read(ctx, k, f); err == nil && f.held != nil && f.use != nil {
		err = f.use(f)
	}
	return err
}

// contains reports whether a member is there.
func (c *collection) contains(ctx context.Context, k any, member string) (bool, error) {
	f := oneMember(member, nil)
	if err := c.ask(ctx, k, f); err != nil {
		return false, err
	}
	_, ok := f.at(0)
	return ok, nil
}

// has returns those of ms that are there.
func has[M comparable](ctx context.Context, c *collection, k any, of *codec[M], ms []M) (map[M]bool, error) {
	args, err := of.args(ms)
	if err != nil {
		return nil, err
	}
	f := &memberQuery{args: args}
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

// present reports whether a reply of HMGET, SMISMEMBER or ZMSCORE says that a member
// is there.
func present(r keyspace.Reply) bool {
	return r.Kind == keyspace.TextReply || r.Kind == keyspace.IntReply && r.N == 1
}

// count returns the number of members, of a sorted set's those above a score if
// there is one.
func (c *collection) count(ctx context.Context, k any, above string, counts func(v string) bool) (int, error) {
	n := int64(0)
	h, err := c.read(ctx, k, wholeQuery{
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

// changes are the steps of an edit; of several about one member the last counts.
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
