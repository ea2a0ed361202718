package cachetest

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// Hazards of the ways that do not go through a fence: drops, texts that are set,
// and changes that go on although Redis cannot be told.

// afterReturn is how long after Redis is back a drop may take that it did not get.
const afterReturn = 5 * time.Second

func (t *trial) beside(node int) Beside {
	b, ok := t.node[node].(Beside)
	if !ok {
		t.Skip("not offered")
	}
	return b
}

// dropOvertaken: a load that began before somebody else's commit ends after the
// drop.
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
	t.told(b.Drop(t.ctx(), key))
	held.Release()
	reader.Wait()
	t.fresh(key, 0, 1)
}

// setOvertaken: the same load ends after a text was set.
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
	t.told(b.Set(t.ctx(), key, "new"))
	held.Release()
	reader.Wait()
	t.fresh(key, 0, 1)
}

// setUnderChange: what is set while a change is under way is not what stays.
func setUnderChange(t *trial) {
	t.open(nil)
	b := t.beside(0)
	t.set(key, "old")
	t.warm(key)
	t.commit(func(commit func(context.Context) error) error { return t.node[1].Change(t.ctx(), key, commit) }, func() {
		t.set(key, "between")
		t.told(b.Set(t.ctx(), key, "between"))
		t.set(key, "new")
	})
	t.fresh(key, 0, 1)
}

// dropLater: Redis does not take a drop or a text; they are owed until it does.
func dropLater(owed func(context.Context, Beside) error) func(*trial) {
	return func(t *trial) {
		t.open(nil)
		b := t.beside(0)
		t.set(key, "old")
		t.warm(key)
		t.proxy[0].Refuse()
		t.set(key, "new")
		if owed(t.ctx(), b) == nil {
			t.Errorf("nobody is told that Redis did not take it")
		}
		t.now(key, 0)
		t.proxy[0].Heal()
		t.soon(key)
	}
}

// proceed: a node that Redis cannot be reached from changes all the same.
func proceed(t *trial) {
	t.open(func(n *Node) { n.Proceed = true })
	t.beside(0)
	t.set(key, "old")
	t.warm(key)
	t.proxy[0].Refuse()
	committed := false
	err := t.node[0].Change(t.ctx(), key, func(context.Context) error {
		committed = true
		t.set(key, "new")
		return nil
	})
	if !committed {
		t.Fatalf("Change: %v, and commits nothing", err)
	}
	t.now(key, 0)
	t.proxy[0].Heal()
	t.soon(key)
}

// proceedHistory: Redis stops for all, again and again, and changes go on. A node
// always reads what it changed itself. The others may read what was before until Redis
// has been told.
func proceedHistory(t *trial) {
	t.open(func(n *Node) { n.Proceed = true })
	t.beside(0)
	t.judge(play(t, t.node, afterReturn, historySize, func() {
		for _, p := range t.proxy {
			p.BlackHole()
		}
		time.Sleep(rand.N(4 * t.lib.MaxStale))
		for _, p := range t.proxy {
			p.Heal()
		}
	}))
}

// told fails the trial if Redis, with which nothing is wrong, did not take it.
func (t *trial) told(err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%v", err)
	}
}

// soon is fresh for both nodes, once Redis is back and has got what it is owed. A node that was cut off for a moment
// may have asked the source before that, and find the old text in Redis afterwards: what is read has to stay.
func (t *trial) soon(key string) {
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
	t.now(key, 0, 1)
}
