package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// The failures of this file happen under load. After each one, without help, every acknowledged check-in is in SQL,
// once. Statuses, calendars and boards equal those computed from SQL, on every node. No request was refused because of
// Redis. See [world.round].

// Nodes are killed, some of them between the commit and the update of Redis.
func TestNodesAreKilled(t *testing.T) {
	t.Parallel()
	kills := 2 * *soakFlag
	maria := sqldbtest.OwnServer(t, sqldbtest.Options{Durable: true, TCP: true})
	server := redistest.Server(t)
	proxy := newWire(t, strings.TrimPrefix(server.URL, "redis://"))
	w := newWorld(t, sqldb.Config{URL: maria.URL}, kills*perRound*3,
		[]string{"--redis", "redis://" + proxy.ln.Addr().String()},
		[]string{"--redis", server.URL})
	w.reserve = kills * callers
	w.nodesDie.Store(true)
	w.crowd()
	for k := range kills {
		victim, what, kill := w.nodes[w.rng.IntN(2)], "a node is killed", (*node).Kill
		if k%2 == 1 {
			victim, what = w.nodes[0], "a node is killed between SQL and Redis"
			kill = func(n *node) { w.killBetweenStages(n, proxy) }
		}
		w.replayed([]*node{victim}, what, func() {
			kill(victim)
			w.moment(200 * time.Millisecond)
			victim.Start()
		})
	}
	w.settleAll()
}

// killBetweenStages kills a node that has committed, and has sent nothing to Redis since.
func (w *world) killBetweenStages(n *node, proxy *wire) {
	w.t.Helper()
	w.calm.Lock()
	defer w.calm.Unlock()
	proxy.cut.Store(true)
	defer proxy.cut.Store(false)
	before := w.count()
	var wg sync.WaitGroup
	for _, p := range w.late(callers) {
		wg.Go(func() { w.tap(n, p) })
	}
	eventually.True(w.t, "a commit, for the kill to follow", func() bool { return w.count() != before })
	n.Kill()
	wg.Wait()
}

func (w *world) count() (n int) {
	w.t.Helper()
	if err := w.db.NewRaw("SELECT COUNT(*) FROM checkins").Scan(w.t.Context(), &n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

// The only node with default settings: SQLite, and an embedded Redis that is empty after each start.
func TestTheOnlyNodeIsKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := newWorld(t, sqldb.Config{Dir: dir}, *soakFlag*perRound*3, []string{"--data", dir})
	w.nodesDie.Store(true)
	w.crowd()
	for range *soakFlag {
		w.round("the only node is killed", func() {
			w.nodes[0].Kill()
			w.moment(200 * time.Millisecond)
			w.nodes[0].Start()
		})
	}
	w.settleAll()
}

// Redis is killed and restarts with no data, with the data of its log, and with the part of the log that a power cut
// leaves. It is also emptied. It is also suspended for a moment without data loss: only the nodes have the writes that
// it missed.
func TestRedisIsKilledEmptiedAndStandsStill(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	w := twoNodes(t, *soakFlag*5*perRound*3, server.URL)
	w.crowd()
	killed := func(meanwhile func()) func() {
		return func() {
			server.Kill()
			w.moment(200 * time.Millisecond)
			meanwhile()
			server.Restart()
		}
	}
	for range *soakFlag {
		w.replayed(w.nodes, "Redis is emptied", server.FlushAll)
		w.replayed(w.nodes, "Redis is killed and has nothing", killed(func() { server.Settings("appendonly yes", "appendfsync everysec") }))
		w.replayed(w.nodes, "Redis is killed and has its file", killed(func() {}))
		w.replayed(w.nodes, "Redis is killed and its file loses its end", killed(func() { shorten(t, server.Dir, w.rng.Int64N(200_000)) }))
		w.round("Redis stands still", func() {
			server.Pause()
			w.moment(2 * time.Second)
			server.Resume()
		})
		server.Settings() // the next kill leaves no data again
	}
	w.settleAll()
}

// twoNodes is a world of two nodes on MariaDB and the same Redis.
func twoNodes(t *testing.T, people int, redis string) *world {
	t.Helper()
	return newWorld(t, sqldb.Config{URL: sqldbtest.Server(t).URL}, people, []string{"--redis", redis}, []string{"--redis", redis})
}

// shorten cuts the end off the append-only file.
func shorten(t *testing.T, dir string, by int64) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "appendonlydir", "*.incr.aof"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there is no append-only file in %s: %v", dir, err)
	}
	last := slices.Max(files)
	info, err := os.Stat(last)
	if err == nil {
		err = os.Truncate(last, max(0, info.Size()-by))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Redis is unavailable for half a minute. At first it is suspended with open connections, then it is dead. "make soak"
// runs it.
func TestRedisIsAwayForLong(t *testing.T) {
	if *soakFlag == 1 {
		t.Skip("half a minute of waiting is for make soak")
	}
	t.Parallel()
	server := redistest.Server(t)
	w := twoNodes(t, 1500**soakFlag, server.URL)
	w.think, w.pace = 150*time.Millisecond, 40
	w.crowd()
	for range *soakFlag {
		w.round("Redis is away for half a minute", func() {
			server.Pause()
			time.Sleep(10*time.Second + time.Duration(w.rng.Int64N(int64(5*time.Second))))
			server.Kill()
			time.Sleep(15 * time.Second)
			server.Restart()
		})
	}
	w.settleAll()
}

// The master dies, and its writes that the replica does not have are lost.
func TestSentinelsPromoteAReplica(t *testing.T) {
	t.Parallel()
	set := redistest.Sentinel(t)
	w := twoNodes(t, *soakFlag*perRound*5, set.URL)
	w.crowd()
	for k := range *soakFlag {
		if k > 0 {
			set.Whole(t)
		}
		w.round("the master dies", func() { set.Failover(t).Restart() })
	}
	w.settleAll()
}

// MariaDB is killed. Requests without acknowledgement get a clear refusal, and reads continue from Redis.
func TestTheDatabaseIsKilled(t *testing.T) {
	t.Parallel()
	maria := sqldbtest.OwnServer(t, sqldbtest.Options{Durable: true, TCP: true})
	server := redistest.Server(t)
	w := newWorld(t, sqldb.Config{URL: maria.URL}, *soakFlag*perRound*2+1000, []string{"--redis", server.URL}, []string{"--redis", server.URL})
	w.reserve = 20
	known := w.late(20)
	for i, p := range known {
		if w.tap(w.nodes[i%2], p) != answered || w.readOn(w.nodes[0], p) != answered || w.readOn(w.nodes[1], p) != answered {
			t.Fatalf("%s cannot check in", p.id)
		}
	}
	for _, n := range w.nodes {
		waitReady(t, w.hc, n)
	}
	// No writes are in flight, so Redis is complete: known users need no SQL.
	w.sqlDies.Store(true)
	maria.Kill9(t)
	for i, p := range known {
		// After a slow response of Redis, a node reads from SQL until it has rechecked Redis.
		eventually.True(t, p.id+" to read without SQL", func() bool { return w.readOn(w.nodes[i%2], p) == answered })
	}
	maria.Restart(t)
	w.crowd()
	for k := range *soakFlag {
		w.round("the database is killed", func() {
			maria.Kill9(t)
			w.readWithoutSQL()
			if k%2 == 0 {
				time.Sleep(2 * time.Second)
			} else {
				w.moment(200 * time.Millisecond)
			}
			maria.Restart(t)
		})
	}
	// A suspended database is not a dead one: callers wait.
	w.round("the database stands still", func() {
		maria.Pause(t)
		time.Sleep(3 * time.Second)
		maria.Resume(t)
	})
	w.settleAll()
	if w.refused == 0 {
		t.Error("nobody was refused: the kills hit nothing")
	}
}

// readWithoutSQL reads the status of some acknowledged users. A read may fail, because a write that Redis missed just
// before cannot be loaded.
func (w *world) readWithoutSQL() {
	w.t.Helper()
	asked := 0
	for _, p := range w.persons[:w.upTo(w.next.Load())] {
		if !p.acked() {
			continue
		}
		w.readOn(w.nodes[asked%len(w.nodes)], p)
		if asked++; asked == 50 {
			break
		}
	}
}

// readOn reads the status of a user whose check-in was acknowledged.
func (w *world) readOn(n *node, p *person) outcome {
	w.t.Helper()
	var got api.CheckinStatus
	out := w.send(n, http.MethodGet, "/v1/checkin", p, "", &got)
	if out == answered {
		w.judgeStatus(p, true, got)
	}
	return out
}

// One user taps 64 times at once, on two nodes: exactly one tap is the first. This also holds while Redis is suspended.
func TestOneUserTapsManyTimesAtOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	w := twoNodes(t, 30, server.URL)
	for i, p := range w.persons {
		if i == 20 {
			server.Pause()
		}
		var wg sync.WaitGroup
		start := make(chan struct{})
		for k := range callers {
			wg.Go(func() {
				<-start
				w.tap(w.nodes[k%2], p)
			})
		}
		close(start)
		wg.Wait()
		if p.news != 1 {
			t.Errorf("%s: %d of %d taps were told that they are new, want 1", p.id, p.news, callers)
		}
	}
	server.Resume()
	w.settleAll()
}
