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

func TestLocalConnections_ReturnIsStoredBeforeRemoval(t *testing.T) {
	cs, user, now := newLocalConnections(), ids.New[accounts.User](), time.Now()
	cs.add("a", user, Connection{})
	toStore, _ := cs.dequeue(10)
	cs.markStored(toStore[0], now.Add(time.Hour))
	cs.close("a", now)
	cs.endLingering(now.Add(linger - 1))
	if toStore, toRemove := cs.dequeue(10); len(toStore)+len(toRemove) > 0 {
		t.Fatal("a connection that has just closed is removed")
	}
	cs.add("b", user, Connection{})
	toStore, toRemove := cs.dequeue(1)
	if len(toStore) != 1 || len(toRemove) != 0 || toStore[0].conn.Number != 2 || !toStore[0].publishedOnline {
		t.Errorf("first: got %+v, %+v", toStore, toRemove)
	}
	if toStore, toRemove = cs.dequeue(10); len(toStore) != 0 || len(toRemove) != 1 || toRemove[0].conn.Number != 1 {
		t.Errorf("then: got %+v, %+v", toStore, toRemove)
	}
	cs.endLingering(now.Add(linger))
	if toStore, toRemove = cs.dequeue(10); len(toStore)+len(toRemove) > 0 {
		t.Error("a connection is removed twice")
	}
	if left := cs.deleteRemoved(toRemove); len(left) != 0 || len(cs.ofUser(user)) != 1 {
		t.Errorf("users without a connection: %v", left)
	}
}

// The user returns while a command to Redis removes the old connection.
func TestLocalConnections_RemovalIsEnqueuedOnce(t *testing.T) {
	cs, user, now := newLocalConnections(), ids.New[accounts.User](), time.Now()
	cs.add("a", user, Connection{})
	toStore, _ := cs.dequeue(10)
	cs.markStored(toStore[0], now.Add(time.Hour))
	cs.close("a", now)
	cs.endLingering(now.Add(linger))
	_, toRemove := cs.dequeue(10)
	cs.add("b", user, Connection{})
	cs.deleteRemoved(toRemove)
	if toStore, toRemove = cs.dequeue(10); len(toStore) != 1 || len(toRemove) != 0 {
		t.Errorf("%d to store, %d to remove, want only the new one", len(toStore), len(toRemove))
	}
}

func TestLocalConnections_UnsentConnectionIsDeleted(t *testing.T) {
	cs, user := newLocalConnections(), ids.New[accounts.User]()
	cs.add("a", user, Connection{})
	cs.add("a", user, Connection{}) // a second time
	cs.add("b", user, Connection{})
	cs.close("a", time.Now())
	cs.close("a", time.Now())
	cs.close("unknown", time.Now())
	toStore, toRemove := cs.dequeue(10)
	if len(toStore) != 1 || len(toRemove) != 0 || len(cs.ofUser(user)) != 1 || cs.count() != 1 {
		t.Errorf("%d to store, %d to remove, %d open", len(toStore), len(toRemove), cs.count())
	}
}

func TestLingerAgain_HappensOnce(t *testing.T) {
	cs, user, now := newLocalConnections(), ids.New[accounts.User](), time.Now()
	cs.add("a", user, Connection{})
	toStore, _ := cs.dequeue(10)
	cs.markStored(toStore[0], now)
	cs.close("a", now)
	cs.endLingering(now.Add(linger))
	_, toRemove := cs.dequeue(10)
	if lost, lingers := cs.lingerAgain(toRemove[0], now.Add(linger)); !lost || !lingers {
		t.Fatal("a connection that Redis lost does not linger again")
	}
	if toStore, toRemove = cs.dequeue(10); len(toStore) != 1 || len(toRemove) != 0 {
		t.Error("it is not stored again")
	}
	cs.endLingering(now.Add(2 * linger))
	if _, toRemove = cs.dequeue(10); len(toRemove) != 1 {
		t.Fatal("it is never removed")
	}
	if _, lingers := cs.lingerAgain(toRemove[0], now); lingers {
		t.Error("it lingers a third time")
	}
}

func TestChangeQueue_MergesChanges(t *testing.T) {
	user := ids.New[accounts.User]()
	for name, tt := range map[string]struct {
		changes []change
		want    change
	}{
		"the later one": {[]change{{status: Online}, {status: Offline}}, change{status: Offline}},
		"hidden, and offline": {[]change{{status: Online, hidden: true, own: true}, {status: Offline}},
			change{status: Offline, hidden: true, own: true}},
		"hidden, and shown again": {[]change{{status: Online, hidden: true}, {status: Online, shown: true}}, change{status: Online, shown: true}},
		"shown, and hidden again": {[]change{{status: Online, shown: true}, {status: Online, hidden: true}},
			change{status: Online, hidden: true}},
		"a wish, offline, online": {[]change{{status: Busy, own: true}, {status: Offline}, {status: Busy}}, change{status: Busy, own: true}},
	} {
		q := newChangeQueue()
		for _, c := range tt.changes {
			q.add(user, c)
		}
		if _, got := q.dequeue(10); len(got) != 1 || got[0] != tt.want {
			t.Errorf("%s: got %+v, want %+v", name, got, tt.want)
		}
	}
}

func TestRecheck_DropsOutdatedChanges(t *testing.T) {
	at := time.Now()
	on, off := userState{publishedOnline: true, wish: Wish{Away, 1}}, userState{}
	for name, tt := range map[string]struct {
		c    change
		k    userState
		want change
	}{
		"offline":              {change{status: Offline, at: at}, off, change{status: Offline, at: at}},
		"offline, and online":  {change{status: Offline, at: at}, on, change{}},
		"online":               {change{status: Online, at: at}, on, change{status: Away, at: at}},
		"online, and offline":  {change{status: Online, at: at}, off, change{}},
		"hidden":               {change{status: Online, at: at, hidden: true}, on, change{status: Away, at: at, hidden: true}},
		"hidden, and offline":  {change{status: Online, at: at, hidden: true}, off, change{status: Offline, at: at, hidden: true}},
		"offline while hidden": {change{status: Offline, at: at, hidden: true}, on, change{status: Away, at: at, hidden: true}},
	} {
		if got := tt.c.recheck(tt.k); got != tt.want {
			t.Errorf("%s: got %+v, want %+v", name, got, tt.want)
		}
	}
}

func TestBeat_StoresLostConnectionsAgain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		n, db := w.start(), w.memory.Open(t)
		w.befriend(n, 0, 1)
		w.listen(n)
		w.connect(n, 1, "a")
		bubble.Sleep(5 * time.Second)
		unlink := func(keys ...keyspace.Key) {
			w.must(db.Do(t.Context(), keyspace.Cmd{Name: "UNLINK", Key: keys[0], More: keys[1:]}).Err)
		}
		checkEvents := func(want ...string) {
			t.Helper()
			w.mu.Lock()
			defer w.mu.Unlock()
			var got []string
			for _, event := range w.received[[2]accounts.ID{w.users[0], w.users[1]}] {
				got = append(got, event.status)
			}
			if !slices.Equal(got, want) {
				t.Errorf("a friend got %q, want %q", got, want)
			}
		}
		// Redis loses keys, and the bus reports no loss.
		unlink(connectionKeys.At(w.users[1]).Key)
		unlink(nodesKey.At().Key)
		bubble.Sleep(2 * time.Second)
		w.eventuallySees(n, 0, 1, Online)
		checkEvents(api.StatusOnline)

		// Redis loses one of two connections, and the other one closes.
		w.connect(n, 1, "b")
		bubble.Sleep(2 * time.Second)
		n.redis.close(t.Context(), []*closeRequest{{user: w.users[1], prefix: n.local.ofUser(w.users[1])[1].name()}})
		n.Watch(Socket).Closed("a")
		bubble.Sleep(5 * time.Second)
		w.eventuallySees(n, 0, 1, Online)
		checkEvents(api.StatusOnline, api.StatusOffline, api.StatusOnline)
	})
}

// A failover, or a restored backup, undoes the latest write in Redis: the removal of a connection.
func TestFindStrays_RemovesClosedConnectionsThatReturned(t *testing.T) {
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
			w.must(db.Do(t.Context(), keyspace.Cmd{Name: "SET", Key: key, Args: []string{to, "PX", keyTTLMillis}}).Err)
			n.lossSuspected.Store(true) // as after a report of the bus that the server was replaced
			bubble.Sleep(3 * time.Second)
		}
		w.connect(n, 1, "a")
		bubble.Sleep(5 * time.Second)
		a := value()
		n.Watch(Socket).Closed("a")
		bubble.Sleep(7 * time.Second)
		setBack(a)
		if seen := w.view(n, 0, 1); seen.Status != Offline || value() != "" {
			t.Errorf("the user without a connection is %s, and Redis has %q", seen.Status, value())
		}
		w.listen(n)
		w.connect(n, 1, "b")
		bubble.Sleep(2 * time.Second)
		b := value()
		for _, restored := range []string{a + " " + b, a} {
			setBack(restored)
			if got := value(); got != b {
				t.Errorf("after %q returned, Redis has %q, want %q", restored, got, b)
			}
		}
		if got := w.eventsOf(0, 1); len(got) != 1 || got[0].status != api.StatusOnline {
			t.Errorf("a friend got %+v", got)
		}
		n.Watch(Socket).Closed("b")
		bubble.Sleep(linger + nodeSetDelay + 3*beatEvery)
		if users, err := n.redis.sampleNodeUsers(t.Context(), n.cfg.Node, 10); err != nil || len(users) != 0 {
			t.Errorf("users in the node's set: %v, %v", users, err)
		}
	})
}

// Redis stores two connections of a user, and its replies are lost.
func TestStoreConnections_PublishesAfterLostReply(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		n := w.start()
		w.befriend(n, 0, 1)
		w.listen(n)
		n.wire.Refuse()
		w.connect(n, 1, "a")
		w.connect(n, 1, "b")
		bubble.Sleep(3 * time.Second)
		tried := redisStore{w.memory.Open(t), w.db.Now}
		for _, c := range n.local.ofUser(w.users[1]) {
			tried.open(t.Context(), n.cfg.Node, []*openRequest{{user: w.users[1], conn: c}})
		}
		n.wire.Heal()
		bubble.Sleep(10 * time.Second)
		var got []string
		for _, event := range w.eventsOf(0, 1) {
			got = append(got, event.status)
		}
		if want := []string{api.StatusOnline}; !slices.Equal(got, want) {
			t.Errorf("a friend got %q, want %q", got, want)
		}
	})
}

func TestSweptNode_PublishesItsUsersAgain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		n, other := w.start(), w.start()
		w.befriend(other, 0, 1)
		w.listen(other)
		bubble.Sleep(time.Second) // the other node has to receive the events of this one
		w.connect(n, 1, "a")
		bubble.Sleep(5 * time.Second)
		n.wire.Refuse()
		bubble.Sleep(20 * time.Second)
		n.wire.Heal()
		bubble.Sleep(10 * time.Second)
		w.eventuallySees(other, 0, 1, Online)
		w.mu.Lock()
		defer w.mu.Unlock()
		var got []string
		for _, event := range w.received[[2]accounts.ID{w.users[0], w.users[1]}] {
			got = append(got, event.status)
		}
		if want := []string{api.StatusOnline, api.StatusOffline, api.StatusOnline}; !slices.Equal(got, want) {
			t.Errorf("a friend got %q, want %q", got, want)
		}
	})
}

// A sweeping node loses its network after it has removed the connections of another node, and before it marks that
// node. Meanwhile, the other node returns.
func TestUnfinishedSweep_NodeStoresItsConnectionsAgain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		n, other := w.start(), w.start()
		w.befriend(other, 0, 1)
		w.connect(n, 1, "a")
		bubble.Sleep(5 * time.Second)
		db := w.memory.Open(t)
		n.wire.Refuse()
		other.wire.Delay(40 * time.Millisecond)
		eventually.Equal(t, "users in the node's set", 0, func() int64 {
			left, err := db.Do(t.Context(), keyspace.Cmd{Name: "SCARD", Key: nodeUserKeys.At(n.cfg.Node).Key}).Int()
			w.must(err)
			return left
		})
		other.wire.Refuse()
		n.wire.Heal()
		bubble.Sleep(3 * time.Second)
		other.wire.Heal()
		bubble.Sleep(3 * time.Second)
		if seen := w.view(other, 0, 1); seen.Status != Online {
			t.Errorf("a user who never disconnected is %s", seen.Status)
		}
	})
}

// A sweep removes the connections of a dead node that an earlier sweep did not remove.
func TestUnfinishedSweep_IsResumed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		n, other := w.start(), w.start()
		w.befriend(other, 0, 1)
		w.listen(other)
		bubble.Sleep(time.Second) // the other node has to receive the events of this one
		w.connect(n, 1, "a")
		bubble.Sleep(5 * time.Second)
		n.kill()
		w.must(other.redis.setMark(t.Context(), n.cfg.Node, w.db.Now())) // the sweep ends here
		bubble.Sleep(20 * time.Second)
		var got []string
		for _, event := range w.eventsOf(0, 1) {
			got = append(got, event.status)
		}
		if want := []string{api.StatusOnline, api.StatusOffline}; !slices.Equal(got, want) {
			t.Errorf("a friend got %q, want %q", got, want)
		}
		w.must(other.redis.setMark(t.Context(), n.cfg.Node, w.db.Now().Add(20*time.Second-sweptMarkTTL)))
		bubble.Sleep(30 * time.Second)
		if marks, err := other.redis.readMarks(t.Context()); err != nil || marks[n.cfg.Node].exists {
			t.Errorf("after an hour the dead node still has a mark: %+v, %v", marks, err)
		}
	})
}

// Responses that lack a node's connections are partial, and their users get an event once they are complete.
func TestEmptiedRedis_ResponsesArePartialUntilComplete(t *testing.T) {
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
				_, leave := nodes[1].bus.Listen(t.Context(), w.users[0].String(),
					&events.Listener{Lost: func() {}, Event: func(e events.Event, _ events.Position) {
						if e.Type == api.EventPresenceComplete {
							completed.Add(1)
						}
					}})
				defer leave()
				for i, n := range nodes {
					for c := range 20 {
						n.Watch(Socket).Opened(ids.New[accounts.User]().String(), ids.New[accounts.Session]().String(), fmt.Sprint(c))
					}
					w.connect(n, 1+i, "last")
				}
				bubble.Sleep(5 * time.Second)
				for round := range 2 {
					completed.Store(0)
					empty(w.memory)
					for range 4 * 20 {
						for i, n := range nodes {
							got, partial, err := n.OnlineFriends(t.Context(), w.users[0])
							if err != nil || !partial && len(got) != 2 {
								t.Fatalf("round %d, node %d: %d friends online, partial %v, %v", round, i, len(got), partial, err)
							}
							if !slices.ContainsFunc(got, func(s UserStatus) bool { return s.User == w.users[1+i] }) {
								t.Fatalf("round %d, node %d: its own connection is missing", round, i)
							}
						}
						bubble.Sleep(47 * time.Millisecond)
					}
					bubble.Sleep(2 * time.Second)
					for i, n := range nodes {
						if got, partial, err := n.OnlineFriends(t.Context(), w.users[0]); err != nil || partial || len(got) != 2 {
							t.Errorf("round %d, node %d, later: %d friends online, partial %v, %v", round, i, len(got), partial, err)
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
