package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// An owner in a cluster of three is killed, with a board and a third of the users, and restarts empty. Until then the
// cluster stops. If it does not require all slots, the other owners continue.
func TestAClusterWithoutReplicasLosesAnOwner(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, 3, 0, "cluster-node-timeout 1000")
	w := clusterWorld(t, cluster, *soakFlag*2, 0)
	w.crowd()
	for range *soakFlag {
		for _, all := range []string{"yes", "no"} {
			for _, i := range cluster.Masters {
				if _, err := i.Do("CONFIG", "SET", "cluster-require-full-coverage", all); err != nil {
					t.Fatal(err)
				}
			}
			w.round("an owner dies; are all slots required: "+all, func() {
				victim := cluster.Owner("stoa:leaderboard:{streak}")
				victim.Kill()
				waitMissed(t, cluster, victim)
				victim.Restart() // it has its role in the cluster, but no data
			})
		}
	}
	w.settleAll()
}

// A replica takes the place of the owner. Meanwhile users write to each other.
func TestAClusterWithReplicasLosesAnOwner(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, 3, 1)
	w := clusterWorld(t, cluster, 1, 2*couples+trio, "--chats-messages-from", "everybody")
	w.crowd()
	chats := newTalk(w)
	w.add(chats)
	w.round("an owner dies for good", func() {
		victim := cluster.Owner("stoa:leaderboard:{streak}")
		victim.Kill()
		waitMissed(t, cluster, victim)
	})
	w.stop()
	w.settleAll()
	chats.sameAsFresh(func() {
		flushed := 0
		for _, i := range slices.Concat(cluster.Masters, cluster.Replicas) {
			if _, err := i.Do("FLUSHALL"); err == nil { // a replica refuses, and the old owner is dead
				flushed++
			}
		}
		if flushed != len(cluster.Masters) {
			t.Errorf("%d owners were emptied, want %d", flushed, len(cluster.Masters))
		}
	})
}

// clusterWorld is a world of two nodes. Its users are enough for some rounds and for domains, and are spread over all
// owners.
func clusterWorld(t *testing.T, cluster *redistest.ClusterSet, rounds, reserve int, args ...string) *world {
	t.Helper()
	w := twoNodes(t, rounds*perRound*2+reserve, cluster.URL, args...)
	w.reserve = reserve
	onAllOwners(t, cluster, w.persons, func(id string) string { return fmt.Sprintf("stoa:user:sign:{%s}:%d", id, time.Now().Year()) })
	return w
}

func onAllOwners(t *testing.T, cluster *redistest.ClusterSet, persons []*person, key func(id string) string) {
	t.Helper()
	owned := map[*redistest.Instance]int{}
	for _, p := range persons[:100] {
		owned[cluster.Owner(key(p.id))]++
	}
	if len(owned) != 3 {
		t.Fatalf("users lie on %d owners, want 3", len(owned))
	}
}

// waitMissed waits until the other owners consider an owner dead.
func waitMissed(t *testing.T, cluster *redistest.ClusterSet, victim *redistest.Instance) {
	t.Helper()
	for _, i := range cluster.Masters {
		if i == victim {
			continue
		}
		eventually.True(t, "the others to take the owner for dead", func() bool {
			nodes, err := i.Do("CLUSTER", "NODES")
			return err == nil && strings.Contains(nodes[0], "master,fail ")
		})
	}
}
