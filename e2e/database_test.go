package e2e

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/redis/redistest"
)

// MariaDB is killed under load and comes back: callers get a clear refusal
// meanwhile, reads go on from Redis, and nothing that was acknowledged is lost.
func TestTheDatabaseIsKilled(t *testing.T) {
	maria := sqldbtest.OwnMariaDB(t, sqldbtest.Options{Durable: true, TCP: true})
	server := redistest.Server(t)
	db := sqldbtest.Open(t, sqldb.Config{URL: maria.URL})
	persons := enrol(t, db, 3000)
	n := newNode(t, nil, "--sql", maria.URL, "--redis", server.URL, "--limits=false", "--dev=true")
	hc := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: callers}}
	defer hc.CloseIdleConnections()
	j := &journal{acked: map[string]api.CheckinReply{}, tried: map[string]bool{}}
	for _, p := range persons[:50] {
		if err := j.tap(t.Context(), hc, []*node{n}, p); err != nil {
			t.Fatal(err)
		}
	}
	j.patient.Store(true)
	var next atomic.Int64
	next.Store(50)
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(persons) {
					return
				}
				if err := j.tap(t.Context(), hc, []*node{n}, persons[i]); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 2 {
		for before := next.Load(); next.Load() < min(before+500, int64(len(persons))); {
			time.Sleep(time.Millisecond)
		}
		maria.Kill9(t)
		for _, p := range persons[:50] {
			var got api.CheckinStatus
			if err := get(t.Context(), hc, n.URL()+"/v1/checkin", p.token, &got); err != nil || got.Streak != 1 {
				t.Errorf("while SQL is away: %+v, %v", got, err)
			}
		}
		maria.Restart(t)
	}
	wg.Wait()
	if j.refused == 0 {
		t.Error("nobody was refused: the kills hit nothing")
	}
	verify(t, db, server, []*node{n}, hc, persons, j)
}
