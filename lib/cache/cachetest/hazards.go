package cachetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

// hazards contains all hazards in the order of the report.
var hazards = []hazard{
	{"stale fill: a load overtaken by a change", true, staleFill, false},
	{"stale fill: a reply of Redis overtaken by a change", true, staleReply, false},
	{"a read after a change, on the node that changed", true, readYourWrites, false},
	{"invalidation lost: connections reset", true, resetDuring, false},
	{"invalidation lost: the message alone", true, messageLost, false},
	{"silent partition of a reader", true, blackHole, false},
	{"silent partition, one way: nothing arrives", true, oneWay(redistest.ToServer), false},
	{"silent partition, one way: no answer comes", true, oneWay(redistest.ToNode), false},
	{"a late command: it arrives after a newer change", true, lateCommand, false},
	{"crash between commit and drop", true, crash, false},
	{"crash before the commit: cached again soon", true, crashBefore, false},
	{"Redis emptied in the middle of a change", true, flush, false},
	{"Redis restarted with older data", true, oldData, true},
	{"failover behind sentinels in the middle of a change", true, sentinel, true},
	{"failover of a cluster's owner in the middle of a change", true, clusterOwner, true},
	{"a change that takes longer than it may", true, longChange, false},
	{"a change of unknown outcome, committed late", true, unknownOutcome, false},
	{"random history under resets", true, history(func(t *trial) { t.wires[rand.N(2)].Reset() }), false},
	{"random history under black holes", true, history(func(t *trial) {
		w := t.wires[rand.N(2)]
		w.BlackHole()
		time.Sleep(rand.N(2 * t.lib.MaxStale))
		w.Heal()
	}), false},
	{"random history while Redis is emptied", true, history(func(t *trial) { t.flush() }), false},
	{"random history over a failover", true, historyOverFailover, true},
	{"null, empty and odd texts are no markers", true, oddTexts, false},
	{"what does not exist: asked once, seen when it does", true, negative, false},
	{"tags: many keys in one change", true, tags, false},
	{"a drop overtaken by a load", true, dropOvertaken, false},
	{"a drop that Redis does not take", true, dropLater(func(ctx context.Context, b Beside) error { return b.Drop(ctx, key) }), false},
	{"write-through overtaken by a load", true, setOvertaken, false},
	{"write-through under a change", true, setUnderChange, false},
	{"write-through that Redis does not take", true, dropLater(func(ctx context.Context, b Beside) error {
		return b.Set(ctx, key, "new")
	}), false},
	{"a change that goes on without Redis", true, proceed, false},
	{"random history of changes that go on while Redis is stopped", true, proceedHistory, false},
	{"a loader's connection is reset", true, loaderReset, false},
	{"a loader dies", true, loaderDies, false},
	{"delays of up to 60 ms each way", true, delays, false},
	{"herd: 2 nodes, 200 callers each, one cold key", false, herd, false},
	{"all keys expire together", false, expireTogether, false},
	{"the source panics", true, sourcePanics, false},
	{"the source ignores its context", true, ignoresContext, false},
	{"the first of many callers leaves", true, callerLeaves, false},
	{"Redis refuses: a cold read costs the load", false, refused, false},
	{"Redis black-holed: a cold read costs the load", false, blackHoled, false},
}

const key = "row/1"

func staleFill(t *trial) {
	t.open(nil)
	t.set(key, "old")
	held := t.source.HoldNext()
	defer held.Release()
	var reader sync.WaitGroup
	reader.Go(func() { _, _ = t.node[1].Get(t.ctx(), key) })
	<-held.Reached
	t.update(0, key, "new")
	held.Release()
	reader.Wait()
	t.fresh(key, 0, 1)
}

func staleReply(t *trial) {
	t.open(nil)
	t.set(key, "old")
	t.get(0, key) // it is in Redis now
	t.get(1, "row/2")
	t.wires[1].Hold(redistest.ToNode)
	var reader sync.WaitGroup
	reader.Go(func() { _, _ = t.node[1].Get(t.ctx(), key) })
	time.Sleep(30 * time.Millisecond) // the reply is on its way
	t.change(0, key, "new")
	t.wires[1].Heal()
	reader.Wait()
	t.fresh(key, 0, 1)
}

func readYourWrites(t *trial) {
	t.open(nil)
	t.set(key, "0")
	t.warm(key)
	for n := range 30 {
		text := fmt.Sprint(n + 1)
		var readers sync.WaitGroup
		t.commit(func(commit func(context.Context) error) error { return t.node[0].Change(t.ctx(), key, commit) }, func() {
			for range 4 {
				readers.Go(func() { _, _ = t.node[0].Get(t.ctx(), key) })
			}
			time.Sleep(time.Millisecond)
			t.set(key, text)
		})
		if got := t.get(0, key); got != text {
			t.Errorf("%q after the change to %q", got, text)
			n = 30
		}
		readers.Wait()
	}
}

func resetDuring(t *trial) {
	t.open(nil)
	t.set(key, "old")
	t.warm(key)
	t.wires[1].Refuse()
	t.change(0, key, "new")
	t.wires[1].Heal()
	t.fresh(key, 0, 1)
}

func messageLost(t *trial) {
	t.open(nil)
	t.set(key, "old")
	t.warm(key)
	t.wires[1].LoseMessages()
	t.change(0, key, "new")
	time.Sleep(20 * time.Millisecond)
	lost := t.wires[1].Lost()
	t.wires[1].Heal()
	t.fresh(key, 0, 1)
	t.Logf("%d messages were dropped", lost)
}

func blackHole(t *trial) {
	t.open(nil)
	t.set(key, "old")
	t.warm(key)
	t.wires[1].BlackHole()
	t.change(0, key, "new")
	t.source.Slow(150 * time.Millisecond) // an old copy would be returned sooner
	t.fresh(key, 0, 1)
	t.source.Slow(0)
	t.wires[1].Heal()
	t.fresh(key, 0, 1)
}

func oneWay(d redistest.Direction) func(*trial) {
	return func(t *trial) {
		t.open(nil)
		t.set(key, "old")
		t.warm(key)
		t.wires[1].Hold(d)
		t.change(0, key, "new")
		t.fresh(key, 0, 1)
		t.change(1, key, "newer") // it may refuse
		t.wires[1].Heal()
		t.fresh(key, 0, 1)
	}
}

// lateCommand delays a node's commands about its change until another node has changed the key again.
func lateCommand(t *trial) {
	t.open(nil)
	t.set(key, "0")
	t.warm(key)
	var slow sync.WaitGroup
	slow.Go(func() {
		_ = t.node[1].Change(t.ctx(), key, func(context.Context) error {
			t.wires[1].Hold(redistest.ToServer)
			t.set(key, "1")
			return nil
		})
	})
	slow.Wait()
	t.change(0, key, "2")
	t.get(0, key)
	t.wires[1].Heal()
	t.fresh(key, 0, 1)
}

func crash(t *trial) {
	t.open(nil)
	t.set(key, "old")
	t.warm(key)
	var dying sync.WaitGroup
	dying.Go(func() {
		_ = t.node[0].Change(t.ctx(), key, func(context.Context) error {
			t.set(key, "new")
			t.wires[0].BlackHole() // and is never healed
			return nil
		})
	})
	dying.Wait()
	t.wires[0].Refuse()
	t.fresh(key, 1)
	time.Sleep(t.lib.MaxStale)
	t.staysFresh(key, 1)
}

func crashBefore(t *trial) {
	t.open(func(n *Node) { n.Change = 200 * time.Millisecond })
	t.set(key, "old")
	t.warm(key)
	var dying sync.WaitGroup
	dying.Go(func() {
		_ = t.node[0].Change(t.ctx(), key, func(context.Context) error {
			t.wires[0].BlackHole()
			return errors.New("crash")
		})
	})
	dying.Wait()
	t.wires[0].Refuse()
	time.Sleep(4 * time.Second)
	t.get(1, key)
	t.get(1, key)
	before := len(t.source.Loads())
	for range 20 {
		t.get(1, key)
	}
	if loads := len(t.source.Loads()) - before; loads > 1 {
		t.Errorf("%d of 20 reads ask the source, 4 s later", loads)
	}
}

func flush(t *trial) {
	t.open(nil)
	t.set(key, "old")
	t.warm(key)
	_ = t.node[0].Change(t.ctx(), key, func(context.Context) error {
		t.flush()
		t.warm(key)
		t.set(key, "new")
		return nil
	})
	t.fresh(key, 0, 1)
}

func longChange(t *trial) {
	t.open(func(n *Node) { n.Change = 100 * time.Millisecond })
	t.set(key, "old")
	t.warm(key)
	_ = t.node[0].Change(t.ctx(), key, func(context.Context) error {
		time.Sleep(2 * time.Second) // ignores its context
		t.warm(key)
		t.set(key, "new")
		return nil
	})
	t.fresh(key, 0, 1)
}

// unknownOutcome is a commit that the database executes after the node has given up.
func unknownOutcome(t *trial) {
	t.open(nil)
	t.set(key, "old")
	t.warm(key)
	_ = t.node[0].Change(t.ctx(), key, func(context.Context) error { return context.DeadlineExceeded })
	t.warm(key)
	t.set(key, "new")
	t.fresh(key, 0, 1)
}

func oddTexts(t *trial) {
	t.open(nil)
	for n, text := range []string{"", "null", "{}", `""`, "[]", "false", "0", "*", "nil", "NOT_FOUND", "__EMPTY__", "\x00", "é\u2028"} {
		key := fmt.Sprint("odd/", n) // no node has a copy
		t.update(0, key, text)
		for i := range t.node {
			for range 2 { // from the source or Redis, and from the process
				if got, err := t.node[i].Get(t.ctx(), key); err != nil || got != text {
					t.Errorf("node %d reads %q (%v), the source has %q", i, got, err, text)
				}
			}
		}
	}
}

func negative(t *trial) {
	t.open(nil)
	for range 20 {
		for i := range t.node {
			if text, err := t.node[i].Get(t.ctx(), key); !errors.Is(err, ErrNotFound) {
				t.Fatalf("node %d reads %q (%v), but the row does not exist", i, text, err)
			}
		}
	}
	if loads := len(t.source.Loads()); loads > 2 {
		t.Errorf("%d of 40 reads asked the source", loads)
	}
	t.update(0, key, "new")
	t.fresh(key, 0, 1)
	if many, ok := t.node[1].(Many); ok {
		got, err := many.GetMany(t.ctx(), []string{key, "row/none", key})
		if err != nil || len(got) != 1 || got[key] != "new" {
			t.Errorf("GetMany = %q, %v", got, err)
		}
	}
}

func tags(t *trial) {
	t.open(nil)
	tagged, ok := t.node[0].(Tagged)
	if !ok {
		t.Skip("not offered")
		return
	}
	var keys []string
	for n := range 20 {
		keys = append(keys, fmt.Sprint("room/", n))
	}
	write := func(text string) {
		for _, k := range keys {
			t.set(k, text)
		}
	}
	write("old")
	for _, k := range keys {
		t.warm(k)
	}
	held := t.source.HoldNext()
	defer held.Release()
	var reader sync.WaitGroup
	reader.Go(func() { _, _ = t.node[1].Get(t.ctx(), "room/cold") })
	<-held.Reached
	t.commit(func(commit func(context.Context) error) error { return tagged.ChangeTag(t.ctx(), "room", commit) },
		func() { write("new"); t.set("room/cold", "new") })
	t.staysFresh(keys[3], 0)
	held.Release()
	reader.Wait()
	t.fresh(keys[0], 0, 1)
	for _, k := range append(keys, "room/cold") {
		for i := range t.node {
			if got := t.get(i, k); got != "new" {
				t.Errorf("node %d still reads %q of %s", i, got, k)
			}
		}
	}
}

func herd(t *trial) {
	t.open(nil)
	t.set(key, "text")
	t.get(0, "row/other") // opens the connections
	t.get(1, "row/other")
	t.source.Slow(100 * time.Millisecond)
	before := len(t.source.Loads())
	var callers sync.WaitGroup
	begin := make(chan struct{})
	for n := range 400 {
		callers.Go(func() {
			<-begin
			if got := t.get(n%2, key); got != "text" {
				t.Errorf("node %d reads %q", n%2, got)
			}
		})
	}
	close(begin)
	callers.Wait()
	loads := len(t.source.Loads()) - before
	t.Logf("%d loads", loads)
	if loads != 1 {
		t.Errorf("%d loads", loads)
	}
}

// expireTogether loads 200 keys at once and records when they are loaded again.
func expireTogether(t *trial) {
	const keys, life = 200, 2 * time.Second
	t.open(func(n *Node) { n.Life = life })
	highest := 0
	for try := range 3 { // on a stalled machine all readers ask the source
		if highest = loadTogether(t, fmt.Sprint("row/", try, "/"), keys, life); highest <= keys*3/4 {
			break
		}
	}
	t.Logf("of %d keys at most %d were loaded within a tenth of their life", keys, highest)
	if highest > keys*3/4 {
		t.Errorf("%d of %d keys were loaded within a tenth of their life", highest, keys)
	}
}

func loadTogether(t *trial, prefix string, keys int, life time.Duration) (highest int) {
	name := func(n int) string { return fmt.Sprint(prefix, n) }
	for n := range keys {
		t.set(name(n), "text")
	}
	for n := range keys {
		t.get(n%2, name(n))
	}
	time.Sleep(life / 4)
	before := len(t.source.Loads())
	var readers sync.WaitGroup
	for part := range 8 {
		readers.Go(func() {
			for end := time.Now().Add(life * 5 / 4); time.Now().Before(end); {
				for n := part; n < keys; n += 8 {
					t.get(n%2, name(n))
				}
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	readers.Wait()
	loads := t.source.Loads()[before:]
	for i, from := range loads { // in any tenth of a life
		n, _ := slices.BinarySearchFunc(loads[i:], from.Add(life/10), time.Time.Compare)
		highest = max(highest, n)
	}
	return highest
}

func sourcePanics(t *trial) {
	t.open(nil)
	t.set(key, "text")
	t.source.PanicNext()
	func() {
		// If the library calls the source on the caller's goroutine, the caller gets the panic.
		defer func() { _ = recover() }()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if text, err := t.node[0].Get(ctx, key); err == nil {
			t.Errorf("Get = %q after a panic", text)
		} else if ctx.Err() != nil {
			t.Errorf("a read hangs after a panic")
		}
	}()
	began := time.Now()
	for i := range t.node {
		if got := t.get(i, key); got != "text" {
			t.Errorf("node %d reads %q after the panic", i, got)
		}
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("the next reads took %s", took)
	}
}

func ignoresContext(t *trial) {
	t.open(func(n *Node) { n.Load = 500 * time.Millisecond })
	t.set(key, "text")
	held := t.source.HoldNext()
	defer held.Release()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	ended := make(chan time.Duration, 1)
	began := time.Now()
	go func() {
		_, _ = t.node[0].Get(ctx, key)
		ended <- time.Since(began)
	}()
	select {
	case took := <-ended:
		if took > 500*time.Millisecond {
			t.Errorf("a caller with 100 ms waited %s", took)
		}
	case <-time.After(3 * time.Second):
		t.Errorf("a caller with 100 ms hangs")
		return
	}
	began = time.Now()
	go func() { _, _ = t.node[0].Get(t.ctx(), key); ended <- time.Since(began) }()
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		t.Errorf("a caller without a deadline hangs")
	}
	held.Release()
}

func callerLeaves(t *trial) {
	t.open(nil)
	t.set(key, "text")
	held := t.source.HoldNext()
	defer held.Release()
	ctx, leave := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	callers.Go(func() { _, _ = t.node[0].Get(ctx, key) })
	<-held.Reached
	callers.Go(func() {
		if text, err := t.node[0].Get(t.ctx(), key); err != nil || text != "text" {
			t.Errorf("the remaining caller reads %q (%v)", text, err)
		}
	})
	time.Sleep(50 * time.Millisecond)
	leave()
	time.Sleep(50 * time.Millisecond)
	held.Release()
	callers.Wait()
	if loads := len(t.source.Loads()); loads != 1 {
		t.Errorf("%d loads", loads)
	}
}

func refused(t *trial)    { readWithoutRedis(t, (*redistest.Wire).Refuse) }
func blackHoled(t *trial) { readWithoutRedis(t, (*redistest.Wire).BlackHole) }

// readWithoutRedis reads cold keys one by one while Redis is unavailable.
func readWithoutRedis(t *trial, fault func(*redistest.Wire)) {
	const load = 10 * time.Millisecond
	t.open(nil)
	t.source.Slow(load)
	for n := range 400 {
		t.set(fmt.Sprint("row/", n), "text")
	}
	t.get(0, "row/0")
	fault(t.wires[0])
	read := func(n int) time.Duration {
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if text, err := t.node[0].Get(ctx, fmt.Sprint("row/", n)); err != nil || text != "text" {
			t.Errorf("Get = %q, %v", text, err)
		}
		took := time.Since(began)
		t.source.mu.Lock()
		defer t.source.mu.Unlock()
		return took - t.source.last
	}
	slow := 0
	for n := range 20 {
		took := read(n + 1)
		if t.virtual && took > 200*time.Millisecond {
			t.Errorf("cold read %d takes %s over the load", n, took)
		}
		if took > time.Second {
			if slow++; slow == 5 {
				t.Fatalf("a cold read takes %s", took.Round(100*time.Millisecond))
			}
		}
	}
	time.Sleep(time.Second) // the failure has been noticed
	var took []time.Duration
	for n := range 300 {
		took = append(took, read(n+50))
		if len(took) == 10 && slices.Min(took) > time.Second {
			break
		}
	}
	slices.Sort(took)
	p50, p99 := took[len(took)/2], took[len(took)*99/100]
	t.Logf("over a load of %s: p50 %s, p99 %s", load, p50.Round(10*time.Microsecond), p99.Round(10*time.Microsecond))
	limit := awayLimit
	if t.virtual {
		limit = time.Millisecond // only waiting takes time
	}
	if p99 > limit {
		t.Errorf("p99 is %s over the load", p99.Round(100*time.Microsecond))
	}
	t.wires[0].Heal()
}
