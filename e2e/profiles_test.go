package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// maxStale is the setting cache.max_stale. On every node, a read that begins later than this after an acknowledged
// change returns the change.
const maxStale = 500 * time.Millisecond

// named is a user whose name has a counter, and the acknowledged changes of it.
type named struct {
	*person
	mu    sync.Mutex
	asked int         // the last requested name
	acks  []nameAcked // in order
}

type nameAcked struct {
	version int
	at      time.Time
}

// atLeast returns the oldest name that a read beginning at t may return.
func (p *named) atLeast(t time.Time) (version int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.acks) - 1; i >= 0; i-- {
		if t.Sub(p.acks[i].at) > maxStale {
			return p.acks[i].version
		}
	}
	return 0
}

func (w *world) rename(n *node, p *named) bool {
	p.mu.Lock()
	p.asked++
	v := p.asked
	p.mu.Unlock()
	var u api.User
	if w.send(n, http.MethodPatch, "/v1/me", p.person, fmt.Sprintf(`{"name":"name %d"}`, v), &u) != answered {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.acks = append(p.acks, nameAcked{v, time.Now()})
	return true
}

// nameOn returns the number in the name that a node returns.
func (w *world) nameOn(n *node, p *named) (version int, ok bool) {
	var u api.User
	if w.send(n, http.MethodGet, "/v1/me", p.person, "", &u) != answered {
		return 0, false
	}
	if u.ID != p.id {
		w.bad("asked for %s, got %s", p.id, u.ID)
	}
	version, _ = strconv.Atoi(strings.TrimPrefix(u.Name, "name ")) // the first name has no number
	return version, true
}

// Two nodes share a Redis, with all kinds of failures. A name that is changed on one node appears on the other in time,
// and no older name appears afterwards.
func TestAProfileIsTheSameOnEveryNodeWhateverHappens(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	w := newWorld(t, sqldb.Config{URL: sqldbtest.Server(t).URL}, 40, []string{"--redis", server.URL}, []string{"--redis", server.URL})
	w.noteDrops()
	w.nodesDie.Store(true)
	people := make([]*named, len(w.persons))
	for i, p := range w.persons {
		people[i] = &named{person: p}
	}

	// Without load: how long until the other node returns it.
	var took []time.Duration
	for i := range 100 {
		p := people[i%len(people)]
		w.nameOn(w.nodes[1], p) // it has the previous name in memory
		w.rename(w.nodes[0], p)
		acked := time.Now()
		eventually.True(t, "the new name on the other node", func() bool {
			began := time.Now()
			v, ok := w.nameOn(w.nodes[1], p)
			if ok && v < p.asked && began.Sub(acked) > maxStale {
				w.old(p.id, began, "%s: the other node shows name %d, want %d", began.Sub(acked), v, p.asked)
			}
			return v >= p.asked
		})
		took = append(took, time.Since(acked))
	}
	slices.Sort(took)
	t.Logf("shown by the other node after %s (median), %s (p99)", took[50], took[98])

	// Under load, with failures.
	var over atomic.Bool
	var reads atomic.Int64
	var all sync.WaitGroup
	for i := range 4 { // each changes the names of ten users
		all.Go(func() {
			rng := rand.New(rand.NewPCG(w.seed, uint64(i)))
			for !over.Load() {
				w.rename(w.nodes[rng.IntN(2)], people[10*i+rng.IntN(10)])
				time.Sleep(time.Duration(rng.Int64N(int64(20 * time.Millisecond))))
			}
		})
	}
	for i := range 8 {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(w.seed, uint64(i)+100))
			for !over.Load() {
				p, n := people[rng.IntN(len(people))], rng.IntN(2)
				began := time.Now()
				least := p.atLeast(began)
				v, ok := w.nameOn(w.nodes[n], p)
				switch {
				case !ok:
				case v >= least:
					reads.Add(1)
				default:
					w.old(p.id, began, "node %d shows name %d of %s, and %d was acknowledged %s before", n, v, p.id, least, maxStale)
				}
				time.Sleep(time.Duration(rng.Int64N(int64(5 * time.Millisecond))))
			}
		})
	}
	defer func() {
		over.Store(true)
		all.Wait()
		t.Logf("%d reads", reads.Load())
	}()
	w.moment(500 * time.Millisecond)
	for k := range 2 { // between fence, commit and drop
		w.nodes[k].Kill()
		w.nodes[k].Start()
		w.moment(500 * time.Millisecond)
	}
	for range 3 {
		server.FlushAll()
		w.moment(500 * time.Millisecond)
	}
	server.Pause()
	before := reads.Load()
	time.Sleep(1500 * time.Millisecond)
	eventually.True(t, "reads while Redis is away", func() bool { return reads.Load() > before+100 })
	server.Resume()
	w.moment(2 * time.Second)

	over.Store(true)
	all.Wait()
	w.quiet()
	time.Sleep(maxStale)
	for _, p := range people {
		a, _ := w.nameOn(w.nodes[0], p)
		b, _ := w.nameOn(w.nodes[1], p)
		if a != b || a < p.atLeast(time.Now()) {
			w.bad("in the end %s is %d on one node and %d on the other, want %d or later on both", p.id, a, b, p.atLeast(time.Now()))
		}
	}
}
