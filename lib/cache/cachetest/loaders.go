package cachetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// Hazards of loads that one node has begun and cannot finish, while other nodes wait.

const (
	quick = 2 * time.Millisecond // duration of a load
	// waitLimit bounds a read that waits for such a load.
	waitLimit = time.Second
)

// timed reads, and fails the trial if that takes too long.
func (t *trial) timed(node int, key string) {
	ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
	defer cancel()
	began := time.Now()
	text, err := t.node[node].Get(ctx, key)
	took := time.Since(began)
	if err != nil || text != "text" {
		t.Errorf("node %d: Get = %q, %v", node, text, err)
	}
	if took > waitLimit && !(t.lib.Virtual && !t.virtual && !full) { // a real machine may stall
		t.Errorf("node %d: a read takes %s", node, took.Round(time.Millisecond))
	}
}

// loaderReset cuts a node's connections at a random moment of its reads, while the other node reads the same keys.
func loaderReset(t *trial) {
	t.open(nil)
	t.source.Slow(quick)
	for round := range 12 {
		name := func(n int) string { return fmt.Sprint("row/", round, "/", n) }
		for n := range 10 {
			t.set(name(n), "text")
		}
		t.wires[0].Delay(5 * time.Millisecond)
		var readers sync.WaitGroup
		for n := range 10 {
			readers.Go(func() { t.timed(0, name(n)) })
		}
		time.Sleep(rand.N(50 * time.Millisecond))
		t.wires[0].Reset()
		for n := range 10 {
			t.timed(1, name(n))
		}
		readers.Wait()
		t.wires[0].Heal()
		time.Sleep(time.Second) // longer than any breaker stays open
	}
}

// loaderDies disconnects a node for good while it loads 40 rows.
func loaderDies(t *trial) {
	const rows = 40
	t.open(nil)
	t.set("row/other", "text")
	for n := range rows {
		t.set(fmt.Sprint("row/", n), "text")
	}
	t.source.Slow(quick)
	for i := range t.node {
		t.get(i, "row/other")
	}
	before := len(t.source.Loads())
	t.source.Slow(300 * time.Millisecond)
	var dying sync.WaitGroup
	for n := range rows {
		dying.Go(func() { _, _ = t.node[0].Get(t.ctx(), fmt.Sprint("row/", n)) })
	}
	for end := time.Now().Add(callTimeout); len(t.source.Loads()) < before+rows && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	t.source.Slow(quick)
	t.wires[0].Refuse()
	began := time.Now()
	for n := range rows {
		t.timed(1, fmt.Sprint("row/", n))
	}
	took := time.Since(began)
	t.Logf("%d rows of a dead node are read in %s", rows, took.Round(time.Millisecond))
	if t.virtual && took > 2*waitLimit {
		t.Errorf("%d rows of a dead node are read in %s", rows, took)
	}
	dying.Wait()
	again := len(t.source.Loads())
	for n := range rows {
		t.get(1, fmt.Sprint("row/", n))
	}
	if loads := len(t.source.Loads()) - again; loads > rows/10 {
		t.Errorf("%d of %d rows are loaded again", loads, rows)
	}
}

// delays: the network delays are longer than the budget of a read.
func delays(t *trial) {
	t.open(nil)
	for n := range 60 {
		t.set(fmt.Sprint("row/", n), "text")
	}
	t.source.Slow(quick)
	for i := range t.node {
		t.wires[i].Jitter(60 * time.Millisecond)
	}
	var readers sync.WaitGroup
	for i := range t.node {
		for range 4 {
			readers.Go(func() {
				for n := range 60 {
					t.timed(i, fmt.Sprint("row/", n))
				}
			})
		}
	}
	readers.Wait()
}
