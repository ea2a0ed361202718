package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
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

// killBetweenStages kills a node that has committed, and has sent nothing to Redis since. No other caller works.
func (w *world) killBetweenStages(n *node, wire *redistest.Wire) {
	w.t.Helper()
	wire.BlackHole()
	defer reconnect(wire)
	before := w.count()
	var wg sync.WaitGroup
	for _, p := range w.late(callers) {
		wg.Go(func() { w.tap(n, p) })
	}
	eventually.True(w.t, "a commit, for the kill to follow", func() bool { return w.count() != before })
	n.Kill()
	wg.Wait()
}

// reconnect ends a black hole. The data in it never arrives.
func reconnect(wire *redistest.Wire) {
	wire.Reset()
	wire.Heal()
}

func (w *world) count() (n int) {
	w.t.Helper()
	if err := w.db.NewRaw("SELECT COUNT(*) FROM checkins").Scan(w.t.Context(), &n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

// TestNothingAcknowledgedIsLost is one deployment and one schedule of failures: two nodes, a Redis, and a MariaDB that
// writes each commit to its disk. Users of all domains work all the time, and each domain compares everything after each
// failure.
func TestNothingAcknowledgedIsLost(t *testing.T) {
	t.Parallel()
	maria := sqldbtest.OwnServer(t, sqldbtest.Options{Durable: true, TCP: true})
	server := redistest.Server(t)
	wire := redistest.NewWire(t, server.Addr)
	args := []string{"--social-cooldown-refused", "0s", "--social-cooldown-withdrawn", "0s", "--accounts-limits-codes-per-minute", "1000",
		"--accounts-limits-codes-per-day", "10000", "--accounts-limits-codes-per-ip", "100000", "--accounts-limits-login-fails", "1000",
		"--files-from", "everybody", "--chats-messages-from", "everybody", "--files-storage", "folder:" + t.TempDir(),
		"--gateway-drain-over", "1s"}
	const failures = 15
	reserve := known + (1+*soakFlag)*tapped64 + 2*pairs + 40 + 2*couples + trio + 3 + *soakFlag*callers
	w := newWorld(t, sqldb.Config{URL: maria.URL}, reserve+*soakFlag*failures*2*perRound,
		append([]string{"--redis", wire.Config().URL}, args...), append([]string{"--redis", server.URL}, args...))
	w.reserve = reserve
	w.noteDrops()
	w.tapAtOnce()
	w.readsWithoutSQL(maria)

	chats, people, newcomers, profiles, room := newTalk(w), newPeople(w), newNewcomers(w), newProfiles(w), newScreening(w)
	uploads := newUploads(w)
	w.crowd()
	for _, d := range []domain{chats, people, newcomers, profiles, room, uploads} {
		w.add(d)
	}
	killed := func(meanwhile func()) func() {
		return func() {
			server.Kill()
			w.moment(200 * time.Millisecond)
			meanwhile()
			server.Restart()
		}
	}
	for range *soakFlag {
		w.suffer(failure{what: "a node drains and stops by an operator's order", nodes: true, replay: w.nodes[:1], do: func() {
			id := nodeID(t, server.URL, w.nodes[0])
			out, err := exec.Command(stoaBinary(t), "nodes", "drain", id, "--stop", "--redis", server.URL).CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			eventually.True(t, "a node that is told to stop to end", w.nodes[0].isDown)
			w.nodes[0].Start()
		}})
		for i, n := range w.nodes {
			w.suffer(failure{what: fmt.Sprint("node ", i, " is killed in an upload"), nodes: true, replay: []*node{n}, do: func() {
				uploads.killDuring(i, i == 1)
				w.moment(200 * time.Millisecond)
				n.Start()
			}})
		}
		w.suffer(failure{what: "a node is killed between SQL and Redis", nodes: true, replay: w.nodes[:1], do: func() {
			w.inCalm(func() { w.killBetweenStages(w.nodes[0], wire) })
			w.nodes[0].Start()
		}})
		// Before these two failures, the node considers Redis unavailable. Afterwards users stop writing: no later event shows
		// a client that it is behind.
		cut := func() {
			wire.BlackHole()
			eventually.Equal(t, "the parts of the node that read from SQL", 3, func() int { // check-ins, messages, and Redis itself
				return strings.Count(readiness(t.Context(), w.hc, w.nodes[0]), "answering from sql")
			})
			chats.more(20)
		}
		w.suffer(failure{what: "a node that could not tell what it stored is killed", nodes: true, replay: w.nodes, do: func() {
			cut()
			w.inCalm(func() {
				w.nodes[0].Kill()
				reconnect(wire)
				w.nodes[0].Start()
				chats.check()
				chats.sameAsFresh(server.FlushAll)
			})
		}})
		w.suffer(failure{what: "a node is cut off from Redis", replay: w.nodes, do: func() {
			cut()
			w.inCalm(func() {
				reconnect(wire)
				chats.check()
				chats.sameAsFresh(server.FlushAll)
			})
		}})
		w.suffer(failure{what: "Redis is emptied", replay: w.nodes, do: server.FlushAll})
		w.suffer(failure{what: "Redis is killed and has nothing", replay: w.nodes,
			do: killed(func() { server.Settings("appendonly yes", "appendfsync everysec") })})
		w.suffer(failure{what: "Redis is killed and has its file", replay: w.nodes, do: killed(func() {})})
		w.suffer(failure{what: "Redis is killed and its file loses its end", replay: w.nodes,
			do: killed(func() { shorten(t, server.Dir, w.rng.Int64N(200_000)) })})
		server.Settings() // the next kill leaves no data again
		w.suffer(failure{what: "Redis stands still", do: func() {
			server.Pause()
			w.tapAtOnce()
			w.moment(time.Second)
			server.Resume()
		}})
		if *soakFlag > 1 {
			w.suffer(failure{what: "Redis is away for half a minute", do: func() {
				server.Pause()
				time.Sleep(10 * time.Second)
				server.Kill()
				time.Sleep(15 * time.Second)
				server.Restart()
			}})
		}
		w.suffer(failure{what: "the database is killed", sql: true, do: func() {
			maria.Kill9(t)
			w.readWithoutSQL()
			eventually.NoError(t, "the playback to be read without SQL", func() error {
				_, err := room.owner[1].Playback(t.Context(), room.room)
				return err
			})
			w.moment(time.Second)
			maria.Restart(t)
		}})
		w.mu.Lock()
		if w.refused == 0 {
			t.Error("nobody was refused: the kill hit nothing")
		}
		w.mu.Unlock()
		w.suffer(failure{what: "the database stands still", sql: true, do: func() { // callers wait
			maria.Pause(t)
			w.moment(2 * time.Second)
			maria.Resume(t)
		}})
	}
	people.did("asked", "accepted", "refused", "withdrawn", "remarked", "parted", "blocked", "unblocked", "renamed", "logged out")
	newcomers.did("registered", "logged in", "refreshed", "logged out")
	eventually.True(t, "names to be read", func() bool { return profiles.reads.Load() > 0 })
	w.stop()
	w.settleAll()
	chats.sameAsFresh(server.FlushAll)
	if n := uploads.checked; n[0] == 0 || n[1] == 0 {
		t.Errorf("%d files were offered and %d were in messages, want some of both", n[0], n[1])
	}
}

// A failure of a deployment.
type failure struct {
	what       string
	nodes, sql bool    // a node or SQL dies: requests may be lost, or refused
	replay     []*node // nodes that replay afterwards
	do         func()
}

func (w *world) suffer(f failure) {
	w.t.Helper()
	if w.t.Failed() {
		w.t.FailNow()
	}
	w.nodesDie.Store(f.nodes)
	w.sqlDies.Store(f.sql)
	began := time.Now()
	w.replayed(f.replay, f.what, f.do)
	w.t.Logf("%s: right again after %s", f.what, time.Since(began).Round(time.Millisecond))
}

// tapped64 is the number of users that [world.tapAtOnce] lets tap.
const tapped64 = 5

// tapAtOnce lets users tap 64 times at once, on two nodes: exactly one tap of each user is the first.
func (w *world) tapAtOnce() {
	w.t.Helper()
	for _, p := range w.late(tapped64) {
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
			w.t.Errorf("%s: %d of %d taps were told that they are new, want 1", p.id, p.news, callers)
		}
	}
}

// known is the number of users that [world.readsWithoutSQL] reads.
const known = 20

// readsWithoutSQL kills MariaDB when no writes are in flight. Redis is complete then: known users need no SQL.
func (w *world) readsWithoutSQL(maria *sqldbtest.Instance) {
	w.t.Helper()
	users := w.late(known)
	for i, p := range users {
		if w.tap(w.nodes[i%2], p) != answered || w.readOn(w.nodes[0], p) != answered || w.readOn(w.nodes[1], p) != answered {
			w.t.Fatalf("%s cannot check in", p.id)
		}
	}
	for _, n := range w.nodes {
		waitReady(w.t, w.hc, n)
	}
	w.sqlDies.Store(true)
	maria.Kill9(w.t)
	for i, p := range users {
		// After a slow response of Redis, a node reads from SQL until it has rechecked Redis.
		eventually.True(w.t, p.id+" to read without SQL", func() bool { return w.readOn(w.nodes[i%2], p) == answered })
	}
	maria.Restart(w.t)
	w.refused = 0
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

// twoNodes is a world of two nodes on MariaDB and the same Redis.
func twoNodes(t *testing.T, people int, redis string, args ...string) *world {
	t.Helper()
	args = append(args, "--redis", redis)
	return newWorld(t, sqldb.Config{URL: sqldbtest.Server(t).URL}, people, args, args)
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
