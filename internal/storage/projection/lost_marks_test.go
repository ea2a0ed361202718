package projection

import (
	"errors"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// nextRound waits until a node has moved its mark.
func (c *cluster) nextRound(of, by string) {
	for mark := c.mark(of, by); c.mark(of, by) == mark; {
		bubble.Sleep(10 * time.Millisecond)
	}
}

// The last node dies, and Redis loses its mark before another node starts.
func TestEmptyRedis_LateCommitOfAnUnknownNodeReachesRedis(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		c := newCluster(t, "n1")
		at := time.Now()
		c.kill("n1")
		c.redis.FlushAll()
		bubble.Sleep(2 * time.Second)
		n2 := c.start("n2")
		bubble.Sleep(2 * time.Second)
		if agreed := time.UnixMilli(n2.Agreed()); !n2.Up() || agreed.After(at) {
			t.Errorf("n2 is up: %v, and takes commits before %s for settled; a commit of %s may come late", n2.Up(), agreed, at)
		}
		c.lacks("n2", 1)
		c.commitLate(1, at)
		bubble.Sleep(3 * time.Minute)
		n2.has(t, 1)
		if agreed := time.UnixMilli(n2.Agreed()); !n2.Up() || !agreed.After(at) {
			t.Errorf("n2 is up: %v, and takes commits before %s for settled", n2.Up(), agreed)
		}
	})
}

// n2 is in a long repair when n3 starts and dies, and is the first one to restore marks after a loss of data.
func TestLostData_EachNodeRestoresTheMarksThatItKnows(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		c := newCluster(t, "n1", "n2")
		n2 := c.nodes["n2"]
		hold := n2.holdReplays()
		n2.Projection.mu.Lock()
		n2.missed.add(time.Now().UnixMilli(), make([]int, remembered+1)...)
		n2.Projection.mu.Unlock()
		n2.Suspect()
		bubble.Sleep(2 * time.Second)
		c.start("n3")
		bubble.Sleep(3 * time.Second)
		at := time.Now()
		c.nextRound("n1", "n1")
		c.kill("n3") // takes longer than a second
		c.nextRound("n1", "n1")
		c.redis.FlushAll()
		hold <- errors.New("redis was emptied")
		n2.Suspect()
		close(hold)
		bubble.Sleep(2 * time.Second)
		c.lacks("n1", 1)
		c.commitLate(1, at)
		bubble.Sleep(3 * time.Minute)
		c.nodes["n1"].has(t, 1)
	})
}

// n2 starts without a connection to Redis. No node has seen a mark of it when it dies.
func TestStart_RowsOfANodeThatNeverReachedRedisReachRedis(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		c := newCluster(t, "n1")
		wire := c.redis.Wire()
		n2 := &node{domain: newDomainOn(t, redistest.OpenConfig(t, wire.Config()), c.sql, "n2"), wire: wire}
		n2.repeatAfter, n2.cfg.Every = slowCommit, time.Second
		c.nodes["n2"] = n2
		wire.BlackHole()
		n2.stop = n2.run(t)
		at := time.Now()
		n2.Begin(at)
		c.commitLate(1, at)
		n2.Missed(at, 1)
		c.lacks("n1", 1)
		bubble.Sleep(100 * time.Millisecond)
		n2.stop()
		bubble.Sleep(3 * time.Minute)
		c.nodes["n1"].has(t, 1)
	})
}

// n1 is cut off, continues to commit, and dies. The replay for its mark in SQL fails.
func TestDeadNode_RedisIsNotTrustedUntilTheReplayForAMarkInSQLSucceeds(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		c := newCluster(t, "n1", "n2")
		n1, n2 := c.nodes["n1"], c.nodes["n2"]
		n1.wire.BlackHole()
		bubble.Sleep(3 * time.Minute)
		at := time.Now()
		n1.Begin(at)
		c.commitLate(1, at)
		n1.Missed(at, 1)
		bubble.Sleep(3 * time.Second)
		n1.stop()
		hold := n2.holdReplays()
		bubble.Sleep(2 * deadAfter)
		c.lacks("n2", 1)
		for range 30 {
			select {
			case hold <- errors.New("sql is away"):
			default:
			}
			bubble.Sleep(100 * time.Millisecond)
			if c.lacks("n2", 1); n2.Up() {
				t.Fatal("n2 trusts Redis, which lacks a row of n1, and the replay for n1 has failed")
			}
		}
		close(hold)
		bubble.Sleep(2 * time.Minute)
		n2.has(t, 1)
	})
}

// n2 cannot read the marks in SQL, and n1 is cut off from Redis and continues to commit.
func TestAgreed_StandsWhileTheMarksInSQLCannotBeRead(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		c := newCluster(t, "n1", "n3")
		own := sqldbtest.SQLite(t)
		n2 := &node{domain: newDomainOn(t, c.redis.Open(t), own, "n2")}
		n2.repeatAfter, n2.cfg.Every = slowCommit, time.Second
		n2.run(t)
		bubble.Sleep(10 * time.Second)
		if _, err := own.Writer().ExecContext(t.Context(), "ALTER TABLE projection_marks RENAME TO unreadable"); err != nil {
			t.Fatal(err)
		}
		at := time.Now()
		c.nodes["n1"].wire.BlackHole()
		bubble.Sleep(2 * time.Minute) // n3 replays twice, and removes the mark of n1 from Redis
		if agreed := time.UnixMilli(n2.Agreed()); agreed.After(at) {
			t.Errorf("n2 takes commits before %s for settled, and Redis has no commit of n1 since %s", agreed, at)
		}
	})
}

// n1 was cut off from Redis, and wrote its mark to SQL. Then its replay takes long, and its mark in Redis moves.
func TestCutOff_NoReplayForALiveNodeThatReplays(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		c := newCluster(t, "n1", "n2")
		n1, n2 := c.nodes["n1"], c.nodes["n2"]
		before := len(n2.replays())
		n1.wire.BlackHole()
		bubble.Sleep(deadAfter / 2)
		n1.mu.Lock()
		n1.took = time.Minute
		n1.mu.Unlock()
		n1.wire.Refuse() // the next connection finds a mark that n1 did not write
		if err := n2.db.Do(t.Context(), applied.At().SetCmd("n1", makeMark(time.Now().Add(-deadAfter).UnixMilli(), signNone))).Err; err != nil {
			t.Fatal(err)
		}
		n1.wire.Heal()
		for range 50 {
			bubble.Sleep(time.Second)
			if !n2.Up() {
				t.Fatal("n2 does not trust Redis")
			}
		}
		if n := len(n2.replays()) - before; n != 0 || !hasSign(c.mark("n1", "n2"), signBehind) {
			t.Errorf("n2 has replayed %d times for a node that lives, whose mark is %q", n, c.mark("n1", "n2"))
		}
	})
}

// Another node considers n1 dead by its mark in SQL. Then n1 reaches Redis again, and is the only node.
func TestCutOff_NodeRemovesItsMarkInSQLThatAnotherNodeHasChanged(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		c := newCluster(t, "n1")
		n1 := c.nodes["n1"]
		n1.wire.BlackHole()
		bubble.Sleep(deadAfter / 2)
		notes, err := n1.sql.all(t.Context())
		if err != nil || notes["n1"] == "" {
			t.Fatalf("marks in SQL: %v, %v", notes, err)
		}
		if changed, err := n1.sql.swap(t.Context(), "n1", notes["n1"], makeMark(markTime(notes["n1"]), signReplayed)); !changed || err != nil {
			t.Fatalf("changed: %v, %v", changed, err)
		}
		n1.wire.Heal()
		bubble.Sleep(2 * time.Minute)
		if notes, err = n1.sql.all(t.Context()); err != nil || len(notes) != 0 {
			t.Errorf("marks in SQL: %v, %v, want none", notes, err)
		}
	})
}

// failReplays makes each replay of the node fail until the returned function is called.
func (n *node) failReplays() (end func()) {
	hold, ended := n.holdReplays(), make(chan struct{})
	go func() {
		for {
			select {
			case hold <- errors.New("sql is away"):
			case <-ended:
				close(hold)
				return
			}
		}
	}()
	return func() { close(ended) }
}

func TestFailedReplay_RedisStaysWritable(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		c := newCluster(t, "n1")
		n1 := c.nodes["n1"]
		end := n1.failReplays()
		c.redis.FlushAll()
		bubble.Sleep(2 * time.Second)
		for range 20 {
			bubble.Sleep(100 * time.Millisecond)
			if !n1.Writable() {
				t.Error("Redis responds, and is not writable")
			}
		}
		end()
		bubble.Sleep(2 * time.Second)
	})
}

// n1 is behind when n2 starts.
func TestStart_NodeThatIsBehindIsAwaited(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		c := newCluster(t, "n1")
		n1 := c.nodes["n1"]
		end := n1.failReplays()
		c.redis.FlushAll()
		bubble.Sleep(2 * time.Second)
		n2 := c.start("n2")
		for range 20 {
			bubble.Sleep(100 * time.Millisecond)
			if n2.Up() {
				t.Error("n2 trusts Redis, and n1 is behind")
			}
		}
		end()
		bubble.Sleep(3 * time.Second)
		if !n1.Up() || !n2.Up() {
			t.Errorf("Redis is trusted: %v, %v, want true", n1.Up(), n2.Up())
		}
	})
}

// n1 has an open commit, is cut off, and returns. It writes its mark to Redis before it removes the one in SQL, and n2 reads
// both at different times.
func TestAgreed_IncludesANodeThatReturns(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newCluster(t, "n1", "n2")
		n1, n2 := c.nodes["n1"], c.nodes["n2"]
		at := time.Now()
		n1.Begin(at)
		bubble.Sleep(3 * time.Second)
		n2.wire.Delay(200 * time.Millisecond)
		for i := range 40 {
			n1.wire.Refuse()
			bubble.Sleep(time.Minute + time.Duration(i*70)*time.Millisecond)
			n1.wire.Heal()
			for range 300 {
				bubble.Sleep(10 * time.Millisecond)
				if agreed := time.UnixMilli(n2.Agreed()); agreed.After(at) {
					t.Fatalf("cut %d: commits before %s are settled, and one of %s is open", i, agreed, at)
				}
			}
		}
		n1.Done(at)
	})
}

// Both nodes detect a loss of data. n2 writes its own mark between a read of the marks by n1 and the write of lost marks
// by n1, and replays.
func TestLostData_NodeThatReplaysIsAwaited(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		c := newCluster(t, "n1", "n2")
		n1, n2 := c.nodes["n1"], c.nodes["n2"]
		n1.wire.Delay(100 * time.Millisecond)
		n2.wire.Delay(100 * time.Millisecond)
		for i := range 10 { // the rounds of the nodes are at different times
			hold := n2.holdReplays()
			bubble.Sleep(100 * time.Millisecond)
			c.redis.FlushAll()
			bubble.Sleep(5 * time.Second)
			if mark := c.mark("n2", "n2"); n1.Up() || !hasSign(mark, signBehind) {
				t.Errorf("loss %d: the mark of n2 is %q, and n1 trusts Redis: %v; want one with %q, and false", i, mark, n1.Up(), signBehind)
			}
			n2.mu.Lock()
			n2.hold = nil
			n2.mu.Unlock()
			close(hold)
			bubble.Sleep(5 * time.Second)
			if !n1.Up() || !n2.Up() {
				t.Errorf("loss %d: the nodes trust Redis: %v, %v", i, n1.Up(), n2.Up())
			}
		}
	})
}
