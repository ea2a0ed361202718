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

// Adapter is one node of a cache under test: texts by key, in process where the
// library can, in Redis, and from the [Source]. Use each library's best documented
// way.
type Adapter interface {
	// Get returns the text of key, or [ErrNotFound].
	Get(ctx context.Context, key string) (string, error)
	// Change calls commit, which writes key's row, and sees to it that nobody
	// reads the old text for long. It may refuse, with an error, before commit.
	Change(ctx context.Context, key string, commit func(context.Context) error) error
	// Close ends the node. It may be cut off from Redis.
	Close()
}

// Optional interfaces of an [Adapter].
type (
	// Many reads several keys at once; what does not exist is absent.
	Many interface {
		GetMany(ctx context.Context, keys []string) (map[string]string, error)
	}
	// Tagged drops all keys with a tag; a key's tag is what is before its slash.
	Tagged interface {
		ChangeTag(ctx context.Context, tag string, commit func(context.Context) error) error
	}
	// Beside tells the caches of what was committed without Change: Drop when
	// somebody else did, Set with the text that the caller has just committed.
	Beside interface {
		Drop(ctx context.Context, key string) error
		Set(ctx context.Context, key, text string) error
	}
	// Named says what a key is called in Redis, to find its owner in a cluster.
	Named interface{ Physical(key string) string }
)

// ErrNotOffered is what [Library.Open] returns when it does not know a kind of Redis.
var ErrNotOffered = errors.New("cachetest: not offered")

// A Library makes nodes.
type Library struct {
	Name string
	// MaxStale is for how long after a change an old text may be read; 0 means
	// 500 ms.
	MaxStale time.Duration
	// Virtual says that Open connects by [Node].Dial alone. Whatever needs no real
	// server is then tried in virtual time, unless STOA_HAZARDS=full asks for the
	// figures of docs/cache-hazards.md.
	Virtual bool
	// OnServers has a Virtual library meet all hazards on real servers, too.
	OnServers bool
	Open      func(t testing.TB, n Node) (Adapter, error)
}

// Node is what a node is made of.
type Node struct {
	Name   string
	Redis  string                                                            // redis://…, redis-sentinel://… or redis-cluster://…
	Dial   func(ctx context.Context, network, addr string) (net.Conn, error) // how to connect to it; nil as usual
	Source *Source
	Life   time.Duration // of a text in the cache, with what spread the library has
	Empty  time.Duration // of the knowledge that there is none
	Load   time.Duration // how long a load may take
	Change time.Duration // how long a change may take
	// Proceed: changes commit although Redis cannot be told.
	Proceed bool
}

// A Verdict is how a library fared.
type Verdict struct {
	Hazard string
	Held   bool
	Why    string // it did not hold, or is not offered
	Not    bool   // offered
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

// inTime calls try in the time, real or virtual, in which the library meets a hazard.
func (l Library) inTime(t *testing.T, h hazard, try func(*testing.T)) {
	if l.virtual(h) {
		redistest.Bubble(t, try)
	} else {
		try(t)
	}
}

func (l Library) virtual(h hazard) bool { return l.Virtual && !l.OnServers && !full && !h.real }

// Judge tries a library against every hazard whose name has one of the words in it,
// all without words, and tells how it fared.
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
				r.say(&r.faults, fmt.Sprint("panic: ", p))
			}
		}()
		h.try(newTrial(r, l, h))
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		r.say(&r.faults, "hangs")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	v.Held, v.Notes = len(r.faults) == 0 && len(r.missing) == 0, r.notes
	v.Not, v.Why = len(r.missing) > 0, strings.Join(append(r.missing, r.faults...), "; ")
	t.Logf("held: %v %s %s", v.Held, v.Why, strings.Join(v.Notes, "; "))
}

// recorder notes faults in place of failing.
type recorder struct {
	testing.TB
	mu                     sync.Mutex
	faults, missing, notes []string
}

func (r *recorder) say(to *[]string, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*to = append(*to, text)
}

func (r *recorder) Errorf(format string, args ...any) { r.say(&r.faults, fmt.Sprintf(format, args...)) }
func (r *recorder) Error(args ...any)                 { r.say(&r.faults, fmt.Sprint(args...)) }
func (r *recorder) Logf(format string, args ...any)   { r.say(&r.notes, fmt.Sprintf(format, args...)) }
func (r *recorder) Fatalf(format string, args ...any) { r.Errorf(format, args...); runtime.Goexit() }
func (r *recorder) Fatal(args ...any)                 { r.Error(args...); runtime.Goexit() }
func (r *recorder) Skip(args ...any)                  { r.say(&r.missing, fmt.Sprint(args...)); runtime.Goexit() }

// A hazard is one way in which caches go wrong.
type hazard struct {
	name     string
	parallel bool // it measures nothing
	try      func(*trial)
	real     bool // it needs what only a real server does
}

// A network is what lies between a node and its server: a [Proxy] or, in virtual
// time, a [redistest.Wire].
type network interface {
	Reset()
	Refuse()
	Hold(Direction)
	BlackHole()
	Delay(time.Duration)
	Jitter(most time.Duration)
	LoseMessages()
	Lost() int
	Heal()
}

// A trial is a library before a hazard.
type trial struct {
	testing.TB
	lib     Library
	virtual bool
	server  *redistest.Instance // nil in virtual time
	flush   func()              // FLUSHALL
	proxy   [2]network
	source  *Source
	node    [2]Adapter
}

func newTrial(t testing.TB, l Library, h hazard) *trial {
	if l.MaxStale == 0 {
		l.MaxStale = 500 * time.Millisecond
	}
	return &trial{TB: t, lib: l, virtual: l.virtual(h), source: &Source{}}
}

// open starts two nodes on one server, each behind a network of its own.
func (t *trial) open(change func(*Node)) {
	if t.virtual {
		memory := redistest.InMemory(t)
		t.flush = memory.FlushAll
		for i := range t.node {
			wire := memory.Wire()
			t.proxy[i] = wire
			t.start(i, wire.Config().URL, func(n *Node) {
				n.Dial = wire.Config().Dial
				if change != nil {
					change(n)
				}
			})
		}
		return
	}
	t.server = redistest.Server(t, "appendonly yes", "appendfsync always")
	t.flush = t.server.FlushAll
	for i := range t.node {
		proxy := NewProxy(t, t.server.Addr)
		t.proxy[i] = proxy
		t.start(i, "redis://"+proxy.Addr, change)
	}
}

// openAt starts two nodes without proxies.
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

// patience is how long a call may take that nothing holds up.
const patience = 10 * time.Second

func (t *trial) ctx() context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// set commits without telling the caches: before they know the key.
func (t *trial) set(key, text string) { t.source.Set(key, text) }

// get reads, and fails the trial if it cannot.
func (t *trial) get(node int, key string) string {
	text, err := t.node[node].Get(t.ctx(), key)
	if err != nil && !errors.Is(err, ErrNotFound) {
		t.Errorf("node %d: Get: %v", node, err)
	}
	return text
}

// warm has both nodes keep the key at hand.
func (t *trial) warm(key string) {
	for range 3 {
		for i := range t.node {
			t.get(i, key)
		}
	}
}

// change commits text on a node. A refusal is an answer, too.
func (t *trial) change(node int, key, text string) {
	err := t.node[node].Change(t.ctx(), key, func(context.Context) error { t.source.Set(key, text); return nil })
	if err != nil {
		t.Logf("node %d: Change: %v", node, err)
	}
}

// commit is change where nothing is wrong that a refusal could be for, but a
// machine that stalls: it is tried again.
func (t *trial) commit(change func(commit func(context.Context) error) error, write func()) {
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
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

// update is change in that way.
func (t *trial) update(node int, key, text string) {
	t.commit(func(commit func(context.Context) error) error { return t.node[node].Change(t.ctx(), key, commit) },
		func() { t.source.Set(key, text) })
}

// fresh fails the trial if a node still reads something else than the source has,
// from MaxStale after now on, for a third of a second. Errors are no lies.
func (t *trial) fresh(key string, nodes ...int) {
	t.Helper()
	time.Sleep(t.lib.MaxStale) // until then a node may read either value
	if t.mayStall() {
		want, there := t.source.row(key)
		for end := time.Now().Add(time.Minute); time.Now().Before(end) && slices.ContainsFunc(nodes, func(i int) bool {
			got, err := t.node[i].Get(t.ctx(), key)
			return err == nil && (!there || got != want)
		}); {
			time.Sleep(10 * time.Millisecond)
		}
	}
	t.now(key, nodes...)
}

// mayStall reports whether the trial may take as long as a machine that stalls: how soon something has to be is then
// decided in virtual time.
func (t *trial) mayStall() bool { return t.lib.Virtual && !t.virtual && !full }

// now is fresh without the wait.
func (t *trial) now(key string, nodes ...int) {
	t.Helper()
	want, there := t.source.row(key)
	for end := time.Now().Add(330 * time.Millisecond); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		for _, i := range nodes {
			got, err := t.node[i].Get(t.ctx(), key)
			if err == nil && (!there || got != want) || errors.Is(err, ErrNotFound) && there {
				t.Errorf("node %d still reads %q (%v) when the source has %q", i, got, err, want)
				return
			}
		}
	}
}
