package presence

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

func TestWhoComesBackIsNotedBeforeTheOldConnectionGoes(t *testing.T) {
	hs, user, now := newHeld(), ids.New[accounts.User](), time.Now()
	hs.add("a", user, Connection{})
	in, _ := hs.take(10)
	hs.wasNoted(in[0], now.Add(time.Hour))
	hs.remove("a", now)
	hs.due(now.Add(linger - 1))
	if in, out := hs.take(10); len(in)+len(out) > 0 {
		t.Fatal("a connection that has just closed is taken out")
	}
	hs.add("b", user, Connection{})
	in, out := hs.take(1)
	if len(in) != 1 || len(out) != 0 || in[0].c.Number != 2 || !in[0].told {
		t.Errorf("first comes %+v, %+v", in, out)
	}
	if in, out = hs.take(10); len(in) != 0 || len(out) != 1 || out[0].c.Number != 1 {
		t.Errorf("then comes %+v, %+v", in, out)
	}
	hs.due(now.Add(linger))
	if in, out = hs.take(10); len(in)+len(out) > 0 {
		t.Error("a connection is taken out twice")
	}
	if left := hs.tookOut(out); len(left) != 0 || len(hs.of(user)) != 1 {
		t.Errorf("left are %v", left)
	}
}

// The user is back while a command to Redis removes the old connection.
func TestAConnectionOnItsWayOutIsNotTakenOutOnceMore(t *testing.T) {
	hs, user, now := newHeld(), ids.New[accounts.User](), time.Now()
	hs.add("a", user, Connection{})
	in, _ := hs.take(10)
	hs.wasNoted(in[0], now.Add(time.Hour))
	hs.remove("a", now)
	hs.due(now.Add(linger))
	_, out := hs.take(10)
	hs.add("b", user, Connection{})
	hs.tookOut(out)
	if in, out = hs.take(10); len(in) != 1 || len(out) != 0 {
		t.Errorf("to be noted %d, to be taken out %d, want the new one alone", len(in), len(out))
	}
}

func TestAConnectionThatRedisNeverHadIsForgotten(t *testing.T) {
	hs, user := newHeld(), ids.New[accounts.User]()
	hs.add("a", user, Connection{})
	hs.add("a", user, Connection{}) // the same
	hs.add("b", user, Connection{})
	hs.remove("a", time.Now())
	hs.remove("a", time.Now())
	hs.remove("unknown", time.Now())
	in, out := hs.take(10)
	if len(in) != 1 || len(out) != 0 || len(hs.of(user)) != 1 || hs.count() != 1 {
		t.Errorf("to be noted %d, to be taken out %d, open %d", len(in), len(out), hs.count())
	}
}

func TestWhatWasLostIsWaitedForOnce(t *testing.T) {
	hs, user, now := newHeld(), ids.New[accounts.User](), time.Now()
	hs.add("a", user, Connection{})
	in, _ := hs.take(10)
	hs.wasNoted(in[0], now)
	hs.remove("a", now)
	hs.due(now.Add(linger))
	_, out := hs.take(10)
	if lost, again := hs.lingerAgain(out[0], now.Add(linger)); !lost || !again {
		t.Fatal("a connection that Redis lost is given up at once")
	}
	if in, out = hs.take(10); len(in) != 1 || len(out) != 0 {
		t.Error("it is not noted anew")
	}
	hs.due(now.Add(2 * linger))
	if _, out = hs.take(10); len(out) != 1 {
		t.Fatal("it is never taken out")
	}
	if _, again := hs.lingerAgain(out[0], now); again {
		t.Error("it lingers for ever")
	}
}

func TestTheLaterChangeIsTold(t *testing.T) {
	user := ids.New[accounts.User]()
	for name, tt := range map[string]struct {
		said []change
		want change
	}{
		"the later one":               {[]change{{status: Online}, {status: Offline}}, change{status: Offline}},
		"hidden, and gone":            {[]change{{status: Online, hidden: true, own: true}, {status: Offline}}, change{status: Offline, hidden: true, own: true}},
		"hidden, and shown again":     {[]change{{status: Online, hidden: true}, {status: Online, shown: true}}, change{status: Online, shown: true}},
		"shown, and hidden again":     {[]change{{status: Online, shown: true}, {status: Online, hidden: true}}, change{status: Online, hidden: true}},
		"a wish, and gone, and there": {[]change{{status: Busy, own: true}, {status: Offline}, {status: Busy}}, change{status: Busy, own: true}},
	} {
		ts := newTells()
		for _, c := range tt.said {
			ts.add(user, c)
		}
		if _, got := ts.take(10); len(got) != 1 || got[0] != tt.want {
			t.Errorf("%s: got %+v, want %+v", name, got, tt.want)
		}
	}
}

func TestWhatIsNoLongerSoIsNotTold(t *testing.T) {
	at := time.Now()
	on, off := kept{told: true, wish: Wish{Away, 1}}, kept{}
	for name, tt := range map[string]struct {
		c    change
		k    kept
		want change
	}{
		"gone":              {change{status: Offline, at: at}, off, change{status: Offline, at: at}},
		"gone, and back":    {change{status: Offline, at: at}, on, change{}},
		"there":             {change{status: Online, at: at}, on, change{status: Away, at: at}},
		"there, and gone":   {change{status: Online, at: at}, off, change{}},
		"hidden":            {change{status: Online, at: at, hidden: true}, on, change{status: Away, at: at, hidden: true}},
		"hidden, and gone":  {change{status: Online, at: at, hidden: true}, off, change{status: Offline, at: at, hidden: true}},
		"gone while hidden": {change{status: Offline, at: at, hidden: true}, on, change{status: Away, at: at, hidden: true}},
	} {
		if got := tt.c.still(tt.k); got != tt.want {
			t.Errorf("%s: got %+v, want %+v", name, got, tt.want)
		}
	}
}

func TestANodePutsBackWhatRedisHasLost(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		n, db := w.start(), w.memory.Open(t)
		w.befriend(n, 0, 1)
		w.listen(n)
		w.enter(n, 1, "a")
		bubble.Sleep(5 * time.Second)
		unlink := func(keys ...keyspace.Key) {
			w.must(db.Do(t.Context(), keyspace.Cmd{Name: "UNLINK", Key: keys[0], More: keys[1:]}).Err)
		}
		told := func(want ...string) {
			t.Helper()
			w.mu.Lock()
			defer w.mu.Unlock()
			var got []string
			for _, what := range w.told[[2]accounts.ID{w.users[0], w.users[1]}] {
				got = append(got, what.status)
			}
			if !slices.Equal(got, want) {
				t.Errorf("a friend was told %q, want %q", got, want)
			}
		}
		// The keys next to the bus' log are gone, and no event reports it.
		unlink(connectionKeys.At(w.users[1]).Key)
		unlink(nodesKey.At().Key)
		bubble.Sleep(2 * time.Second)
		w.soon(n, 0, 1, Online)
		told(api.StatusOnline)

		// One of two connections is gone, and the other one closes.
		w.enter(n, 1, "b")
		bubble.Sleep(2 * time.Second)
		n.redis.close(t.Context(), []*closing{{user: w.users[1], prefix: n.held.of(w.users[1])[1].name()}})
		n.Watch(Socket).Closed("a")
		bubble.Sleep(5 * time.Second)
		w.soon(n, 0, 1, Online)
		told(api.StatusOnline, api.StatusOffline, api.StatusOnline)
	})
}

// A failover, or a backup that is restored, loses the latest write of Redis: the removal of a connection.
func TestANodeTakesOutWhatHasComeBackToRedis(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		n, db := w.start(), w.memory.Open(t)
		w.befriend(n, 0, 1)
		key := connectionKeys.At(w.users[1]).Key
		value := func() string {
			t.Helper()
			text, _, err := db.Do(t.Context(), keyspace.Cmd{Name: "GET", Key: key}).Text()
			w.must(err)
			return text
		}
		setBack := func(to string) {
			t.Helper()
			w.must(db.Do(t.Context(), keyspace.Cmd{Name: "SET", Key: key, Args: []string{to, "PX", life}}).Err)
			n.doubt.Store(true) // as the bus reports of a server that was replaced
			bubble.Sleep(3 * time.Second)
		}
		w.enter(n, 1, "a")
		bubble.Sleep(5 * time.Second)
		a := value()
		n.Watch(Socket).Closed("a")
		bubble.Sleep(7 * time.Second)
		setBack(a)
		if seen := w.looks(n, 0, 1); seen.Status != Offline || value() != "" {
			t.Errorf("who has gone is %s, and Redis has %q", seen.Status, value())
		}
		w.listen(n)
		w.enter(n, 1, "b")
		bubble.Sleep(2 * time.Second)
		b := value()
		for _, back := range []string{a + " " + b, a} {
			setBack(back)
			if got := value(); got != b {
				t.Errorf("of %q Redis has %q, want %q", back, got, b)
			}
		}
		if told := w.toldOf(0, 1); len(told) != 1 || told[0].status != api.StatusOnline {
			t.Errorf("a friend was told %+v", told)
		}
		n.Watch(Socket).Closed("b")
		bubble.Sleep(linger + letGoAfter + 3*beatEvery)
		if users, err := n.redis.heldBy(t.Context(), n.cfg.Node, 10); err != nil || len(users) != 0 {
			t.Errorf("held is %v, %v", users, err)
		}
	})
}

// Redis stores two connections of a user, and its replies are lost.
func TestWhoIsNotedByATryWhoseAnswerWasLostIsToldOf(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		n := w.start()
		w.befriend(n, 0, 1)
		w.listen(n)
		n.wire.Refuse()
		w.enter(n, 1, "a")
		w.enter(n, 1, "b")
		bubble.Sleep(3 * time.Second)
		tried := redisStore{w.memory.Open(t), w.db.Now}
		for _, c := range n.held.of(w.users[1]) {
			tried.open(t.Context(), n.cfg.Node, []*opening{{user: w.users[1], c: c}})
		}
		n.wire.Heal()
		bubble.Sleep(10 * time.Second)
		var got []string
		for _, what := range w.toldOf(0, 1) {
			got = append(got, what.status)
		}
		if want := []string{api.StatusOnline}; !slices.Equal(got, want) {
			t.Errorf("a friend was told %q, want %q", got, want)
		}
	})
}

func TestUsersOfANodeThatWasSweptAreToldOfAgain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		n, other := w.start(), w.start()
		w.befriend(other, 0, 1)
		w.listen(other)
		bubble.Sleep(time.Second) // the other node has to receive the events of this one
		w.enter(n, 1, "a")
		bubble.Sleep(5 * time.Second)
		n.wire.Refuse()
		bubble.Sleep(20 * time.Second)
		n.wire.Heal()
		bubble.Sleep(10 * time.Second)
		w.soon(other, 0, 1, Online)
		w.mu.Lock()
		defer w.mu.Unlock()
		var got []string
		for _, what := range w.told[[2]accounts.ID{w.users[0], w.users[1]}] {
			got = append(got, what.status)
		}
		if want := []string{api.StatusOnline, api.StatusOffline, api.StatusOnline}; !slices.Equal(got, want) {
			t.Errorf("a friend was told %q, want %q", got, want)
		}
	})
}

// The network fails for a sweeper that has removed the connections of a node and not yet marked it. By then that node
// is back.
func TestANodePutsBackWhatASweepHasTakenOutThatCouldNotEnd(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		n, other := w.start(), w.start()
		w.befriend(other, 0, 1)
		w.enter(n, 1, "a")
		bubble.Sleep(5 * time.Second)
		db := w.memory.Open(t)
		n.wire.Refuse()
		other.wire.Delay(40 * time.Millisecond)
		eventually.Equal(t, "users whom the node holds", 0, func() int64 {
			left, err := db.Do(t.Context(), keyspace.Cmd{Name: "SCARD", Key: heldKeys.At(n.cfg.Node).Key}).Int()
			w.must(err)
			return left
		})
		other.wire.Refuse()
		n.wire.Heal()
		bubble.Sleep(3 * time.Second)
		other.wire.Heal()
		bubble.Sleep(3 * time.Second)
		if seen := w.looks(other, 0, 1); seen.Status != Online {
			t.Errorf("who was connected throughout is %s", seen.Status)
		}
	})
}

// The next sweep removes the connections of a dead node that the last one could not remove.
func TestASweepThatCouldNotEndIsTakenUp(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		n, other := w.start(), w.start()
		w.befriend(other, 0, 1)
		w.listen(other)
		bubble.Sleep(time.Second) // the other node has to receive the events of this one
		w.enter(n, 1, "a")
		bubble.Sleep(5 * time.Second)
		n.kill()
		w.must(other.redis.setMark(t.Context(), n.cfg.Node, w.db.Now())) // and no more
		bubble.Sleep(20 * time.Second)
		var got []string
		for _, what := range w.toldOf(0, 1) {
			got = append(got, what.status)
		}
		if want := []string{api.StatusOnline, api.StatusOffline}; !slices.Equal(got, want) {
			t.Errorf("a friend was told %q, want %q", got, want)
		}
		w.must(other.redis.setMark(t.Context(), n.cfg.Node, w.db.Now().Add(20*time.Second-forgetNodes)))
		bubble.Sleep(30 * time.Second)
		if marks, err := other.redis.marks(t.Context()); err != nil || marks[n.cfg.Node].there {
			t.Errorf("after an hour the dead node still has a mark: %+v, %v", marks, err)
		}
	})
}

// Responses that lack a node's connections are partial, and their users get an event once they are complete.
func TestEmptiedRedis_AnswersArePartialUntilComplete(t *testing.T) {
	for name, empty := range map[string]func(*redistest.Memory){
		"flushed": func(m *redistest.Memory) { m.FlushAll() },
		"replaced": func(m *redistest.Memory) {
			m.Kill()
			bubble.Sleep(10 * time.Second)
			m.RestartEmpty()
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				w := newWorld(t, 3)
				nodes := []*node{w.start(), w.start()}
				w.befriend(nodes[0], 0, 1)
				w.befriend(nodes[0], 0, 2)
				var completed atomic.Int32
				_, leave := nodes[1].bus.Listen(t.Context(), w.users[0].String(), &events.Listener{Lost: func() {}, Event: func(e events.Event, _ events.Position) {
					if e.Type == api.EventPresenceComplete {
						completed.Add(1)
					}
				}})
				defer leave()
				for i, n := range nodes {
					for c := range 20 {
						n.Watch(Socket).Opened(ids.New[accounts.User]().String(), ids.New[accounts.Session]().String(), fmt.Sprint(c))
					}
					w.enter(n, 1+i, "last")
				}
				bubble.Sleep(5 * time.Second)
				for round := range 2 {
					completed.Store(0)
					empty(w.memory)
					for range 4 * 20 {
						for i, n := range nodes {
							got, partial, err := n.FriendsOnline(t.Context(), w.users[0])
							if err != nil || !partial && len(got) != 2 {
								t.Fatalf("round %d, node %d: %d friends on line, partial %v, %v", round, i, len(got), partial, err)
							}
							if !slices.ContainsFunc(got, func(s Seen) bool { return s.User == w.users[1+i] }) {
								t.Fatalf("round %d, node %d: its own connection is missing", round, i)
							}
						}
						bubble.Sleep(47 * time.Millisecond)
					}
					bubble.Sleep(2 * time.Second)
					for i, n := range nodes {
						if got, partial, err := n.FriendsOnline(t.Context(), w.users[0]); err != nil || partial || len(got) != 2 {
							t.Errorf("round %d, node %d, later: %d friends on line, partial %v, %v", round, i, len(got), partial, err)
						}
					}
					if completed.Load() == 0 {
						t.Errorf("round %d: no %s", round, api.EventPresenceComplete)
					}
				}
			})
		})
	}
}
