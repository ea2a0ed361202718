package presence

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/cluster"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/social"
	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// connect opens a connection of a user to a node.
func (w *world) connect(n *node, user int, name string) {
	n.Watch(Socket).Opened(w.users[user].String(), ids.New[accounts.Session]().String(), name)
}

// view returns a user's presence as another user sees it at a node.
func (w *world) view(n *node, viewer, user int) UserStatus {
	w.t.Helper()
	seen, partial, err := n.Get(w.t.Context(), w.users[viewer], []accounts.ID{w.users[user]}, true)
	w.must(err)
	if partial {
		w.t.Error("the response is partial")
	}
	return seen[0]
}

func (w *world) eventuallySees(n *node, viewer, user int, want Status) {
	w.t.Helper()
	eventually.Equal(w.t, "visible status", want, func() Status { return w.view(n, viewer, user).Status })
}

// eventsOf returns the events that viewer got about user.
func (w *world) eventsOf(viewer, user int) []receivedEvent {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.received[[2]accounts.ID{w.users[viewer], w.users[user]}])
}

// waitForFirstEvent waits until viewer got the first event about user. It arrives after the change is visible.
func (w *world) waitForFirstEvent(viewer, user int) {
	w.t.Helper()
	eventually.True(w.t, "a first event to a friend", func() bool { return len(w.eventsOf(viewer, user)) == 1 })
}

func (w *world) exec(query string, args ...any) {
	w.t.Helper()
	_, err := w.db.ExecContext(w.t.Context(), query, args...)
	w.must(err)
}

func TestStatusChannel_GetsEachVisibleChangeOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		n, db := w.start(), w.memory.Open(t)
		w.befriend(n, 0, 1)
		w.befriend(n, 0, 2)
		var mu sync.Mutex
		var got []string
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			_ = db.Subscribe(ctx, statusChannel.At().Channel, redis.Handler{Message: func(text string) {
				e, err := statusChannel.At().Decode(text)
				if err != nil || statusChannel.Carries[e.Type] == nil {
					t.Errorf("got %s, %v", text, err)
				}
				mu.Lock()
				defer mu.Unlock()
				var p api.Presence
				if err := json.Unmarshal(e.Data, &p); err != nil || p.Version == 0 {
					t.Errorf("got %s, %v", e.Data, err)
				}
				got = append(got, fmt.Sprintf("%d %s %s", slices.IndexFunc(w.users, func(u accounts.ID) bool {
					return u.String() == e.User
				}), p.User, p.Status))
			}})
		})
		defer running.Wait()
		defer cancel()
		nobody := accounts.ToNobody
		_, err := n.people.Update(t.Context(), w.users[2], accounts.Change{Presence: &nobody})
		w.must(err)
		bubble.Sleep(time.Second)
		for user := range w.users {
			w.connect(n, user, fmt.Sprint(user))
		}
		bubble.Sleep(2 * time.Second)
		w.must(n.SetWish(t.Context(), w.users[1], Busy))
		w.must(n.SetWish(t.Context(), w.users[1], Busy))
		w.must(n.SetWish(t.Context(), w.users[2], Away))
		bubble.Sleep(2 * time.Second)
		n.Watch(Socket).Closed("2")
		bubble.Sleep(10 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		format := func(user int, status string) string {
			return fmt.Sprintf("%d %s %s", user, w.users[user], status)
		}
		slices.Sort(got)
		if want := []string{format(0, "online"), format(1, "busy"), format(1, "online")}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// counted returns a counter of a node with that value of its label.
func (w *world) counted(n *node, name, label string) (count float64) {
	w.t.Helper()
	families, err := n.reg.Gather()
	w.must(err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && m.GetLabel()[0].GetValue() == label {
				count += m.GetCounter().GetValue()
			}
		}
	}
	return count
}

func TestPublishChange_AfterErrorPublishedNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		n := w.start()
		n.kill() // the bus accepts no event
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := n.publishChange(ctx, w.users[0], change{status: Away, own: true}, false)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("publishChange: %v, want %v", err, context.DeadlineExceeded)
		}
		if counted := w.counted(n, "stoa_presence_changes_total", Away.String()); counted != 0 {
			t.Errorf("%v changes are counted, want 0", counted)
		}
	})
}

func TestGet_DeletedOrBannedUserIsOffline(t *testing.T) {
	for name, query := range map[string]string{
		"banned":  "UPDATE users SET banned_until = 99999999999999 WHERE id = ?",
		"deleted": "UPDATE users SET erased = 99999999999999 WHERE id = ?",
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				w := newWorld(t, 2)
				n := w.start()
				w.befriend(n, 0, 1)
				w.listen(n)
				w.connect(n, 1, "x")
				w.eventuallySees(n, 0, 1, Online)
				w.waitForFirstEvent(0, 1)
				w.exec(query, w.users[1])
				w.memory.FlushAll() // deletes all cache entries
				m := w.start()      // has no entries in memory
				bubble.Sleep(3 * time.Second)
				if got := w.view(m, 0, 1); got != (UserStatus{User: w.users[1]}) {
					t.Errorf("a friend sees %+v", got)
				}
				if got, _, err := m.OnlineFriends(t.Context(), w.users[0]); err != nil || len(got) != 0 {
					t.Errorf("online friends: %+v, %v", got, err)
				}
				n.kill() // so that the other one publishes
				w.listen(m)
				bubble.Sleep(15 * time.Second)
				if got := w.eventsOf(0, 1); len(got) != 2 || got[1].status != api.StatusOffline || got[1].hasLastSeen {
					t.Errorf("the friend got %+v", got)
				}
			})
		})
	}
}

func TestPublishChanges_RetriesWhileSQLHangs(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		n := w.start()
		w.befriend(n, 0, 1)
		w.listen(n)
		var conns []*sql.Conn
		for range w.db.Reader().Stats().MaxOpenConnections {
			conn, err := w.db.Reader().Conn(t.Context())
			w.must(err)
			conns = append(conns, conn)
		}
		w.connect(n, 1, "x")
		bubble.Sleep(30 * time.Second)
		if tries := w.log.Count("changes not published yet"); tries < 2 {
			t.Errorf("%d tries while SQL hangs, want at least 2", tries)
		}
		for _, conn := range conns {
			w.must(conn.Close())
		}
		w.waitForFirstEvent(0, 1)
	})
}

func TestErase_DeletesAllDataOfUser(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		n, db := w.start(), w.memory.Open(t)
		w.must(n.SetWish(t.Context(), w.users[0], Away))
		w.connect(n, 0, "x")
		w.eventuallySees(n, 0, 0, Away)
		n.Watch(Socket).Closed("x")
		bubble.Sleep(10 * time.Second)
		if got := w.view(n, 0, 0); got.LastSeen.IsZero() {
			t.Error("no time when the user was last seen")
		}
		for range 2 {
			w.must(n.Erase(t.Context(), w.users[0]))
		}
		rows, err := selectRows(t.Context(), w.db, w.users)
		if err != nil || len(rows) != 0 {
			t.Errorf("SQL has %v, %v", rows, err)
		}
		for _, k := range []keyspace.Key{connectionKeys.At(w.users[0]).Key, statusKeys.At(w.users[0]).Key} {
			if r := db.Do(t.Context(), keyspace.Cmd{Name: "EXISTS", Key: k}); r.Err != nil || r.N != 0 {
				t.Errorf("%s still exists, %v", k, r.Err)
			}
		}
		n.wire.Refuse()
		bubble.Sleep(time.Second)
		w.must(n.Erase(t.Context(), w.users[0])) // Redis is unavailable
	})
}

func TestKeys_AreRenewedBeforeTheyExpire(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		n, db := w.start(), w.memory.Open(t)
		w.must(n.SetWish(t.Context(), w.users[0], Busy))
		w.connect(n, 0, "x")
		w.eventuallySees(n, 0, 0, Busy)
		keys := []keyspace.Key{connectionKeys.At(w.users[0]).Key, statusKeys.At(w.users[0]).Key, nodeUserKeys.At(n.cfg.Node).Key}
		left := func() (all []time.Duration) {
			for _, k := range keys {
				r := db.Do(t.Context(), keyspace.Cmd{Name: "PTTL", Key: k})
				w.must(r.Err)
				all = append(all, time.Duration(r.N)*time.Millisecond)
			}
			return all
		}
		bubble.Sleep(5 * time.Second) // a starting node stores its connections once more
		for _, k := range keys {
			w.must(db.Do(t.Context(), keyspace.Cmd{Name: "PEXPIRE", Key: k, Args: []string{"3600000"}}).Err)
		}
		bubble.Sleep(2 * time.Minute)
		if got := left(); slices.Max(got) > time.Hour {
			t.Errorf("keys were renewed after two minutes: %v", got)
		}
		n.local.mu.Lock()
		c := n.local.byID["sx"]
		if to := time.Until(c.renewAt); to < 5*time.Hour || to > renewAfter {
			t.Errorf("the keys are renewed in %s", to)
		}
		c.renewAt = time.Now() // instead of a wait of hours
		n.local.mu.Unlock()
		bubble.Sleep(2 * time.Minute)
		if got := left(); slices.Min(got) < keyTTL-2*time.Minute {
			t.Errorf("renewed keys have TTLs of %v", got)
		}
		redistest.KeysDeclared(t, db, Keys, accounts.Keys, social.Keys, cluster.Keys, events.Keys, cache.Keys)
	})
}

func TestSetWish_StoredLaterIfRedisFails(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		n := w.start()
		w.befriend(n, 0, 1)
		w.listen(n)
		w.connect(n, 1, "x")
		w.eventuallySees(n, 0, 1, Online)
		w.waitForFirstEvent(0, 1)
		n.wire.Refuse()
		w.must(n.SetWish(t.Context(), w.users[1], Away))
		if seen, partial, err := n.Get(t.Context(), w.users[0], w.users[1:], false); err != nil || !partial || seen[0].Status != Away {
			t.Errorf("without Redis: %+v, %v, %v", seen, partial, err)
		}
		if w.counted(n, "stoa_presence_reads_total", "node") == 0 {
			t.Error("a read without Redis is not counted")
		}
		n.wire.Heal()
		bubble.Sleep(5 * time.Second)
		w.eventuallySees(n, 0, 1, Away)
		if got := w.eventsOf(0, 1); len(got) != 2 || got[1].status != api.StatusAway {
			t.Errorf("a friend got %+v", got)
		}
	})
}

func TestPublishChanges_PublishesWhenSQLIsBack(t *testing.T) {
	for _, table := range []string{"users", "friends"} {
		t.Run(table, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				w := newWorld(t, 2)
				n := w.start()
				w.befriend(n, 0, 1)
				w.listen(n)
				w.exec("ALTER TABLE " + table + " RENAME TO lost")
				w.connect(n, 1, "x")
				bubble.Sleep(3 * time.Second)
				w.must(n.SetWish(t.Context(), w.users[1], Away))
				bubble.Sleep(3 * time.Second)
				w.exec("ALTER TABLE lost RENAME TO " + table)
				bubble.Sleep(3 * time.Second)
				for viewer, name := range []string{"a friend", "the user's own device"} {
					if got := w.eventsOf(viewer, 1); len(got) != 1 || got[0].status != api.StatusAway {
						t.Errorf("%s got %+v", name, got)
					}
				}
				w.exec("ALTER TABLE " + table + " RENAME TO lost")
				n.Watch(Socket).Closed("x")
				bubble.Sleep(10 * time.Second)
				w.exec("ALTER TABLE lost RENAME TO " + table)
				bubble.Sleep(3 * time.Second)
				if table == "friends" {
					return // the friends were cached before
				}
				if got := w.eventsOf(0, 1); len(got) != 2 || got[1].status != api.StatusOffline {
					t.Errorf("after the user went offline, a friend got %+v", got)
				}
			})
		})
	}
}

func TestVersion_GrowsWithEachVisibleChange(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		n, m := w.start(), w.start()
		w.befriend(n, 0, 1)
		w.listen(n)
		last := int64(0)
		check := func(name string, want Status) {
			t.Helper()
			bubble.Sleep(8 * time.Second)
			received := w.eventsOf(0, 1)
			got := w.view(m, 0, 1)
			if len(received) == 0 || received[len(received)-1].version != got.Version || got.Status != want || got.Version <= last {
				t.Errorf("%s: the response is %+v, the events are %+v, want a version above %d in both", name, got, received, last)
			}
			if got := w.view(n, 2, 1); got != (UserStatus{User: w.users[1]}) {
				t.Errorf("%s: a stranger gets %+v", name, got)
			}
			last = got.Version
		}
		w.connect(n, 1, "x")
		check("online at one node", Online)
		w.connect(m, 1, "y")
		w.must(m.SetWish(t.Context(), w.users[1], Busy))
		check("busy at the other one", Busy)
		n.Watch(Socket).Closed("x")
		bubble.Sleep(8 * time.Second)
		if got := w.view(n, 0, 1); got.Version != last {
			t.Errorf("after another connection closed: %+v, want version %d", got, last)
		}
		w.memory.FlushAll()
		bubble.Sleep(8 * time.Second)
		if got := w.view(n, 0, 1); got.Status != Busy || got.Version <= last {
			t.Errorf("after Redis was emptied: %+v, want a version above %d", got, last)
		}
		m.Watch(Socket).Closed("y")
		check("offline", Offline)
		nobody, friends := accounts.ToNobody, accounts.ToFriends
		w.connect(n, 1, "z")
		check("online again", Busy)
		for _, to := range []*accounts.Audience{&nobody, &friends} {
			_, err := n.people.Update(t.Context(), w.users[1], accounts.Change{Presence: to})
			w.must(err)
			w.must(n.AudienceChanged(t.Context(), w.users[1]))
			bubble.Sleep(8 * time.Second)
		}
		received := w.eventsOf(0, 1)
		if hidden := received[len(received)-2]; hidden.status != api.StatusOffline || hidden.version <= last {
			t.Errorf("after the user hid: %+v, want a version above %d", hidden, last)
		}
		check("visible again", Busy)
	})
}

func TestStoreWish_IgnoresOlderVersion(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		n := w.start()
		for i, to := range []Status{Away, Busy, Online, Online, Busy} {
			w.must(n.SetWish(t.Context(), w.users[0], to))
			_, wish, _, err := n.Own(t.Context(), w.users[0])
			if err != nil || wish != to {
				t.Errorf("%d: the wish is %s, %v", i, wish, err)
			}
		}
		rows, err := selectRows(t.Context(), w.db, w.users)
		if err != nil || rows[w.users[0]].wish != (Wish{Busy, 4}) {
			t.Errorf("SQL has %+v, %v", rows, err)
		}
		if k, err := n.redis.storeWish(t.Context(), w.users[0], Wish{Away, 3}); err != nil || k.publishedOnline {
			t.Errorf("got %+v, %v", k, err)
		}
		if all, err := n.redis.read(t.Context(), w.users); err != nil || all[0].wish != (Wish{Busy, 4}) {
			t.Errorf("Redis has %+v, %v", all, err)
		}
	})
}

func TestGet_RefusesTooManyUsers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		n := w.start()
		many := make([]accounts.ID, MaxUsers+1)
		for i := range many {
			many[i] = ids.New[accounts.User]()
		}
		if _, _, err := n.Get(t.Context(), w.users[0], many, false); !errors.Is(err, ErrTooMany) {
			t.Errorf("got %v", err)
		}
		if got, _, err := n.Get(t.Context(), w.users[0], many[1:], false); err != nil || len(got) != MaxUsers {
			t.Errorf("got %d, %v", len(got), err)
		}
	})
}

// All connections to a large node close at once.
func TestQueueLastSeen_StoresManyUsersAtOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, 0)
		n := w.start()
		users := make([]accounts.ID, 11_000)
		for i := range users {
			users[i] = ids.New[accounts.User]()
		}
		began := time.Now()
		n.queueLastSeen(users, w.db.Now())
		eventually.Equal(t, "users with a last-seen time", len(users), func() (n int) {
			w.must(w.db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM presence WHERE seen > 0").Scan(&n))
			return n
		})
		if took := time.Since(began); took > 2*beatEvery {
			t.Errorf("it took %v", took)
		}
	})
}
