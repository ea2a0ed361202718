package cachetest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

// Adapter is one node of a cache under test: texts by key, in process if the library can, in Redis, and from the
// [Source]. Use each library's best documented way.
type Adapter interface {
	// Get returns the text of key, or [ErrNotFound].
	Get(ctx context.Context, key string) (string, error)
	// Change calls commit, which writes key's row, and makes sure that no reader gets the old text for long. It may
	// refuse, with an error, before commit.
	Change(ctx context.Context, key string, commit func(context.Context) error) error
	// Close ends the node. The node may have lost its connection to Redis.
	Close()
}

// Optional interfaces of an [Adapter].
type (
	// Many reads several keys at once; missing keys are absent from the map.
	Many interface {
		GetMany(ctx context.Context, keys []string) (map[string]string, error)
	}
	// Tagged drops all keys with a tag; a key's tag is the part before its slash.
	Tagged interface {
		ChangeTag(ctx context.Context, tag string, commit func(context.Context) error) error
	}
	// Beside updates the caches for commits without Change: Drop after another program's commit, Set with the text that
	// the caller has just committed.
	Beside interface {
		Drop(ctx context.Context, key string) error
		Set(ctx context.Context, key, text string) error
	}
	// Named returns the Redis key of a key, to find its owner in a cluster.
	Named interface{ Physical(key string) string }
)

// ErrNotOffered is returned by [Library.Open] for a kind of Redis that it does not support.
var ErrNotOffered = errors.New("cachetest: not offered")

// A Library opens nodes.
type Library struct {
	Name string
	// MaxStale bounds how long after a change an old text may be read; 0 means 500 ms.
	MaxStale time.Duration
	// Virtual declares that Open connects by [Node].Dial alone. Hazards that need no real server are then tried in
	// virtual time, unless STOA_HAZARDS=full requests the figures of docs/cache-hazards.md.
	Virtual bool
	// OnServers runs a Virtual library against all hazards on real servers, too.
	OnServers bool
	Open      func(t testing.TB, n Node) (Adapter, error)
}

// Node configures a node.
type Node struct {
	Name   string
	Redis  string                                                            // redis://…, redis-sentinel://… or redis-cluster://…
	Dial   func(ctx context.Context, network, addr string) (net.Conn, error) // connects to it; nil: the default
	Source *Source
	Life   time.Duration // of a text in the cache, with the library's jitter
	Empty  time.Duration // of a negative entry
	Load   time.Duration // longest duration of a load
	Change time.Duration // longest duration of a change
	// Proceed makes changes commit although Redis cannot be fenced.
	Proceed bool
}

// A Verdict is the result of a library in one hazard.
type Verdict struct {
	Hazard string
	Held   bool
	Why    string // why it did not hold, or is not offered
	Not    bool   // not offered
	Notes  []string
}

// Run tries a library against every hazard, each in a test of its own.
func Run(t *testing.T, l Library) {
	t.Helper()
	for _, h := range hazards {
		t.Run(h.name, func(t *testing.T) {
			if h.parallel {
				t.Parallel()
			}
			l.inTime(t, h, func(t *testing.T) { h.try(newTrial(t, l, h)) })
		})
	}
}

// inTime calls try in real or virtual time, as the library and the hazard require.
func (l Library) inTime(t *testing.T, h hazard, try func(*testing.T)) {
	if l.virtual(h) {
		redistest.Bubble(t, try)
	} else {
		try(t)
	}
}

func (l Library) virtual(h hazard) bool { return l.Virtual && !l.OnServers && !full && !h.real }

// Judge tries a library against every hazard whose name contains one of the words, or against all hazards without
// words, and returns the verdicts.
func Judge(t *testing.T, l Library, words ...string) []Verdict {
	t.Helper()
	var all []Verdict
	for _, h := range hazards {
		wanted := len(words) == 0
		for _, w := range words {
			wanted = wanted || strings.Contains(h.name, w)
		}
		if !wanted {
			continue
		}
		v := Verdict{Hazard: h.name}
		t.Run(h.name, func(t *testing.T) {
			l.inTime(t, h, func(t *testing.T) { v.judge(t, l, h) })
		})
		all = append(all, v)
	}
	return all
}

func (v *Verdict) judge(t *testing.T, l Library, h hazard) {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				r.add(&r.faults, fmt.Sprint("panic: ", p))
			}
		}()
		h.try(newTrial(r, l, h))
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		r.add(&r.faults, "hangs")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	v.Held, v.Notes = len(r.faults) == 0 && len(r.missing) == 0, r.notes
	v.Not, v.Why = len(r.missing) > 0, strings.Join(append(r.missing, r.faults...), "; ")
	t.Logf("held: %v %s %s", v.Held, v.Why, strings.Join(v.Notes, "; "))
}

// recorder records faults instead of failing.
type recorder struct {
	testing.TB
	mu                     sync.Mutex
	faults, missing, notes []string
}

func (r *recorder) add(to *[]string, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*to = append(*to, text)
}

func (r *recorder) Errorf(format string, args ...any) { r.add(&r.faults, fmt.Sprintf(format, args...)) }
func (r *recorder) Error(args ...any)                 { r.add(&r.faults, fmt.Sprint(args...)) }
func (r *recorder) Logf(format string, args ...any)   { r.add(&r.notes, fmt.Sprintf(format, args...)) }
func (r *recorder) Fatalf(format string, args ...any) { r.Errorf(format, args...); runtime.Goexit() }
func (r *recorder) Fatal(args ...any)                 { r.Error(args...); runtime.Goexit() }
func (r *recorder) Skip(args ...any)                  { r.add(&r.missing, fmt.Sprint(args...)); runtime.Goexit() }

// A hazard is one way in which caches fail.
type hazard struct {
	name     string
	parallel bool // it measures no times
	try      func(*trial)
	real     bool // it needs a real server
}

// A trial is a library in one hazard.
type trial struct {
	testing.TB
	lib     Library
	virtual bool
	server  *redistest.Instance // nil in virtual time
	flush   func()              // FLUSHALL
	wires   [2]*redistest.Wire
	source  *Source
	node    [2]Adapter
}

func newTrial(t testing.TB, l Library, h hazard) *trial {
	if l.MaxStale == 0 {
		l.MaxStale = 500 * time.Millisecond
	}
	return &trial{TB: t, lib: l, virtual: l.virtual(h), source: &Source{}}
}

// open starts two nodes on one server, each behind a wire of its own.
func (t *trial) open(change func(*Node)) {
	newWire := func() *redistest.Wire { return redistest.NewWire(t, t.server.Addr) }
	if t.virtual {
		memory := redistest.InMemory(t)
		t.flush, newWire = memory.FlushAll, memory.Wire
	} else {
		t.server = redistest.Server(t, "appendonly yes", "appendfsync always")
		t.flush = t.server.FlushAll
	}
	for i := range t.node {
		t.wires[i] = newWire()
		cfg := t.wires[i].Config()
		t.start(i, cfg.URL, func(n *Node) {
			n.Dial = cfg.Dial
			if change != nil {
				change(n)
			}
		})
	}
}

// openAt starts two nodes without wires.
func (t *trial) openAt(url string, change func(*Node)) {
	for i := range t.node {
		t.start(i, url, change)
	}
}

func (t *trial) start(i int, url string, change func(*Node)) {
	n := Node{Name: fmt.Sprint("node", i), Redis: url, Source: t.source,
		Life: time.Hour, Empty: time.Minute, Load: 5 * time.Second, Change: 10 * time.Second}
	if change != nil {
		change(&n)
	}
	a, err := t.lib.Open(t, n)
	if errors.Is(err, ErrNotOffered) {
		t.Skip(err.Error())
	} else if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	t.Cleanup(func() { once.Do(a.Close) })
	t.node[i] = a
}

// callTimeout bounds a call that nothing delays.
const callTimeout = 10 * time.Second

func (t *trial) ctx() context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
	t.Cleanup(cancel)
	return ctx
}

// set commits without notifying the caches: use it before they have the key.
func (t *trial) set(key, text string) { t.source.Set(key, text) }

// get reads, and fails the trial if the read fails.
func (t *trial) get(node int, key string) string {
	text, err := t.node[node].Get(t.ctx(), key)
	if err != nil && !errors.Is(err, ErrNotFound) {
		t.Errorf("node %d: Get: %v", node, err)
	}
	return text
}

// warm makes both nodes cache the key.
func (t *trial) warm(key string) {
	for range 3 {
		for i := range t.node {
			t.get(i, key)
		}
	}
}

// change commits text on a node. A refusal is a valid result, too.
func (t *trial) change(node int, key, text string) {
	err := t.node[node].Change(t.ctx(), key, func(context.Context) error { t.source.Set(key, text); return nil })
	if err != nil {
		t.Logf("node %d: Change: %v", node, err)
	}
}

// commit is change in a trial without faults. A refusal can then only come from a stalled machine, and is retried.
func (t *trial) commit(change func(commit func(context.Context) error) error, write func()) {
	for end := time.Now().Add(callTimeout); ; time.Sleep(50 * time.Millisecond) {
		called := false
		err := change(func(context.Context) error { called = true; write(); return nil })
		if err == nil {
			return
		}
		if called || time.Now().After(end) {
			t.Fatalf("Change: %v", err)
		}
	}
}

// update is change by commit.
func (t *trial) update(node int, key, text string) {
	t.commit(func(commit func(context.Context) error) error { return t.node[node].Change(t.ctx(), key, commit) },
		func() { t.source.Set(key, text) })
}

// fresh fails the trial if, from MaxStale after now on and for a third of a second, a node reads another text than the
// source has. Errors are not counted.
func (t *trial) fresh(key string, nodes ...int) {
	t.Helper()
	time.Sleep(t.lib.MaxStale) // until then a node may read either value
	if t.mayStall() {
		want, ok := t.source.row(key)
		for end := time.Now().Add(time.Minute); time.Now().Before(end) && slices.ContainsFunc(nodes, func(i int) bool {
			got, err := t.node[i].Get(t.ctx(), key)
			return err == nil && (!ok || got != want)
		}); {
			time.Sleep(10 * time.Millisecond)
		}
	}
	t.staysFresh(key, nodes...)
}

// mayStall reports whether a stalled machine may delay the trial. Time limits are then only checked in virtual time.
func (t *trial) mayStall() bool { return t.lib.Virtual && !t.virtual && !full }

// staysFresh is fresh without the wait.
func (t *trial) staysFresh(key string, nodes ...int) {
	t.Helper()
	want, ok := t.source.row(key)
	for end := time.Now().Add(330 * time.Millisecond); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		for _, i := range nodes {
			got, err := t.node[i].Get(t.ctx(), key)
			if err == nil && (!ok || got != want) || errors.Is(err, ErrNotFound) && ok {
				t.Errorf("node %d reads %q (%v), the source has %q", i, got, err, want)
				return
			}
		}
	}
}
