package presence

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/cluster"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/social"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/ratelimit"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
	"github.com/stoa-dev/stoa/lib/testing/logtest"
)

var (
	histories = flag.Int("histories", 6, "random histories of each kind")
	seed      = flag.Uint64("seed", 0, "seed of the first history; 0: a random one")
)

// A node has the parts of a server that presence needs, with its own connection to Redis. kill stops it like a crash:
// none of its last writes reach Redis.
type node struct {
	*Service
	people *accounts.Service
	social *social.Service
	bus    *events.Bus
	reg    *prometheus.Registry
	wire   *redistest.Wire
	kill   func()
	dead   bool
}

// world has several nodes with one database and one Redis.
type world struct {
	t      *testing.T
	memory *redistest.Memory
	db     *sqldb.DB
	users  []accounts.ID
	log    logtest.Buffer

	mu       sync.Mutex
	received map[[2]accounts.ID][]receivedEvent // by viewer and user
}

type receivedEvent struct {
	status      string
	hasLastSeen bool
	at          time.Time

	version int64
}

func newWorld(t *testing.T, users int) *world {
	t.Helper()
	w := &world{t: t, memory: redistest.InMemory(t), db: sqldbtest.Engine{Name: "sqlite"}.Open(t),
		received: map[[2]accounts.ID][]receivedEvent{}}
	var all []accounts.User
	for i := range users {
		u, err := accounts.NewUser(fmt.Sprintf("user%d@example.org", i), fmt.Sprint("User ", i), "UTC")
		w.must(err)
		all, w.users = append(all, u), append(w.users, u.ID)
	}
	w.must(w.db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error { return accounts.InsertUsers(ctx, tx, all) }))
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) start() *node {
	w.t.Helper()
	n := &node{reg: prometheus.NewRegistry(), wire: w.memory.Wire()}
	db, id, log := redistest.OpenConfig(w.t, n.wire.Config()), ids.New[cluster.Node](), w.log.Logger()
	n.bus = events.NewBus(db, id.String(), log)
	nodes := cluster.New(cluster.Config{Redis: db, Bus: n.bus, Node: id, Metrics: prometheus.NewRegistry(), Log: log})
	caches := cache.NewRuntime(db, n.bus.Nodes(), cache.Config{})
	var err error
	n.people, err = accounts.New(accounts.Config{DB: w.db, Redis: db, Limiter: ratelimit.New(db), Caches: caches, Bus: n.bus,
		Secret: make([]byte, 32), Log: log})
	w.must(err)
	n.social, err = social.New(social.Config{DB: w.db, Caches: caches, Bus: n.bus, People: n.people, Log: log})
	w.must(err)
	n.Service = New(Config{DB: w.db, Redis: db, Bus: n.bus, Node: id, Nodes: nodes, People: n.people, Friends: n.social, Metrics: n.reg,
		Log: log})
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	var running sync.WaitGroup
	for _, run := range []func(context.Context, func()) error{n.bus.Run, nodes.Run, caches.Run} {
		running.Go(func() { _ = run(ctx, func() {}) })
	}
	w.must(n.bus.Nodes().Wait(w.t.Context()))
	running.Go(func() { _ = n.Run(ctx, func() {}) })
	running.Go(func() { // the sweep, on every node at the same time
		for tick := time.NewTicker(time.Second); ; {
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
				_ = n.sweep(ctx)
			}
		}
	})
	n.kill = sync.OnceFunc(func() { n.dead = true; n.wire.Refuse(); cancel(); running.Wait() })
	w.t.Cleanup(n.kill)
	return n
}

// listen records the events of users, as their devices receive them at a node.
func (w *world) listen(n *node) {
	for _, u := range w.users {
		_, leave := n.bus.Listen(w.t.Context(), u.String(), &events.Listener{Lost: func() {}, Event: func(e events.Event, _ events.Position) {
			var p api.Presence
			if e.Type != api.EventPresenceChanged || json.Unmarshal(e.Data, &p) != nil {
				return
			}
			of, err := ids.Parse[accounts.User](p.User)
			if err != nil {
				w.t.Errorf("event about user %q", p.User)
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.received[[2]accounts.ID{u, of}] = append(w.received[[2]accounts.ID{u, of}],
				receivedEvent{p.Status, p.LastSeen != nil, time.Now(), p.Version})
		}})
		w.t.Cleanup(leave)
	}
}

func (w *world) befriend(n *node, a, b int) {
	w.t.Helper()
	r, _, err := n.social.SendRequest(w.t.Context(), w.users[a], social.RequestDraft{User: w.users[b]})
	w.must(err)
	_, err = n.social.Accept(w.t.Context(), w.users[b], r.ID, "", "")
	w.must(err)
}

// A plan is the expected state after the actions of a history.
type plan struct {
	open       map[string]plannedConnection
	wish       map[int]Status
	hidden     map[int]bool
	unfriended map[[2]int]bool

	forbidden []forbiddenEvents // events that must not be published
}

// plannedConnection is an open connection of the plan.
type plannedConnection struct {
	user int
	at   *node
}

// forbiddenEvents forbids events to a viewer about a user, between two times. If hidden is set, events that the user is
// offline are allowed.
type forbiddenEvents struct {
	viewer, user int
	hidden       bool
	from, to     time.Time
}

func (p *plan) status(user int) Status {
	for _, h := range p.open {
		if h.user == user && !h.at.dead {
			return max(p.wish[user], Online)
		}
	}
	return Offline
}

func (p *plan) visibleStatus(viewer, user int) Status {
	if viewer != user && (p.hidden[user] || p.unfriended[pairOf(viewer, user)]) {
		return Offline
	}
	return p.status(user)
}

func pairOf(a, b int) [2]int { return [2]int{min(a, b), max(a, b)} }

// A history is a random sequence of actions on several nodes.
type history struct {
	*world
	*plan
	r       *rand.Rand
	watcher *node // never dies, and has no connections
	nodes   []*node
	faults  bool // Redis and the network also fail
	next    int
	log     []string
}

func (h *history) logf(format string, args ...any) {
	h.log = append(h.log, fmt.Sprintf("%s %s", time.Since(bubble.Began), fmt.Sprintf(format, args...)))
}

func (h *history) randomUser() int { return h.r.IntN(len(h.users)) }

func (h *history) step() {
	ctx := h.t.Context()
	action, u, i := h.r.IntN(24), h.randomUser(), h.r.IntN(len(h.nodes))
	n := h.nodes[i]
	switch {
	case action < 8:
		name := fmt.Sprint("connection", h.next)
		h.next++
		h.logf("user %d opens %s at node %d", u, name, i)
		n.Watch(Socket).Opened(h.users[u].String(), ids.New[accounts.Session]().String(), name)
		h.open[name] = plannedConnection{u, n}
	case action < 16 && len(h.open) > 0:
		names := slices.Sorted(maps.Keys(h.open))
		name := names[h.r.IntN(len(names))]
		h.logf("%s closes", name)
		h.open[name].at.Watch(Socket).Closed(name)
		delete(h.open, name)
	case action < 18:
		to := Status(1 + h.r.IntN(3))
		h.logf("user %d is %s at node %d", u, to, i)
		h.must(n.SetWish(ctx, h.users[u], to))
		h.wish[u] = to
	case action == 18:
		to, hidden := accounts.ToNobody, !h.hidden[u]
		if !hidden {
			to = accounts.ToFriends
		}
		h.logf("user %d shows %s", u, to)
		_, err := n.people.Update(ctx, h.users[u], accounts.Change{Presence: &to})
		h.must(err)
		h.hidden[u] = hidden
		for v := range h.users {
			if hidden && v != u {
				h.forbidden = append(h.forbidden, forbiddenEvents{v, u, true, time.Now().Add(50 * time.Millisecond), time.Time{}})
			}
		}
		for k := range h.forbidden {
			if f := &h.forbidden[k]; f.user == u && f.hidden && f.to.IsZero() && !hidden {
				f.to = time.Now()
			}
		}
		eventually.NoError(h.t, "the change to be published", func() error { return h.watcher.AudienceChanged(ctx, h.users[u]) })
	case action == 19:
		v := h.randomUser()
		if v == u || h.unfriended[pairOf(u, v)] {
			return
		}
		h.logf("user %d leaves user %d", u, v)
		if h.r.IntN(2) == 0 {
			h.must(h.watcher.social.Block(ctx, h.users[u], h.users[v]))
		} else {
			h.must(h.watcher.social.Unfriend(ctx, h.users[u], h.users[v]))
		}
		h.unfriended[pairOf(u, v)] = true
		for _, f := range []forbiddenEvents{{viewer: u, user: v}, {viewer: v, user: u}} {
			f.from = time.Now().Add(500 * time.Millisecond)
			h.forbidden = append(h.forbidden, f)
		}
	case action == 20:
		bubble.Sleep(2 * time.Second) // until it has published its changes
		h.logf("node %d dies", i)
		n.kill()
		maps.DeleteFunc(h.open, func(_ string, c plannedConnection) bool { return c.at == n })
		h.nodes[i] = h.start()
	case action == 21 && h.faults:
		h.logf("Redis is emptied")
		h.memory.FlushAll()
	case action == 22 && h.faults:
		h.logf("Redis is away")
		h.memory.Kill()
		bubble.Sleep(h.randomDuration(15 * time.Second))
		if h.r.IntN(2) == 0 {
			h.logf("Redis is back, empty")
			h.memory.RestartEmpty()
		} else {
			h.logf("Redis is back")
			h.memory.Restart()
		}
		bubble.Sleep(2 * time.Second)
	case action == 23 && h.faults:
		h.logf("node %d is cut off", i)
		n.wire.BlackHole()
		bubble.Sleep(h.randomDuration(20 * time.Second))
		n.wire.Heal()
		h.logf("node %d is back", i)
		bubble.Sleep(2 * time.Second)
	}
}

func (h *history) randomDuration(limit time.Duration) time.Duration {
	return time.Duration(h.r.Int64N(int64(limit)))
}

// checkReads compares the responses of every node with the plan.
func (h *history) checkReads() error {
	for i, n := range append(slices.Clone(h.nodes), h.watcher) {
		for v, viewer := range h.users {
			seen, partial, err := n.Get(h.t.Context(), viewer, h.users, false)
			if err != nil || partial {
				return fmt.Errorf("node %d: partial %v, %w", i, partial, err)
			}
			friends, _, err := n.OnlineFriends(h.t.Context(), viewer)
			if err != nil {
				return err
			}
			for u, s := range seen {
				want := h.visibleStatus(v, u)
				if s.Status != want {
					return fmt.Errorf("at node %d user %d sees user %d %s, want %s", i, v, u, s.Status, want)
				}
				if listed := slices.ContainsFunc(friends, func(f UserStatus) bool {
					return f.User == h.users[u] && f.Status == want
				}); v != u && listed != (want != Offline) {
					return fmt.Errorf("node %d lists user %[3]d as a friend of user %[2]d: %[4]v, want %[5]s", i, v, u, listed, want)
				}
			}
		}
	}
	return nil
}

// checkEvents compares the events of users with the plan.
func (h *history) checkEvents() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range h.forbidden {
		for _, event := range h.received[[2]accounts.ID{h.users[f.viewer], h.users[f.user]}] {
			if event.at.Before(f.from) || !f.to.IsZero() && !event.at.Before(f.to) {
				continue
			}
			if !f.hidden || event.status != api.StatusOffline || event.hasLastSeen {
				return fmt.Errorf("user %d got an event that user %d is %s, at %s", f.viewer, f.user, event.status, event.at.Sub(bubble.Began))
			}
		}
	}
	if h.faults { // events may be lost
		return nil
	}
	for v, viewer := range h.users {
		for u, user := range h.users {
			if v == u || h.unfriended[pairOf(v, u)] {
				continue
			}
			last, version := api.StatusOffline, int64(1)
			for i, event := range h.received[[2]accounts.ID{viewer, user}] {
				if event.status == last && !h.wasHidden(u) {
					return fmt.Errorf("user %d got a second event that user %d is %s, at %s (%d)", v, u, last, event.at.Sub(bubble.Began), i)
				}
				if event.version < version {
					return fmt.Errorf("user %d got an event about user %d with version %d after %d, at %s", v, u, event.version, version,
						event.at.Sub(bubble.Began))
				}
				last, version = event.status, event.version
			}
			if want := h.visibleStatus(v, u).String(); last != want {
				return fmt.Errorf("the last event to user %d is that user %d is %s, want %s", v, u, last, want)
			}
		}
	}
	return nil
}

// wasHidden reports whether a user was ever hidden. Such a change is published even if the status stays the same.
func (h *history) wasHidden(user int) bool {
	return slices.ContainsFunc(h.forbidden, func(f forbiddenEvents) bool { return f.hidden && f.user == user })
}

func TestHistories_MatchThePlan(t *testing.T) {
	for _, faults := range []bool{false, true} {
		name := map[bool]string{false: "nodes die", true: "all parts fail"}[faults]
		first := *seed
		if first == 0 {
			first = rand.Uint64N(1 << 40)
		}
		for i := range uint64(*histories) {
			t.Run(fmt.Sprintf("%s, seed %d", name, first+i), func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) { runHistory(t, first+i, faults) })
			})
		}
	}
}

func runHistory(t *testing.T, seed uint64, faults bool) {
	h := &history{world: newWorld(t, 4), r: rand.New(rand.NewPCG(seed, 2)), faults: faults,
		plan: &plan{map[string]plannedConnection{}, map[int]Status{}, map[int]bool{}, map[[2]int]bool{}, nil}}
	h.watcher = h.start()
	h.listen(h.watcher)
	for a := range h.users {
		for b := range a {
			h.befriend(h.watcher, a, b)
		}
	}
	h.nodes = []*node{h.start(), h.start()}
	bubble.Sleep(2 * time.Second)
	for range 30 + h.r.IntN(30) {
		h.step()
		if h.r.IntN(3) == 0 {
			bubble.Sleep(100*time.Millisecond + h.randomDuration(9*time.Second))
		} else {
			bubble.Sleep(100*time.Millisecond + h.randomDuration(time.Second))
		}
	}
	bubble.Sleep(30 * time.Second)
	err := h.checkReads()
	if err == nil {
		err = h.checkEvents()
	}
	if err != nil {
		t.Errorf("%v\n%s", err, strings.Join(h.log, "\n"))
	}
}
