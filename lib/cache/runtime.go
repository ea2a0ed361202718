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

// Config configures all caches of a process.
type Config struct {
	// Budget bounds how long a read waits for Redis before it asks the source. 0 means 75 ms, or five seconds for the
	// embedded server, which runs scripts slowly and is only unreachable while this process is paused.
	Budget time.Duration
	// ChangeBudget bounds how long a change waits for Redis before its commit, and again after it. Without a reply, a
	// change is refused or not fenced, so it waits longer than a read. 0 means one second, or Budget if that is longer.
	ChangeBudget time.Duration
	// Loads limits concurrent loads, so that a cold cache or an outage of Redis cannot overload the source; 0 means 64.
	// Further loads wait.
	Loads int
	// Retries stores the drops that Redis did not accept; nil keeps them in memory. No drop is given up: if more than
	// 10,000 keys wait, all cached values of a family are dropped once Redis is back. A process that waits for a drop
	// also repeats it itself once a minute, because it does not learn that another process has done it.
	Retries RetryQueue
	// Hooks are called on loads, drops and errors.
	Hooks Hooks
	// Log gets a line when a circuit breaker opens; nil discards it.
	Log *slog.Logger
}

// Runtime is shared by all caches of one process: Redis, the bus over which the nodes broadcast drops, and the limits.
// It is safe for concurrent use.
type Runtime struct {
	db  *redis.DB
	bus *bus.Bus
	cfg Config

	seed          maphash.Seed
	invalidations [invalidationCounters]atomic.Uint32
	loads         chan struct{}
	reads         line // commands whose caller can ask the source instead
	changes       line // commands that fence, store or drop for a change
	memory        memoryQueue
	late          lateDrops
	began         bus.Moment
	idle          atomic.Bool // whether the log line about an idle bus was written
	undropped     undropped
	leases        leases
	tags          table[*tagVersion] // by hash of the name

	mu     sync.Mutex
	caches map[string]registered // by family pattern
	events map[string]*declared  // by name

	work    sync.WaitGroup // loads and refreshes under way
	working sync.RWMutex   // read-locked while one begins
	ended   bool           // Run has ended: it does not wait for what begins from now on

	gets    sync.Map   // the caches of [Get] by name
	getting sync.Mutex // one is made at a time

	close func() error // set by Open; nil for NewRuntime
}

// registered is a cache or collection as seen by the runtime.
type registered interface {
	Name() string
	Family() *keyspace.Family
	Stats() Stats
	cleanUp()
}

// A generation is the number of invalidations of a key when it was read. A local copy stores it, and is invalid once
// the number has changed. A change therefore need not know which nodes have a copy or are about to make one. Keys share
// counters, so the invalidation of one key costs the others one read of Redis.
type generation struct {
	n       uint32
	counter uint16 // index of the runtime's counter
}

const invalidationCounters = 1 << 14

func (rt *Runtime) changed(g generation) bool { return rt.invalidations[g.counter].Load() != g.n }

func (rt *Runtime) anyChanged(gs []generation) bool { return slices.ContainsFunc(gs, rt.changed) }

// topic is the caches' topic on the bus. The data of a dropped event are logical keys, one per line.
const (
	topic   = "cache"
	dropped = "drop"
)

// maxPause is how long this process may be paused, for example with its machine, before the embedded server counts as
// unreachable.
const maxPause = 5 * time.Second

// policy returns p with its defaults.
func (rt *Runtime) policy(p Policy) Policy {
	if p.MaxStale == 0 && rt.db.Mode() == "embedded" {
		p.MaxStale = maxPause
	}
	return p.withDefaults()
}

// NewRuntime returns a runtime on db. Start b: until it runs, caches ask their sources. NewRuntime registers a handler
// with b, so call it before [bus.Bus.Run].
func NewRuntime(db *redis.DB, b *bus.Bus, cfg Config) *Runtime {
	if cfg.Budget == 0 && db.Mode() == "embedded" {
		cfg.Budget = maxPause
	}
	cfg.Budget, cfg.Loads = cmp.Or(cfg.Budget, 75*time.Millisecond), cmp.Or(cfg.Loads, 64)
	cfg.ChangeBudget = cmp.Or(cfg.ChangeBudget, max(time.Second, cfg.Budget))
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	rt := &Runtime{db: db, bus: b, cfg: cfg, began: bus.Now(), seed: maphash.MakeSeed(), loads: make(chan struct{}, cfg.Loads),
		tags:   newTable[*tagVersion](maxTagVersions),
		caches: map[string]registered{}, events: map[string]*declared{}}
	rt.reads = line{rt: rt, budget: cfg.Budget, openedMessage: "cache: circuit breaker open for reads, which ask their sources"}
	rt.changes = line{rt: rt, budget: cfg.ChangeBudget,
		openedMessage: "cache: circuit breaker open for changes, which are refused or not fenced"}
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

// idleAfter is how long a program may take to start its bus.
const idleAfter = 10 * time.Second

// warnIfBusIdle logs once if the bus does not run or has never reached Redis, because then no value is stored.
func (rt *Runtime) warnIfBusIdle() {
	if rt.bus.Seen() == 0 && time.Duration(bus.Now()-rt.began) > idleAfter && rt.idle.CompareAndSwap(false, true) {
		rt.cfg.Log.Warn("cache: bus log not read, so no value is stored; does bus.Run run?")
	}
}

// checkStale makes the beats of the bus frequent enough that a node does not distrust its copies between two of them. It
// panics if they cannot be.
func (rt *Runtime) checkStale(f *keyspace.Family, maxStale time.Duration) {
	if beat := rt.bus.Beat(); maxStale < 2*beat {
		panic(fmt.Sprintf("cache: MaxStale of %s is %s, less than two beats of the bus, which are %s each", f.Pattern, maxStale, beat))
	}
	rt.bus.KeepWithin(maxStale)
}

// Run does the periodic work until ctx ends. It retries drops that Redis did not accept, and repeats the drops of
// changes that ended with an error. It also releases leases without a reply from Redis, and removes expired copies from
// this process.
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

// begin runs a load or refresh in a goroutine of its own. Run waits for it at its end. Caches may be read after Run has
// ended; then only the readers wait for the loads that they begin.
func (rt *Runtime) begin(f func()) {
	rt.working.RLock()
	defer rt.working.RUnlock()
	if rt.ended {
		go f()
		return
	}
	rt.work.Go(f)
}

// Wait returns when no load of this runtime is running. No cache may be read meanwhile.
func (rt *Runtime) Wait() { rt.work.Wait() }

func (rt *Runtime) register(c registered) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	p := c.Family().Pattern
	if _, twice := rt.caches[p]; twice {
		panic(fmt.Sprintf("cache: %s is cached twice", p))
	}
	for _, other := range rt.caches { // families of [Keyed] belong to no schema that could be checked
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

// inLine returns a key as written in a dropped event: a [keyspace.Raw] may contain line breaks. Two keys that become
// equal share a counter, which costs one read of Redis.
func inLine(key string) string { return strings.ReplaceAll(key, "\n", "\x00") }

// invalidate makes copies of a key invalid in this process.
func (rt *Runtime) invalidate(key string) { rt.invalidations[rt.counterOf(key)].Add(1) }

// generationOf returns the present generation of a key; call it before the key is read.
func (rt *Runtime) generationOf(key string) generation {
	counter := rt.counterOf(key)
	return generation{rt.invalidations[counter].Load(), counter}
}

// clock returns the servers' time in Unix ms, as estimated here. The nodes' own clocks may differ by more than a
// value's life.
func (rt *Runtime) clock() int64 { return rt.bus.Time().UnixMilli() }

// A line sends commands to Redis within a budget, unless the circuit breaker of the key's slot range is open. Reads and
// changes each have a line: a read gives up early because its source can answer too, and its timeouts must not refuse a
// change.
type line struct {
	rt            *Runtime
	budget        time.Duration
	deadlines     redis.Deadlines
	breakers      [16]breaker
	openedMessage string // the log's message when a breaker opens
}

// one sends a command. The budget does not end with a caller's context, because other callers wait for the same reply.
func (l *line) one(cmd keyspace.Cmd) keyspace.Reply {
	b := l.breaker(cmd.Key)
	if !b.allows() {
		return keyspace.Fail(errOpen)
	}
	ctx := l.deadlines.Within(l.budget)
	reply := l.rt.db.Do(ctx, cmd)
	l.recordOutcome(ctx, b, reply.Err)
	return reply
}

// do sends several commands in one round trip, each like one.
func (l *line) do(cmds ...keyspace.Cmd) []keyspace.Reply {
	if len(cmds) == 1 {
		return []keyspace.Reply{l.one(cmds[0])}
	}
	ctx := l.deadlines.Within(l.budget)
	replies, asked := l.send(ctx, cmds)
	l.recordOutcomes(ctx, asked, cmds, replies)
	return replies
}

// doWithin is do with its own budget. It also returns when ctx ends, which is not counted as a failure of Redis.
func (l *line) doWithin(ctx context.Context, budget time.Duration, cmds ...keyspace.Cmd) []keyspace.Reply {
	inner, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	replies, asked := l.send(inner, cmds)
	if ctx.Err() == nil {
		l.recordOutcomes(inner, asked, cmds, replies)
	}
	return replies
}

// send sends the commands whose breakers allow it, and returns these breakers. There is more than one only in a
// cluster.
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

// recordOutcomes records the first error of each breaker's replies.
func (l *line) recordOutcomes(ctx context.Context, asked []*breaker, cmds []keyspace.Cmd, replies []keyspace.Reply) {
	for _, b := range asked {
		var err error
		for i, cmd := range cmds {
			if err == nil && l.breaker(cmd.Key) == b {
				err = replies[i].Err
			}
		}
		l.recordOutcome(ctx, b, err)
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
	l.recordOutcome(ctx, b, keyspace.FirstErr(replies))
	return replies
}

// recordOutcome records the result of commands that ran with ctx in a breaker.
func (l *line) recordOutcome(ctx context.Context, b *breaker, err error) {
	if err == nil {
		b.worked()
		return
	}
	if errors.Is(err, redis.ErrUnavailable) {
		deadline, _ := ctx.Deadline() // lines send every command with one
		now := bus.Now()
		if b.failed(l.budget, now-bus.Moment(time.Since(deadline)), now) {
			l.rt.cfg.Log.Warn(l.openedMessage, "err", err)
		}
	}
	if l.rt.cfg.Hooks.Redis != nil {
		l.rt.cfg.Hooks.Redis(err)
	}
}

// A breaker is a circuit breaker: it opens for a while when the total weight of consecutive failures reaches breakAt,
// and then lets one command through.
type breaker struct {
	weight atomic.Int32 // of the failures since the last success
	last   atomic.Int64 // a bus.Moment: the last failure that had a weight
	until  atomic.Int64 // a bus.Moment
}

const (
	breakAt  = 12 // three failures, or twelve that this process noticed late
	breakFor = 500 * time.Millisecond
)

// weightOf returns the weight of a failure at the moment now. A command can also time out because this process was
// paused or got no processor time. All commands that wait at that moment then fail together, so only the first of them
// has a weight. A failure long after its deadline weighs less, because the process itself was late. It still has a
// weight: on an overloaded machine every failure is late, and a silent Redis must open the breaker there, too.
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

var errOpen = fmt.Errorf("cache: %w: the circuit breaker is open after several failures", redis.ErrUnavailable)

// breaker returns the breaker of a key: in a cluster a single master can be unavailable, and each master owns ranges of
// slots.
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

// worked closes the breaker. It reads both fields because a concurrent failure may write until after worked has written
// 0.
func (b *breaker) worked() {
	if b.weight.Load() != 0 || b.until.Load() != 0 {
		b.weight.Store(0)
		b.until.Store(0)
	}
}

// failed adds a failure, and reports whether it opened the breaker.
func (b *breaker) failed(budget time.Duration, deadline, now bus.Moment) bool {
	last := b.last.Load()
	w := weightOf(budget, bus.Moment(last), deadline, now)
	if w == 0 || !b.last.CompareAndSwap(last, int64(now)) || b.weight.Add(w) < breakAt {
		return false
	}
	jitter := rand.N(breakFor / 4) // so that nodes do not retry at the same moment
	return b.until.Swap(int64(now)+int64(breakFor+jitter)) == 0
}
