package e2e

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/redis/redistest"
)

// A cluster of three owners with users on each; one owner is killed. Nobody is
// refused, and once the cluster is whole again everything is there.
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
			cluster := redistest.Cluster(t, 3, tt.replicas, tt.settings...)
			maria := sqldbtest.MariaDB(t)
			db := sqldbtest.Open(t, sqldb.Config{URL: maria.URL})
			persons := enrol(t, db, 90) // all fit on a board's page of 100
			owned := map[*redistest.Instance]int{}
			for _, p := range persons {
				owned[cluster.Owner(fmt.Sprintf("stoa:user:sign:{%s}:%d", p.id, time.Now().Year()))]++
			}
			if len(owned) != 3 {
				t.Fatalf("users lie on %d owners, want 3", len(owned))
			}
			n := newNode(t, nil, "--sql", maria.URL, "--redis", cluster.URL, "--limits=false", "--dev=true")
			hc := &http.Client{Timeout: 10 * time.Second}
			defer hc.CloseIdleConnections()
			waitReady(t, hc, n)
			j := &journal{acked: map[string]api.CheckinReply{}, tried: map[string]bool{}}
			tap := func(some []person) {
				t.Helper()
				for _, p := range some {
					if err := j.tap(t.Context(), hc, []*node{n}, p); err != nil {
						t.Error(err)
					}
				}
			}
			read := func(some []person) {
				t.Helper()
				for _, p := range some {
					var got api.CheckinStatus
					if err := get(t.Context(), hc, n.URL()+"/v1/checkin", p.token, &got); err != nil || !got.Today || got.Streak != 1 {
						t.Errorf("%s: %+v, %v", p.id, got, err)
					}
				}
			}
			tap(persons[:30])
			read(persons[:30])
			victim := cluster.Owner("stoa:leaderboard:{streak}")
			victim.Kill()
			tap(persons[30:60]) // whoever owns them
			read(persons[:60])
			if tt.comeBack {
				victim.Restart() // it knows its place in the cluster, and no data
			}
			waitReady(t, hc, n)
			tap(persons[60:])
			read(persons)
			for _, board := range []string{"streak", "total_days"} {
				var got api.Board
				if err := get(t.Context(), hc, n.URL()+"/v1/checkin/boards/"+board+"?limit=100", persons[89].token, &got); err != nil {
					t.Fatal(err)
				}
				if len(got.Entries) != len(persons) || got.Me == nil {
					t.Errorf("board %s has %d entries and me %v, want all %d", board, len(got.Entries), got.Me, len(persons))
				}
				for i, e := range got.Entries {
					if e.Rank != i+1 || e.Value != 1 {
						t.Errorf("board %s: %+v at place %d", board, e, i+1)
					}
				}
			}
		})
	}
}
