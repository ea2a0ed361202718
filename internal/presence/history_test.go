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
	seed      = flag.Uint64("seed", 0, "of the first history; 0: another one each time")
)

// A node has the parts of a server that presence needs, on a wire of its own. It can die: none of the writes of its
// stop reach the others.
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

// world has several nodes, on one database and one Redis.
type world struct {
	t      *testing.T
	memory *redistest.Memory
	db     *sqldb.DB
	users  []accounts.ID
	log    logtest.Buffer

	mu   sync.Mutex
	told map[[2]accounts.ID][]telling // by the viewer and the user
}

type telling struct {
	status string
	seen   bool // with the time
	at     time.Time

	version int64
}

func newWorld(t *testing.T, users int) *world {
	t.Helper()
	w := &world{t: t, memory: redistest.InMemory(t), db: sqldbtest.Engine{Name: "sqlite"}.Open(t), told: map[[2]accounts.ID][]telling{}}
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
	nodes := cluster.New(cluster.Config{Redis: db, Bus: n.bus.Nodes(), Node: id, Metrics: prometheus.NewRegistry(), Log: log})
	caches := cache.NewRuntime(db, n.bus.Nodes(), cache.Config{})
	var err error
	n.people, err = accounts.New(accounts.Config{DB: w.db, Redis: db, Limiter: ratelimit.New(db), Caches: caches, Bus: n.bus, Secret: make([]byte, 32), Log: log})
	w.must(err)
	n.social, err = social.New(social.Config{DB: w.db, Caches: caches, Bus: n.bus, People: n.people, Log: log})
	w.must(err)
	n.Service = New(Config{DB: w.db, Redis: db, Bus: n.bus, Node: id, Nodes: nodes, People: n.people, Friends: n.social, Metrics: n.reg, Log: log})
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	var running sync.WaitGroup
	for _, run := range []func(context.Context, func()) error{n.bus.Run, nodes.Run, caches.Run} {
		running.Go(func() { _ = run(ctx, func() {}) })
	}
	w.must(n.bus.Nodes().Wait(w.t.Context()))
	running.Go(func() { _ = n.Run(ctx, func() {}) })
	running.Go(func() { // the job, on every node at once
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
				w.t.Errorf("told of %q", p.User)
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.told[[2]accounts.ID{u, of}] = append(w.told[[2]accounts.ID{u, of}], telling{p.Status, p.LastSeen != nil, time.Now(), p.Version})
		}})
		w.t.Cleanup(leave)
	}
}

func (w *world) befriend(n *node, a, b int) {
	w.t.Helper()
	r, _, err := n.social.Ask(w.t.Context(), w.users[a], social.Asking{User: w.users[b]})
	w.must(err)
	_, err = n.social.Accept(w.t.Context(), w.users[b], r.ID, "", "")
	w.must(err)
}

// A plan is the reference: the past actions, in plain maps.
type plan struct {
	open   map[string]planned // connections
	wish   map[int]Status
	hidden map[int]bool
	apart  map[[2]int]bool

	never []forbidden // events that must not be published
}

// planned is a connection of the plan.
type planned struct {
	user int
	at   *node
}

// forbidden has a time when a viewer must not get events of a user. With hidden, an event that the user is offline is
// allowed.
type forbidden struct {
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

func (p *plan) sees(viewer, user int) Status {
	if viewer != user && (p.hidden[user] || p.apart[pairOf(viewer, user)]) {
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
	harm    bool // Redis and the network fail, too
	next    int
	log     []string
}

func (h *history) note(format string, args ...any) {
	h.log = append(h.log, fmt.Sprintf("%s %s", time.Since(bubble.Began), fmt.Sprintf(format, args...)))
}

func (h *history) any() int { return h.r.IntN(len(h.users)) }

func (h *history) step() {
	ctx := h.t.Context()
	what, u, i := h.r.IntN(24), h.any(), h.r.IntN(len(h.nodes))
	n := h.nodes[i]
	switch {
	case what < 8:
		name := fmt.Sprint("connection", h.next)
		h.next++
		h.note("user %d opens %s at node %d", u, name, i)
		n.Watch(Socket).Opened(h.users[u].String(), ids.New[accounts.Session]().String(), name)
		h.open[name] = planned{u, n}
	case what < 16 && len(h.open) > 0:
		names := slices.Sorted(maps.Keys(h.open))
		name := names[h.r.IntN(len(names))]
		h.note("%s closes", name)
		h.open[name].at.Watch(Socket).Closed(name)
		delete(h.open, name)
	case what < 18:
		to := Status(1 + h.r.IntN(3))
		h.note("user %d is %s at node %d", u, to, i)
		h.must(n.SetWish(ctx, h.users[u], to))
		h.wish[u] = to
	case what == 18:
		to, hidden := accounts.ToNobody, !h.hidden[u]
		if !hidden {
			to = accounts.ToFriends
		}
		h.note("user %d shows %s", u, to)
		_, err := n.people.Update(ctx, h.users[u], accounts.Change{Presence: &to})
		h.must(err)
		h.hidden[u] = hidden
		for v := range h.users {
			if hidden && v != u {
				h.never = append(h.never, forbidden{v, u, true, time.Now().Add(50 * time.Millisecond), time.Time{}})
			}
		}
		for k := range h.never {
			if f := &h.never[k]; f.user == u && f.hidden && f.to.IsZero() && !hidden {
				f.to = time.Now()
			}
		}
		eventually.NoError(h.t, "the change to be told", func() error { return h.watcher.AudienceChanged(ctx, h.users[u]) })
	case what == 19:
		v := h.any()
		if v == u || h.apart[pairOf(u, v)] {
			return
		}
		h.note("user %d leaves user %d", u, v)
		if h.r.IntN(2) == 0 {
			h.must(h.watcher.social.Block(ctx, h.users[u], h.users[v]))
		} else {
			h.must(h.watcher.social.Unfriend(ctx, h.users[u], h.users[v]))
		}
		h.apart[pairOf(u, v)] = true
		for _, f := range []forbidden{{viewer: u, user: v}, {viewer: v, user: u}} {
			f.from = time.Now().Add(500 * time.Millisecond)
			h.never = append(h.never, f)
		}
	case what == 20:
		bubble.Sleep(2 * time.Second) // so that it has published its changes
		h.note("node %d dies", i)
		n.kill()
		maps.DeleteFunc(h.open, func(_ string, c planned) bool { return c.at == n })
		h.nodes[i] = h.start()
	case what == 21 && h.harm:
		h.note("Redis is emptied")
		h.memory.FlushAll()
	case what == 22 && h.harm:
		h.note("Redis is away")
		h.memory.Kill()
		bubble.Sleep(h.some(15 * time.Second))
		if h.r.IntN(2) == 0 {
			h.note("Redis is back, empty")
			h.memory.RestartEmpty()
		} else {
			h.note("Redis is back")
			h.memory.Restart()
		}
		bubble.Sleep(2 * time.Second)
	case what == 23 && h.harm:
		h.note("node %d is cut off", i)
		n.wire.BlackHole()
		bubble.Sleep(h.some(20 * time.Second))
		n.wire.Heal()
		h.note("node %d is back", i)
		bubble.Sleep(2 * time.Second)
	}
}

func (h *history) some(most time.Duration) time.Duration {
	return time.Duration(h.r.Int64N(int64(most)))
}

// read compares the responses of every node with the plan.
func (h *history) read() error {
	for i, n := range append(slices.Clone(h.nodes), h.watcher) {
		for v, viewer := range h.users {
			seen, partial, err := n.Of(h.t.Context(), viewer, h.users, false)
			if err != nil || partial {
				return fmt.Errorf("node %d: partial %v, %w", i, partial, err)
			}
			friends, _, err := n.FriendsOnline(h.t.Context(), viewer)
			if err != nil {
				return err
			}
			for u, s := range seen {
				want := h.sees(v, u)
				if s.Status != want {
					return fmt.Errorf("at node %d user %d sees user %d %s, want %s", i, v, u, s.Status, want)
				}
				if listed := slices.ContainsFunc(friends, func(f Seen) bool { return f.User == h.users[u] && f.Status == want }); v != u && listed != (want != Offline) {
					return fmt.Errorf("at node %d among the friends of user %d is user %d: %v, want %s", i, v, u, listed, want)
				}
			}
		}
	}
	return nil
}

// heard compares the events of users with the plan.
func (h *history) heard() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range h.never {
		for _, told := range h.told[[2]accounts.ID{h.users[f.viewer], h.users[f.user]}] {
			if told.at.Before(f.from) || !f.to.IsZero() && !told.at.Before(f.to) {
				continue
			}
			if !f.hidden || told.status != api.StatusOffline || told.seen {
				return fmt.Errorf("user %d was told that user %d is %s, at %s", f.viewer, f.user, told.status, told.at.Sub(bubble.Began))
			}
		}
	}
	if h.harm { // events may be lost
		return nil
	}
	for v, viewer := range h.users {
		for u, user := range h.users {
			if v == u || h.apart[pairOf(v, u)] {
				continue
			}
			last, version := api.StatusOffline, int64(1)
			for i, told := range h.told[[2]accounts.ID{viewer, user}] {
				if told.status == last && !h.wasHidden(u) {
					return fmt.Errorf("user %d was told twice that user %d is %s, at %s (%d)", v, u, last, told.at.Sub(bubble.Began), i)
				}
				if told.version < version {
					return fmt.Errorf("an event to user %d of user %d has version %d after %d, at %s", v, u, told.version, version, told.at.Sub(bubble.Began))
				}
				last, version = told.status, told.version
			}
			if want := h.sees(v, u).String(); last != want {
				return fmt.Errorf("user %d was last told that user %d is %s, want %s", v, u, last, want)
			}
		}
	}
	return nil
}

// wasHidden reports whether a user was ever hidden: that is published regardless of earlier events.
func (h *history) wasHidden(user int) bool {
	return slices.ContainsFunc(h.never, func(f forbidden) bool { return f.hidden && f.user == user })
}

func TestRandomHistoriesEndAsThePlanSays(t *testing.T) {
	for _, harm := range []bool{false, true} {
		name := map[bool]string{false: "nodes die", true: "all fails"}[harm]
		first := *seed
		if first == 0 {
			first = rand.Uint64N(1 << 40)
		}
		for i := range uint64(*histories) {
			t.Run(fmt.Sprintf("%s, seed %d", name, first+i), func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) { oneHistory(t, first+i, harm) })
			})
		}
	}
}

func oneHistory(t *testing.T, seed uint64, harm bool) {
	h := &history{world: newWorld(t, 4), r: rand.New(rand.NewPCG(seed, 2)), harm: harm,
		plan: &plan{map[string]planned{}, map[int]Status{}, map[int]bool{}, map[[2]int]bool{}, nil}}
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
			bubble.Sleep(100*time.Millisecond + h.some(9*time.Second))
		} else {
			bubble.Sleep(100*time.Millisecond + h.some(time.Second))
		}
	}
	bubble.Sleep(30 * time.Second)
	err := h.read()
	if err == nil {
		err = h.heard()
	}
	if err != nil {
		t.Errorf("%v\n%s", err, strings.Join(h.log, "\n"))
	}
}
