package presence

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/cluster"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

func testEachRedis(t *testing.T, test func(t *testing.T, db *redis.DB)) {
	for _, engine := range redistest.Engines(t) {
		if engine.Name == "spawn" || engine.Name == "sentinel" {
			continue // the same commands as standalone
		}
		t.Run(engine.Name, func(t *testing.T) {
			db := engine.Open(t)
			test(t, db)
			redistest.KeysDeclared(t, db, Keys)
		})
	}
}

// twin computes the same as the scripts, in Go.
type twin struct {
	now         time.Time
	connections map[accounts.ID][]Connection
	wishes      map[accounts.ID]Wish
	versions    map[accounts.ID]int64
}

func (w *twin) change(user accounts.ID) {
	w.versions[user] = max(w.versions[user]+1, w.now.UnixMilli())
}

func (w *twin) wish(user accounts.ID, wish Wish) {
	if wish.Version < w.wishes[user].Version {
		return
	}
	if wish != w.wishes[user] && len(w.connections[user]) > 0 {
		w.change(user)
	}
	w.wishes[user] = wish
}

func (w *twin) open(user accounts.ID, c Connection, wish Wish) (first bool) {
	if wish.Version > 0 {
		w.wish(user, wish)
	}
	if len(w.connections[user]) == 0 {
		w.change(user)
	}
	first = len(w.connections[user]) == 0 || w.connections[user][0] == c
	w.connections[user] = append(slices.DeleteFunc(w.connections[user], func(o Connection) bool { return o == c }), c)
	return first
}

func (w *twin) close(user accounts.ID, prefix string) (found int, last bool) {
	before := len(w.connections[user])
	w.connections[user] = slices.DeleteFunc(w.connections[user], func(o Connection) bool { return strings.HasPrefix(o.String(), prefix) })
	if before > 0 && len(w.connections[user]) == 0 {
		w.change(user)
	}
	return before - len(w.connections[user]), len(w.connections[user]) == 0
}

func TestScripts_MatchTheirTwin(t *testing.T) {
	testEachRedis(t, func(t *testing.T, db *redis.DB) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 1))
		began := time.Now()
		w := &twin{began, map[accounts.ID][]Connection{}, map[accounts.ID]Wish{}, map[accounts.ID]int64{}}
		s := redisStore{db, func() time.Time { return w.now }}
		nodes := []cluster.ID{ids.New[cluster.Node](), ids.New[cluster.Node](), ids.New[cluster.Node]()}
		users := make([]accounts.ID, 7)
		for i := range users {
			users[i] = ids.New[accounts.User]()
			// Each server of a cluster gets its scripts before the test: a script that a server does not have yet runs
			// after its batch.
			if _, err := s.storeWish(t.Context(), users[i], Wish{Online, 1}); err != nil {
				t.Fatal(err)
			}
			w.wish(users[i], Wish{Online, 1})
		}
		pool := make([]Connection, 40)
		for i := range pool {
			pool[i] = connection(nodes[i%len(nodes)], uint64(i))
		}
		for step := range 400 {
			u, c := users[r.IntN(len(users))], pool[r.IntN(len(pool))]
			w.now = began.Add(time.Duration(step*100+r.IntN(120_000)) * time.Millisecond) // the clocks of nodes differ
			versions := maps.Clone(w.versions)
			switch r.IntN(6) {
			case 0, 1:
				o := &openRequest{user: u, conn: c, wish: Wish{Status(1 + r.IntN(3)), r.Int64N(20)}}
				s.open(t.Context(), c.Node, []*openRequest{o})
				if first := w.open(u, c, o.wish); o.err != nil || o.first != first || o.version != w.versions[u] {
					t.Fatalf("step %d: open: first %v, version %d, %v; want %v, %d", step, o.first, o.version, o.err, first, w.versions[u])
				}
			case 2, 3:
				prefix := c.name()
				if r.IntN(3) == 0 {
					prefix = c.Node.String() + ":"
				}
				o := &closeRequest{user: u, prefix: prefix}
				s.close(t.Context(), []*closeRequest{o})
				if found, last := w.close(u, prefix); o.err != nil || o.found != found || o.last != last || o.version != w.versions[u] {
					t.Fatalf("step %d: close: %d, %v, version %d, %v; want %d, %v, %d", step, o.found, o.last, o.version, o.err, found, last,
						w.versions[u])
				}
			case 4:
				wish := Wish{Status(1 + r.IntN(3)), 1 + r.Int64N(20)}
				w.wish(u, wish)
				if k, err := s.storeWish(t.Context(), u, wish); err != nil || k.publishedOnline != (len(w.connections[u]) > 0) ||
					k.version != w.versions[u] {
					t.Fatalf("step %d: wish: %+v, %v", step, k, err)
				}
			case 5:
				w.change(u)
				if version, err := s.change(t.Context(), u); err != nil || version != w.versions[u] {
					t.Fatalf("step %d: change: version %d, %v; want %d", step, version, err, w.versions[u])
				}
			}
			if w.versions[u] < versions[u] {
				t.Fatalf("step %d: version %d after %d", step, w.versions[u], versions[u])
			}
			all, err := s.read(t.Context(), users)
			if err != nil {
				t.Fatal(err)
			}
			for i, k := range all {
				if want := w.connections[users[i]]; !slices.Equal(k.connections, want) || k.wish != w.wishes[users[i]] ||
					k.publishedOnline != (len(want) > 0) || k.version != w.versions[users[i]] {
					t.Fatalf("step %d: Redis has %+v, want %v and %v", step, k, want, w.wishes[users[i]])
				}
			}
		}
	})
}

func TestRedisStore_MarksAndUsersOfNodes(t *testing.T) {
	testEachRedis(t, func(t *testing.T, db *redis.DB) {
		s, a, b := redisStore{db, time.Now}, ids.New[cluster.Node](), ids.New[cluster.Node]()
		ctx, at := t.Context(), time.Now().Truncate(time.Millisecond)
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		if m, err := s.readMark(ctx, a); err != nil || m.exists {
			t.Errorf("mark of an unknown node: %+v, %v", m, err)
		}
		must(s.setMark(ctx, a, time.Time{}))
		must(s.setMark(ctx, b, at))
		all, err := s.readMarks(ctx)
		if err != nil || len(all) != 2 || all[a] != (mark{exists: true, writing: true}) || !all[b].exists || !all[b].swept.Equal(at) {
			t.Errorf("got marks %+v, %v", all, err)
		}
		for node, want := range map[cluster.ID]bool{a: true, b: false, ids.New[cluster.Node](): false} {
			if got, err := s.markComplete(ctx, node); err != nil || got != want {
				t.Errorf("node with mark %+v marked as complete: %v, %v, want %v", all[node], got, err, want)
			}
		}
		if all, err = s.readMarks(ctx); err != nil || len(all) != 2 || all[a] != (mark{exists: true}) || !all[b].swept.Equal(at) {
			t.Errorf("after that: got marks %+v, %v", all, err)
		}
		must(s.deleteMark(ctx, b))
		if m, err := s.readMark(ctx, b); err != nil || m.exists {
			t.Errorf("deleted mark of a node: %+v, %v", m, err)
		}
		users := []accounts.ID{ids.New[accounts.User](), ids.New[accounts.User]()}
		for i, u := range users {
			s.open(ctx, a, []*openRequest{{user: u, conn: connection(a, uint64(i))}})
		}
		if got, err := s.sampleNodeUsers(ctx, a, 10); err != nil || len(got) != 2 || !slices.Contains(got, users[0]) ||
			!slices.Contains(got, users[1]) {
			t.Errorf("users of the node: %v, %v", got, err)
		}
		if got, err := s.sampleNodeUsers(ctx, a, 1); err != nil || len(got) != 1 {
			t.Errorf("one user of the node: %v, %v", got, err)
		}
		if got, next, err := s.scanNodeUsers(ctx, a, "0"); err != nil || next != "0" || len(got) != 2 {
			t.Errorf("first page of users: %v, next %q, %v", got, next, err)
		}
		must(s.removeNodeUsers(ctx, a, users))
		if got, err := s.sampleNodeUsers(ctx, a, 10); err != nil || len(got) != 0 {
			t.Errorf("users after their removal: %v, %v", got, err)
		}
		must(s.deleteUser(ctx, users[0]))
		if got, err := s.read(ctx, users); err != nil || got[0].publishedOnline || !got[1].publishedOnline {
			t.Errorf("after the deletion of one user: %+v, %v", got, err)
		}
	})
}

func TestRead_SendsOneCommandForAllUsers(t *testing.T) {
	server := redistest.Server(t)
	s, users := redisStore{redistest.Open(t, server.URL), time.Now}, make([]accounts.ID, MaxUsers)
	for i := range users {
		users[i] = ids.New[accounts.User]()
	}
	if _, err := server.Do("CONFIG", "RESETSTAT"); err != nil {
		t.Fatal(err)
	}
	if got, err := s.read(t.Context(), users); err != nil || len(got) != len(users) {
		t.Fatalf("got %d, %v", len(got), err)
	}
	lines, err := server.Do("INFO", "commandstats")
	if text := strings.Join(lines, ""); err != nil || !strings.Contains(text, "cmdstat_mget:calls=1,") ||
		strings.Contains(text, "cmdstat_get:") {
		t.Errorf("commands to Redis: %s, %v", text, err)
	}
}
