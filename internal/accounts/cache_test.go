package accounts

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts/codes"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// listen makes the node of the world receive invalidations after it returns.
func (w *world) listen() {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	var all sync.WaitGroup
	all.Go(func() { _ = w.bus.Run(ctx, func() {}) })
	all.Go(func() { _ = w.caches.Run(ctx, func() {}) })
	w.t.Cleanup(func() { cancel(); all.Wait() })
	if err := w.bus.Nodes().Wait(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// neighbour returns another listening node on the same database and Redis.
func (w *world) neighbour() *world {
	w.t.Helper()
	n := newWorld(w.t, func(...func(*sqldb.Config)) *sqldb.DB { return w.db }, w.redis, Settings{})
	n.listen()
	return n
}

// people inserts n accounts directly into SQL.
func (w *world) people(n int) (all []ID) {
	w.t.Helper()
	var users []User
	for i := range n {
		u, err := NewUser(fmt.Sprintf("%s-%d@example.org", ids.New[world](), i), fmt.Sprint("user ", i), "UTC")
		if err != nil {
			w.t.Fatal(err)
		}
		users, all = append(users, u), append(all, u.ID)
	}
	if err := w.db.Tx(w.t.Context(), func(ctx context.Context, tx *sqldb.Tx) error { return InsertUsers(ctx, tx, users) }); err != nil {
		w.t.Fatal(err)
	}
	return all
}

func (w *world) rename(id ID, name string) {
	w.t.Helper()
	if u, err := w.Update(w.t.Context(), id, Change{Name: &name}); err != nil || u.Name != name {
		w.t.Fatalf("Update: %+v, %v", u, err)
	}
}

// named waits until the node returns a name for a user.
func (w *world) named(id ID, want string) (took time.Duration) {
	w.t.Helper()
	began := time.Now()
	eventually.Equal(w.t, "the user's name", want, func() string {
		u, err := w.User(w.t.Context(), id)
		if err != nil {
			w.t.Fatal(err)
		}
		return u.Name
	})
	return time.Since(began)
}

func TestUsers_CachedAndInvalidatedOnAllNodes(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		w.listen()
		other := w.neighbour()
		joined := w.join("ann@example.org", "")
		id := joined.User.ID
		for i, n := range []*world{w, other, w, other} {
			if u, err := n.User(t.Context(), id); err != nil || u != joined.User {
				t.Fatalf("read %d: got %+v, %v, want %+v", i, u, err, joined.User)
			}
		}
		mine, theirs := w.users.cache.Stats(), other.users.cache.Stats()
		if mine.Loads+theirs.Loads != 1 || theirs.RedisHits != 1 || mine.Hits+theirs.Hits != 2 {
			t.Errorf("four reads on two nodes: %+v and %+v, want one load, one find in Redis and two in process", mine, theirs)
		}
		w.rename(id, "Bea")
		if u, err := w.User(t.Context(), id); err != nil || u.Name != "Bea" {
			t.Errorf("where it was changed: got %+v, %v", u, err)
		}
		t.Logf("the other node knew after %s", other.named(id, "Bea"))

		nobody := ids.New[User]()
		for range 2 {
			if _, err := w.User(t.Context(), nobody); !errors.Is(err, ErrNoUser) {
				t.Errorf("nobody: got %v, want ErrNoUser", err)
			}
		}
		if s := w.users.cache.Stats(); s.NotFound != 1 {
			t.Errorf("the unknown user was loaded %d times, want once", s.NotFound)
		}
	})
}

// Every event of B4 invalidates the user. Check verifies that it is declared, and that no other is.
func TestUsers_EachEventInvalidates(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		if err := w.caches.Check(); err != nil {
			t.Fatal(err)
		}
		w.listen()
		id := w.people(1)[0]
		for _, e := range []cache.Event[ID]{AvatarChanged, InfoChanged, EmailChanged, PasswordChanged, AccountDeleted, AccountBanned} {
			if _, err := w.User(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			loads := w.users.cache.Stats().Loads
			if err := w.caches.Runtime.Change(t.Context(), func(context.Context) error { return nil }, e.Of(w.caches.Runtime, id)...); err != nil {
				t.Fatal(err)
			}
			if _, err := w.User(t.Context(), id); err != nil || w.users.cache.Stats().Loads != loads+1 {
				t.Errorf("after %q SQL was asked %d times (%v), want once", e.Name(), w.users.cache.Stats().Loads-loads, err)
			}
		}
	})
}

func TestUsers_ManyAreOneMGETWithoutSQL(t *testing.T) {
	onMemory(t, Settings{}, func(t *testing.T, w *world, _ *redistest.Memory) {
		w.listen()
		cold := w.neighbour()
		all := w.people(150)
		before := w.calls()
		names, err := w.Profiles(t.Context(), append(all, ids.New[User]()))
		if err != nil || len(names) != 150 || names[all[149]].Name != "user 149" {
			t.Fatalf("got %d names, %v", len(names), err)
		}
		after := w.calls()
		if got := after["mget"] - before["mget"]; got != 1 {
			t.Errorf("%d MGETs, want one", got)
		}
		if s := w.users.cache.Stats(); s.Loads != 1 || s.Loaded != 151 {
			t.Errorf("%d loads of %d keys, want one of 151", s.Loads, s.Loaded)
		}
		before = w.calls()
		if names, err := cold.Profiles(t.Context(), all); err != nil || len(names) != 150 {
			t.Fatalf("got %d names, %v", len(names), err)
		}
		after = w.calls()
		if s := cold.users.cache.Stats(); after["mget"]-before["mget"] != 1 || s.Loads != 0 {
			t.Errorf("on another node: %d MGETs and %d loads, want one and none", after["mget"]-before["mget"], s.Loads)
		}
		cold.caches.Wait() // some entries are refreshed at random
		before = w.calls()
		if names, err := cold.Profiles(t.Context(), all); err != nil || len(names) != 150 {
			t.Fatalf("got %d names, %v", len(names), err)
		}
		if after := w.calls(); after["mget"] != before["mget"] || after["get"] != before["get"] {
			t.Errorf("again: before %v, after %v, want nothing of Redis", before, after)
		}
	})
}

func TestUsers_ChangeWithoutRedis(t *testing.T) {
	onMemory(t, Settings{}, func(t *testing.T, w *world, server *redistest.Memory) {
		w.listen()
		id := w.people(1)[0]
		w.named(id, "user 0")
		server.Kill()
		w.rename(id, "Bea")
		if u, err := w.User(t.Context(), id); err != nil || u.Name != "Bea" {
			t.Errorf("without Redis: got %+v, %v", u, err)
		}
		server.RestartEmpty()
		w.back()
		w.named(id, "Bea")
	})
}

// This changes SQL without the domain, so that the test can distinguish a cache entry from the stored row.
func TestUsers_ServedFromRedisWithoutSQL(t *testing.T) {
	onMemory(t, Settings{}, func(t *testing.T, w *world, server *redistest.Memory) {
		w.listen()
		id := w.people(1)[0]
		w.named(id, "user 0")
		other := w.neighbour()
		if err := w.db.Close(); err != nil {
			t.Fatal(err)
		}
		if u, err := other.User(t.Context(), id); err != nil || u.Name != "user 0" {
			t.Errorf("got %+v, %v, want what Redis has", u, err)
		}
		server.FlushAll()
		eventually.True(t, "the bus to notice the flush, after which no copy is good", func() bool {
			_, err := other.User(t.Context(), id)
			return err != nil
		})
	})
}

func TestLoadError_TimeoutMeansSQLUnlessCanceled(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := loadError(t.Context(), context.DeadlineExceeded); !errors.Is(err, ErrStore) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the caller has time: got %v, want ErrStore", err)
	}
	if err := loadError(gone, context.DeadlineExceeded); errors.Is(err, ErrStore) {
		t.Errorf("the caller is gone: got %v", err)
	}
}

func TestWarm_LoadsTheMostActive(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		w.listen()
		var active []ID
		for i := range 3 {
			w.pass(time.Hour)
			active = append(active, w.join(fmt.Sprintf("u%d@example.org", i), "a long password").User.ID)
		}
		w.pass(time.Hour)
		w.enter("u0@example.org", "a long password")
		w.enter("u0@example.org", "a long password")
		w.people(5) // users who never logged in
		told := 0
		n, err := w.Users().Warm(t.Context(), 2, func(done, total int) { told = done*10 + total })
		if err != nil || n != 2 || told != 22 {
			t.Fatalf("Warm: %d, %v, told %d, want 2 of 2", n, err, told)
		}
		if _, err := w.db.ExecContext(t.Context(), "UPDATE users SET name = 'new'"); err != nil {
			t.Fatal(err)
		}
		for i, want := range []string{"Ann", "new", "Ann"} {
			if u, err := w.User(t.Context(), active[i]); err != nil || u.Name != want {
				t.Errorf("user %d: got %q, %v, want %q", i, u.Name, err, want)
			}
		}
	})
}

func TestUsers_AllFieldsSurviveRedis(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		w.listen()
		u := User{ID: ids.New[User](), Email: "Ann@example.org", Name: "Änn \" <&>", Bio: "one\ntwo",
			Clock:       civil.Clock{Zone: "Asia/Tokyo", Next: "UTC", From: 1 << 41},
			FindByEmail: true, Requests: true, HasPassword: true, Created: time.UnixMilli(1_700_000_000_123).UTC()}
		if err := w.db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error { return insertUser(ctx, tx, u, "k", "hash") }); err != nil {
			t.Fatal(err)
		}
		w.named(u.ID, u.Name)
		other := w.neighbour()
		got, err := other.User(t.Context(), u.ID)
		if err != nil || got != u || other.users.cache.Stats().RedisHits != 1 {
			t.Errorf("got %+v, %v, want %+v from Redis", got, err, u)
		}
		redistest.KeysDeclared(t, w.redis, Keys, codes.Keys, events.Keys)
	})
}
