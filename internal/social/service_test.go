package social

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/background/drops"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/ratelimit"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// patience ends a test that would otherwise hang.
const patience = time.Minute

// unhurried replaces the budget and the MaxStale of production if servers are real and always available. A slow machine
// must not look like an unavailable server.
const unhurried = 10 * time.Second

// A world is the social domain of one node, with its accounts and engines.
type world struct {
	*Service
	t        testing.TB
	accounts *accounts.Service
	redis    *redis.DB
	ahead    *atomic.Int64 // nanoseconds that the clock is ahead
}

func newWorld(t testing.TB, db *sqldb.DB, rdb *redis.DB, ahead *atomic.Int64, settings Settings, budget time.Duration) *world {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	bus := events.NewBus(rdb, ids.New[world]().String(), log)
	if bubble.In(t) {
		budget = 0 // the budget of production
	}
	caches := cache.NewRuntime(rdb, bus.Nodes(), cache.Config{Budget: budget})
	people, err := accounts.New(accounts.Config{DB: db, Redis: rdb, Limiter: ratelimit.New(rdb), Caches: caches, Bus: bus,
		Secret: make([]byte, 32), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{DB: db, Caches: caches, Cache: cache.Policy{MaxStale: budget}, Bus: bus, People: people, Log: log,
		Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{s, t, people, rdb, ahead}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var all sync.WaitGroup
	all.Go(func() { _ = bus.Run(ctx, func() {}) })
	all.Go(func() { _ = caches.Run(ctx, func() {}) })
	t.Cleanup(func() { cancel(); all.Wait() })
	return w
}

// card returns the token of a user's card.
func (w *world) card(user accounts.ID) string {
	w.t.Helper()
	c, err := w.accounts.DrawCard(w.t.Context(), user)
	w.must(err)
	return w.accounts.CardToken(c)
}

// wait returns when the node receives from the others.
func (w *world) wait() *world {
	w.t.Helper()
	if err := w.bus.Nodes().Wait(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	return w
}

func openSQL(t testing.TB, e sqldbtest.Engine, ahead *atomic.Int64) *sqldb.DB {
	return e.Open(t, func(c *sqldb.Config) {
		c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
}

// onSQLite returns a node on the embedded engines.
func onSQLite(t testing.TB, settings Settings) *world {
	t.Helper()
	ahead := new(atomic.Int64)
	return newWorld(t, openSQL(t, sqldbtest.Engine{Name: "sqlite"}, ahead), redistest.Open(t, "embedded"), ahead, settings, unhurried).wait()
}

// eachEngine runs test on the embedded engines, in a bubble, and on a real Redis with a real MariaDB.
func eachEngine(t *testing.T, settings Settings, test func(t *testing.T, w *world)) {
	for _, e := range sqldbtest.Engines(t) {
		run := func(t *testing.T, cfg redis.Config) {
			ahead := new(atomic.Int64)
			w := newWorld(t, openSQL(t, e, ahead), redistest.OpenConfig(t, cfg), ahead, settings, unhurried).wait()
			test(t, w)
			w.sound()
			redistest.KeysDeclared(t, w.redis, Keys, accounts.Keys, events.Keys, cache.Keys)
		}
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			if e.Name == "sqlite" {
				bubble.Test(t, func(t *testing.T) { run(t, redis.Config{URL: "embedded"}) })
			} else {
				run(t, redistest.Shared(t))
			}
		})
	}
}

// neighbour returns another node on the same engines.
func (w *world) neighbour() *world {
	w.t.Helper()
	return newWorld(w.t, w.db, w.redis, w.ahead, w.cfg, unhurried).wait()
}

func (w *world) pass(d time.Duration) { w.ahead.Add(int64(d)) }

// join creates n accounts.
func (w *world) join(n int) (all []accounts.ID) {
	w.t.Helper()
	var users []accounts.User
	for i := range n {
		u, err := accounts.NewUser(fmt.Sprintf("%s@example.org", strings.ToLower(fmt.Sprintf("%x", ids.New[world]().String()))),
			fmt.Sprint("user ", i), "UTC")
		if err != nil {
			w.t.Fatal(err)
		}
		users, all = append(users, u), append(all, u.ID)
	}
	w.must(w.db.Tx(w.t.Context(), func(ctx context.Context, tx *sqldb.Tx) error { return accounts.InsertUsers(ctx, tx, users) }))
	return all
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// fails expects an error.
func (w *world) fails(what string, err, want error) {
	w.t.Helper()
	if !errors.Is(err, want) {
		w.t.Errorf("%s: got %v, want %v", what, err, want)
	}
}

func (w *world) sendRequest(from, to accounts.ID) Request {
	w.t.Helper()
	r, _, err := w.SendRequest(w.t.Context(), from, RequestDraft{User: to})
	w.must(err)
	return r
}

func (w *world) befriends(a accounts.ID, others ...accounts.ID) {
	w.t.Helper()
	for _, b := range others {
		r := w.sendRequest(a, b)
		if _, err := w.Accept(w.t.Context(), b, r.ID, "", ""); err != nil {
			w.t.Fatal(err)
		}
	}
}

// exec runs a statement without the domain.
func (w *world) exec(query string, args ...any) {
	w.t.Helper()
	_, err := w.db.ExecContext(w.t.Context(), query, args...)
	w.must(err)
}

func (w *world) isFriend(a, b accounts.ID) bool {
	w.t.Helper()
	ok, err := w.IsFriend(w.t.Context(), a, b)
	w.must(err)
	return ok
}

func (w *world) unreadOf(user accounts.ID) int {
	w.t.Helper()
	n, err := w.Unread(w.t.Context(), user)
	w.must(err)
	return n
}

// list reads all pages of a user's friends.
func (w *world) list(user accounts.ID, limit int) (all []Friend, version int64) {
	w.t.Helper()
	for cursor := ""; ; {
		page, next, v, err := w.Friends(w.t.Context(), user, "", cursor, limit)
		w.must(err)
		if len(page) > limit {
			w.t.Fatalf("a page of %d friends, want at most %d", len(page), limit)
		}
		if cursor == "" {
			version = v
		}
		all = append(all, page...)
		if cursor = next; next == "" {
			return all, version
		}
	}
}

func (w *world) received(user accounts.ID, limit int) (all []Request) {
	w.t.Helper()
	return allPages(w, user, limit, w.Received)
}

func (w *world) sent(user accounts.ID, limit int) (all []Request) {
	w.t.Helper()
	return allPages(w, user, limit, w.Sent)
}

func allPages[T any](w *world, user accounts.ID, limit int,
	read func(context.Context, accounts.ID, string, int) ([]T, string, error)) (all []T) {
	w.t.Helper()
	for cursor := ""; ; {
		page, next, err := read(w.t.Context(), user, cursor, limit)
		w.must(err)
		all = append(all, page...)
		if cursor = next; next == "" {
			return all
		}
	}
}

// sound checks the invariants of the package in SQL.
func (w *world) sound() {
	w.t.Helper()
	for what, query := range map[string]string{
		"friendships of one side": `SELECT COUNT(*) FROM friends f WHERE f.gone = 0 AND NOT EXISTS
			(SELECT 1 FROM friends g WHERE g.user_id = f.friend_id AND g.friend_id = f.user_id AND g.gone = 0)`,
		"friends who block": `SELECT COUNT(*) FROM friends f JOIN blocks b ON b.user_id = f.user_id AND b.blocked_id = f.friend_id WHERE f.gone = 0`,
		"requests between friends": `SELECT COUNT(*) FROM friend_requests r JOIN friends f ON f.user_id = r.from_id AND f.friend_id = r.to_id
			WHERE f.gone = 0 AND r.state = 0`,
		"requests past a block": `SELECT COUNT(*) FROM friend_requests r JOIN blocks b
			ON (b.user_id = r.from_id AND b.blocked_id = r.to_id) OR (b.user_id = r.to_id AND b.blocked_id = r.from_id) WHERE r.state = 0`,
		"requests that name a pair when they must not": `SELECT COUNT(*) FROM friend_requests WHERE (state = 0) <> (pair IS NOT NULL)`,
		"rows newer than their list":                   `SELECT COUNT(*) FROM friends f JOIN friend_lists l ON l.user_id = f.user_id WHERE f.version > l.version`,
		"lists newer than their rows": `SELECT COUNT(*) FROM friend_lists l WHERE l.version > l.pruned AND l.version <>
			(SELECT MAX(f.version) FROM friends f WHERE f.user_id = l.user_id)`,
		"requests at one time": `SELECT COUNT(*) FROM (SELECT to_id FROM friend_requests GROUP BY to_id, created HAVING COUNT(*) > 1) twice`,
	} {
		var n int
		w.must(w.db.QueryRowContext(w.t.Context(), query).Scan(&n))
		if n != 0 {
			w.t.Errorf("%d %s, want none", n, what)
		}
	}
}

// agrees compares this node's results for users with SQL.
func (w *world) agrees(users []accounts.ID) error {
	ctx := w.t.Context()
	for _, u := range users {
		want, err := allFriends(ctx, w.db, u)
		w.must(err)
		got, err := w.rel.friends.All(ctx, u)
		w.must(err)
		if !maps.Equal(got, want) {
			return fmt.Errorf("%s has the friends %v in Redis and %v in SQL", u, got, want)
		}
		are, err := w.AreFriends(ctx, u, users)
		w.must(err)
		for _, o := range users {
			if _, ok := want[o]; are[o] != ok {
				return fmt.Errorf("is %s a friend of %s: %v, want %v", o, u, are[o], ok)
			}
		}
		blocks, err := allBlocks(ctx, w.db, u)
		w.must(err)
		blocked, err := w.Blocked(ctx, u, users)
		w.must(err)
		for _, o := range users {
			if want := slices.Contains(blocks, o); blocked[o] != want {
				return fmt.Errorf("does %s block %s: %v, want %v", u, o, blocked[o], want)
			}
			mine, _, err := w.Between(ctx, u, o)
			w.must(err)
			_, again, err := w.Between(ctx, o, u)
			w.must(err)
			if want := (Relation{are[o], blocked[o]}); mine != want || again != want {
				return fmt.Errorf("between %s and %s: %+v and %+v, want %+v", u, o, mine, again, want)
			}
		}
		waits, err := allPending(ctx, w.db, u)
		w.must(err)
		page, _, err := w.rel.pending.Page(ctx, u, "", 1000)
		w.must(err)
		pending := map[accounts.ID]float64{}
		for _, p := range page {
			pending[p.Member] = p.Score
		}
		if !maps.Equal(pending, waits) {
			return fmt.Errorf("for %s wait %v in Redis and %v in SQL", u, pending, waits)
		}
		n, err := unread(ctx, w.db, u)
		w.must(err)
		if got := w.unreadOf(u); got != n[u] {
			return fmt.Errorf("%s has %d unread, and %d in SQL", u, got, n[u])
		}
	}
	return nil
}

// agree waits until all nodes agree with SQL. In virtual time this must happen within MaxStale.
func agree(t *testing.T, users []accounts.ID, nodes ...*world) {
	t.Helper()
	last := time.Now().Add(500 * time.Millisecond)
	for i, w := range nodes {
		eventually.NoError(t, fmt.Sprintf("node %d to agree with SQL", i), func() error { return w.agrees(users) })
	}
	if now := time.Now(); bubble.In(t) && now.After(last) {
		t.Errorf("the nodes agree with SQL %s after MaxStale", now.Sub(last))
	}
}

func (w *world) totals(when string, user accounts.ID, want Totals) {
	w.t.Helper()
	if got, err := Count(w.t.Context(), w.db, user); err != nil || got != want {
		w.t.Errorf("%s: got %+v, %v, want %+v", when, got, err, want)
	}
}

func TestFriendship_EndToEnd(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		ctx, other := t.Context(), w.neighbour()
		who := w.join(3)
		ann, bob, eve := who[0], who[1], who[2]
		if w.isFriend(ann, bob) || other.isFriend(bob, ann) {
			t.Fatal("they are friends already")
		}
		r, isNew, err := w.SendRequest(ctx, ann, RequestDraft{User: bob, Message: " Hi,\nit's me ", Source: "search", Remark: "Bobby",
			Tag: "school"})
		if err != nil || !isNew || r.Message != "Hi,\nit's me" || r.State != Pending || r.From != ann || r.To != bob {
			t.Fatalf("got %+v, %v, %v", r, isNew, err)
		}
		if got := other.received(bob, 10); len(got) != 1 || got[0] != r || other.unreadOf(bob) != 1 {
			t.Errorf("Bob on another node has %+v and %d unread, want the request", got, other.unreadOf(bob))
		}
		w.totals("she asks", ann, Totals{RequestsOut: 1})
		w.totals("she asks him", bob, Totals{RequestsIn: 1})
		again, isNew, err := other.SendRequest(ctx, ann, RequestDraft{User: bob, Message: "other words"})
		if err != nil || isNew || again != r {
			t.Errorf("again: got %+v, %v, %v, want the same", again, isNew, err)
		}
		_, err = w.Accept(ctx, ann, r.ID, "", "")
		w.fails("Ann accepts her own", err, ErrNoRequest)
		_, err = w.Accept(ctx, eve, r.ID, "", "")
		w.fails("Eve accepts it", err, ErrNoRequest)
		w.fails("Eve refuses it", w.Refuse(ctx, eve, r.ID), ErrNoRequest)
		w.fails("Bob withdraws it", w.Withdraw(ctx, bob, r.ID), ErrNoRequest)

		f, err := other.Accept(ctx, bob, r.ID, "Annie", "work")
		if err != nil || f.User != ann || f.Remark != "Annie" || f.Tag != "work" || f.Source != "search" || f.Since.IsZero() {
			t.Fatalf("got %+v, %v", f, err)
		}
		_, err = w.Accept(ctx, bob, r.ID, "", "")
		w.fails("accepted twice", err, ErrClosed)
		w.fails("refused afterwards", w.Refuse(ctx, bob, r.ID), ErrClosed)
		if mine, err := w.Friend(ctx, ann, bob); err != nil || mine.Remark != "Bobby" || mine.Tag != "school" || mine.Since != f.Since {
			t.Errorf("Ann has %+v, %v", mine, err)
		}
		if got, err := w.AreFriends(ctx, ann, who); err != nil || len(got) != 1 || !got[bob] {
			t.Errorf("got %v, %v, want Bob", got, err)
		}
		if list, version := w.list(bob, 10); len(list) != 1 || list[0] != f || version != 1 {
			t.Errorf("Bob's list is %+v at %d, want Ann at 1", list, version)
		}
		if n := w.unreadOf(bob); n != 0 || len(w.received(bob, 10)) != 0 {
			t.Errorf("%d unread, want none of what was answered", n)
		}
		_, _, err = w.SendRequest(ctx, bob, RequestDraft{User: ann})
		w.fails("a friend asks", err, ErrAlready)
		w.must(w.Block(ctx, ann, eve))
		w.totals("one friend and a block", ann, Totals{Friends: 1, Blocks: 1})
		w.totals("blocked user", eve, Totals{})
		agree(t, who, w, other)

		w.must(w.Unfriend(ctx, ann, bob))
		w.fails("unfriended twice", w.Unfriend(ctx, bob, ann), ErrNoFriend)
		w.fails("unfriended oneself", w.Unfriend(ctx, ann, ann), ErrNoFriend)
		if w.isFriend(ann, bob) || w.isFriend(bob, ann) || other.isFriend(bob, ann) {
			t.Error("one is a friend still")
		}
		w.totals("after the end", ann, Totals{Blocks: 1})
		w.befriends(bob, ann) // again, in the other direction
		if f, err := w.Friend(ctx, ann, bob); err != nil || f.Remark != "" {
			t.Errorf("got %+v, %v, want nothing of the old remark", f, err)
		}
		agree(t, who, w, other)
	})
}

func TestRelations_UpToHundredUsers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		who := w.join(MaxRelations + 2)
		w.befriends(who[0], who[1])
		if got, err := w.Relations(t.Context(), who[0], who[1:MaxRelations+1]); err != nil || len(got) != MaxRelations || !got[0].Friend ||
			got[1].Friend {
			t.Errorf("to a hundred: got %v, %v", got, err)
		}
		_, err := w.Relations(t.Context(), who[0], who[1:])
		w.fails("to one more", err, ErrTooMany)
		w.must(w.caches.Drop(t.Context(), FriendsChanged.Of(w.caches.Runtime, who[0])...))
		w.exec("ALTER TABLE friends RENAME TO lost")
		if got, err := w.Relations(t.Context(), who[0], who[1:2]); err == nil {
			t.Errorf("without an answer about friends: got %v", got)
		}
		w.exec("ALTER TABLE lost RENAME TO friends")
	})
}

// The records of a try that lost a deadlock must be discarded.
func TestChange_RetriedTransactionPublishesOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		who := w.join(2)
		h := w.listen(who[0])
		tries := 0
		var d changeSet
		w.must(w.change(t.Context(), &d, nil, func(ctx context.Context, tx *sqldb.Tx) error {
			if err := d.lock(ctx, tx, who[0]); err != nil {
				return err
			}
			d.blocked = append(d.blocked, edge{who[0], who[1]})
			if tries++; tries == 1 {
				return &mysql.MySQLError{Number: 1213, Message: "Deadlock found when trying to get lock"}
			}
			return nil
		}))
		if tries != 2 || len(d.blocked) != 1 {
			t.Errorf("after %d tries it has done %v, want one block", tries, d.blocked)
		}
		h.expect(`block.added "` + who[1].String() + `"`)
	})
}

// A COMMIT without a response may still take effect. Until that is settled, no node may cache the earlier state.
func TestChange_LostCommitResponseLeavesNoStaleCache(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		who := w.join(2)
		w.befriends(who[0], who[1])
		agree(t, who, w)
		var d changeSet
		err := w.change(t.Context(), &d, w.rel.targets(who[0], inFriends|inBlocks, &d), func(context.Context, *sqldb.Tx) error {
			return sqldb.ErrOutcomeUnknown
		})
		w.fails("without an answer", err, ErrStore)
		if !w.isFriend(who[0], who[1]) {
			t.Error("they are no friends before it takes effect")
		}
		w.exec("UPDATE friends SET gone = 1")
		if w.isFriend(who[0], who[1]) {
			t.Error("they are friends still, by a copy from before it took effect")
		}
	})
}

// The node without Redis never returns.
func TestBlock_FromNodeWithoutRedisReachesOthers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		memory := redistest.InMemory(t)
		wire, ahead := memory.Wire(), new(atomic.Int64)
		db := openSQL(t, sqldbtest.Engine{Name: "sqlite"}, ahead)
		w := newWorld(t, db, redistest.OpenConfig(t, wire.Config()), ahead, Settings{}, unhurried).wait()
		other := newWorld(t, db, memory.Open(t), ahead, Settings{}, unhurried).wait()
		who := w.join(3)
		ann, bob := who[0], who[1]
		w.must(w.Block(t.Context(), bob, who[2]))
		agree(t, who, other)
		wire.BlackHole()
		w.must(w.Block(t.Context(), bob, ann))
		ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		var running sync.WaitGroup
		others := drops.New(drops.Config{DB: db, Cached: drops.NewCached(Keys), Connected: func() bool { return true },
			Log: slog.New(slog.DiscardHandler)})
		running.Go(func() { others.Run(ctx, other.caches.Runtime) })
		defer sqldbtest.Watch(t, db)()
		defer func() { cancel(); running.Wait() }()
		bubble.Sleep(5 * time.Second)
		blocked, err := other.IsBlocked(t.Context(), bob, ann)
		w.must(err)
		if !blocked {
			t.Error("the other node has the list of before")
		}
	})
}

func TestChange_RepeatDropsStaleCache(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		who := w.join(3)
		ann, bob := who[0], who[1]
		w.must(w.Block(t.Context(), bob, who[2]))
		agree(t, who, w)
		w.must(w.db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error { return insertBlock(ctx, tx, bob, ann) }))
		blocked, err := w.IsBlocked(t.Context(), bob, ann)
		w.must(err)
		if blocked {
			t.Fatal("there is no old list to begin with")
		}
		w.must(w.Block(t.Context(), bob, ann))
		agree(t, who, w)
	})
}

// calls returns the number of calls of each Redis command.
func (w *world) calls() map[string]int {
	w.t.Helper()
	info, _, err := w.redis.Do(w.t.Context(), keyspace.Cmd{Name: "INFO", Args: []string{"commandstats"}}).Text()
	w.must(err)
	calls := map[string]int{}
	for line := range strings.Lines(info) {
		name, rest, _ := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		n, _, _ := strings.Cut(rest, ",")
		if n, err := strconv.Atoi(n); err == nil {
			calls[name] = n
		}
	}
	return calls
}
