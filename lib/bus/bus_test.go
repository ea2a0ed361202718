package bus

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

func TestBus(t *testing.T) {
	cases := []struct {
		name string
		test func(*testing.T, *redis.DB)
	}{
		{"every node hears each event of the others once and in one order", testOrder},
		{"an event arrives as it was published", testWhole},
		{"a passed event is delivered and not stored", testPassed},
		{"a pipeline can publish", testPipeline},
		{"an entry without a message is found by the next beat", testSilent},
		{"a gap between messages is filled before later messages", testGap},
		{"more than a page of the log is read in full", testPages},
		{"a trimmed log means that events may have been missed", testTrimmed},
		{"an emptied log means that events may have been missed", testEmptied},
		{"an entry with a reused id is detected", testSameID},
		{"repeated ids after the log was emptied hide no events", testSameIDs},
		{"an unreadable entry is skipped", testUnreadable},
		{"the log is bounded", testKeep},
		{"the script agrees with its Go twin", testTwin},
	}
	for _, engine := range redistest.Engines(t) {
		t.Run(engine.Name, func(t *testing.T) {
			if engine.Name == "embedded" {
				for _, c := range cases {
					t.Run(c.name, func(t *testing.T) {
						redistest.Bubble(t, func(t *testing.T) {
							db := engine.Open(t)
							c.test(t, db)
							redistest.KeysDeclared(t, db, schema)
						})
					})
				}
				return
			}
			t.Parallel()
			db := engine.Open(t)
			for _, c := range cases {
				t.Run(c.name, func(t *testing.T) { c.test(t, db) })
			}
			redistest.KeysDeclared(t, db, schema)
		})
	}
}

func testOrder(t *testing.T, db *redis.DB) {
	nodes := []*node{join(t, db, "a", Config{}), join(t, db, "b", Config{}), join(t, db, "c", Config{})}
	const each = 200
	var wg sync.WaitGroup
	for _, n := range nodes {
		wg.Go(func() {
			for i := range each {
				if err := n.Publish(t.Context(), "topic", "name", fmt.Sprint(n.cfg.Node, i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	var order []string // of the log
	entries, err := nodes[0].read(t.Context(), "XREVRANGE", "+", "-", each*len(nodes))
	must(t, err)
	for _, e := range slices.Backward(entries) {
		order = append(order, e.event.Data)
	}
	for _, n := range nodes {
		n.caughtUp(t)
		n.wants(t, slices.DeleteFunc(slices.Clone(order), func(data string) bool { return strings.HasPrefix(data, n.cfg.Node) })...)
	}
}

func testWhole(t *testing.T, db *redis.DB) {
	a := join(t, db, "a", Config{})
	got := make(chan Event, 2)
	b := New(db, keys, Config{Node: "b"})
	b.Handle("other", Handler{Event: func(e Event) { got <- e }})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = b.Run(ctx, func() {}) })
	defer running.Wait()
	defer cancel()
	eventually.True(t, "the first beat", func() bool { return b.Seen() != 0 })
	data := "two words, \x00, {\"json\":\"é\"}\r\n and an end "
	before := time.Now().Truncate(time.Millisecond)
	must(t, a.Publish(t.Context(), "topic", "elsewhere", data)) // no handler
	must(t, a.Publish(t.Context(), "other", "room.closed", data))
	e := <-got
	if e.Node != "a" || e.Topic != "other" || e.Name != "room.closed" || e.Data != data || e.ID == "" || e.At.Before(before) ||
		e.At.After(time.Now()) {
		t.Errorf("got %+v", e)
	}
	if b.Era() == 0 || b.Era() != a.Era() {
		t.Errorf("the eras are %d and %d, want one", a.Era(), b.Era())
	}
}

func testPassed(t *testing.T, db *redis.DB) {
	a, b := join(t, db, "a", Config{}), join(t, db, "b", Config{})
	length := func() int64 {
		n, err := db.Do(t.Context(), keyspace.Cmd{Name: "XLEN", Key: keys.Log.Key}).Int()
		must(t, err)
		return n
	}
	before := length()
	// A subscription may take effect after the first beat.
	eventually.True(t, "a passed event", func() bool {
		must(t, a.Pass(t.Context(), "topic", "name", "passed on"))
		return slices.Contains(b.received(), "passed on")
	})
	if after := length(); after != before {
		t.Errorf("the log has %d entries more", after-before)
	}
	a.wants(t)
	if s := b.Stats(); s.Passed == 0 || s.Events != 0 || s.Lost != 0 {
		t.Errorf("Stats = %+v", s)
	}
}

func testPipeline(t *testing.T, db *redis.DB) {
	a, b := join(t, db, "a", Config{}), join(t, db, "b", Config{})
	must(t, keyspace.FirstErr(db.DoMulti(t.Context(), []keyspace.Cmd{a.PublishCmd("topic", "name", "1"), a.PublishCmd("topic", "name", "2")})))
	b.caughtUp(t)
	b.wants(t, "1", "2")
}

// silent adds an entry without publishing it, as if its message were lost.
func silent(t *testing.T, n *node, data string) {
	t.Helper()
	must(t, n.db.Do(t.Context(), keyspace.Cmd{Name: "XADD", Key: keys.Log.Key, Args: []string{"*", "e", n.event("topic", "name", data)}}).Err)
}

func testSilent(t *testing.T, db *redis.DB) {
	a, b := join(t, db, "a", Config{}), join(t, db, "b", Config{})
	silent(t, a, "1")
	b.caughtUp(t)
	b.wants(t, "1")
	if s := b.Stats(); s.FromLog != 1 || s.Events != 1 {
		t.Errorf("Stats = %+v, want one event, from the log", s)
	}
}

func testGap(t *testing.T, db *redis.DB) {
	// There are no periodic beats.
	a, b := join(t, db, "a", Config{Beat: time.Hour}), join(t, db, "b", Config{Beat: time.Hour})
	must(t, a.Publish(t.Context(), "topic", "name", "1"))
	eventually.True(t, "the message", func() bool { return len(b.received()) == 1 })
	silent(t, a, "2")
	silent(t, a, "3")
	for i := 4; i < 10; i++ {
		must(t, a.Publish(t.Context(), "topic", "name", fmt.Sprint(i)))
	}
	eventually.True(t, "the others", func() bool { return len(b.received()) >= 9 })
	b.wants(t, "1", "2", "3", "4", "5", "6", "7", "8", "9")
}

// A message that arrives while a gap is filled is not read from the log again: the message itself is used.
func TestBus_MessagesWaitForGap(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		db := redistest.Open(t, "embedded")
		// There is no subscriber: the test passes the messages itself.
		a, b := newNode(t, db, "a", Config{}), newNode(t, db, "b", Config{})
		must(t, b.beat(t.Context()))
		silent(t, a, "1")
		newest, err := a.read(t.Context(), "XREVRANGE", "+", "-", 1)
		must(t, err)
		// Its entry is not in the log, so only the message can have delivered it.
		b.message(newest[0].event.ID + " 99999999999999-0 " + a.event("topic", "name", "2"))
		b.wants(t)
		must(t, b.beat(t.Context()))
		b.wants(t, "1", "2")
	})
}

func testPages(t *testing.T, db *redis.DB) {
	a, b := join(t, db, "a", Config{Beat: time.Hour}), join(t, db, "b", Config{Beat: time.Hour})
	var cmds []keyspace.Cmd
	var want []string
	for i := range 2*maxPage + 1 {
		want = append(want, fmt.Sprint(i))
		cmds = append(cmds, keyspace.Cmd{Name: "XADD", Key: keys.Log.Key, Args: []string{"*", "e", a.event("topic", "name", want[i])}})
	}
	must(t, keyspace.FirstErr(db.DoMulti(t.Context(), cmds)))
	m := Now()
	eventually.True(t, "the log is handled", func() bool { b.requestBeat(); return b.Seen() > m })
	b.wants(t, want...)
}

// trimmed adds two entries and keeps only the newer one, atomically.
var trimmed = redis.NewScript(`
redis.call('XADD', KEYS[1], '*', 'e', ARGV[1])
redis.call('XADD', KEYS[1], 'MAXLEN', '=', 1, '*', 'e', ARGV[2])
return 1`)

func testTrimmed(t *testing.T, db *redis.DB) {
	a, b := join(t, db, "a", Config{Beat: fast}), join(t, db, "b", Config{Beat: fast})
	must(t, trimmed.Run(t.Context(), db, []keyspace.Key{keys.Log.Key}, a.event("topic", "name", "1"), a.event("topic", "name", "2")).Err)
	b.caughtUp(t)
	b.wants(t, "LOST")
	must(t, a.Publish(t.Context(), "topic", "name", "3"))
	b.caughtUp(t)
	b.wants(t, "LOST", "3")
	if s := b.Stats(); s.Lost != 1 {
		t.Errorf("Stats = %+v, want one loss", s)
	}
}

func testEmptied(t *testing.T, db *redis.DB) {
	a, b := join(t, db, "a", Config{Beat: fast}), join(t, db, "b", Config{Beat: fast})
	empty := keyspace.Cmd{Name: "DEL", Key: keys.Log.Key} // as FLUSHALL does
	must(t, db.Do(t.Context(), empty).Err)
	b.caughtUp(t)
	b.wants(t, "LOST")
	must(t, a.Publish(t.Context(), "topic", "name", "1"))
	b.caughtUp(t)
	b.wants(t, "LOST", "1")
	// The first event of the new log arrives with the loss of the old one and is covered by it.
	must(t, keyspace.FirstErr(db.DoMulti(t.Context(), []keyspace.Cmd{empty, a.PublishCmd("topic", "name", "2")})))
	b.caughtUp(t)
	if got := b.received(); len(got) < 3 || got[2] != "LOST" {
		t.Errorf("handled %q, want a loss at the end", got)
	}
}

// replaced replaces the log with a new one whose first entry has the last id of the old.
var replaced = redis.NewScript(`
local id = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1][1]
redis.call('DEL', KEYS[1])
redis.call('XADD', KEYS[1], id, 'e', ARGV[1])
return id`)

func testSameID(t *testing.T, db *redis.DB) {
	a, b := join(t, db, "a", Config{Beat: fast}), join(t, db, "b", Config{Beat: fast})
	must(t, a.Publish(t.Context(), "topic", "name", "1"))
	b.caughtUp(t)
	must(t, replaced.Run(t.Context(), db, []keyspace.Key{keys.Log.Key}, a.event("topic", "name", "2")).Err)
	b.caughtUp(t)
	b.wants(t, "1", "LOST")
}

// again empties the log and publishes to the new one with the ids of the old: one event under the old log's last id,
// and one that follows it.
var again = redis.NewScript(`
local id = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1][1]
redis.call('DEL', KEYS[1])
redis.call('XADD', KEYS[1], id, 'e', ARGV[3])
redis.call(ARGV[1], ARGV[2], '0 ' .. id .. ' ' .. ARGV[3])
local prev = string.match(ARGV[3], '^[^ ]*')
local entry = redis.call('XADD', KEYS[1], '*', 'e', ARGV[4])
redis.call(ARGV[1], ARGV[2], prev .. ' ' .. entry .. ' ' .. ARGV[4])
return id`)

func testSameIDs(t *testing.T, db *redis.DB) {
	a, b := join(t, db, "a", Config{Beat: fast}), join(t, db, "b", Config{Beat: fast})
	must(t, a.Publish(t.Context(), "topic", "name", "1"))
	b.caughtUp(t)
	must(t, again.Run(t.Context(), db, []keyspace.Key{keys.Log.Key}, a.verb, a.channel, a.event("topic", "name", "2"),
		a.event("topic", "name", "3")).Err)
	b.caughtUp(t)
	if got := b.received(); len(got) < 2 || got[1] != "LOST" {
		t.Errorf("handled %q, want 1 and then a loss", got)
	}
}

func testUnreadable(t *testing.T, db *redis.DB) {
	a, b := join(t, db, "a", Config{Beat: fast}), join(t, db, "b", Config{Beat: fast})
	for _, text := range []string{"nonsense", "id a topic name then data"} {
		must(t, db.Do(t.Context(), keyspace.Cmd{Name: "XADD", Key: keys.Log.Key, Args: []string{"*", "e", text}}).Err)
		must(t, db.Publish(t.Context(), keys.Events, text))
		must(t, db.Publish(t.Context(), keys.Events, "0 1-1 "+text))
		b.caughtUp(t)
		b.caughtUp(t) // as its last entry
	}
	must(t, a.Publish(t.Context(), "topic", "name", "1"))
	b.caughtUp(t)
	b.wants(t, "1")
}

func testKeep(t *testing.T, db *redis.DB) {
	a := join(t, db, "a", Config{Keep: 10})
	for i := range 400 {
		must(t, a.Publish(t.Context(), "topic", "name", fmt.Sprint(i)))
	}
	// A server trims whole nodes of a stream, each with a hundred entries.
	if n, err := db.Do(t.Context(), keyspace.Cmd{Name: "XLEN", Key: keys.Log.Key}).Int(); err != nil || n < 10 || n > 220 {
		t.Errorf("the log has %d entries (%v), want 10 to 220", n, err)
	}
}

// twin is the log as seen by publish.lua.
type twin struct{ ids, events []string }

// publish returns the published message of the entry with the server's id.
func (w *twin) publish(id, event string) string {
	prev := "0"
	if n := len(w.events); n > 0 {
		prev, _, _ = strings.Cut(w.events[n-1], " ")
	}
	w.ids, w.events = append(w.ids, id), append(w.events, event)
	return prev + " " + id + " " + event
}

func testTwin(t *testing.T, db *redis.DB) {
	// It has its own channel, because subscriptions of other tests may still be ending.
	own := Keys{twinChannel.At(keyspace.Int{N: 1}), twinLog.At(keyspace.Int{N: 1})}
	messages, up := make(chan string, 1), make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(t.Context())
	var listener sync.WaitGroup
	listener.Go(func() {
		_ = db.Subscribe(ctx, own.Events, redis.Handler{Message: func(s string) { messages <- s }, Subscribed: func() { up <- struct{}{} }})
	})
	defer listener.Wait()
	defer cancel()
	<-up
	b := New(db, own, Config{Node: "twin"})
	log := []keyspace.Key{own.Log.Key}
	rng := rand.New(rand.NewPCG(1, 2))
	var model twin
	forget := func() {
		must(t, db.Do(t.Context(), keyspace.Cmd{Name: "DEL", Key: own.Log.Key}).Err)
		model = twin{}
	}
	forget()
	for i := range 300 {
		if rng.IntN(50) == 0 {
			forget()
		}
		event := b.event("topic", "name", strings.Repeat("x", rng.IntN(100)))
		id, _, err := publish.Run(t.Context(), db, log, b.verb, b.channel, "1000", event).Text()
		must(t, err)
		if got, want := <-messages, model.publish(id, event); got != want {
			t.Fatalf("after %d: published %q, want %q", i, got, want)
		}
	}
	entries, err := b.read(t.Context(), "XRANGE", "-", "+", 1000)
	must(t, err)
	for i, e := range entries {
		if e.id != model.ids[i] || e.event.encode() != model.events[i] {
			t.Errorf("entry %d is %s: %q, want %s: %q", i, e.id, e.event.encode(), model.ids[i], model.events[i])
		}
	}
	if len(entries) != len(model.ids) {
		t.Errorf("%d entries, want %d", len(entries), len(model.ids))
	}
}

func TestBus_CutSubscriptionLosesNothing(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		memory := redistest.InMemory(t)
		wire := memory.Wire()
		a, b := join(t, memory.Open(t), "a", Config{}), join(t, redistest.OpenConfig(t, wire.Config()), "b", Config{})
		var want []string
		for i := range 300 {
			if i%30 == 15 {
				wire.ResetSubscriptions()
			}
			want = append(want, fmt.Sprint(i))
			must(t, a.Publish(t.Context(), "topic", "name", want[i]))
			time.Sleep(time.Millisecond)
		}
		b.caughtUp(t)
		b.wants(t, want...)
		if s := b.Stats(); s.FromLog == 0 {
			t.Errorf("Stats = %+v: no message was lost, so nothing was tested", s)
		}
	})
}

func TestBus_ReadsLogAfterResubscribing(t *testing.T) {
	server := redistest.Server(t)
	db := redistest.Open(t, server.URL)
	a, b := join(t, db, "a", Config{}), join(t, redistest.Open(t, server.URL), "b", Config{Beat: time.Hour})
	eventually.True(t, "the node has subscribed again", func() bool {
		must(t, a.Pass(t.Context(), "topic", "name", "0"))
		return len(b.received()) > 0
	})
	do := func(args ...string) {
		_, err := server.Do(args...)
		must(t, err)
	}
	do("ACL", "SETUSER", "default", "-subscribe")
	do("CLIENT", "KILL", "TYPE", "pubsub")
	must(t, a.Publish(t.Context(), "topic", "name", "1"))
	do("ACL", "SETUSER", "default", "+subscribe")
	eventually.True(t, "the event is handled", func() bool { return slices.Contains(b.received(), "1") })
}

func TestBus_BlackHoleStopsSeen(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		memory := redistest.InMemory(t)
		wire := memory.Wire()
		a, b := join(t, memory.Open(t), "a", Config{}), join(t, redistest.OpenConfig(t, wire.Config()), "b", Config{})
		must(t, a.Publish(t.Context(), "topic", "name", "before"))
		b.caughtUp(t)

		wire.BlackHole()
		hole := Now()
		must(t, a.Publish(t.Context(), "topic", "name", "meanwhile"))
		time.Sleep(time.Second)
		// A beat waits a tenth of a second for its reply.
		if s := b.Stats(); s.Failed < 4 {
			t.Errorf("in a second %d beats failed, want at least 4", s.Failed)
		}
		if seen := b.Seen(); seen > hole {
			t.Errorf("Seen advanced for %s after the node was disconnected", time.Duration(seen-hole))
		}
		b.wants(t, "before")
		if a.caughtUp(t); a.lost.Load() != 1 {
			t.Error("the other node missed an event")
		}

		wire.Heal()
		b.caughtUp(t)
		b.wants(t, "before", "meanwhile")
	})
}

func TestBus_TrimmedLogCallsLost(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		memory := redistest.InMemory(t)
		wire := memory.Wire()
		a, b := join(t, memory.Open(t), "a", Config{Keep: 10}), join(t, redistest.OpenConfig(t, wire.Config()), "b", Config{})
		wire.Refuse()
		for i := range 400 {
			must(t, a.Publish(t.Context(), "topic", "name", fmt.Sprint(i)))
		}
		wire.Heal()
		b.caughtUp(t)
		b.wants(t, "LOST")
	})
}

// slowLine delays the data that is read from it, to 5 MB a second.
type slowLine struct{ net.Conn }

func (c slowLine) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b[:min(len(b), 5000)])
	<-time.After(time.Duration(n) * 200 * time.Nanosecond)
	return n, err
}

func TestBus_SlowConnectionCatchesUp(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		memory := redistest.InMemory(t)
		wire := memory.Wire()
		cfg := wire.Config()
		cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := wire.Config().Dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return slowLine{c}, nil
		}
		other := memory.Open(t)
		a, b := join(t, other, "a", Config{}), join(t, redistest.OpenConfig(t, cfg), "b", Config{})
		wire.Refuse()
		const missed = 1000 // of 5 kB each: a second's worth
		cmds := make([]keyspace.Cmd, missed)
		for i := range cmds {
			cmds[i] = keyspace.Cmd{Name: "XADD", Key: keys.Log.Key, Args: []string{"*", "e", a.event("topic", "name", strings.Repeat("x", 5000))}}
		}
		must(t, keyspace.FirstErr(other.DoMulti(t.Context(), cmds)))
		wire.Heal()
		healed := Now()
		time.Sleep(30 * time.Second)
		if b.Seen() < healed {
			t.Errorf("half a minute later Seen has not advanced: %+v", b.Stats())
		}
		if n := len(b.received()); n != missed || b.Stats().Lost != 0 {
			t.Errorf("%d of %d events arrive: %+v", n, missed, b.Stats())
		}
	})
}

func TestEra_ChangesAtRestart(t *testing.T) {
	// The persisted log returns, but may lack the newest entries.
	server := redistest.Server(t, "appendonly yes", "appendfsync always")
	a := join(t, redistest.Open(t, server.URL), "a", Config{})
	b := join(t, redistest.Open(t, server.URL), "b", Config{})
	must(t, a.Publish(t.Context(), "topic", "name", "1"))
	b.caughtUp(t)
	era := b.Era()
	server.Restart()
	for _, n := range []*node{a, b} {
		n.caughtUp(t)
		if n.Era() == era || n.Era() != a.Era() {
			t.Errorf("era %d, was %d; the other node's is %d", n.Era(), era, a.Era())
		}
	}
	b.wants(t, "1", "LOST")
	must(t, a.Publish(t.Context(), "topic", "name", "2"))
	b.caughtUp(t)
	b.wants(t, "1", "LOST", "2")
}

func TestBus_OtherServersLogCallsLost(t *testing.T) {
	server := redistest.Server(t)
	a := join(t, redistest.Open(t, server.URL), "a", Config{})
	must(t, a.Publish(t.Context(), "topic", "name", "1"))
	server.RestartEmpty()
	a.caughtUp(t)
	if got := a.received(); len(got) == 0 || slices.ContainsFunc(got, func(s string) bool { return s != "LOST" }) {
		t.Errorf("handled %q, want a loss and nothing else", got)
	}
}

func TestEra_ChangesAtFailover(t *testing.T) {
	for _, set := range []struct {
		name  string
		start func(*testing.T) (url string, failover func())
	}{
		{"sentinel", func(t *testing.T) (string, func()) {
			s := redistest.Sentinel(t)
			return s.URL, func() { s.Failover(t) }
		}},
		{"cluster", func(t *testing.T) (string, func()) {
			c := redistest.Cluster(t, 3, 1)
			return c.URL, func() { c.Owner("stoa:cluster:events").Kill() }
		}},
	} {
		t.Run(set.name, func(t *testing.T) {
			t.Parallel()
			url, failover := set.start(t)
			a, b := join(t, redistest.Open(t, url), "a", Config{}), join(t, redistest.Open(t, url), "b", Config{})
			era := b.Era()
			failover()
			eventually.True(t, "the new master replies", func() bool {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				return a.Publish(ctx, "topic", "name", "1") == nil
			})
			b.caughtUp(t)
			if b.Era() == era || b.lost.Load() < 2 {
				t.Errorf("era %d was %d, %d losses", b.Era(), era, b.lost.Load()-1)
			}
			a.caughtUp(t)
			if a.Era() != b.Era() {
				t.Errorf("the nodes are in the eras %d and %d", a.Era(), b.Era())
			}
			must(t, a.Publish(t.Context(), "topic", "name", "2"))
			b.caughtUp(t)
			if got := b.received(); got[len(got)-1] != "2" {
				t.Errorf("handled %q, want the event at the end", got)
			}
		})
	}
}

// Two nodes publish while connections are cut, the log is emptied and trimmed, and the server is killed. Every event
// that was published without an error must be handled by the other node or covered by a Lost there, before Seen passes
// the moment after the publishing.
func TestBus_MissedEventsAreCoveredByLost(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		memory := redistest.InMemory(t)
		wires := []*redistest.Wire{memory.Wire(), memory.Wire()}
		var nodes []*node
		var heard [2]sync.Map
		for i := range wires {
			n := &node{Bus: New(redistest.OpenConfig(t, wires[i].Config()), keys, Config{Node: fmt.Sprint("node", i), Keep: 200})}
			n.Handle("topic", Handler{Event: func(e Event) {
				if _, twice := heard[i].LoadOrStore(e.Data, true); twice {
					t.Errorf("%s came twice", e.Data)
				}
			}, Lost: func() { n.lost.Add(1) }})
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { _ = n.Run(ctx, func() {}) })
			defer running.Wait()
			defer cancel()
			must(t, n.Wait(ctx))
			nodes = append(nodes, n)
		}
		direct := memory.Open(t)
		stop := make(chan struct{})
		var wg sync.WaitGroup
		var published, covered, refused atomic.Int64
		for i, from := range nodes {
			to, inbox := nodes[1-i], &heard[1-i]
			for w := range 4 {
				wg.Go(func() {
					for k := 0; ; {
						select {
						case <-stop:
							return
						default:
						}
						lost := to.lost.Load()
						var sent []string
						for range 10 {
							data := fmt.Sprint(i, "-", w, "-", k)
							k++
							ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
							if from.Publish(ctx, "topic", "name", data) == nil {
								sent = append(sent, data)
							} else {
								refused.Add(1)
							}
							cancel()
							time.Sleep(rand.N(4 * time.Millisecond))
						}
						published.Add(int64(len(sent)))
						at := Now()
						eventually.True(t, "Seen passes the moment", func() bool { return to.Seen() > at })
						for _, data := range sent {
							if _, ok := inbox.Load(data); ok {
								continue
							}
							if to.lost.Load() == lost {
								t.Errorf("%s was missed without a Lost", data)
							}
							covered.Add(1)
						}
					}
				})
			}
		}
		trim := keyspace.Cmd{Name: "XTRIM", Key: keys.Log.Key, Args: []string{"MAXLEN", "0"}}
		harms := []func(*redistest.Wire){
			(*redistest.Wire).ResetSubscriptions,
			(*redistest.Wire).Reset,
			func(w *redistest.Wire) {
				w.BlackHole()
				time.Sleep(rand.N(400 * time.Millisecond))
				if rand.N(2) == 0 {
					w.Reset()
				}
				w.Heal()
			},
			func(*redistest.Wire) { memory.FlushAll() },
			func(*redistest.Wire) { _ = direct.Do(t.Context(), trim) },
			func(*redistest.Wire) { memory.Restart() },
		}
		for i := range silentHarms * len(harms) {
			if i%len(harms) == 0 { // each occurs, in random order
				rand.Shuffle(len(harms), func(i, j int) { harms[i], harms[j] = harms[j], harms[i] })
			}
			harms[i%len(harms)](wires[rand.N(2)])
			time.Sleep(rand.N(300 * time.Millisecond))
		}
		close(stop)
		wg.Wait()
		t.Logf("%d published, %d of them covered by a loss, %d refused; %+v and %+v", published.Load(), covered.Load(), refused.Load(),
			nodes[0].Stats(), nodes[1].Stats())
		if published.Load() < 500 || nodes[0].Stats().FromLog == 0 {
			t.Error("too few events or losses")
		}
	})
}

// silentHarms is how often each harm occurs.
const silentHarms = 15

func TestBus_InvalidUsesPanic(t *testing.T) {
	db := redistest.Open(t, "embedded")
	other := keyspace.DefChannel0(keyspace.New("other"), "other:events", keyspace.RawMessages("text"), keyspace.Doc{})
	b := New(db, keys, Config{Node: "a"})
	b.Handle("topic", Handler{})
	for what, do := range map[string]func(){
		"a name with a space":   func() { New(db, keys, Config{Node: "a b"}) },
		"no name":               func() { New(db, keys, Config{}) },
		"two slots":             func() { New(db, Keys{other.At(), keys.Log}, Config{Node: "a"}) },
		"a topic handled twice": func() { b.Handle("topic", Handler{}) },
		"a topic with a space":  func() { b.Handle("a topic", Handler{}) },
		"an event with no name": func() { b.PublishCmd("topic", "", "") },
		"an event of no topic":  func() { b.PublishCmd("", "name", "") },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", what)
				}
			}()
			do()
		}()
	}
}

// A bubble only ends when everything that was started in it has ended.
func TestRun_LeavesNoGoroutines(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		db, err := redis.Open(t.Context(), redis.Config{})
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		b := New(db, keys, Config{Node: "a"})
		ended := make(chan error)
		go func() { ended <- b.Run(ctx, func() {}) }()
		must(t, b.Wait(ctx))
		cancel()
		if err := <-ended; err != context.Canceled {
			t.Errorf("Run: %v, want %v", err, context.Canceled)
		}
		must(t, db.Close())
		// A closed DB ends the run, too.
		if err := New(db, keys, Config{Node: "b"}).Run(t.Context(), func() {}); !errors.Is(err, redis.ErrClosed) {
			t.Errorf("Run on a closed DB: %v, want %v", err, redis.ErrClosed)
		}
	})
}

func TestRun_BeatsLessOftenWhileUnused(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		b := New(server.Open(t), keys, Config{Node: "a"})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- b.Run(ctx, func() {}) }()
		must(t, b.Wait(ctx))
		commands := func(during func()) (reads, others int) {
			before := server.Calls()
			during()
			for name, n := range server.Calls() {
				if n -= before[name]; name == "xrange" {
					reads += n
				} else {
					others += n
				}
			}
			return reads, others
		}
		rest := func() { time.Sleep(30 * time.Second) }
		if reads, others := commands(rest); reads > 102 || others > 125 {
			t.Errorf("unused for 30 s: got %d reads and %d other commands, want a read each 300 ms and 4 others a second", reads, others)
		}
		time.Sleep(150 * time.Millisecond) // the next beat is not due
		now := Now()
		b.Seen()
		if time.Sleep(10 * time.Millisecond); b.Seen() < now {
			t.Error("a call of Seen after a rest does not request a beat")
		}
		use := func() {
			for range 600 {
				b.Seen()
				time.Sleep(50 * time.Millisecond)
			}
		}
		if reads, others := commands(use); reads < 290 || others > 125 {
			t.Errorf("used for 30 s: got %d reads and %d other commands, want a read each 100 ms and 4 others a second", reads, others)
		}
		b.KeepWithin(time.Minute)
		b.KeepWithin(400 * time.Millisecond)
		b.KeepWithin(500 * time.Millisecond)
		if reads, _ := commands(rest); reads < 145 || reads > 155 {
			t.Errorf("unused for 30 s, and kept within 400 ms: got %d reads, want a read each 200 ms", reads)
		}
		server.Kill()
		connected := b.Connected()
		if time.Sleep(10 * time.Second); b.Stats().Failed < 90 || !connected || b.Connected() {
			t.Errorf("got %d beats without Redis in 10 s, want one each 100 ms; connected before: %v, now: %v", b.Stats().Failed, connected,
				b.Connected())
		}
		cancel()
		<-ended
	})
}

func TestRun_ReadyAtOnceWithoutRedis(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		wire := redistest.InMemory(t).Wire()
		wire.Refuse()
		db, err := redis.Open(t.Context(), wire.Config())
		must(t, err)
		defer db.Close()
		b := New(db, keys, Config{Node: "a"})
		ctx, cancel := context.WithCancel(t.Context())
		ready, ended := make(chan struct{}), make(chan error)
		go func() { ended <- b.Run(ctx, func() { close(ready) }) }()
		<-ready
		time.Sleep(time.Second)
		if b.Stats().Failed == 0 || b.Seen() != 0 || b.Era() != 0 {
			t.Errorf("without Redis: %+v, seen %d, era %d", b.Stats(), b.Seen(), b.Era())
		}
		cancel()
		<-ended
	})
}

func TestBus_ProcessesWithSameName(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		wire := server.Wire()
		a, b := join(t, server.Open(t), "same", Config{}), join(t, redistest.OpenConfig(t, wire.Config()), "same", Config{})
		must(t, a.Publish(t.Context(), "topic", "x", "1"))
		b.caughtUp(t)
		wire.LoseMessages()
		must(t, a.Publish(t.Context(), "topic", "x", "2")) // from the log
		b.caughtUp(t)
		a.caughtUp(t)
		b.wants(t, "1", "2")
		a.wants(t)
		if s := b.Stats(); s.Events != 2 || s.FromLog == 0 { // a beat may find the first one, too
			t.Errorf("got %+v", s)
		}
	})
}

func TestOpen_InvalidNodeNameFails(t *testing.T) {
	db := redistest.Open(t, "embedded")
	for _, name := range []string{"", "two words"} {
		if b, err := Open(db, keys, Config{Node: name}); b != nil || err == nil {
			t.Errorf("%q: %v, %v", name, b, err)
		}
	}
	if _, err := Open(db, keys, Config{Node: "one"}); err != nil {
		t.Error(err)
	}
}
