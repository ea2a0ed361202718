package cachetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

// oldData makes the server lose its newest writes, as if they had not reached the disk.
func oldData(t *trial) {
	t.open(nil)
	t.set(key, "old")
	t.warm(key)
	kept := t.TempDir()
	files := filepath.Join(t.server.Dir, "appendonlydir")
	if err := os.CopyFS(kept, os.DirFS(files)); err != nil {
		t.Fatal(err)
	}
	t.change(0, key, "new")
	t.warm(key)
	t.server.Kill()
	err := os.RemoveAll(files)
	if err == nil {
		err = os.CopyFS(files, os.DirFS(kept))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.server.Restart()
	t.fresh(key, 0, 1)
}

func sentinel(t *trial) {
	s := redistest.Sentinel(t)
	t.openAt(s.URL, nil)
	t.set(key, "old")
	t.warm(key)
	failover(t, func() { s.Failover(t) })
}

func clusterOwner(t *trial) {
	c := redistest.Cluster(t, 3, 1, "cluster-require-full-coverage no")
	t.openAt(c.URL, nil)
	named, ok := t.node[0].(Named)
	if !ok {
		t.Skip("not offered")
		return
	}
	t.set(key, "old")
	t.warm(key)
	owner := c.Owner(named.Physical(key))
	failover(t, func() {
		owner.Kill()
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			for _, r := range c.Replicas {
				if reply, err := r.Do("ROLE"); err == nil && reply[0] == "master" {
					return
				}
			}
		}
		t.Fatalf("no replica takes over")
	})
}

// failover reads on both nodes while a master is replaced in the middle of a change, and for a while after it.
func failover(t *trial, replace func()) {
	_ = t.node[0].Change(t.ctx(), key, func(context.Context) error {
		replace()
		for range 20 {
			for i := range t.node {
				_, _ = t.node[i].Get(t.ctx(), key)
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.set(key, "new")
		return nil
	})
	t.fresh(key, 0, 1)
	time.Sleep(time.Second)
	t.staysFresh(key, 0, 1)
	time.Sleep(time.Second)
	t.staysFresh(key, 0, 1)
}

// history makes both nodes change and read a few keys concurrently, under faults, and counts the reads that are too
// old.
func history(fault func(*trial)) func(*trial) {
	return func(t *trial) {
		t.open(nil)
		t.judge(play(t, t.node, t.lib.MaxStale, historySize, func() { fault(t) }))
	}
}

func historyOverFailover(t *trial) {
	s := redistest.Sentinel(t)
	t.openAt(s.URL, nil)
	var once sync.Once
	t.judge(play(t, t.node, t.lib.MaxStale, historySize, func() { once.Do(func() { s.Failover(t) }) }))
}

// History makes two nodes on any Redis change and read a few keys concurrently. It fails the test if a read returned a
// text older than an acknowledged change. A read may do so only if it began on another node, at most MaxStale after the
// acknowledgement.
func History(t testing.TB, l Library, url string) {
	t.Helper()
	r := newTrial(t, l, hazard{real: true})
	r.openAt(url, nil)
	r.judge(play(r, r.node, r.lib.MaxStale, historySize, nil))
}

func (t *trial) judge(r played) {
	t.Helper()
	t.Logf("%s", r)
	if r.stale > 0 {
		t.Errorf("%d stale reads: %s", r.stale, r.first)
	}
	if r.reads < 100 || r.changes < 10 {
		t.Errorf("too little happened: %s", r)
	}
}

// played is the result of a history.
type played struct {
	reads, changes, refused, failed, stale int64
	worst                                  time.Duration // how long the text of a read had been out of date
	first, refusal                         string
}

func (p played) String() string {
	s := fmt.Sprintf("%d reads (%d failed), %d changes (%d refused), %d stale reads, worst %s",
		p.reads, p.failed, p.changes, p.refused, p.stale, p.worst.Round(time.Millisecond))
	if p.refused > 0 {
		s += "; the first refusal: " + p.refusal
	}
	return s
}

// versions are the acknowledged changes of one key, oldest first.
type versions struct {
	mu  sync.Mutex
	at  []time.Time // of version n+1: when it was acknowledged
	by  []int       // the node
	all int64
}

// older returns, for a read that began at began on a node and returned version n, how long before it a newer version
// was acknowledged by any node, and by that node.
func (v *versions) older(n int64, node int, began time.Time) (any, here time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i := int(n); i < len(v.at); i++ {
		if v.at[i].IsZero() {
			continue
		}
		since := began.Sub(v.at[i])
		any = max(any, since)
		if v.by[i] == node {
			here = max(here, since)
		}
	}
	return any, here
}

// play changes and reads until size steps are done. Versions increase in the source.
func play(t *trial, nodes [2]Adapter, maxStale time.Duration, size int64, fault func()) played {
	const keys = 3
	var (
		p                                   played
		reads, changes, refused, failed, no atomic.Int64
		mu                                  sync.Mutex
		vs                                  [keys]versions
		writing                             [keys]chan bool // a database commits one change of a row at a time
		all                                 sync.WaitGroup
		steps                               atomic.Int64
		done                                = make(chan struct{})
	)
	longest := 20 * time.Second // for a library that waits seconds at each fault
	pause := 4 * time.Millisecond
	if t.virtual { // only pauses take time here, and faults occur by time
		longest, pause = 5*time.Minute, 100*time.Millisecond
	}
	began := time.Now()
	name := func(k int) string { return fmt.Sprint("history/", k) }
	for k := range keys {
		writing[k] = make(chan bool, 1)
		t.source.Set(name(k), "0")
	}
	read := func(node, k int) {
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
		text, err := nodes[node].Get(ctx, name(k))
		cancel()
		reads.Add(1)
		if err != nil {
			failed.Add(1)
			return
		}
		n, _ := strconv.ParseInt(text, 10, 64)
		anywhere, here := vs[k].older(n, node, began)
		if anywhere > maxStale || here > 0 {
			no.Add(1)
		}
		mu.Lock()
		defer mu.Unlock()
		p.worst = max(p.worst, anywhere)
		if p.first == "" && (anywhere > maxStale || here > 0) {
			p.first = fmt.Sprintf("node %d read version %d, out of date for %s, for %s by its own change", node, n, anywhere, here)
		}
	}
	change := func(node, k int) {
		var n int64
		err := nodes[node].Change(t.ctx(), name(k), func(context.Context) error {
			writing[k] <- true // a mutex held over a pause would stop virtual time
			defer func() { <-writing[k] }()
			vs[k].mu.Lock()
			vs[k].all++
			n = vs[k].all
			vs[k].at, vs[k].by = append(vs[k].at, time.Time{}), append(vs[k].by, node)
			vs[k].mu.Unlock()
			time.Sleep(rand.N(time.Millisecond))
			t.source.Set(name(k), strconv.FormatInt(n, 10))
			return nil
		})
		changes.Add(1)
		if err != nil {
			if refused.Add(1) == 1 {
				mu.Lock()
				p.refusal = err.Error()
				mu.Unlock()
			}
			return
		}
		vs[k].mu.Lock()
		vs[k].at[n-1] = time.Now()
		vs[k].mu.Unlock()
	}
	for node := range nodes {
		for range 3 {
			all.Go(func() {
				for steps.Add(1) < size && time.Since(began) < longest {
					k := rand.N(keys)
					if rand.N(12) == 0 {
						change(node, k)
					} else {
						read(node, k)
					}
					if rand.N(2) == 0 {
						time.Sleep(rand.N(pause))
					}
				}
			})
		}
	}
	var faults sync.WaitGroup
	if fault != nil {
		faults.Go(func() {
			for {
				select {
				case <-done:
					return
				case <-time.After(50*time.Millisecond + rand.N(300*time.Millisecond)):
					fault()
				}
			}
		})
	}
	all.Wait()
	close(done)
	faults.Wait()
	p.reads, p.changes, p.refused, p.failed, p.stale = reads.Load(), changes.Load(), refused.Load(), failed.Load(), no.Load()
	return p
}
