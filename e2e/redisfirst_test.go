package e2e

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// In redis-first mode a check-in is acknowledged when Redis has it. These stories test the promises of
// docs/decisions/0009-redis-first.md. They equal the other stories, except for what [redisFirst] excuses.

// kept are the settings of a Redis that stores each write before it responds.
var kept = []string{"appendonly yes", "appendfsync always"}

// redisFirst has the deviations that a story in redis-first mode excuses. Nil excuses nothing.
type redisFirst struct {
	// replicaTakesOver means that check-ins acknowledged after the time safe may be lost.
	replicaTakesOver bool
	safe             time.Time

	// behind is true from a failure until everything is settled. A node that does not know whether Redis is complete
	// reads from SQL, without the rows that SQL lacks.
	behind atomic.Bool
	died   time.Time // time of the owner's death
	lost   int
	oldest time.Duration // how long before the failure the oldest lost check-in was acknowledged
}

func (f *redisFirst) begins() {
	if f != nil {
		f.behind.Store(true)
	}
}

func (f *redisFirst) ends() {
	if f != nil {
		f.behind.Store(false)
	}
}

func (f *redisFirst) isBehind() bool { return f != nil && f.behind.Load() }

// tellsTwice reports whether two responses may report a check-in as the first: one by a node that has the claim, and
// one by a node that reads SQL. The check-in counts once.
func (f *redisFirst) tellsTwice() bool { return f != nil }

// mayLose reports whether the acknowledged check-in of p may be lost. If so, it removes the check-in from the
// expectations for p. The caller has locked p.
func (f *redisFirst) mayLose(p *person) bool {
	if f == nil || !f.replicaTakesOver || p.at.Before(f.safe) {
		return false
	}
	f.lost++
	f.oldest = max(f.oldest, f.died.Sub(p.at))
	p.at, p.told, p.news = time.Time{}, nil, 0
	return true
}

// firstWorld returns a world of two nodes in redis-first mode.
func firstWorld(t *testing.T, people int, redis string, excuses *redisFirst, args ...string) (w *world, sql string) {
	t.Helper()
	sql = sqldbtest.Server(t).URL
	// The first reconciliation would delay the snapshots of the story.
	args = append([]string{"--redis", redis, "--checkin-mode", "redis", "--checkin-reconcile-every", "0"}, args...)
	w = newWorld(t, sqldb.Config{URL: sql}, people, args, args)
	w.first = excuses
	return w, sql
}

// snapshot writes the claims to SQL that SQL lacks: those of a dead worker, which other workers take over only after a
// minute, and those that the stream has lost.
func snapshot(t *testing.T, sql string) {
	t.Helper()
	// On a busy machine, a server may not start it within the ten seconds that the command waits.
	eventually.True(t, "a snapshot", func() bool {
		out, err := exec.Command(stoaBinary(t), "checkin", "snapshot", "--sql", sql).CombinedOutput()
		exit, failed := errors.AsType[*exec.ExitError](err)
		if err != nil && (!failed || exit.ExitCode() != 3) {
			t.Fatalf("stoa checkin snapshot: %v\n%s", err, out)
		}
		return err == nil
	})
}

// copied waits until a replica has everything that was acknowledged before the returned time.
func (w *world) copied(master, replica *redistest.Instance) time.Time {
	w.t.Helper()
	offset := func(i *redistest.Instance, field string) (n int64) {
		reply, err := i.Do("INFO", "replication")
		if err != nil {
			w.t.Fatal(err)
		}
		_, rest, _ := strings.Cut(reply[0], "\n"+field+":")
		_, _ = fmt.Sscan(rest, &n)
		return n
	}
	w.calm.Lock()
	now, written := time.Now(), offset(master, "master_repl_offset")
	w.calm.Unlock()
	eventually.True(w.t, "the replica to have what was answered", func() bool { return offset(replica, "slave_repl_offset") >= written })
	return now.Truncate(time.Millisecond) // acknowledgements have the same precision
}

// Nodes die when Redis has check-ins that SQL does not have. Readers see all acknowledged check-ins at once, and SQL
// has them after a snapshot at the latest.
func TestRedisFirstNodesAreKilled(t *testing.T) {
	t.Parallel()
	w, sql := firstWorld(t, *soakFlag*400, redistest.Server(t, kept...).URL, &redisFirst{})
	w.nodesDie.Store(true)
	w.crowd()
	for range *soakFlag {
		w.round("a node is killed", func() {
			victim := w.nodes[w.rng.IntN(2)]
			victim.Kill()
			w.moment(200 * time.Millisecond)
			victim.Start()
			snapshot(t, sql)
		})
	}
	w.settleAll()
}

// The master dies. Its replica has every acknowledged check-in, because the story waited for that.
func TestRedisFirstSentinelsPromoteAReplica(t *testing.T) {
	t.Parallel()
	set := redistest.Sentinel(t, kept...)
	w, _ := firstWorld(t, *soakFlag*600, set.URL, &redisFirst{}, "--checkin-replicas", "1")
	w.crowd()
	for k := range *soakFlag {
		if k > 0 {
			set.Whole(t)
		}
		w.round("the master dies", func() { set.Failover(t).Restart() })
	}
	w.settleAll()
}

// The owner of the stream is killed, with a third of the users. If it restarts with its file, no acknowledged check-in
// is missing. If a replica takes over, only the writes that it had not received are missing: on a cluster, writes do
// not wait for replicas.
func TestRedisFirstAClusterLosesTheOwnerOfTheStream(t *testing.T) {
	for _, tt := range []struct {
		what     string
		replicas int
		settings []string
		comeBack bool
	}{
		{"it comes back with its file", 0, []string{"cluster-require-full-coverage no", "cluster-node-timeout 1000"}, true},
		{"a replica takes over", 1, nil, false},
	} {
		t.Run(tt.what, func(t *testing.T) {
			t.Parallel()
			cluster := redistest.Cluster(t, 3, tt.replicas, append(tt.settings, kept...)...)
			excuses := &redisFirst{replicaTakesOver: !tt.comeBack}
			w, sql := firstWorld(t, 800, cluster.URL, excuses)
			onAllOwners(t, cluster, w.persons, func(id string) string { return "stoa:user:signed:{" + id + "}:1" })
			w.crowd()
			w.round("the owner of the stream dies", func() {
				victim := cluster.Owner("stoa:queue:{checkin.persist}:stream")
				if !tt.comeBack {
					excuses.safe = w.copied(victim, cluster.Replicas[slices.Index(cluster.Masters, victim)])
				}
				victim.Kill()
				excuses.died = time.Now()
				waitMissed(t, cluster, victim)
				if tt.comeBack {
					victim.Restart()
				} else {
					snapshot(t, sql) // a message may be lost although its claim is not
				}
			})
			w.settleAll()
			t.Logf("%d check-ins were lost, the oldest answered %s before the owner died", excuses.lost, excuses.oldest.Round(time.Millisecond))
		})
	}
}
