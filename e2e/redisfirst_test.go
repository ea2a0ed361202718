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

// In redis-first mode a check-in is answered when Redis has it. These stories hold
// it to what docs/decisions/0009-redis-first.md promises: the same as the others
// do, save for what [redisFirst] excuses.

// kept are the settings of a Redis that has written what it answers.
var kept = []string{"appendonly yes", "appendfsync always"}

// redisFirst is what a story in redis-first mode excuses. Nil excuses nothing.
type redisFirst struct {
	// replicaTakesOver: what was answered after the moment safe may be lost.
	replicaTakesOver bool
	safe             time.Time

	// behind is true from a failure until everything is settled: a node that does
	// not know Redis to be complete answers from SQL, without what it lacks.
	behind atomic.Bool
	died   time.Time // when the owner did
	lost   int
	oldest time.Duration // before the failure, of what was lost
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

// tellsTwice reports whether somebody may be told twice that a check-in is the
// first: by a node that knows the claim and by one that asks SQL. It counts once.
func (f *redisFirst) tellsTwice() bool { return f != nil }

// mayLose reports whether the check-in that p, who is locked, was told of may be
// in no place any more, and has p not expect it further.
func (f *redisFirst) mayLose(p *person) bool {
	if f == nil || !f.replicaTakesOver || p.at.Before(f.safe) {
		return false
	}
	f.lost++
	f.oldest = max(f.oldest, f.died.Sub(p.at))
	p.at, p.told, p.news = time.Time{}, nil, 0
	return true
}

// firstWorld is a world of two nodes in redis-first mode.
func firstWorld(t *testing.T, people int, redis string, excuses *redisFirst, args ...string) (w *world, sql string) {
	t.Helper()
	sql = sqldbtest.Server(t).URL
	// The first comparison would hold up the snapshots of the story.
	args = append([]string{"--redis", redis, "--checkin-mode", "redis", "--checkin-reconcile-every", "0"}, args...)
	w = newWorld(t, sqldb.Config{URL: sql}, people, args, args)
	w.first = excuses
	return w, sql
}

// snapshot has the claims written to SQL that it lacks: what a dead worker held,
// which others take over after a minute only, and what the stream has lost.
func snapshot(t *testing.T, sql string) {
	t.Helper()
	// On a busy machine a server may not take it within the ten seconds that the command waits.
	eventually.True(t, "a snapshot", func() bool {
		out, err := exec.Command(stoaBinary(t), "checkin", "snapshot", "--sql", sql).CombinedOutput()
		exit, failed := errors.AsType[*exec.ExitError](err)
		if err != nil && (!failed || exit.ExitCode() != 3) {
			t.Fatalf("stoa checkin snapshot: %v\n%s", err, out)
		}
		return err == nil
	})
}

// copied waits until a replica has everything that was answered before the moment
// that it returns.
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
	return now.Truncate(time.Millisecond) // as answers are
}

// Nodes die with check-ins that Redis has and SQL has not. All that were answered
// are there, at once for whoever reads and in SQL after a snapshot at the latest.
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

// The master dies, and its replica has every check-in that was answered, since
// that was waited for.
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

// The owner of the stream is killed, with a third of the users on it. Where it
// comes back with its file, nothing that was answered is missing. Where a replica
// takes over, nothing is but what it had not received: on a cluster nobody waits
// for replicas.
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
					snapshot(t, sql) // a message may be lost whose claim is not
				}
			})
			w.settleAll()
			t.Logf("%d check-ins were lost, the oldest answered %s before the owner died", excuses.lost, excuses.oldest.Round(time.Millisecond))
		})
	}
}
