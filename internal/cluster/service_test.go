package cluster

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/config"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/lib/bus"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// member is a node under test with the bus events that it received.
type member struct {
	*Service
	channels *events.Bus
	stop     func()

	mu   sync.Mutex
	told []string
}

func (m *member) heardOf() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.told)
}

// lives are shorter than in production. Keys of the embedded server expire up to 50 ms late.
type lives struct{ beat, lease, entry time.Duration }

var brief = lives{100 * time.Millisecond, 1200 * time.Millisecond, 4500 * time.Millisecond}

// join creates a node. Run registers it.
func join(t testing.TB, db *redis.DB, l lives) *member {
	t.Helper()
	id := ids.New[Node]()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	b := events.NewBus(db, id.String(), log)
	m := &member{channels: b, Service: New(Config{Redis: db, Bus: b, Node: id, Version: "v1", Roles: []string{"api"},
		Metrics: prometheus.NewRegistry(), Log: log, Settings: Settings{Advertise: "stoa:80", RTMPPort: 1935, GRPCPort: 50051}})}
	m.beat, m.redis.lease, m.redis.entry = l.beat, l.lease, l.entry
	return m
}

// run runs the node until the test ends or stop is called.
func (m *member) run(t testing.TB) *member {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = m.bus.Run(ctx, func() {}) })
	running.Go(func() {
		if err := m.Run(ctx, func() {}); !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
	})
	m.stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(m.stop)
	eventually.True(t, "the first look", m.hasLooked)
	return m
}

func (m *member) hasLooked() bool {
	m.Service.mu.Lock()
	defer m.Service.mu.Unlock()
	return len(m.live) > 0
}

// witness records the node events of the bus.
func witness(t testing.TB, db *redis.DB) *member {
	t.Helper()
	w := &member{}
	b := events.NewBus(db, ids.New[Node]().String(), slog.New(slog.DiscardHandler)).Nodes()
	b.Handle(Topic, bus.Handler{Event: func(e bus.Event) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.told = append(w.told, e.Name+" "+e.Data)
	}})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = b.Run(ctx, func() {}) }()
	t.Cleanup(func() { cancel(); <-ended })
	eventually.True(t, "the bus", func() bool { return b.Seen() != 0 })
	return w
}

// liveOf returns nil if m returns an error because its own lease has expired.
func liveOf(t testing.TB, m *member) map[ID]Boot {
	t.Helper()
	live, err := m.Live(t.Context())
	if !errors.Is(err, errNoLease) {
		must(t, err)
	}
	return live
}

func entryOf(t testing.TB, db *redis.DB, id ID) (e Entry, ok bool) {
	t.Helper()
	entries, err := List(t.Context(), db)
	must(t, err)
	i := slices.IndexFunc(entries, func(e Entry) bool { return e.ID == id })
	if i < 0 {
		return Entry{}, false
	}
	return entries[i], true
}

func TestCluster(t *testing.T) {
	for _, engine := range redistest.Engines(t) {
		if engine.Name == "spawn" || engine.Name == "sentinel" {
			continue // the same commands as standalone
		}
		t.Run(engine.Name, func(t *testing.T) {
			db := engine.Open(t)
			for _, c := range []struct {
				name string
				test func(*testing.T, *redis.DB)
			}{
				{"nodes see each other join and leave", testTogether},
				{"a dead node is published once, listed for a while and removed", testDead},
				{"a node with an expired lease joins again", testSilent},
				{"a status is published at once", testStatus},
				{"a node with a new heartbeat is not marked", testBury},
			} {
				t.Run(c.name, func(t *testing.T) { c.test(t, db) })
			}
			redistest.KeysDeclared(t, db, Keys, events.Keys)
		})
	}
}

func testTogether(t *testing.T, db *redis.DB) {
	w := witness(t, db)
	const beat = 2 * time.Second // an earlier change came over the bus
	a := join(t, db, lives{beat, leaseLife, entryLife}).run(t)
	b := join(t, db, lives{beat, leaseLife, entryLife}).run(t)
	eventually.True(t, "a to see b", func() bool {
		return reflect.DeepEqual(liveOf(t, a), map[ID]Boot{a.self.ID: a.self.Boot, b.self.ID: b.self.Boot})
	})
	e, ok := entryOf(t, db, b.self.ID)
	want := b.Self()
	if !ok || !e.Alive || e.Age > 2*beat || !reflect.DeepEqual(e.Node, want) || want.Address != "stoa:80" || want.RTMPPort != 1935 ||
		want.GRPCPort != 50051 {
		t.Errorf("the entry is %+v, want %+v", e, want)
	}
	b.stop()
	began := time.Now()
	eventually.True(t, "a to miss b", func() bool { return len(liveOf(t, a)) == 1 })
	if took := time.Since(began); took > beat-beat/10 {
		t.Errorf("a noticed after %s, want at once", took)
	}
	if e, ok := entryOf(t, db, b.self.ID); !ok || e.Alive || e.Status != Stopped {
		t.Errorf("after it signed off the entry is %+v, %v", e, ok)
	}
	a.stop()
	told := []string{Joined + " " + a.self.ID.String(), Joined + " " + b.self.ID.String(), Left + " " + b.self.ID.String(),
		Left + " " + a.self.ID.String()}
	eventually.True(t, "the news", func() bool { return len(w.heardOf()) >= 4 })
	if got := w.heardOf(); !slices.Equal(got, told) {
		t.Errorf("told %q, want %q", got, told)
	}
}

// beatOnce keeps a node that does not run alive for one lease.
func beatOnce(t *testing.T, m *member) {
	t.Helper()
	joined := true // publishes no join
	must(t, m.round(t.Context(), &joined))
}

func testDead(t *testing.T, db *redis.DB) {
	w := witness(t, db)
	dead := join(t, db, brief)
	beatOnce(t, dead)
	a, b := join(t, db, brief).run(t), join(t, db, brief).run(t)
	eventually.True(t, "the lease to end", func() bool { return len(liveOf(t, a)) == 2 && len(liveOf(t, b)) == 2 })
	if e, ok := entryOf(t, db, dead.self.ID); !ok || e.Alive || e.Status != Starting {
		t.Errorf("dead, its entry is %+v, %v", e, ok)
	}
	eventually.True(t, "it to be forgotten", func() bool {
		nodes, err := a.redis.list(t.Context())
		must(t, err)
		return !slices.ContainsFunc(nodes, func(n listed) bool { return n.id == dead.self.ID })
	})
	if _, ok := entryOf(t, db, dead.self.ID); ok {
		t.Error("it has an entry but is not in the list")
	}
	left := func(s string) bool { return s != Left+" "+dead.self.ID.String() }
	if got := slices.DeleteFunc(w.heardOf(), left); len(got) != 1 {
		t.Errorf("its death was published %d times, want once", len(got))
	}
}

func testSilent(t *testing.T, db *redis.DB) {
	w := witness(t, db)
	m := join(t, db, brief)
	joined, lapsed := false, 0
	m.lapsed = func() { lapsed++ }
	must(t, m.round(t.Context(), &joined))
	must(t, m.round(t.Context(), &joined))
	gone := func() bool { _, ok := entryOf(t, db, m.self.ID); return ok && len(liveOf(t, m)) == 0 }
	eventually.True(t, "the lease to end", gone)
	must(t, m.round(t.Context(), &joined))
	eventually.True(t, "the lease to end again", gone)
	if _, err := m.redis.renew(t.Context(), m.self); err != nil { // a heartbeat whose answer is lost
		t.Fatal(err)
	}
	must(t, m.round(t.Context(), &joined))
	news := Joined + " " + m.self.ID.String()
	eventually.True(t, "the news", func() bool { return len(w.heardOf()) >= 3 })
	if got := w.heardOf(); !slices.Equal(got, []string{news, news, news}) {
		t.Errorf("published %q, want three joins", got)
	}
	if lapsed != 3 {
		t.Errorf("lapsed was called %d times, want three", lapsed)
	}
	m.signOff(t.Context())
}

func testStatus(t *testing.T, db *redis.DB) {
	m := join(t, db, lives{time.Second, leaseLife, entryLife}).run(t)
	for _, s := range []Status{Serving, Draining} {
		m.SetStatus(s)
		eventually.True(t, string(s), func() bool { e, _ := entryOf(t, db, m.self.ID); return e.Status == s })
	}
}

// buried is a Go model of mark_gone.lua.
func buried(scores map[string]float64, node string, seen float64) bool {
	last, ok := scores[node]
	if !ok || last != seen || gone(last) {
		return false
	}
	scores[node] = -last
	return true
}

func testBury(t *testing.T, db *redis.DB) {
	s := &redisStore{db: db}
	rng := rand.New(rand.NewPCG(3, 4))
	nodes := []ID{ids.New[Node](), ids.New[Node](), ids.New[Node]()}
	scores := map[string]float64{}
	now := time.Now().UnixMilli()
	for i := range 300 {
		id, at := nodes[rng.IntN(len(nodes))], now+rng.Int64N(3)
		if rng.IntN(2) == 0 {
			scores[id.String()] = float64(at)
			must(t, db.Do(t.Context(), keyspace.Cmd{Name: "ZADD", Key: nodesKey.At().Key,
				Args: []string{strconv.FormatInt(at, 10), id.String()}}).Err)
			continue
		}
		seen := float64(at)
		if rng.IntN(4) == 0 {
			seen = -seen
		}
		got, err := s.markGone(t.Context(), listed{id: id, score: seen})
		must(t, err)
		if want := buried(scores, id.String(), seen); got != want {
			t.Fatalf("after %d: buried %v, want %v", i, got, want)
		}
	}
	list, err := s.list(t.Context())
	must(t, err)
	for _, n := range list {
		if want, ours := scores[n.id.String()]; ours && n.score != want {
			t.Errorf("a score is %f, want %f", n.score, want)
		}
	}
	must(t, s.forget(t.Context(), list))
}

func TestCluster_RedisOutageAndRecovery(t *testing.T) {
	server := redistest.Server(t)
	db := redistest.Open(t, server.URL)
	m := join(t, db, brief).run(t)
	server.Kill()
	eventually.True(t, "the failure", func() bool { _, err := m.Live(t.Context()); return errors.Is(err, redis.ErrUnavailable) })
	server.RestartEmpty()
	eventually.True(t, "the node", func() bool { live, err := m.Live(t.Context()); return err == nil && live[m.self.ID] == m.self.Boot })
	eventually.True(t, "its entry", func() bool { e, ok := entryOf(t, db, m.self.ID); return ok && e.Alive })
}

func TestRenew_WorksInAFullRedis(t *testing.T) {
	server := redistest.Server(t)
	db := redistest.Open(t, server.URL)
	m := join(t, db, lives{Beat, time.Minute, time.Hour})
	beatOnce(t, m)
	if _, err := server.Do("CONFIG", "SET", "maxmemory", "1"); err != nil {
		t.Fatal(err)
	}
	m.redis.lease = time.Hour
	if _, err := m.redis.renew(t.Context(), m.Self()); err == nil {
		t.Error("a full Redis accepted the entry")
	}
	if left, err := db.Do(t.Context(), keyspace.Cmd{Name: "PTTL", Key: leaseKey(m.self.ID)}).Int(); err != nil ||
		left <= time.Minute.Milliseconds() {
		t.Errorf("the lease has %d ms left, %v; want an hour", left, err)
	}
}

// While a heartbeat is late, all callers of Live share an answer, but no answer from before an event.
func TestLive_ConcurrentCallersShareAnAnswer(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		memory := redistest.InMemory(t)
		wire := memory.Wire()
		m := join(t, redistest.OpenConfig(t, wire.Config()), lives{Beat, leaseLife, entryLife}) // it does not run
		beatOnce(t, m)
		bubble.Sleep(2 * Beat)
		wire.Delay(150 * time.Millisecond)
		before := memory.Calls()["zrange"]
		var asking sync.WaitGroup
		ask := func() {
			for range 100 {
				asking.Go(func() {
					if live, err := m.Live(t.Context()); err != nil || len(live) != 1 {
						t.Errorf("%v live: %v", live, err)
					}
				})
			}
			bubble.Sleep(10 * time.Millisecond)
		}
		ask()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := m.Live(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a canceled caller got %v", err)
		}
		m.Service.mu.Lock()
		m.news++
		m.Service.mu.Unlock()
		ask()
		asking.Wait()
		if n := memory.Calls()["zrange"] - before; n != 2 {
			t.Errorf("the nodes are listed %d times, want once, and once after an event", n)
		}
	})
}

// A Redis that lost the lease of this node may have lost other leases.
func TestLive_WithoutOwnLeaseReportsNoDeaths(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		db := redistest.Open(t, "embedded")
		a, b := join(t, db, lives{0, time.Minute, time.Hour}), join(t, db, lives{0, time.Minute, time.Hour})
		beatOnce(t, a)
		beatOnce(t, b)
		if live, err := a.Live(t.Context()); err != nil || len(live) != 2 {
			t.Errorf("at first: %v, %v; want both", live, err)
		}
		var lost []keyspace.Cmd
		for _, id := range []ID{a.self.ID, b.self.ID} {
			lost = append(lost, keyspace.Cmd{Name: "DEL", Key: leaseKey(id)})
		}
		must(t, keyspace.FirstErr(db.DoMulti(t.Context(), lost)))
		if live, err := a.Live(t.Context()); !errors.Is(err, redis.ErrUnavailable) {
			t.Errorf("without a lease: %v, %v; want %v", live, err, redis.ErrUnavailable)
		}
		beatOnce(t, a)
		if live, err := a.Live(t.Context()); err != nil || len(live) != 1 {
			t.Errorf("with a lease again: %v, %v; want itself alone", live, err)
		}
	})
}

// The number of commands of a round does not depend on the number of nodes.
func TestRound_ReadsAllLeasesInOneCommand(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		memory := redistest.InMemory(t)
		db := redistest.OpenConfig(t, memory.Wire().Config())
		cost := func(m *member) (gets, mgets int) {
			beatOnce(t, m) // it may load scripts
			bubble.Sleep(Beat)
			before := memory.Calls()
			beatOnce(t, m)
			after := memory.Calls()
			return after["get"] - before["get"], after["mget"] - before["mget"]
		}
		m := join(t, db, lives{Beat, leaseLife, entryLife})
		getsAlone, _ := cost(m)
		for range 5 {
			beatOnce(t, join(t, db, lives{Beat, leaseLife, entryLife}))
		}
		if gets, mgets := cost(m); gets != getsAlone || mgets != 1 {
			t.Errorf("a round with six nodes costs %d GET and %d MGET, want %d as with one node, and 1", gets, mgets, getsAlone)
		}
		if live := liveOf(t, m); len(live) != 6 {
			t.Errorf("%d nodes are live, want 6", len(live))
		}
	})
}

func TestNew_BusRemovesDeadNodes(t *testing.T) {
	db := redistest.Open(t, "embedded")
	events.NewBus(db, "dead", nil).Listen(t.Context(), "ann", &events.Listener{})
	m := join(t, db, brief).run(t)
	m.channels.Listen(t.Context(), "ann", &events.Listener{})
	nodes := keyspace.Def1[keyspace.Text](keyspace.New("test"), "gateway:nodes:{{channel}}", keyspace.BytesOf("nodes"),
		keyspace.Forever("a test's"), keyspace.Doc{}).At(keyspace.Text{S: "ann"})
	if got, _, err := db.Do(t.Context(), keyspace.Cmd{Name: "GET", Key: nodes.Key}).Text(); got != m.self.ID.String() || err != nil {
		t.Errorf("subscribers: got %q, want %s alone; %v", got, m.self.ID, err)
	}
}

func TestReachable(t *testing.T) {
	for addr, want := range map[string]string{
		"127.0.0.1:80": "127.0.0.1:80", "0.0.0.0:80": "box:80", "[::]:80": "box:80", ":80": "box:80", "[fe80::1]:80": "[fe80::1]:80",
		"odd": "odd",
	} {
		if got := reachable(addr, "box"); got != want {
			t.Errorf("reachable(%s) = %s, want %s", addr, got, want)
		}
	}
	s := New(Config{Bus: events.NewBus(redistest.Open(t, "embedded"), "a", nil), Metrics: prometheus.NewRegistry()})
	s.Listening("10.0.0.1:80")
	if got := s.Self().Address; got != "10.0.0.1:80" {
		t.Errorf("listening there it is %s", got)
	}
}

func TestSettings_Faults(t *testing.T) {
	if err := (Settings{Advertise: "stoa-1:8080", RTMPPort: 1935, GRPCPort: 65535}).Validate(); err != nil {
		t.Error(err)
	}
	err := Settings{Advertise: ":80", RTMPPort: -1, GRPCPort: 65536}.Validate()
	var got []string
	for _, f := range config.Faults(err) {
		got = append(got, f.Key)
	}
	slices.Sort(got)
	if want := []string{"advertise", "grpc_port", "rtmp_port"}; !slices.Equal(got, want) {
		t.Errorf("faults with %v, want %v", got, want)
	}
}

// Data of another build, or foreign data in Redis, hides no other node and stops none.
func TestCluster_IgnoresUnknownFormats(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		db := redistest.Open(t, "embedded")
		m := join(t, db, brief)
		m.ordered = func(o Order) { t.Errorf("it took the order %+v", o) }
		other := ids.New[Node]()
		by := func(name string, key keyspace.Key, args ...string) keyspace.Cmd {
			return keyspace.Cmd{Name: name, Key: key, Args: args}
		}
		must(t, keyspace.FirstErr(db.DoMulti(t.Context(), []keyspace.Cmd{
			by("SET", orderKeys.At(m.self.ID).Key, `{"id":"7","drain":"soon"}`), by("SET", entryKeys.At(other).Key, "[]"),
			by("ZADD", nodesKey.At().Key, score(time.Now()), other.String(), score(time.Now()), "no id"),
		})))
		m.run(t)
		entries, err := List(t.Context(), db)
		if must(t, err); len(entries) != 1 || entries[0].ID != m.self.ID {
			t.Errorf("the list is %+v, want %s alone", entries, m.self.ID)
		}
	})
}

func TestCluster_UnknownReplyIsAnError(t *testing.T) {
	list := keyspace.Reply{Kind: keyspace.ListReply}
	odd := keyspace.Reply{Kind: keyspace.ListReply, List: []keyspace.Reply{{Kind: keyspace.TextReply, Str: "x"}}}
	broken := keyspace.Reply{Kind: keyspace.ErrorReply, Err: redis.ServerError("ERR broken")}
	for _, answer := range []keyspace.Reply{list, odd, broken, {Kind: keyspace.TextReply, Str: "x"}} {
		s, node := &redisStore{db: redistest.Answering(t, answer)}, Node{ID: ids.New[Node]()}
		_, renewed := s.renew(t.Context(), node)
		forgotten := s.forget(t.Context(), []listed{{id: node.ID}})
		_, marked := s.markGone(t.Context(), listed{id: node.ID})
		for what, err := range map[string]error{"renew": renewed, "forget": forgotten, "markGone": marked} {
			if err == nil {
				t.Errorf("%s of %+v: no error", what, answer)
			}
		}
		if entries, err := List(t.Context(), s.db); (err == nil) != (answer.Kind == keyspace.ListReply && len(answer.List) == 0) {
			t.Errorf("List of %+v: %+v, %v", answer, entries, err)
		}
		if answer.Kind != keyspace.ErrorReply {
			continue
		}
		for what, err := range map[string]error{"leave": s.leave(t.Context(), node), "Send": Send(t.Context(), s.db, node.ID, Order{ID: "1"})} {
			if err == nil {
				t.Errorf("%s of %+v: no error", what, answer)
			}
		}
	}
}
