package accounts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts/codes"
	"github.com/stoa-dev/stoa/internal/background/drops"
	"github.com/stoa-dev/stoa/internal/background/queue"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// refused waits until the node refuses a token. In virtual time it must do so within MaxStale.
func (w *world) refused(what, access string) {
	w.t.Helper()
	last := time.Now().Add(500 * time.Millisecond)
	eventually.True(w.t, what+" to be refused", func() bool {
		_, err := w.Verify(w.t.Context(), access)
		if err != nil && !errors.Is(err, ErrToken) {
			w.t.Fatal(err)
		}
		return err != nil
	})
	if now := time.Now(); bubble.In(w.t) && now.After(last) {
		w.t.Errorf("%s: still good %s after MaxStale", what, now.Sub(last))
	}
}

// spent returns the Redis commands of fn, without the beats of the bus.
func (w *world) spent(fn func()) map[string]int {
	w.t.Helper()
	beat := []string{"publish", "spublish", "xadd", "xrange", "xread", "time", "ping", "xinfo"}
	before := w.calls()
	fn()
	spent := map[string]int{}
	for name, n := range w.calls() {
		if n != before[name] && !slices.Contains(beat, strings.Split(name, "|")[0]) {
			spent[name] = n - before[name]
		}
	}
	return spent
}

func TestVerify_CostsNothingWhenCached(t *testing.T) {
	onMemory(t, Settings{}, func(t *testing.T, w *world, _ *redistest.Memory) {
		w.listen()
		a := w.join("ann@example.org", "")
		w.check("cold", a.Access, nil)
		if _, err := w.db.ExecContext(t.Context(), "DELETE FROM sessions"); err != nil {
			t.Fatal(err) // without the domain: a check that reads SQL is refused
		}
		// One read of a hundred also refreshes the entry with a script.
		var other *world
		var got map[string]int
		for range 3 {
			other = w.neighbour()
			other.named(a.User.ID, "Ann") // the node has cached the user but not the session
			if got = w.spent(func() { other.check("from Redis", a.Access, nil) }); maps.Equal(got, map[string]int{"get": 1}) {
				break
			}
		}
		if !maps.Equal(got, map[string]int{"get": 1}) {
			t.Errorf("from Redis a check was %v, want one GET", got)
		}
		if got := w.spent(func() { other.check("from the process", a.Access, nil) }); len(got) != 0 {
			t.Errorf("from the process a check was %v, want nothing of Redis", got)
		}
	})
}

func TestVerify_UnknownTokenLeavesNoData(t *testing.T) {
	onMemory(t, Settings{}, func(t *testing.T, w *world, _ *redistest.Memory) {
		w.listen()
		a := w.join("ann@example.org", "")
		w.check("before", a.Access, nil)
		keys := func() (n int) {
			if err := w.redis.Scan(t.Context(), func(string) error { n++; return nil }); err != nil {
				t.Fatal(err)
			}
			return n
		}
		before := keys()
		secret := a.Access[tokenLen-secretLen:]
		for what, user := range map[string]ID{"of nobody": ids.New[User](), "of somebody": a.User.ID} {
			made := accessPrefix + user.String() + "." + ids.New[Session]().String() + "." + secret
			w.check("made up, "+what, made, ErrToken)
			t.Logf("a token %s costs %v", what, w.spent(func() { w.check("again", made, ErrToken) }))
		}
		w.check("of a device, with another secret", a.Access[:tokenLen-secretLen]+strings.Repeat("A", secretLen), ErrToken)
		if n := w.checks.Len(); keys() != before || n != 1 {
			t.Errorf("%d keys in Redis and %d sessions in process, want %d and one", keys(), n, before)
		}
		if got := w.spent(func() { w.check("the good one", a.Access, nil) }); len(got) != 0 {
			t.Errorf("the good token's copy is gone: its check was %v", got)
		}
	})
}

func TestRefresh_UnknownTokenEndsNoSession(t *testing.T) {
	onMemory(t, Settings{}, func(t *testing.T, w *world, _ *redistest.Memory) {
		w.listen()
		a := w.join("ann@example.org", "")
		w.check("before", a.Access, nil)
		_, guess := mint("the secret of an impostor, 32 B.").pair(a.User.ID, a.Device, "", "")
		got := w.spent(func() {
			if _, err := w.Refresh(t.Context(), guess); !errors.Is(err, ErrRefresh) {
				t.Errorf("got %v, want ErrRefresh", err)
			}
			w.check("after", a.Access, nil)
		})
		if len(got) != 0 {
			t.Errorf("Redis was asked for %v, want nothing: the session's copy stays", got)
		}
	})
}

func TestRefresh_WorksAfterANewSecret(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		a := w.join("ann@example.org", "")
		w.mint = mint("another secret of thirty-two byt")
		b, err := w.Refresh(t.Context(), a.Refresh)
		if err != nil {
			t.Fatal(err)
		}
		w.check("refreshed", b.Access, nil)
	})
}

func TestSessions_EndReachesAllNodes(t *testing.T) {
	eachEngine(t, Settings{Devices: 3}, func(t *testing.T, w *world) {
		w.listen()
		other := w.neighbour()
		first := w.join("ann@example.org", "correct horse")
		ann := first.User.ID
		sub := other.bus.Subscribe(t.Context(), ann.String())
		defer sub.Close()
		for what, end := range map[string]func(t *testing.T, d Tokens){
			"log-out": func(t *testing.T, d Tokens) {
				if err := w.Revoke(t.Context(), ann, d.Device); err != nil {
					t.Error(err)
				}
			},
			"all logged out": func(t *testing.T, d Tokens) {
				if err := w.RevokeAll(t.Context(), ann, DeviceID{}); err != nil {
					t.Error(err)
				}
			},
			"a device too many": func(t *testing.T, d Tokens) {
				for range 3 {
					w.pass(time.Second)
					w.enter("ann@example.org", "correct horse")
				}
			},
			"reuse": func(t *testing.T, d Tokens) {
				if _, err := w.Refresh(t.Context(), d.Refresh); err != nil {
					t.Error(err)
				}
				w.pass(time.Minute)
				if _, err := w.Refresh(t.Context(), d.Refresh); !errors.Is(err, ErrReused) {
					t.Errorf("got %v, want ErrReused", err)
				}
			},
		} {
			t.Log(what)
			d := w.enter("ann@example.org", "correct horse")
			for opened := (api.Session{}); opened.Device != d.Device.String(); {
				hear(t, sub, api.EventSessionOpened, &opened)
			}
			w.check("before, here", d.Access, nil)
			other.check("before, there", d.Access, nil)
			end(t, d)
			w.check("here", d.Access, ErrToken)
			other.refused("there", d.Access)
			for ended := (api.SessionEnded{}); ended.Device != d.Device.String(); {
				hear(t, sub, api.EventSessionEnded, &ended)
			}
		}
	})
}

func TestVerify_NewTokenWithOldCacheEntry(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		w.listen()
		a := w.join("ann@example.org", "")
		w.check("the copy is there", a.Access, nil)
		// The view of a node that has not received the refresh on another node yet.
		access, _ := w.mint.pair(a.User.ID, a.Device, "x", "y")
		if _, err := w.db.ExecContext(t.Context(), "UPDATE sessions SET access_hash = ?", hash(access)); err != nil {
			t.Fatal(err)
		}
		w.check("the new token", access, nil)
		if held, err := w.checks.Get(t.Context(), sessionKey{A: a.User.ID, B: a.Device}); err != nil || held.Hash != hash(access) {
			t.Errorf("the copy is still %+v, %v: each check would ask SQL", held, err)
		}
		w.check("the old one after a use of the new one", a.Access, ErrToken)
	})
}

func TestEndAll_CommitsOrRollsBack(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		w.listen()
		other := w.neighbour()
		a := w.join("ann@example.org", "correct horse")
		b, c := w.enter("ann@example.org", "correct horse"), w.enter("ann@example.org", "correct horse")
		bob := w.join("bob@example.org", "")
		all := []Tokens{a, b, c, bob}
		for _, d := range all {
			w.check("before", d.Access, nil)
			other.check("before", d.Access, nil)
		}
		boom := errors.New("boom")
		rename := func(fault error) func(ctx context.Context, tx *sqldb.Tx) error {
			return func(ctx context.Context, tx *sqldb.Tx) error {
				_, err := tx.ExecContext(ctx, "UPDATE users SET name = 'Bea' WHERE id = ?", a.User.ID)
				return errors.Join(err, fault)
			}
		}
		targets := PasswordChanged.Of(w.caches.Runtime, a.User.ID)
		if err := w.endAll(t.Context(), a.User.ID, a.Device, rename(boom), targets...); !errors.Is(err, boom) {
			t.Errorf("got %v, want the commit's error", err)
		}
		for _, d := range all {
			w.check("after nothing", d.Access, nil)
		}
		w.named(a.User.ID, "Ann")
		if err := w.endAll(t.Context(), a.User.ID, a.Device, rename(nil), targets...); err != nil {
			t.Fatal(err)
		}
		if u, err := w.User(t.Context(), a.User.ID); err != nil || u.Name != "Bea" {
			t.Errorf("got %+v, %v, want what was committed", u, err)
		}
		for _, d := range []Tokens{b, c} {
			w.check("ended, here", d.Access, ErrToken)
			other.refused("ended, there", d.Access)
		}
		w.check("the one excepted", a.Access, nil)
		other.check("the one excepted", a.Access, nil)
		other.check("somebody else", bob.Access, nil)
		if err := w.endAll(t.Context(), ids.New[User](), DeviceID{}, nil); !errors.Is(err, ErrNoUser) {
			t.Errorf("of nobody: got %v, want ErrNoUser", err)
		}
	})
}

// The list of devices to fence is read before the transaction. A device that logs in after that, and that another node
// has cached, must be logged out, too.
func TestEndAll_IncludesNewDevices(t *testing.T) {
	onMemory(t, Settings{}, func(t *testing.T, w *world, _ *redistest.Memory) {
		w.listen()
		other := w.neighbour()
		a := w.join("ann@example.org", "correct horse")
		var late Tokens
		fenced := w.targets(a.User.ID, []DeviceID{a.Device})
		err := w.caches.Runtime.Change(t.Context(), func(ctx context.Context) error {
			late = w.enter("ann@example.org", "correct horse")
			other.check("the late one, there", late.Access, nil)
			return w.end(ctx, a.User.ID, []DeviceID{a.Device}, func(ctx context.Context, tx *sqldb.Tx) ([]DeviceID, error) {
				devices, err := lockDevices(ctx, tx, a.User.ID, DeviceID{})
				if err == nil {
					_, err = deleteSessions(ctx, tx, a.User.ID, devices)
				}
				return devices, err
			})
		}, fenced...)
		if err != nil {
			t.Fatal(err)
		}
		other.refused("the one that was known", a.Access)
		other.refused("the late one", late.Access)
		if left, want := w.leftDrops(), namesOf(keysOf(w.targets(a.User.ID, []DeviceID{late.Device}))); !slices.Equal(left, want) {
			t.Errorf("left a message for %v, want %v: this node may die before its drop", left, want)
		}
	})
}

func namesOf(keys []keyspace.Key) (all []string) {
	for _, k := range keys {
		all = append(all, k.String())
	}
	return all
}

// leftDrops returns the keys of the drops in SQL.
func (w *world) leftDrops() (names []string) {
	w.t.Helper()
	found, err := queue.NewSQL(w.db).Waiting(w.t.Context(), drops.Topic, 100)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range found {
		var d drops.Drop
		if err := json.Unmarshal(e.Payload, &d); err != nil {
			w.t.Fatal(err)
		}
		names = append(names, d.Keys...)
	}
	return names
}

func TestTx_WithoutFenceEnqueuesTheDrop(t *testing.T) {
	onMemory(t, Settings{}, func(t *testing.T, w *world, server *redistest.Memory) {
		w.listen()
		a := w.join("ann@example.org", "correct horse")
		b := w.enter("ann@example.org", "correct horse")
		if err := w.Revoke(t.Context(), a.User.ID, a.Device); err != nil {
			t.Fatal(err)
		}
		if left := w.leftDrops(); len(left) != 0 {
			t.Errorf("with Redis there a message was left for %v", left)
		}
		server.Kill()
		if err := w.Revoke(t.Context(), b.User.ID, b.Device); err != nil {
			t.Fatal(err)
		}
		if left, want := w.leftDrops(), namesOf(keysOf(w.targets(b.User.ID, []DeviceID{b.Device}))); !slices.Equal(left, want) {
			t.Errorf("left a message for %v, want %v", left, want)
		}
		name := "Bea"
		if _, err := w.Update(t.Context(), a.User.ID, Change{Name: &name}); err != nil {
			t.Fatal(err)
		}
		if left, want := w.leftDrops(), InfoChanged.Of(w.caches.Runtime, a.User.ID)[0].Key().String(); !slices.Contains(left, want) {
			t.Errorf("left a message for %v, want one for %s as well", left, want)
		}
		c := w.enter("ann@example.org", "correct horse")
		w.exec("ALTER TABLE outbox RENAME TO outbox_of_before")
		if err := w.Revoke(t.Context(), c.User.ID, c.Device); err == nil {
			t.Error("revoked without a fence and without a message")
		}
		w.check("the device that could not be revoked", c.Access, nil)
	})
}

// A panic has the effect of a kill: the commit is done and the fences stay.
func TestSessions_CrashAfterCommitLeavesNoStaleEntry(t *testing.T) {
	onMemory(t, Settings{}, func(t *testing.T, w *world, _ *redistest.Memory) {
		w.listen()
		other := w.neighbour()
		a := w.join("ann@example.org", "")
		other.check("before", a.Access, nil)
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the node lives on")
				}
			}()
			_ = w.endAll(t.Context(), a.User.ID, DeviceID{}, func(_ context.Context, tx *sqldb.Tx) error {
				tx.AfterCommit(func() { panic("killed") })
				return nil
			})
		}()
		other.refused("there", a.Access)
		third := w.neighbour()
		third.check("on a node that has only Redis", a.Access, ErrToken)
	})
}

// A COMMIT without a response may still take effect. Until that is decided, no node may cache the previous value.
func TestSessions_UnknownCommitLeavesNoStaleEntry(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		w.listen()
		a := w.join("ann@example.org", "")
		copies := append(w.targets(a.User.ID, []DeviceID{a.Device}), InfoChanged.Of(w.caches.Runtime, a.User.ID)...)
		if err := w.commit(t.Context(), func(context.Context, *sqldb.Tx) error {
			return sqldb.ErrOutcomeUnknown
		}, copies...); !errors.Is(err, ErrStore) {
			t.Errorf("got %v, want ErrStore", err)
		}
		w.check("before it takes effect", a.Access, nil)
		w.named(a.User.ID, "Ann")
		w.exec("UPDATE users SET name = 'Bea'")
		w.exec("DELETE FROM sessions")
		w.check("after", a.Access, ErrToken)
		if u, err := w.User(t.Context(), a.User.ID); err != nil || u.Name != "Bea" {
			t.Errorf("after: got %+v, %v, want Bea", u, err)
		}
	})
}

func TestVerify_IgnoresCacheWhileDropsPend(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		w.listen()
		a := w.join("ann@example.org", "")
		w.check("before", a.Access, nil)
		if _, err := w.db.ExecContext(t.Context(), "DELETE FROM sessions"); err != nil {
			t.Fatal(err)
		}
		w.check("a copy", a.Access, nil)
		w.dropsPending = func() bool { return true }
		w.check("SQL", a.Access, ErrToken)
	})
}

// listed returns the user's device as GET /v1/sessions returns it.
func (w *world) listed(user ID, device DeviceID) Session {
	w.t.Helper()
	list, err := w.Sessions(w.t.Context(), user)
	if err != nil {
		w.t.Fatal(err)
	}
	i := slices.IndexFunc(list, func(s Session) bool { return s.Device == device })
	if i < 0 {
		w.t.Fatalf("%s is not among %+v", device, list)
	}
	return list[i]
}

func (w *world) flush() {
	w.t.Helper()
	if err := w.flushUses(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// facts returns the facts of a session in Redis, and their TTL.
func (w *world) facts(k sessionKey) (map[string]string, time.Duration) {
	w.t.Helper()
	key := userSessionKeys.At(k.A, k.B)
	m, err := key.All(w.t.Context(), w.redis)
	if err != nil {
		w.t.Fatal(err)
	}
	life, err := w.redis.Do(w.t.Context(), keyspace.Cmd{Name: "PTTL", Key: key.Key}).Int()
	if err != nil {
		w.t.Fatal(err)
	}
	return m, time.Duration(life) * time.Millisecond
}

func TestUses_WrittenToRedisAndSQL(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		a := w.join("ann@example.org", "")
		k := sessionKey{A: a.User.ID, B: a.Device}
		opened := w.listed(k.A, k.B).Used
		inSQL := func() time.Time {
			all, err := selectFacts(t.Context(), w.db, []sessionKey{k})
			if err != nil {
				t.Fatal(err)
			}
			return all[k].Used
		}
		if m, life := w.facts(k); m["device"] != "phone" || m["ip"] != "192.0.2.1" || m["used"] != fmt.Sprint(opened.UnixMilli()) ||
			life < 23*time.Hour {
			t.Errorf("after the log-in Redis knows %v for %s", m, life)
		}
		w.pass(5 * time.Minute)
		w.check("used", a.Access, nil)
		if d := w.listed(k.A, k.B).Used.Sub(opened); d < 5*time.Minute || d > 6*time.Minute {
			t.Errorf("before the flush this node says %s after the log-in, want five minutes", d)
		}
		w.flush()
		used := fmt.Sprint(w.listed(k.A, k.B).Used.UnixMilli())
		if m, _ := w.facts(k); m["used"] != used || m["device"] != "phone" {
			t.Errorf("flushed: Redis knows %v, want the use at %s", m, used)
		}
		if !inSQL().Equal(opened) {
			t.Errorf("SQL was updated after five minutes: %s", inSQL())
		}
		other := newWorld(t, func(...func(*sqldb.Config)) *sqldb.DB { return w.db }, w.redis, Settings{})
		if got := fmt.Sprint(other.listed(k.A, k.B).Used.UnixMilli()); got != used {
			t.Errorf("another node says %s, want %s", got, used)
		}
		w.check("again", a.Access, nil)
		if tell, store := w.uses.due(w.db.Now()); len(tell)+len(store) != 0 {
			t.Errorf("a second use within a minute is passed on: %v, %v", tell, store)
		}
		w.pass(11 * time.Minute)
		w.check("used", a.Access, nil)
		w.flush()
		if d := inSQL().Sub(opened); d < 16*time.Minute || d > 17*time.Minute {
			t.Errorf("after sixteen minutes SQL says %s after the log-in", d)
		}
		w.pass(forgetUses)
		w.flush()
		if at := w.uses.last(k); at != 0 {
			t.Error("an idle session is still kept in memory")
		}
	})
}

func TestFacts_RestoredAfterALoss(t *testing.T) {
	onMemory(t, Settings{}, func(t *testing.T, w *world, server *redistest.Memory) {
		a := w.join("ann@example.org", "correct horse")
		b := w.enter("ann@example.org", "correct horse")
		ka, kb := sessionKey{A: a.User.ID, B: a.Device}, sessionKey{A: b.User.ID, B: b.Device}
		before, _ := w.facts(ka)
		server.FlushAll()
		w.pass(time.Hour)
		w.check("used", a.Access, nil)
		w.flush()
		before["used"] = fmt.Sprint(w.uses.last(ka))
		if m, life := w.facts(ka); !maps.Equal(m, before) || life < 23*time.Hour {
			t.Errorf("refilled by use: got %v for %s, want %v", m, life, before)
		}
		if m, _ := w.facts(kb); len(m) != 0 {
			t.Errorf("who is not in use has facts: %v", m)
		}
		w.listed(a.User.ID, b.Device)
		if m, _ := w.facts(kb); m["device"] != "tablet" {
			t.Errorf("refilled by the list: got %v", m)
		}
		if err := w.Revoke(t.Context(), a.User.ID, a.Device); err != nil {
			t.Fatal(err)
		}
		w.flush()
		if m, _ := w.facts(ka); len(m) != 0 {
			t.Errorf("a device that was logged out has facts: %v", m)
		}
		redistest.KeysDeclared(t, w.redis, Keys, codes.Keys, events.Keys)
	})
}

func TestUses_WaitForRedis(t *testing.T) {
	onMemory(t, Settings{}, func(t *testing.T, w *world, server *redistest.Memory) {
		a := w.join("ann@example.org", "")
		k := sessionKey{A: a.User.ID, B: a.Device}
		server.Kill()
		w.pass(time.Hour)
		w.check("used", a.Access, nil)
		w.flush()
		if used, want := w.listed(k.A, k.B).Used.UnixMilli(), w.uses.last(k); used != want {
			t.Errorf("listed as used at %d, want %d", used, want)
		}
		all, err := selectFacts(t.Context(), w.db, []sessionKey{k})
		if err != nil || all[k].Used.UnixMilli() != w.uses.last(k) {
			t.Errorf("SQL says %+v, %v, want the use of now", all[k], err)
		}
		server.RestartEmpty()
		w.back()
		w.flush()
		if m, _ := w.facts(k); m["used"] != fmt.Sprint(w.uses.last(k)) {
			t.Errorf("Redis is back and knows %v", m)
		}
	})
}

func TestFlushUses_OneRoundTripAndOneStatement(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		people := w.people(sessionsPerStatement + 20)
		long := w.db.Now().Add(-time.Hour)
		var keys []sessionKey
		err := w.db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			for _, user := range people {
				k := sessionKey{A: user, B: ids.New[Session]()}
				keys = append(keys, k)
				if err := insertSession(ctx, tx, sessionRow{Session: Session{Device: k.B, Created: long, Used: long}, user: user,
					refreshExpires: tx.Now().Add(time.Hour)}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, k := range keys {
			w.uses.record(k, w.db.Now().Add(-time.Duration(i)*time.Second))
		}
		w.flush()
		for i, k := range keys {
			want := w.uses.last(k)
			all, err := selectFacts(t.Context(), w.db, []sessionKey{k})
			if err != nil || all[k].Used.UnixMilli() != want {
				t.Fatalf("session %d: SQL says %+v, %v, want used at %d", i, all[k], err, want)
			}
			if m, _ := w.facts(k); m["used"] != fmt.Sprint(want) {
				t.Fatalf("session %d: Redis says %v, want used at %d", i, m, want)
			}
		}
		if tell, store := w.uses.due(w.db.Now()); len(tell)+len(store) != 0 {
			t.Errorf("%d and %d are still due", len(tell), len(store))
		}
	})
}

func TestUses_MemoryIsBounded(t *testing.T) {
	var u uses
	now := time.Now()
	user := ids.New[User]()
	for range useShards*shardUses + 50_000 {
		u.record(sessionKey{A: user, B: ids.New[Session]()}, now)
	}
	n := 0
	for i := range u.shards {
		n += len(u.shards[i].seen)
	}
	if n > useShards*shardUses {
		t.Errorf("%d sessions in memory", n)
	}
	tell, store := u.due(now)
	if len(tell) != redisFlushSize || len(store) != sqlFlushSize {
		t.Errorf("one flush has %d and %d sessions, want %d and %d", len(tell), len(store), redisFlushSize, sqlFlushSize)
	}
}

// touched is lua/touch.lua in Go. A missing hash is nil.
func touched(hash map[string]string, used int64, facts []string) (map[string]string, int64) {
	if hash == nil && len(facts) == 0 {
		return nil, 0
	}
	next := maps.Clone(hash)
	if next == nil {
		next = map[string]string{}
	}
	var was int64
	_, _ = fmt.Sscan(next["used"], &was)
	next["used"] = fmt.Sprint(max(was, used))
	for i := 0; i < len(facts); i += 2 {
		next[facts[i]] = facts[i+1]
	}
	return next, 1
}

func TestTouch_MatchesItsModel(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
		for range 20 {
			k := sessionKey{A: ids.New[User](), B: ids.New[Session]()}
			var want map[string]string
			for step := range 12 {
				used := 1_700_000_000_000 + rng.Int64N(1000)
				var facts []string
				if rng.IntN(4) == 0 {
					facts = factsOf(Session{Name: fmt.Sprint("dévice ", step), Agent: "a b", IP: "::1", Created: time.UnixMilli(rng.Int64N(1 << 41))})
				}
				var wrote int64
				want, wrote = touched(want, used, facts)
				got, err := w.redis.RunMulti(t.Context(), []redis.Call{touch(k, used, facts...)})[0].Int()
				if err != nil || got != wrote {
					t.Fatalf("step %d: got %d, %v, want %d", step, got, err, wrote)
				}
				if m, life := w.facts(k); !maps.Equal(m, want) || want != nil && life < 23*time.Hour {
					t.Fatalf("step %d: got %v for %s, want %v", step, m, life, want)
				}
			}
		}
	})
}

func TestCleanAgent(t *testing.T) {
	for in, want := range map[string]string{
		"":                              "",
		"curl/8.5.0":                    "curl/8.5.0",
		" a\tb\r\nc\x00 ":               "abc",
		"\u202eevil\u200b":              "evil",
		"bad \xff\xfe bytes":            "bad  bytes",
		"日本語/1":                         "日本語/1",
		strings.Repeat("é", 250):        strings.Repeat("é", 200),
		strings.Repeat("x", 199) + " y": strings.Repeat("x", 199),
	} {
		if got := cleanAgent(in); got != want {
			t.Errorf("cleanAgent(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestUnconfirmed_IsSafeForConcurrentUse(t *testing.T) {
	var u unconfirmed
	now := time.Now()
	var drained atomic.Int64
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 1000 {
				u.add(sessionRow{accessExpires: now.Add(time.Hour)})
			}
		})
		all.Go(func() {
			for range 1000 {
				drained.Add(int64(len(u.drain(now))))
			}
		})
	}
	all.Wait()
	if n := drained.Load() + int64(len(u.drain(now))); n != 4000 {
		t.Errorf("%d of 4000 sessions are drained", n)
	}
}

func TestUses_AreSafeForConcurrentUse(t *testing.T) {
	var u uses
	key := sessionKey{A: ids.New[User](), B: ids.New[Session]()}
	now := time.Now()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 100 {
				at := now.Add(time.Duration(i) * useStep)
				u.record(key, at)
				u.last(key)
				toRedis, toSQL := u.due(at)
				u.done(toRedis, inRedis)
				u.done(toSQL, inSQL)
			}
		})
	}
	all.Wait()
	if last, want := u.last(key), now.Add(99*useStep).UnixMilli(); last != want {
		t.Errorf("the last use is %d, want %d", last, want)
	}
}
