package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoa-dev/stoa/api"
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

// profiles are users whose names change. A name that is changed on one node appears on the other in time, and no older
// name appears afterwards.
type profiles struct {
	*world
	people []*named
	reads  atomic.Int64
}

func newProfiles(w *world) *profiles {
	all := &profiles{world: w}
	for _, p := range w.take(40) {
		all.people = append(all.people, &named{person: p})
	}
	return all
}

func (w *profiles) begin() {
	w.work(4, 200*time.Millisecond, func(rng *rand.Rand, i int) { // each changes the names of ten users
		w.rename(w.nodes[rng.IntN(2)], w.people[10*i+rng.IntN(10)])
	})
	w.work(4, 100*time.Millisecond, func(rng *rand.Rand, _ int) {
		p, n := w.people[rng.IntN(len(w.people))], rng.IntN(2)
		began := time.Now()
		least := p.atLeast(began)
		v, ok := w.nameOn(w.nodes[n], p)
		switch {
		case !ok:
		case v >= least:
			w.reads.Add(1)
		default:
			w.old(p.id, began, "node %d shows name %d of %s, and %d was acknowledged %s before", n, v, p.id, least, maxStale)
		}
	})
}

func (w *profiles) check() {
	for _, p := range w.people {
		a, read := w.nameOn(w.nodes[0], p)
		b, also := w.nameOn(w.nodes[1], p)
		if !read || !also || a != b || a < p.atLeast(time.Now()) {
			w.bad("in the end %s is %d on one node (read: %v) and %d on the other (read: %v), want %d or later on both", p.id, a, read, b, also,
				p.atLeast(time.Now()))
		}
	}
}
