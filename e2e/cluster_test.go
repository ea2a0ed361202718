package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/redis/redistest"
)

// An owner of a cluster of three is killed, with a board and a third of the
// users on it.
func TestAClusterLosesAnOwner(t *testing.T) {
	for _, tt := range []struct {
		what     string
		replicas int
		settings []string
		comeBack bool // the owner is started again, empty
	}{
		{"without replicas the cluster stands still until it is back", 0, nil, true},
		{"without full coverage the other owners go on", 0, []string{"cluster-require-full-coverage no"}, true},
		{"a replica takes over", 1, nil, false},
	} {
		t.Run(tt.what, func(t *testing.T) {
			t.Parallel()
			cluster := redistest.Cluster(t, 3, tt.replicas, tt.settings...)
			w := twoNodes(t, perRound+400, cluster.URL)
			owned := map[*redistest.Instance]int{}
			for _, p := range w.persons[:100] {
				owned[cluster.Owner(fmt.Sprintf("stoa:user:sign:{%s}:%d", p.id, time.Now().Year()))]++
			}
			if len(owned) != 3 {
				t.Fatalf("users lie on %d owners, want 3", len(owned))
			}
			w.crowd()
			w.round(func() {
				victim := cluster.Owner("stoa:leaderboard:{streak}")
				victim.Kill()
				time.Sleep(2 * time.Second)
				if tt.comeBack {
					victim.Restart() // it knows its place in the cluster, and no data
				}
			})
			w.settleAll()
		})
	}
}
