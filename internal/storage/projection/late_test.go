package projection

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// node is a node of a cluster whose SQL server may execute a COMMIT late, as MySQL and MariaDB may.
type node struct {
	*domain
	wire *redistest.Wire
	stop func()
}

// cluster has nodes that share a Redis server and an SQL log.
type cluster struct {
	t     *testing.T
	redis *redistest.Memory
	sql   *sqldb.DB
	nodes map[string]*node
}

func newCluster(t *testing.T, nodes ...string) *cluster {
	t.Helper()
	c := &cluster{t: t, redis: redistest.InMemory(t), sql: sqldbtest.SQLite(t), nodes: map[string]*node{}}
	for _, name := range nodes {
		c.start(name)
		bubble.Sleep(300 * time.Millisecond) // so that their rounds are at different times
	}
	bubble.Sleep(slowCommit + 5*time.Second) // until the replay for nodes that Redis has lost
	return c
}

func (c *cluster) start(name string) *node {
	c.t.Helper()
	wire := c.redis.Wire()
	n := &node{domain: newDomainOn(c.t, redistest.OpenConfig(c.t, wire.Config()), c.sql, name), wire: wire}
	n.repeatAfter, n.cfg.Every = slowCommit, time.Second
	for _, other := range c.nodes { // all nodes share one SQL log
		for row, at := range other.log {
			n.commit(row, at)
		}
	}
	n.stop = n.run(c.t)
	c.nodes[name] = n
	return n
}

// kill ends a node that can no longer reach Redis, so that its mark stays.
func (c *cluster) kill(name string) {
	c.nodes[name].wire.BlackHole()
	c.nodes[name].stop()
}

func (c *cluster) commitLate(row int, at time.Time) {
	for _, n := range c.nodes {
		n.commit(row, at)
	}
}

// mark returns the mark of a node, as another node reads it.
func (c *cluster) mark(of, by string) string {
	c.t.Helper()
	return c.nodes[by].markOf(c.t, of)
}

func (c *cluster) lacks(by string, row int) {
	c.t.Helper()
	held, err := state.At().All(c.t.Context(), c.nodes[by].db)
	if err != nil || held[fmt.Sprint(row)] != "" {
		c.t.Fatalf("Redis has row %d before SQL: the test is void (%v)", row, err)
	}
}

// afterFirstReplay waits until another node has replayed once for n1, which has died.
func (c *cluster) afterFirstReplay(by string) {
	c.t.Helper()
	bubble.Sleep(deadAfter + 2*time.Second)
	if mark := c.mark("n1", by); !hasSign(mark, signReplayed) {
		c.t.Fatalf("n1 is dead and was replayed for; got the mark %q, want one with %q", mark, signReplayed)
	}
}

func TestDeadNode_LateCommitReachesRedis(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		c := newCluster(t, "n1", "n2")
		n2, at, before := c.nodes["n2"], time.Now(), len(c.nodes["n2"].replays())
		c.kill("n1")
		c.afterFirstReplay("n2")
		c.lacks("n2", 1)
		if !n2.Up() || len(n2.replays()) != before+1 {
			t.Errorf("after the first replay: up %v, %d replays, want true and 1", n2.Up(), len(n2.replays())-before)
		}
		if agreed := time.UnixMilli(n2.Agreed()); agreed.After(at) {
			t.Errorf("n2 takes commits before %s for settled, and a commit of %s may come late", agreed, at)
		}
		c.commitLate(1, at)
		bubble.Sleep(slowCommit)
		n2.has(t, 1)
		if mark := c.mark("n1", "n2"); mark != "" || !n2.Up() || len(n2.replays()) != before+2 {
			t.Errorf("after the second replay: mark %q, up %v, %d replays, want none, true and 2", mark, n2.Up(), len(n2.replays())-before)
		}
		if told := n2.told(); len(told) == 0 || told[len(told)-1] != 1 {
			t.Errorf("Late got %v, want row 1", told)
		}
		bubble.Sleep(2 * time.Minute)
		if n := len(n2.replays()); n != before+2 {
			t.Errorf("%d replays in the end, want 2", n-before)
		}
		if agreed := time.UnixMilli(n2.Agreed()); !agreed.After(at) {
			t.Errorf("commits before %s are settled, want also that of %s", agreed, at)
		}
	})
}

func TestDeadNode_ThirdNodeReplaysAgain(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		c := newCluster(t, "n1", "n2", "n3")
		at, before := time.Now(), len(c.nodes["n2"].replays())
		c.kill("n1")
		c.afterFirstReplay("n2")
		first, other := "n2", "n3"
		if len(c.nodes["n2"].replays()) == before {
			first, other = other, first
		}
		c.kill(first)
		c.commitLate(1, at)
		c.lacks(other, 1)
		bubble.Sleep(slowCommit + time.Second)
		c.nodes[other].has(t, 1)
		bubble.Sleep(deadAfter + slowCommit)
		for _, node := range []string{"n1", first} {
			if mark := c.mark(node, other); mark != "" {
				t.Errorf("the mark of %s is %q, want none", node, mark)
			}
		}
	})
}

func TestDeadNode_SecondReplaySurvivesRestartOfAllNodes(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		c := newCluster(t, "n1", "n2")
		at := time.Now()
		c.kill("n1")
		c.afterFirstReplay("n2")
		c.nodes["n2"].stop()
		n3 := c.start("n3")
		bubble.Sleep(slowCommit / 2)
		if mark := c.mark("n1", "n3"); !hasSign(mark, signReplayed) {
			t.Errorf("got the mark %q of n1, want one with %q", mark, signReplayed)
		}
		c.commitLate(1, at)
		c.lacks("n3", 1)
		bubble.Sleep(margin + slowCommit) // the clocks of n2 and n3 may differ by the margin
		n3.has(t, 1)
		if mark := c.mark("n1", "n3"); mark != "" {
			t.Errorf("the mark of n1 is %q, want none", mark)
		}
	})
}

// The second replay takes long. Meanwhile its node counts as live and returns data from Redis, and no other node
// replays.
func TestDeadNode_SecondReplayKeepsItsNodeAlive(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		c := newCluster(t, "n1", "n2", "n3")
		at := time.Now()
		c.kill("n1")
		c.afterFirstReplay("n2")
		outcomes, replays := map[string]chan error{}, map[string]int{}
		for _, name := range []string{"n2", "n3"} {
			outcomes[name], replays[name] = make(chan error), len(c.nodes[name].replays())
			c.nodes[name].mu.Lock()
			c.nodes[name].hold = outcomes[name]
			c.nodes[name].mu.Unlock()
		}
		c.commitLate(1, at)
		bubble.Sleep(slowCommit)
		by, other := "n2", "n3"
		if !hasSign(c.mark(by, "n2"), signBehind) {
			by, other = other, by
		}
		last := ""
		for range 20 {
			mark := c.mark(by, "n2")
			if !hasSign(mark, signBehind) || mark == last {
				t.Errorf("the mark of %s is %q, want one with %q other than %q", by, mark, signBehind, last)
			}
			if last = mark; !c.nodes["n2"].Up() || !c.nodes["n3"].Up() {
				t.Error("a node answers from SQL")
			}
			if mark := c.mark(other, "n2"); hasSign(mark, signBehind) {
				t.Errorf("%s replays as well: its mark is %q", other, mark)
			}
			bubble.Sleep(time.Second)
		}
		outcomes[by] <- nil
		bubble.Sleep(2 * time.Second)
		c.nodes[by].has(t, 1)
		if mark, n := c.mark("n1", by), len(c.nodes[other].replays()); mark != "" || n != replays[other] {
			t.Errorf("the mark of n1 is %q and %s has replayed %d times, want none and 0", mark, other, n-replays[other])
		}
		close(outcomes[by])
		close(outcomes[other])
	})
}

func TestDeadNode_FailedSecondReplayIsRetriedAndRedisTrusted(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		c := newCluster(t, "n1", "n2")
		n2, at := c.nodes["n2"], time.Now()
		c.kill("n1")
		c.afterFirstReplay("n2")
		n2.mu.Lock()
		n2.hold = make(chan error)
		n2.mu.Unlock()
		c.commitLate(1, at)
		bubble.Sleep(slowCommit)
		n2.hold <- errors.New("sql is away")
		bubble.Sleep(10 * time.Millisecond) // the round ends, and no other round begins
		if mark := c.mark("n1", "n2"); !hasSign(mark, signReplayed) || !n2.Up() || hasSign(c.mark("n2", "n2"), signBehind) {
			t.Errorf("after a failure: n1 has the mark %q, n2 %q, and Redis is trusted: %v", mark, c.mark("n2", "n2"), n2.Up())
		}
		close(n2.hold)
		bubble.Sleep(slowCommit + 2*time.Second)
		n2.has(t, 1)
		if mark := c.mark("n1", "n2"); mark != "" {
			t.Errorf("the mark of n1 is %q, want none", mark)
		}
	})
}

// For the mark in Redis of a node that is cut off, other nodes replay twice and remove the mark. They do the same for
// its mark in SQL after the node dies.
func TestDeadNode_LateCommitOfANodeThatWasCutOffReachesRedis(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		c := newCluster(t, "n1", "n2")
		n2 := c.nodes["n2"]
		notes := func() map[string]string {
			t.Helper()
			all, err := n2.sql.all(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return all
		}
		before := len(n2.replays())
		c.nodes["n1"].wire.BlackHole()
		bubble.Sleep(3 * time.Minute)
		if mark, note := c.mark("n1", "n2"), notes()["n1"]; mark != "" || note == "" || len(n2.replays()) != before+2 {
			t.Fatalf("n1 is cut off: its mark in Redis is %q and in SQL %q, %d replays; want none, one and 2", mark, note, len(n2.replays())-before)
		}
		at := time.Now()
		c.nodes["n1"].stop()
		bubble.Sleep(2 * deadAfter)
		c.lacks("n2", 1)
		if note := notes()["n1"]; !hasSign(note, signReplayed) {
			t.Errorf("the mark of n1 in SQL is %q, want one with %q", note, signReplayed)
		}
		c.commitLate(1, at)
		bubble.Sleep(slowCommit + deadAfter)
		n2.has(t, 1)
		if left := notes(); len(left) != 0 || len(n2.replays()) != before+4 {
			t.Errorf("marks in SQL: %v, %d replays, want none and 4", left, len(n2.replays())-before)
		}
	})
}

// Redis loses the mark of a node that dies meanwhile.
func TestDeadNode_LateCommitReachesARedisThatWasEmptied(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		c := newCluster(t, "n1", "n2")
		at := time.Now()
		c.redis.Kill()
		c.nodes["n1"].stop()
		bubble.Sleep(2 * time.Second)
		c.redis.RestartEmpty()
		c.afterFirstReplay("n2")
		c.lacks("n2", 1)
		c.commitLate(1, at)
		bubble.Sleep(slowCommit + 2*time.Second)
		c.nodes["n2"].has(t, 1)
		if mark := c.mark("n1", "n2"); mark != "" || !c.nodes["n2"].Up() {
			t.Errorf("the mark of n1 is %q, and Redis is trusted: %v; want none and true", mark, c.nodes["n2"].Up())
		}
	})
}

// Redis loses its data but keeps its identity and its connections. The first replay afterwards fails.
func TestLostData_FailedReplayIsRepeated(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		c := newCluster(t, "n1")
		n1 := c.nodes["n1"]
		n1.commit(1, time.Now())
		hold := n1.holdReplays()
		c.redis.FlushAll()
		hold <- errors.New("sql is away")
		bubble.Sleep(10 * time.Millisecond)
		if n1.Up() {
			t.Error("the node trusts Redis after a failed replay")
		}
		close(hold)
		bubble.Sleep(2 * time.Second)
		n1.has(t, 1)
		if !n1.Up() {
			t.Error("the node does not trust Redis after a replay")
		}
	})
}

// A node that stops before its replay has succeeded leaves its mark in Redis. Another node replays from this mark.
func TestLostData_NodeThatStopsBeforeTheReplayKeepsItsMark(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		c := newCluster(t, "n1", "n2")
		n1 := c.nodes["n1"]
		hold := n1.holdReplays()
		c.redis.FlushAll()
		bubble.Sleep(2 * time.Second)
		hold <- errors.New("sql is away")
		n1.stop()
		if mark := c.mark("n1", "n2"); mark == "" || hasSign(mark, signLeft) {
			t.Errorf("n1 stopped before its replay, and has the mark %q", mark)
		}
		bubble.Sleep(2 * time.Minute)
		if mark := c.mark("n1", "n2"); mark != "" || !c.nodes["n2"].Up() {
			t.Errorf("the mark of n1 is %q, and n2 trusts Redis: %v; want none and true", mark, c.nodes["n2"].Up())
		}
	})
}

// A node reads the log for its missed rows, which takes two minutes. Then it misses another row and dies.
func TestLongRepair_MarkStaysForMissedRows(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		c := newCluster(t, "n1", "n2")
		n1 := c.nodes["n1"]
		hold := n1.holdReplays()
		n1.mu.Lock()
		n1.Projection.mu.Lock()
		n1.missed.add(time.Now().UnixMilli(), make([]int, remembered+1)...)
		n1.Projection.mu.Unlock()
		n1.mu.Unlock()
		n1.Suspect()
		bubble.Sleep(2 * time.Minute)
		if mark := c.mark("n1", "n2"); !hasSign(mark, signBehind) {
			t.Errorf("n1 applies rows for two minutes, and has the mark %q, want one with %q", mark, signBehind)
		}
		at := time.Now()
		n1.Begin(at)
		c.commitLate(1, at)
		n1.Missed(at, 1)
		n1.wire.BlackHole()
		hold <- errors.New("redis is away")
		n1.stop()
		bubble.Sleep(3 * time.Minute)
		c.nodes["n2"].has(t, 1)
	})
}

// Redis loses the mark of a dead node, together with all data.
func TestDeadNode_LateCommitReachesARedisThatLostItsMark(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		for _, wait := range []time.Duration{time.Second, deadAfter / 2} { // before and after other nodes see that it is dead
			c := newCluster(t, "n1", "n2", "n3")
			at := time.Now()
			c.kill("n1")
			bubble.Sleep(wait)
			c.redis.FlushAll()
			bubble.Sleep(deadAfter / 2)
			c.lacks("n2", 1)
			c.commitLate(1, at)
			bubble.Sleep(3 * time.Minute)
			c.nodes["n2"].has(t, 1)
			if mark := c.mark("n1", "n2"); mark != "" || !c.nodes["n2"].Up() || !c.nodes["n3"].Up() {
				t.Errorf("after %s: the mark of n1 is %q, and Redis is trusted: %v, %v; want none and true", wait, mark, c.nodes["n2"].Up(),
					c.nodes["n3"].Up())
			}
		}
	})
}

func TestDeadNode_LateCommitReachesARedisThatWasEmptiedBetweenTheReplays(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		c := newCluster(t, "n1", "n2")
		at := time.Now()
		c.kill("n1")
		c.afterFirstReplay("n2")
		c.redis.Kill()
		bubble.Sleep(2 * time.Second)
		c.redis.RestartEmpty()
		bubble.Sleep(5 * time.Second)
		c.lacks("n2", 1)
		c.commitLate(1, at)
		bubble.Sleep(2 * time.Minute)
		c.nodes["n2"].has(t, 1)
		if mark := c.mark("n1", "n2"); mark != "" || !c.nodes["n2"].Up() {
			t.Errorf("the mark of n1 is %q, and Redis is trusted: %v; want none and true", mark, c.nodes["n2"].Up())
		}
	})
}

// The second replay takes 75 seconds. Other nodes replay if a mark has not changed for 30 seconds.
func TestDeadNode_LongSecondReplayIsNotRepeated(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		c := newCluster(t, "n1", "n2", "n3", "n4")
		at, replays := time.Now(), 0
		c.kill("n1")
		c.afterFirstReplay("n2")
		for _, name := range []string{"n2", "n3", "n4"} {
			n := c.nodes[name]
			n.mu.Lock()
			n.took = 75 * time.Second
			replays -= len(n.replayed)
			n.mu.Unlock()
		}
		bubble.Sleep(slowCommit + 3*time.Minute)
		for _, name := range []string{"n2", "n3", "n4"} {
			replays += len(c.nodes[name].replays())
		}
		agreed := time.UnixMilli(c.nodes["n2"].Agreed())
		if mark := c.mark("n1", "n2"); mark != "" || replays != 1 || !agreed.After(at) {
			t.Errorf("the mark of n1 is %q, %d replays, agreed up to %s; want none, 1, and after %s", mark, replays, agreed, at)
		}
	})
}

// A clock that is ahead does not delay the replay for its node.
func TestMark_OfAFutureClockIsDeadInTime(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w, marks := watch{}, map[string]string{"n1": fmt.Sprintf("1 %d", time.Now().Add(time.Hour).UnixMilli())}
		w.deadMarks(marks, slowCommit)
		bubble.Sleep(deadAfter + time.Second)
		if stale, _ := w.deadMarks(marks, slowCommit); stale["n1"] == "" {
			t.Error("the node does not count as dead")
		}
	})
}

// A node that was considered dead is connected again: it writes its own mark again.
func TestDeadNode_ThatLivesTakesItsMarkBack(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		c := newCluster(t, "n1", "n2")
		c.nodes["n1"].wire.BlackHole()
		c.afterFirstReplay("n2")
		c.nodes["n1"].wire.Heal()
		bubble.Sleep(deadAfter)
		replays := len(c.nodes["n2"].replays())
		for range 60 {
			if mark := c.mark("n1", "n2"); mark == "" || hasSign(mark, signReplayed) {
				t.Fatalf("n1 lives; got its mark %q", mark)
			}
			bubble.Sleep(time.Second)
		}
		if n := len(c.nodes["n2"].replays()) - replays; n != 0 || !c.nodes["n1"].Up() || !c.nodes["n2"].Up() {
			t.Errorf("%d replays for a node that lives; Redis is trusted: %v, %v", n, c.nodes["n1"].Up(), c.nodes["n2"].Up())
		}
	})
}

// A starting node has the time of the first replay only from another clock, which may differ by the margin.
func TestDeadNode_SecondReplayIsNotEarlyByAnotherClock(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			ago, wait time.Duration
			due       bool
		}{
			{-margin, slowCommit - time.Second, false}, {-margin, slowCommit + time.Second, true},
			{margin, slowCommit - time.Second, false}, {margin, slowCommit + time.Second, true},
			{margin + slowCommit - time.Second, 0, false}, {margin + slowCommit + time.Second, 0, true},
		} {
			mark := fmt.Sprintf("1 %s%d", signReplayed, time.Now().UnixMilli())
			bubble.Sleep(max(0, c.ago))
			if c.ago < 0 { // the time is in the future
				mark = fmt.Sprintf("1 %s%d", signReplayed, time.Now().Add(-c.ago).UnixMilli())
			}
			w, marks := watch{}, map[string]string{"n1": mark}
			w.deadMarks(marks, slowCommit)
			bubble.Sleep(c.wait)
			if stale, due := w.deadMarks(marks, slowCommit); len(stale) != 0 || (due["n1"] == mark) != c.due {
				t.Errorf("written %s ago, %s after the first look: got %v and %v, want due %v", c.ago, c.wait, stale, due, c.due)
			}
		}
	})
}

func TestStoppedNode_NeedsOneReplay(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		c := newCluster(t, "n1")
		c.nodes["n1"].stop()
		n2 := c.start("n2")
		bubble.Sleep(5 * time.Second)
		if mark := c.mark("n1", "n2"); mark != "" {
			t.Errorf("the mark of n1 is %q, want none", mark)
		}
		bubble.Sleep(2 * time.Minute)
		if n := len(n2.replays()); n != 1 || !n2.Up() {
			t.Errorf("%d replays and up %v, want 1 and true", n, n2.Up())
		}
	})
}

func TestMark_SignsKeepBothTimes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for _, sign := range []string{signNone, signBehind, signReplayed, signLeft} {
			mark := makeMark(1795660819000, sign)
			if got := markTime(mark); got != 1795660819000 {
				t.Errorf("%q: complete up to %d", mark, got)
			}
			if now := time.Now().Truncate(time.Millisecond); !writtenAt(mark).Equal(now) {
				t.Errorf("%q: written at %s, want %s", mark, writtenAt(mark), now)
			}
			if !hasSign(mark, sign) || sign == signNone && strings.ContainsAny(mark, signBehind+signReplayed+signLeft) {
				t.Errorf("%q has no sign %q", mark, sign)
			}
		}
	})
}
