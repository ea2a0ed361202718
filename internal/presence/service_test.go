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

// enter opens a connection of a user at a node.
func (w *world) enter(n *node, user int, name string) {
	n.Watch(Socket).Opened(w.users[user].String(), ids.New[accounts.Session]().String(), name)
}

// looks returns a user as another one sees them at a node.
func (w *world) looks(n *node, viewer, user int) Seen {
	w.t.Helper()
	seen, partial, err := n.Of(w.t.Context(), w.users[viewer], []accounts.ID{w.users[user]}, true)
	w.must(err)
	if partial {
		w.t.Error("the answer is partial")
	}
	return seen[0]
}

func (w *world) soon(n *node, viewer, user int, want Status) {
	w.t.Helper()
	eventually.Equal(w.t, "what is seen", want, func() Status { return w.looks(n, viewer, user).Status })
}

// toldOf returns the events that a user got about another one.
func (w *world) toldOf(viewer, user int) []telling {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.told[[2]accounts.ID{w.users[viewer], w.users[user]}])
}

// hears waits until a user got the first event about another one, which is later than the visible change.
func (w *world) hears(viewer, user int) {
	w.t.Helper()
	eventually.True(w.t, "a friend to be told", func() bool { return len(w.toldOf(viewer, user)) == 1 })
}

func (w *world) exec(query string, args ...any) {
	w.t.Helper()
	_, err := w.db.ExecContext(w.t.Context(), query, args...)
	w.must(err)
}

func TestProgramsBesideTheServerHearOfEachVisibleChangeOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		n, db := w.start(), w.memory.Open(t)
		w.befriend(n, 0, 1)
		w.befriend(n, 0, 2)
		var mu sync.Mutex
		var heard []string
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
				heard = append(heard, fmt.Sprintf("%d %s %s", slices.IndexFunc(w.users, func(u accounts.ID) bool { return u.String() == e.User }), p.User, p.Status))
			}})
		})
		defer running.Wait()
		defer cancel()
		nobody := accounts.ToNobody
		_, err := n.people.Update(t.Context(), w.users[2], accounts.Change{Presence: &nobody})
		w.must(err)
		bubble.Sleep(time.Second)
		for user := range w.users {
			w.enter(n, user, fmt.Sprint(user))
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
		say := func(user int, status string) string {
			return fmt.Sprintf("%d %s %s", user, w.users[user], status)
		}
		slices.Sort(heard)
		if want := []string{say(0, "online"), say(1, "busy"), say(1, "online")}; !slices.Equal(heard, want) {
			t.Errorf("heard %q, want %q", heard, want)
		}
	})
}

func TestADeletedOrBannedUserLooksOffLineAndFriendsAreToldSo(t *testing.T) {
	for what, query := range map[string]string{
		"banned":  "UPDATE users SET banned_until = 99999999999999 WHERE id = ?",
		"deleted": "UPDATE users SET erased = 99999999999999 WHERE id = ?",
	} {
		t.Run(what, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				w := newWorld(t, 2)
				n := w.start()
				w.befriend(n, 0, 1)
				w.listen(n)
				w.enter(n, 1, "x")
				w.soon(n, 0, 1, Online)
				w.hears(0, 1)
				w.exec(query, w.users[1])
				w.memory.FlushAll() // and so all copies
				m := w.start()      // it has none in its memory
				bubble.Sleep(3 * time.Second)
				if got := w.looks(m, 0, 1); got != (Seen{User: w.users[1]}) {
					t.Errorf("a friend sees %+v", got)
				}
				if got, _, err := m.FriendsOnline(t.Context(), w.users[0]); err != nil || len(got) != 0 {
					t.Errorf("on line are %+v, %v", got, err)
				}
				n.kill() // so that the other one publishes
				m.bus.SetLive(nil)
				w.listen(m)
				bubble.Sleep(15 * time.Second)
				if got := w.toldOf(0, 1); len(got) != 2 || got[1].status != api.StatusOffline || got[1].seen {
					t.Errorf("the friend was told %+v", got)
				}
			})
		})
	}
}

func TestFriendsAreToldLaterWhereSQLHangs(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		n := w.start()
		w.befriend(n, 0, 1)
		w.listen(n)
		var held []*sql.Conn
		for range w.db.Reader().Stats().MaxOpenConnections {
			conn, err := w.db.Reader().Conn(t.Context())
			w.must(err)
			held = append(held, conn)
		}
		w.enter(n, 1, "x")
		bubble.Sleep(30 * time.Second)
		if tries := w.log.Count("friends are told of changes later"); tries < 2 {
			t.Errorf("%d tries while SQL hangs, want one after another", tries)
		}
		for _, conn := range held {
			w.must(conn.Close())
		}
		w.hears(0, 1)
	})
}

func TestNothingIsLeftOfAnErasedUser(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		n, db := w.start(), w.memory.Open(t)
		w.must(n.SetWish(t.Context(), w.users[0], Away))
		w.enter(n, 0, "x")
		w.soon(n, 0, 0, Away)
		n.Watch(Socket).Closed("x")
		bubble.Sleep(10 * time.Second)
		if got := w.looks(n, 0, 0); got.Last.IsZero() {
			t.Error("nobody knows when the user was last seen")
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
				t.Errorf("%s is there, %v", k, r.Err)
			}
		}
		n.wire.Refuse()
		bubble.Sleep(time.Second)
		w.must(n.Erase(t.Context(), w.users[0])) // Redis is away
	})
}

func TestAKeyIsRenewedBeforeItsLifeEnds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		n, db := w.start(), w.memory.Open(t)
		w.must(n.SetWish(t.Context(), w.users[0], Busy))
		w.enter(n, 0, "x")
		w.soon(n, 0, 0, Busy)
		keys := []keyspace.Key{connectionKeys.At(w.users[0]).Key, statusKeys.At(w.users[0]).Key, heldKeys.At(n.cfg.Node).Key}
		left := func() (all []time.Duration) {
			for _, k := range keys {
				r := db.Do(t.Context(), keyspace.Cmd{Name: "PTTL", Key: k})
				w.must(r.Err)
				all = append(all, time.Duration(r.N)*time.Millisecond)
			}
			return all
		}
		bubble.Sleep(5 * time.Second) // at its start a node does not know the state of Redis
		for _, k := range keys {
			w.must(db.Do(t.Context(), keyspace.Cmd{Name: "PEXPIRE", Key: k, Args: []string{"3600000"}}).Err)
		}
		bubble.Sleep(2 * time.Minute)
		if got := left(); slices.Max(got) > time.Hour {
			t.Errorf("keys were renewed after two minutes: %v", got)
		}
		n.held.mu.Lock()
		h := n.held.byID["sx"]
		if to := time.Until(h.renew); to < 5*time.Hour || to > renewAfter {
			t.Errorf("the keys are renewed in %s", to)
		}
		h.renew = time.Now() // as if the hours had passed
		n.held.mu.Unlock()
		bubble.Sleep(2 * time.Minute)
		if got := left(); slices.Min(got) < keyLife-2*time.Minute {
			t.Errorf("keys that were to be renewed live for %v", got)
		}
		redistest.KeysDeclared(t, db, Keys, accounts.Keys, social.Keys, cluster.Keys, events.Keys, cache.Keys)
	})
}

func TestAWishThatRedisDidNotTakeComesLater(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		n := w.start()
		w.befriend(n, 0, 1)
		w.listen(n)
		w.enter(n, 1, "x")
		w.soon(n, 0, 1, Online)
		w.hears(0, 1)
		n.wire.Refuse()
		w.must(n.SetWish(t.Context(), w.users[1], Away))
		if seen, partial, err := n.Of(t.Context(), w.users[0], w.users[1:], false); err != nil || !partial || seen[0].Status != Away {
			t.Errorf("without Redis: %+v, %v, %v", seen, partial, err)
		}
		families, err := n.reg.Gather()
		w.must(err)
		counted := 0.0
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if f.GetName() == "stoa_presence_reads_total" && m.GetLabel()[0].GetValue() == "node" {
					counted += m.GetCounter().GetValue()
				}
			}
		}
		if counted == 0 {
			t.Error("that Redis did not answer is counted nowhere")
		}
		n.wire.Heal()
		bubble.Sleep(5 * time.Second)
		w.soon(n, 0, 1, Away)
		if told := w.toldOf(0, 1); len(told) != 2 || told[1].status != api.StatusAway {
			t.Errorf("a friend was told %+v", told)
		}
	})
}

func TestFriendsAreToldWhenSQLIsBack(t *testing.T) {
	for _, table := range []string{"users", "friends"} {
		t.Run(table, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				w := newWorld(t, 2)
				n := w.start()
				w.befriend(n, 0, 1)
				w.listen(n)
				w.exec("ALTER TABLE " + table + " RENAME TO lost")
				w.enter(n, 1, "x")
				bubble.Sleep(3 * time.Second)
				w.must(n.SetWish(t.Context(), w.users[1], Away))
				bubble.Sleep(3 * time.Second)
				w.exec("ALTER TABLE lost RENAME TO " + table)
				bubble.Sleep(3 * time.Second)
				for viewer, what := range []string{"a friend", "the user's own device"} {
					if told := w.toldOf(viewer, 1); len(told) != 1 || told[0].status != api.StatusAway {
						t.Errorf("%s was told %+v", what, told)
					}
				}
				w.exec("ALTER TABLE " + table + " RENAME TO lost")
				n.Watch(Socket).Closed("x")
				bubble.Sleep(10 * time.Second)
				w.exec("ALTER TABLE lost RENAME TO " + table)
				bubble.Sleep(3 * time.Second)
				if table == "friends" {
					return // the friends are cached from before
				}
				if told := w.toldOf(0, 1); len(told) != 2 || told[1].status != api.StatusOffline {
					t.Errorf("after the user has gone, a friend was told %+v", told)
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
		check := func(what string, want Status) {
			t.Helper()
			bubble.Sleep(8 * time.Second)
			told := w.toldOf(0, 1)
			got := w.looks(m, 0, 1)
			if len(told) == 0 || told[len(told)-1].version != got.Version || got.Status != want || got.Version <= last {
				t.Errorf("%s: the answer is %+v, the events are %+v, want a version above %d in both", what, got, told, last)
			}
			if got := w.looks(n, 2, 1); got != (Seen{User: w.users[1]}) {
				t.Errorf("%s: a stranger gets %+v", what, got)
			}
			last = got.Version
		}
		w.enter(n, 1, "x")
		check("online at one node", Online)
		w.enter(m, 1, "y")
		w.must(m.SetWish(t.Context(), w.users[1], Busy))
		check("busy at the other one", Busy)
		n.Watch(Socket).Closed("x")
		bubble.Sleep(8 * time.Second)
		if got := w.looks(n, 0, 1); got.Version != last {
			t.Errorf("after another connection closed: %+v, want version %d", got, last)
		}
		w.memory.FlushAll()
		bubble.Sleep(8 * time.Second)
		if got := w.looks(n, 0, 1); got.Status != Busy || got.Version <= last {
			t.Errorf("after Redis was emptied: %+v, want a version above %d", got, last)
		}
		m.Watch(Socket).Closed("y")
		check("off line", Offline)
		nobody, friends := accounts.ToNobody, accounts.ToFriends
		w.enter(n, 1, "z")
		check("online again", Busy)
		for _, to := range []*accounts.Audience{&nobody, &friends} {
			_, err := n.people.Update(t.Context(), w.users[1], accounts.Change{Presence: to})
			w.must(err)
			w.must(n.AudienceChanged(t.Context(), w.users[1]))
			bubble.Sleep(8 * time.Second)
		}
		told := w.toldOf(0, 1)
		if hidden := told[len(told)-2]; hidden.status != api.StatusOffline || hidden.version <= last {
			t.Errorf("after the user hid: %+v, want a version above %d", hidden, last)
		}
		check("visible again", Busy)
	})
}

func TestAnOlderWishReplacesNoNewerOne(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		n := w.start()
		for i, to := range []Status{Away, Busy, Online, Online, Busy} {
			w.must(n.SetWish(t.Context(), w.users[0], to))
			_, wish, _, err := n.Mine(t.Context(), w.users[0])
			if err != nil || wish != to {
				t.Errorf("%d: the wish is %s, %v", i, wish, err)
			}
		}
		rows, err := selectRows(t.Context(), w.db, w.users)
		if err != nil || rows[w.users[0]].wish != (Wish{Busy, 4}) {
			t.Errorf("SQL has %+v, %v", rows, err)
		}
		if k, err := n.redis.wish(t.Context(), w.users[0], Wish{Away, 3}); err != nil || k.told {
			t.Errorf("got %+v, %v", k, err)
		}
		if all, err := n.redis.read(t.Context(), w.users); err != nil || all[0].wish != (Wish{Busy, 4}) {
			t.Errorf("Redis has %+v, %v", all, err)
		}
	})
}

func TestMoreUsersThanCanBeAskedForAreRefused(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		n := w.start()
		many := make([]accounts.ID, MaxAsked+1)
		for i := range many {
			many[i] = ids.New[accounts.User]()
		}
		if _, _, err := n.Of(t.Context(), w.users[0], many, false); !errors.Is(err, ErrTooMany) {
			t.Errorf("got %v", err)
		}
		if got, _, err := n.Of(t.Context(), w.users[0], many[1:], false); err != nil || len(got) != MaxAsked {
			t.Errorf("got %d, %v", len(got), err)
		}
	})
}

// All connections of a large node close at once.
func TestWhenUsersWereLastSeenIsNotedHoweverManyGoAtOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, 0)
		n := w.start()
		users := make([]accounts.ID, 11_000)
		for i := range users {
			users[i] = ids.New[accounts.User]()
		}
		began := time.Now()
		n.lastSeen(users, w.db.Now())
		eventually.Equal(t, "users who were seen", len(users), func() (seen int) {
			w.must(w.db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM presence WHERE seen > 0").Scan(&seen))
			return seen
		})
		if took := time.Since(began); took > 2*beatEvery {
			t.Errorf("it took %v", took)
		}
	})
}
