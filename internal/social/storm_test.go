package social

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// anything runs one random action on two of a few users.
func (w *world) anything(rng *rand.Rand, who []accounts.ID) (what string, err error) {
	ctx := w.t.Context()
	i, j := rng.IntN(len(who)), rng.IntN(len(who)-1)
	if j >= i {
		j++
	}
	a, b := who[i], who[j]
	// waiting returns one of a's requests, or an unknown id.
	waiting := func(read func(context.Context, accounts.ID, string, int) ([]Request, string, error)) RequestID {
		all, _, err := read(ctx, a, "", 10)
		if w.must(err); len(all) == 0 {
			return ids.New[Request]()
		}
		return all[rng.IntN(len(all))].ID
	}
	switch n := rng.IntN(100); {
	case n < 35:
		_, _, err = w.SendRequest(ctx, a, RequestDraft{User: b, Remark: fmt.Sprint(n)})
		return "ask", err
	case n < 55:
		_, err = w.Accept(ctx, a, waiting(w.Received), "x", "y")
		return "accept", err
	case n < 60:
		return "refuse", w.Refuse(ctx, a, waiting(w.Received))
	case n < 65:
		return "withdraw", w.Withdraw(ctx, a, waiting(w.Sent))
	case n < 75:
		return "unfriend", w.Unfriend(ctx, a, b)
	case n < 80:
		return "block", w.Block(ctx, a, b)
	case n < 88:
		return "unblock", w.Unblock(ctx, a, b)
	case n < 93:
		remark := fmt.Sprint(rng.IntN(1000))
		_, err = w.UpdateFriend(ctx, a, b, FriendUpdate{Remark: &remark})
		return "note", err
	case n < 95:
		return "seen", w.Seen(ctx, a)
	case n < 96:
		return "expire", w.expire(ctx)
	default:
		_, err = w.Relations(ctx, a, who)
		return "relations", err
	}
}

// actions are the actions that must all succeed before a storm ends.
var actions = []string{"ask", "accept", "unfriend", "block", "unblock"}

// storm runs callers on several nodes with random actions on the same few users, each at least steps times. Meanwhile
// clients keep lists by their changes. It checks everything at the end.
func storm(t *testing.T, who []accounts.ID, steps int, nodes ...*world) {
	t.Helper()
	var all, clients sync.WaitGroup
	stepped := make(chan struct{}) // a signal from any caller; a busy client misses it
	var mu sync.Mutex
	done := map[string]int{}
	missing := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return slices.ContainsFunc(actions, func(what string) bool { return done[what] == 0 })
	}
	devices := make([]*device, len(who))
	for i, u := range who {
		devices[i] = &device{nodes[i%len(nodes)], u, 0, map[accounts.ID]Friend{}}
		clients.Go(func() {
			for range stepped {
				devices[i].sync(1 + i%5)
			}
		})
	}
	for c := range 6 {
		w := nodes[c%len(nodes)]
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(c), rand.Uint64()))
			for n := 0; n < steps || n < 100*steps && missing(); n++ {
				what, err := w.anything(rng, who)
				if kind := errs.KindOf(err); err != nil && (kind == errs.Internal || kind == errs.Unavailable) {
					t.Errorf("%s: %v", what, err)
					return
				}
				if err == nil {
					mu.Lock()
					done[what]++
					mu.Unlock()
				}
				select {
				case stepped <- struct{}{}:
				default:
				}
			}
		})
	}
	all.Wait()
	close(stepped)
	clients.Wait()
	nodes[0].sound()
	agree(t, who, nodes...)
	for _, d := range devices {
		d.sync(3)
		d.same()
	}
	var still int
	nodes[0].must(nodes[0].db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM friends WHERE gone = 0").Scan(&still))
	t.Logf("%v; %d friends at the end", done, still)
	for _, what := range actions {
		if done[what] == 0 {
			t.Errorf("no call of %s succeeded: this proves little", what)
		}
	}
}

func TestStorm_ConcurrentChangesAgree(t *testing.T) {
	for _, e := range sqldbtest.Engines(t) {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			ahead, server := new(atomic.Int64), redistest.Server(t)
			db := openSQL(t, e, ahead)
			one := newWorld(t, db, redistest.Open(t, server.URL), ahead, Settings{Friends: 4, Blocks: 3}, unhurried).wait()
			two := newWorld(t, db, redistest.Open(t, server.URL), ahead, Settings{Friends: 4, Blocks: 3}, unhurried).wait()
			storm(t, one.join(5), 60, one, two)
			redistest.KeysDeclared(t, one.redis, Keys, accounts.Keys, events.Keys, cache.Keys)
		})
	}
}

// During the storm, Redis is emptied, killed and restarted many times.
func TestStorm_RedisFailuresAgree(t *testing.T) {
	for _, e := range sqldbtest.Engines(t) {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			ahead, server := new(atomic.Int64), redistest.Server(t)
			db := openSQL(t, e, ahead)
			one := newWorld(t, db, redistest.Open(t, server.URL), ahead, Settings{}, 0).wait()
			two := newWorld(t, db, redistest.Open(t, server.URL), ahead, Settings{}, 0).wait()
			who := one.join(6)
			ctx, stop := context.WithCancel(t.Context())
			var harm sync.WaitGroup
			harm.Go(func() {
				for i := 0; ; i++ {
					switch i % 3 {
					case 0:
						server.FlushAll()
					case 1:
						server.Kill()
					case 2:
						server.RestartEmpty()
					}
					select {
					case <-ctx.Done():
						if i%3 == 1 {
							server.RestartEmpty()
						}
						return
					case <-time.After(150 * time.Millisecond):
					}
				}
			})
			var all sync.WaitGroup
			for c, w := range []*world{one, two, one, two} {
				all.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(c), rand.Uint64()))
					for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
						what, err := w.anything(rng, who)
						if kind := errs.KindOf(err); err != nil && (kind == errs.Internal || kind == errs.Unavailable) {
							t.Errorf("%s: %v", what, err)
						}
					}
				})
			}
			all.Wait()
			stop()
			harm.Wait()
			one.back()
			two.back()
			one.sound()
			storm(t, who, 30, one, two)
		})
	}
}

// back waits until this node and Redis are connected again.
func (w *world) back() {
	w.t.Helper()
	eventually.NoError(w.t, "Redis to answer", func() error { return w.redis.Ping(w.t.Context()) })
	w.wait()
}

func TestWithoutRedis_ReadsUseSQL(t *testing.T) {
	ahead, server := new(atomic.Int64), redistest.Server(t)
	w := newWorld(t, openSQL(t, sqldbtest.Engine{Name: "sqlite"}, ahead), redistest.Open(t, server.URL), ahead, Settings{}, 0).wait()
	who := w.join(5)
	ann, bob, eve := who[0], who[1], who[2]
	w.befriends(ann, bob)
	agree(t, who, w)
	server.Kill()
	if !w.isFriend(ann, bob) || w.isFriend(ann, eve) {
		t.Error("killed: Ann's friend is not Bob")
	}
	w.befriends(eve, ann)
	w.must(w.Unfriend(t.Context(), ann, bob))
	w.must(w.Block(t.Context(), ann, bob))
	w.sendRequest(who[3], ann)
	if w.unreadOf(ann) != 1 || len(w.received(ann, 10)) != 1 || w.isFriend(ann, bob) || !w.isFriend(ann, eve) {
		t.Error("killed: what was done is not seen")
	}
	_, _, err := w.SendRequest(t.Context(), bob, RequestDraft{User: ann})
	w.fails("blocked meanwhile", err, ErrNotAccepting)
	if list, _ := w.list(ann, 10); len(list) != 1 {
		t.Errorf("the list is %v", list)
	}
	if err := w.agrees(who); err != nil {
		t.Error(err)
	}
	server.Restart()
	w.back()
	agree(t, who, w)
	server.RestartEmpty()
	agree(t, who, w)
}

// A node that dies after its commit leaves its fences, so no reader gets the earlier state.
func TestCrash_BeforeRedisLeavesNoStaleCache(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		other := w.neighbour()
		who := w.join(4)
		ann, bob := who[0], who[1]
		w.befriends(ann, bob)
		w.sendRequest(who[2], ann)
		agree(t, who, w, other) // all caches are loaded
		died := errors.New("died")
		func() {
			defer func() {
				if p := recover(); p != died { //nolint:errorlint // it is that very value
					t.Errorf("got %v", p)
				}
			}()
			var d changeSet
			targets := w.rel.targetsOfPair(ann, inFriends|inBlocks|inRequests, bob, inFriends|inBlockers|inRequests, &d)
			_ = w.caches.Runtime.Change(t.Context(), func(ctx context.Context) error {
				w.exec("UPDATE friends SET gone = 1, version = version + 1 WHERE user_id IN (?, ?)", ann, bob)
				w.exec("UPDATE friend_lists SET version = version + 1 WHERE user_id IN (?, ?)", ann, bob)
				w.exec("INSERT INTO blocks (user_id, blocked_id, since) VALUES (?, ?, 1)", ann, bob)
				w.exec("UPDATE friend_requests SET state = 2, pair = NULL WHERE to_id = ?", ann)
				panic(died)
			}, targets...)
		}()
		if err := w.agrees(who); err != nil { // its own fences are set
			t.Error(err)
		}
		agree(t, who, other) // it receives them within MaxStale
	})
}

func TestIsFriend_WarmIsOneCommand(t *testing.T) {
	ahead, server := new(atomic.Int64), redistest.Server(t)
	w := newWorld(t, openSQL(t, sqldbtest.Engine{Name: "sqlite"}, ahead), redistest.Open(t, server.URL), ahead, Settings{}, unhurried).wait()
	who := w.join(101)
	ann := who[0]
	w.befriends(ann, who[1:4]...)
	w.must(w.Block(t.Context(), ann, who[9]))
	agree(t, who[:1], w)
	loads := w.rel.friends.Stats().Loads + w.rel.blocks.Stats().Loads
	for _, c := range []struct {
		what string
		want map[string]int
		do   func() int
	}{
		{"IsFriend", map[string]int{"hmget": 1}, func() int {
			if w.isFriend(ann, who[1]) {
				return 1
			}
			return 0
		}},
		{"IsFriend of another user", map[string]int{"hmget": 1}, func() int {
			if w.isFriend(ann, who[8]) {
				return 0
			}
			return 1
		}},
		{"AreFriends", map[string]int{"hmget": 1}, func() int {
			found, err := w.AreFriends(t.Context(), ann, who[1:])
			w.must(err)
			return len(found) - 2
		}},
		{"IsBlocked", map[string]int{"smismember": 1}, func() int {
			ok, err := w.IsBlocked(t.Context(), ann, who[9])
			w.must(err)
			return map[bool]int{true: 1}[ok]
		}},
		{"Blocked", map[string]int{"smismember": 1}, func() int {
			found, err := w.Blocked(t.Context(), ann, who[1:])
			w.must(err)
			return len(found)
		}},
		{"Relations", map[string]int{"hmget": 1, "smismember": 1}, func() int {
			found, err := w.Relations(t.Context(), ann, who[1:])
			w.must(err)
			n := 0
			for _, r := range found {
				if r.Friend || r.Blocked {
					n++
				}
			}
			return n - 3
		}},
		{"Friend", map[string]int{"hmget": 1}, func() int {
			_, err := w.Friend(t.Context(), ann, who[2])
			w.must(err)
			return 1
		}},
	} {
		before := w.calls()
		if got := c.do(); got != 1 {
			t.Errorf("%s: got %d, want 1", c.what, got)
		}
		after := w.calls()
		seen := map[string]int{}
		for _, name := range []string{"hmget", "smismember", "hget", "hexists", "sismember", "hgetall", "exists", "get", "mget", "hlen",
			"scard"} {
			if n := after[name] - before[name]; n != 0 && name != "get" { // the bus sends heartbeats with GET
				seen[name] = n
			}
		}
		if !maps.Equal(seen, c.want) {
			t.Errorf("%s: %v, want %v", c.what, seen, c.want)
		}
	}
	if n := w.rel.friends.Stats().Loads + w.rel.blocks.Stats().Loads - loads; n != 0 {
		t.Errorf("%d loads from SQL, want none", n)
	}
}

// A change updates the loaded caches of both users, so that they are not loaded again.
func TestChange_UpdatesLoadedCollections(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		ctx := t.Context()
		who := w.join(4)
		ann, bob := who[0], who[1]
		w.befriends(ann, who[2])
		w.befriends(bob, who[2])
		w.sendRequest(who[3], bob)
		agree(t, who, w)
		loads := func() uint64 {
			return w.rel.friends.Stats().Loads + w.rel.pending.Stats().Loads
		}
		before := loads()
		r := w.sendRequest(ann, bob)
		_, err := w.Accept(ctx, bob, r.ID, "", "")
		w.must(err)
		remark := "dear"
		_, err = w.UpdateFriend(ctx, ann, bob, FriendUpdate{Remark: &remark})
		w.must(err)
		if f, err := w.Friend(ctx, ann, bob); err != nil || f.Remark != "dear" || !w.isFriend(bob, ann) || len(w.received(bob, 10)) != 1 {
			t.Errorf("got %+v, %v", f, err)
		}
		w.must(w.Block(ctx, bob, who[2]))
		if w.isFriend(bob, who[2]) || w.isFriend(who[2], bob) {
			t.Error("friends with a blocked user")
		}
		if n := loads() - before; n != 0 {
			t.Errorf("%d loads, want none", n)
		}
		agree(t, who, w)
	})
}
