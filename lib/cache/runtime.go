package cache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoa-dev/stoa/lib/bus"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
)

// Config is what the caches of a process have in common.
type Config struct {
	// Budget is how long a read waits for Redis before it asks the source;
	// 0 means 75 ms, and five seconds for the embedded server, which is slow at
	// scripts, and unreachable only while this process stands still.
	Budget time.Duration
	// ChangeBudget bounds how long a change waits for Redis before its commit, and again after
	// it. A change is refused or not fenced without an answer, so that it waits longer than a
	// read. 0 means one second, or Budget if that is longer.
	ChangeBudget time.Duration
	// Loads bounds how many loads run at once, so that a cold cache or an outage of
	// Redis cannot overload the source; 0 means 64. Further loads wait.
	Loads int
	// Retries keeps the drops that Redis did not take; nil keeps them in memory. None is
	// given up: where more than 10,000 keys wait, all that is cached of a family is
	// dropped once Redis is back. A process that waits for a drop does it itself as well, once a
	// minute: it does not learn that another one has done it.
	Retries RetryQueue
	// Hooks are called with what happens.
	Hooks Hooks
	// Log gets a line when a circuit breaker opens; nil discards.
	Log *slog.Logger
}

// Runtime is what the caches of one process share: Redis, the bus over which the
// nodes tell each other of changes, and the bounds. It is safe for concurrent use.
type Runtime struct {
	db  *redis.DB
	bus *bus.Bus
	cfg Config

	seed          maphash.Seed
	invalidations [invalidationCounters]atomic.Uint32
	loads         chan struct{}
	reads         line // commands whose caller can ask the source in their place
	changes       line // commands that fence, store or drop for a change
	memory        memoryQueue
	late          lateDrops
	began         bus.Moment
	idle          atomic.Bool // that the bus does not run was said
	undropped     undropped
	leases        leases
	tags          table[*tagVersion] // by hash of the name

	mu     sync.Mutex
	caches map[string]registered // by family pattern
	events map[string]*declared  // by name

	work    sync.WaitGroup // loads and refreshes under way
	working sync.RWMutex   // held by what begins one
	ended   bool           // Run has: nobody waits for what begins from now on

	gets    sync.Map   // the caches of [Get] by name
	getting sync.Mutex // one is made at a time

	close func() error // of Open; nil: of NewRuntime
}

// registered is a cache or collection as the runtime sees it.
type registered interface {
	Name() string
	Family() *keyspace.Family
	Stats() Stats
	cleanUp()
}

// A generation is the count of invalidations of a key when it was read. A local copy
// remembers it, and is invalid once the count has changed: a change need not know
// which nodes have a copy, or are about to make one. Keys share counters, and an
// invalidation of one key then costs the others a look into Redis.
type generation struct {
	n       uint32
	counter uint16 // which of the runtime's
}

const invalidationCounters = 1 << 14

func (rt *Runtime) changed(g generation) bool { return rt.invalidations[g.counter].Load() != g.n }

func (rt *Runtime) anyChanged(gs []generation) bool { return slices.ContainsFunc(gs, rt.changed) }

// topic is the caches' topic on the bus. The data of a dropped event are logical
// keys, one a line.
const (
	topic   = "cache"
	dropped = "drop"
)

// standstill is for how long this process may stand still, in a pause of its machine say, without
// taking the server that it has within it for one that is away.
const standstill = 5 * time.Second

// policy is p with its defaults.
func (rt *Runtime) policy(p Policy) Policy {
	if p.MaxStale == 0 && rt.db.Mode() == "embedded" {
		p.MaxStale = standstill
	}
	return p.withDefaults()
}

// NewRuntime returns a runtime on db. Let b run: until it does, caches ask their
// sources. It registers with b, so call it before [bus.Bus.Run].
func NewRuntime(db *redis.DB, b *bus.Bus, cfg Config) *Runtime {
	if cfg.Budget == 0 && db.Mode() == "embedded" {
		cfg.Budget = standstill
	}
	cfg.Budget, cfg.Loads = cmp.Or(cfg.Budget, 75*time.Millisecond), cmp.Or(cfg.Loads, 64)
	cfg.ChangeBudget = cmp.Or(cfg.ChangeBudget, max(time.Second, cfg.Budget))
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	rt := &Runtime{db: db, bus: b, cfg: cfg, began: bus.Now(), seed: maphash.MakeSeed(), loads: make(chan struct{}, cfg.Loads),
		tags:   newTable[*tagVersion](tagsKnown),
		caches: map[string]registered{}, events: map[string]*declared{}}
	rt.reads = line{rt: rt, budget: cfg.Budget, opened: "cache: Redis does not answer reads: they ask their sources"}
	rt.changes = line{rt: rt, budget: cfg.ChangeBudget, opened: "cache: Redis does not answer changes: they are refused or not fenced"}
	rt.leases.start()
	b.Handle(topic, bus.Handler{
		Event: func(e bus.Event) {
			if e.Name == forgotten {
				rt.forgetAll()
				return
			}
			for key := range strings.Lines(e.Data) {
				rt.invalidate(strings.TrimSuffix(key, "\n"))
			}
		},
		Lost: rt.forgetAll,
	})
	return rt
}

// idleAfter is how long a program may take until its bus runs.
const idleAfter = 10 * time.Second

// sayIdle logs once that the bus does not run, or has never reached Redis, so that nothing
// is stored.
func (rt *Runtime) sayIdle() {
	if rt.bus.Seen() == 0 && time.Duration(bus.Now()-rt.began) > idleAfter && rt.idle.CompareAndSwap(false, true) {
		rt.cfg.Log.Warn("nothing is cached: the bus has not read its log yet; does bus.Run run?")
	}
}

// checkStale panics when a node would mistrust its copies between two beats of the bus.
func (rt *Runtime) checkStale(f *keyspace.Family, maxStale time.Duration) {
	if beat := rt.bus.Beat(); maxStale < 2*beat {
		panic(fmt.Sprintf("cache: MaxStale of %s is %s, less than two beats of the bus, which are %s each", f.Pattern, maxStale, beat))
	}
}

// Run does the periodic work until ctx ends: it retries drops that Redis did not
// take, repeats those of changes that ended with an error, gives back leases whose
// acquisition Redis did not answer, and removes expired copies from this process.
func (rt *Runtime) Run(ctx context.Context, ready func()) error {
	ready()
	clean := time.NewTicker(time.Minute)
	defer clean.Stop()
	retry := time.NewTicker(250 * time.Millisecond)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			rt.working.Lock()
			rt.ended = true
			rt.working.Unlock()
			rt.work.Wait()
			return nil
		case <-retry.C:
			rt.memory.run(rt)
			rt.late.run(ctx, rt)
			rt.forgetFull(ctx)
			rt.leases.giveBack(rt)
		case <-rt.leases.wake:
			rt.leases.giveBack(rt)
		case <-clean.C:
			rt.redoUndropped()
			for _, c := range rt.registered() {
				c.cleanUp()
			}
		}
	}
}

// begin runs a load or a refresh in a goroutine of its own, for which Run waits at its end. Caches
// may be read then, so that what begins after it has only its own readers to wait for it.
func (rt *Runtime) begin(f func()) {
	rt.working.RLock()
	defer rt.working.RUnlock()
	if rt.ended {
		go f()
		return
	}
	rt.work.Go(f)
}

// Wait returns when no load of this runtime is under way. No cache may be read
// meanwhile.
func (rt *Runtime) Wait() { rt.work.Wait() }

func (rt *Runtime) register(c registered) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	p := c.Family().Pattern
	if _, twice := rt.caches[p]; twice {
		panic(fmt.Sprintf("cache: %s is cached twice", p))
	}
	for _, other := range rt.caches { // as a family of [Keyed], which no schema has that is linted
		if name, meet := c.Family().Meets(other.Family()); meet {
			panic(fmt.Sprintf("cache: keys of %s and %s can be the same, such as %q", p, other.Family().Pattern, name))
		}
	}
	rt.caches[p] = c
}

// registered returns the caches, sorted by name.
func (rt *Runtime) registered() []registered {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	var cs []registered
	for _, c := range rt.caches {
		cs = append(cs, c)
	}
	slices.SortFunc(cs, func(a, b registered) int { return cmp.Compare(a.Name(), b.Name()) })
	return cs
}

func (rt *Runtime) counterOf(key string) uint16 {
	return uint16(maphash.String(rt.seed, inLine(key)) % invalidationCounters)
}

// inLine is a key as it stands in a dropped event: a [keyspace.Raw] may have line breaks. Two keys
// that become the same share a counter, which costs a look into Redis.
func inLine(key string) string { return strings.ReplaceAll(key, "\n", "\x00") }

// invalidate makes copies of a key invalid in this process.
func (rt *Runtime) invalidate(key string) { rt.invalidations[rt.counterOf(key)].Add(1) }

// generationOf returns the generation of a key as it is now: before the key is read.
func (rt *Runtime) generationOf(key string) generation {
	counter := rt.counterOf(key)
	return generation{rt.invalidations[counter].Load(), counter}
}

// clock is the servers' time in Unix ms, as known here. The nodes' own clocks may
// differ by more than a value's life.
func (rt *Runtime) clock() int64 { return rt.bus.Time().UnixMilli() }

// A line sends commands to Redis within a budget, unless the circuit breaker of their part of
// Redis is open. Reads and changes have a line each: a read gives up early because its
// source answers as well, and its time-outs do not refuse a change.
type line struct {
	rt        *Runtime
	budget    time.Duration
	deadlines redis.Deadlines
	breakers  [16]breaker
	opened    string // the log's message when a breaker opens
}

// one sends a command. The budget does not end with a caller's context: other callers
// wait for the same answer.
func (l *line) one(cmd keyspace.Cmd) keyspace.Reply {
	b := l.breaker(cmd.Key)
	if !b.allows() {
		return keyspace.Fail(errOpen)
	}
	ctx := l.deadlines.Within(l.budget)
	reply := l.rt.db.Do(ctx, cmd)
	l.note(ctx, b, reply.Err)
	return reply
}

// do sends several commands like one, in one round trip.
func (l *line) do(cmds ...keyspace.Cmd) []keyspace.Reply {
	if len(cmds) == 1 {
		return []keyspace.Reply{l.one(cmds[0])}
	}
	ctx := l.deadlines.Within(l.budget)
	replies, asked := l.send(ctx, cmds)
	l.noteAll(ctx, asked, cmds, replies)
	return replies
}

// doWithin is do with a budget of its own. It returns when ctx ends, which says nothing about
// Redis.
func (l *line) doWithin(ctx context.Context, budget time.Duration, cmds ...keyspace.Cmd) []keyspace.Reply {
	inner, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	replies, asked := l.send(inner, cmds)
	if ctx.Err() == nil {
		l.noteAll(inner, asked, cmds, replies)
	}
	return replies
}

// send sends the commands whose breakers allow it, and returns these breakers: more than one
// only in a cluster.
func (l *line) send(ctx context.Context, cmds []keyspace.Cmd) (replies []keyspace.Reply, asked []*breaker) {
	replies, asked = make([]keyspace.Reply, len(cmds)), make([]*breaker, 0, 1)
	var sent []keyspace.Cmd
	var at []int
	for i, cmd := range cmds {
		b := l.breaker(cmd.Key)
		if !slices.Contains(asked, b) {
			if !b.allows() {
				replies[i] = keyspace.Fail(errOpen)
				continue
			}
			asked = append(asked, b)
		}
		sent, at = append(sent, cmd), append(at, i)
	}
	for j, r := range l.rt.db.DoMulti(ctx, sent) {
		replies[at[j]] = r
	}
	return replies, asked
}

// noteAll reports the first error of each breaker's replies to it.
func (l *line) noteAll(ctx context.Context, asked []*breaker, cmds []keyspace.Cmd, replies []keyspace.Reply) {
	for _, b := range asked {
		var err error
		for i, cmd := range cmds {
			if err == nil && l.breaker(cmd.Key) == b {
				err = replies[i].Err
			}
		}
		l.note(ctx, b, err)
	}
}

// mget reads keys within the budget.
func (l *line) mget(keys []keyspace.Key) []keyspace.Reply {
	if l.rt.db.Mode() == "cluster" {
		cmds := make([]keyspace.Cmd, len(keys))
		for i, k := range keys {
			cmds[i] = keyspace.Cmd{Name: "GET", Key: k}
		}
		return l.do(cmds...)
	}
	b := &l.breakers[0]
	if !b.allows() {
		return slices.Repeat([]keyspace.Reply{keyspace.Fail(errOpen)}, len(keys))
	}
	ctx := l.deadlines.Within(l.budget)
	replies := l.rt.db.MGet(ctx, keys)
	l.note(ctx, b, keyspace.FirstErr(replies))
	return replies
}

// note reports the outcome of commands that ran with ctx to a breaker.
func (l *line) note(ctx context.Context, b *breaker, err error) {
	if err == nil {
		b.worked()
		return
	}
	if errors.Is(err, redis.ErrUnavailable) {
		deadline, _ := ctx.Deadline() // lines send no command without one
		now := bus.Now()
		if b.failed(l.budget, now-bus.Moment(time.Since(deadline)), now) {
			l.rt.cfg.Log.Warn(l.opened, "err", err)
		}
	}
	if l.rt.cfg.Hooks.Redis != nil {
		l.rt.cfg.Hooks.Redis(err)
	}
}

// A breaker is a circuit breaker: it opens for a while when the failures in a row weigh enough,
// and then lets one command try.
type breaker struct {
	weight atomic.Int32 // of the failures since the last success
	last   atomic.Int64 // a bus.Moment: the last failure that had a weight
	until  atomic.Int64 // a bus.Moment
}

const (
	breakAt  = 12 // three failures, or twelve that this process noticed late
	breakFor = 500 * time.Millisecond
)

// weightOf returns the weight of a failure at the moment now. A command can also time out because this process was stopped or got
// no processor time. All commands that wait at that moment then fail together, so that only the first of them has a weight. A
// failure long after its deadline weighs less, because the process was late itself. It has a weight nevertheless: on an overloaded
// machine every failure is late, and a silent Redis must open the breaker there, too.
func weightOf(budget time.Duration, last, deadline, now bus.Moment) int32 {
	switch sent := deadline - bus.Moment(budget); {
	case last != 0 && sent < last:
		return 0
	case now-deadline > bus.Moment(budget/4):
		return breakAt / 12
	default:
		return breakAt / 3
	}
}

var errOpen = fmt.Errorf("cache: %w: it failed several times in a row, the circuit breaker is open", redis.ErrUnavailable)

// breaker returns the one of a key: in a cluster a single master can be away, and
// each owns ranges of slots.
func (l *line) breaker(k keyspace.Key) *breaker {
	if l.rt.db.Mode() != "cluster" {
		return &l.breakers[0]
	}
	return &l.breakers[int(keyspace.Slot(l.rt.db.Physical(k)))*len(l.breakers)/keyspace.Slots]
}

func (b *breaker) allows() bool {
	until := b.until.Load()
	if until == 0 {
		return true
	}
	now := int64(bus.Now())
	return now >= until && b.until.CompareAndSwap(until, now+int64(breakFor))
}

// worked closes the breaker. It reads both fields: a concurrent failure may write until after this has written 0.
func (b *breaker) worked() {
	if b.weight.Load() != 0 || b.until.Load() != 0 {
		b.weight.Store(0)
		b.until.Store(0)
	}
}

// failed adds a failure, and reports whether it has opened the breaker.
func (b *breaker) failed(budget time.Duration, deadline, now bus.Moment) bool {
	last := b.last.Load()
	w := weightOf(budget, bus.Moment(last), deadline, now)
	if w == 0 || !b.last.CompareAndSwap(last, int64(now)) || b.weight.Add(w) < breakAt {
		return false
	}
	jitter := rand.N(breakFor / 4) // nodes should not come back in step
	return b.until.Swap(int64(now)+int64(breakFor+jitter)) == 0
}
