package cachetest

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// Hazards of operations without a fence: drops, values that are set, and changes that proceed although Redis cannot be
// fenced.

// afterReturn bounds how long a pending drop may take after Redis is back.
const afterReturn = 5 * time.Second

func (t *trial) beside(node int) Beside {
	b, ok := t.node[node].(Beside)
	if !ok {
		t.Skip("not offered")
	}
	return b
}

// dropOvertaken: a load that began before another program's commit ends after the drop.
func dropOvertaken(t *trial) {
	t.open(nil)
	b := t.beside(0)
	t.set(key, "old")
	held := t.source.HoldNext()
	defer held.Release()
	var reader sync.WaitGroup
	reader.Go(func() { _, _ = t.node[1].Get(t.ctx(), key) })
	<-held.Reached
	t.set(key, "new")
	t.mustAccept(b.Drop(t.ctx(), key))
	held.Release()
	reader.Wait()
	t.fresh(key, 0, 1)
}

// setOvertaken: the same load ends after a value was set.
func setOvertaken(t *trial) {
	t.open(nil)
	b := t.beside(0)
	t.set(key, "old")
	held := t.source.HoldNext()
	defer held.Release()
	var reader sync.WaitGroup
	reader.Go(func() { _, _ = t.node[1].Get(t.ctx(), key) })
	<-held.Reached
	t.set(key, "new")
	t.mustAccept(b.Set(t.ctx(), key, "new"))
	held.Release()
	reader.Wait()
	t.fresh(key, 0, 1)
}

// setUnderChange: a value that is set while a change is under way does not stay.
func setUnderChange(t *trial) {
	t.open(nil)
	b := t.beside(0)
	t.set(key, "old")
	t.warm(key)
	t.commit(func(commit func(context.Context) error) error { return t.node[1].Change(t.ctx(), key, commit) }, func() {
		t.set(key, "between")
		t.mustAccept(b.Set(t.ctx(), key, "between"))
		t.set(key, "new")
	})
	t.fresh(key, 0, 1)
}

// dropLater: Redis does not accept a drop or a value; the drop is retried until it does.
func dropLater(owed func(context.Context, Beside) error) func(*trial) {
	return func(t *trial) {
		t.open(nil)
		b := t.beside(0)
		t.set(key, "old")
		t.warm(key)
		t.wires[0].Refuse()
		t.set(key, "new")
		if owed(t.ctx(), b) == nil {
			t.Errorf("got no error although Redis did not accept the operation")
		}
		t.staysFresh(key, 0)
		t.wires[0].Heal()
		t.eventuallyFresh(key)
	}
}

// proceed: a node that cannot reach Redis still makes its changes.
func proceed(t *trial) {
	t.open(func(n *Node) { n.Proceed = true })
	t.beside(0)
	t.set(key, "old")
	t.warm(key)
	t.wires[0].Refuse()
	committed := false
	err := t.node[0].Change(t.ctx(), key, func(context.Context) error {
		committed = true
		t.set(key, "new")
		return nil
	})
	if !committed {
		t.Fatalf("Change: %v, and commits nothing", err)
	}
	t.staysFresh(key, 0)
	t.wires[0].Heal()
	t.eventuallyFresh(key)
}

// proceedHistory: Redis stops for all nodes repeatedly, and changes proceed. A node always reads its own changes. The
// others may read the value before until Redis has received the drop.
func proceedHistory(t *trial) {
	t.open(func(n *Node) { n.Proceed = true })
	t.beside(0)
	t.judge(play(t, t.node, afterReturn, historySize, func() {
		for _, w := range t.wires {
			w.BlackHole()
		}
		time.Sleep(rand.N(4 * t.lib.MaxStale))
		for _, w := range t.wires {
			w.Heal()
		}
	}))
}

// mustAccept fails the trial if Redis, which is healthy, did not accept an operation.
func (t *trial) mustAccept(err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%v", err)
	}
}

// eventuallyFresh is fresh for both nodes, once Redis is back and has received the pending drops. A node that was cut
// off for a moment may have asked the source before that, and then find the old text in Redis: the new text has to be
// read for half a second.
func (t *trial) eventuallyFresh(key string) {
	t.Helper()
	want, _ := t.source.row(key)
	within := afterReturn
	if t.mayStall() {
		within = time.Minute
	}
	for end, stays := time.Now().Add(within), 0; time.Now().Before(end) && stays < 50; stays++ {
		if t.get(0, key) != want || t.get(1, key) != want {
			stays = 0
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.staysFresh(key, 0, 1)
}
