package activity

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

func testEachRedis(t *testing.T, test func(t *testing.T, s *redisStore, db *redis.DB)) {
	for _, engine := range redistest.Engines(t) {
		if engine.Name == "spawn" || engine.Name == "sentinel" {
			continue // the same commands as standalone
		}
		t.Run(engine.Name, func(t *testing.T) {
			db := engine.Open(t)
			test(t, &redisStore{db}, db)
			redistest.KeysDeclared(t, db, Keys)
		})
	}
}

func recordUsers(t *testing.T, s *redisStore, estimates bool, d civil.Day, users ...accounts.ID) {
	t.Helper()
	var batches []*batch
	for _, u := range users {
		var m member
		copy(m[:], u.String())
		if len(batches) == 0 || len(batches[len(batches)-1].users) == batchSize {
			batches = append(batches, &batch{day: d})
		}
		b := batches[len(batches)-1]
		b.users = append(b.users, m)
	}
	s.add(t.Context(), batches, estimates)
	for _, b := range batches {
		if b.err != nil {
			t.Fatal(b.err)
		}
	}
}

func newUsers(n int) []accounts.ID {
	all := make([]accounts.ID, n)
	for i := range all {
		all[i] = ids.New[accounts.User]()
	}
	return all
}

// A map has the expected users. The sets are so large that they are read in several pages.
func TestCountUnion_MatchesMap(t *testing.T) {
	testEachRedis(t, func(t *testing.T, s *redisStore, _ *redis.DB) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 1))
		users := newUsers(3 * batchSize)
		const first, last = 20_000, 20_006
		active := map[civil.Day]map[accounts.ID]bool{}
		for d := civil.Day(first); d <= last; d++ {
			active[d] = map[accounts.ID]bool{}
			if d == first+3 {
				continue // no user
			}
			var today []accounts.ID
			for _, u := range users {
				if r.IntN(3) == 0 {
					today, active[d][u] = append(today, u), true
				}
			}
			recordUsers(t, s, false, d, today...)
			recordUsers(t, s, false, d, today[:10]...)
		}
		for from := civil.Day(first); from <= last; from++ {
			for to := from; to <= last; to++ {
				all := map[accounts.ID]bool{}
				for d := from; d <= to; d++ {
					for u := range active[d] {
						all[u] = true
					}
				}
				got, err := s.countUnion(t.Context(), Span{from, to}.days())
				if want := (Count{Actives: int64(len(all)), Exact: true}); err != nil || got != want {
					t.Errorf("days %d to %d: got %+v, %v; want %+v", from-first, to-first, got, err, want)
				}
			}
		}
		counts, err := s.readCounts(t.Context(), Span{first, last}.days())
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range counts {
			if want := len(active[first+civil.Day(i)]); c != (redisCounts{set: int64(want)}) {
				t.Errorf("day %d: got %+v, want %d in the set", i, c, want)
			}
		}
		absent, err := s.filterMissing(t.Context(), first, idsOf(users[:50]))
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range absent {
			if id, _ := ids.Parse[accounts.User](u); active[first][id] {
				t.Errorf("%s is reported as missing", u)
			}
		}
		present := 0
		for _, u := range users[:50] {
			if active[first][u] {
				present++
			}
		}
		if len(absent) != 50-present {
			t.Errorf("%d are missing, want %d", len(absent), 50-present)
		}
	})
}

func idsOf(users []accounts.ID) (all []string) {
	for _, u := range users {
		all = append(all, u.String())
	}
	return all
}

// The embedded server returns the sum of the estimates of several keys, so that app.Config refuses estimates with it.
func TestCountUnion_UnitesEstimates(t *testing.T) {
	testEachRedis(t, func(t *testing.T, s *redisStore, db *redis.DB) {
		if db.Mode() == "embedded" {
			return
		}
		users := newUsers(3000)
		recordUsers(t, s, true, 20_000, users[:2000]...)
		recordUsers(t, s, true, 20_001, users[1000:]...)
		checkNear := func(name string, got Count, want int64) {
			t.Helper()
			if got.Exact || got.Partial || got.showsLoss(Count{Actives: want}) || (Count{Actives: want}).showsLoss(got) {
				t.Errorf("%s: got %+v, want about %d", name, got, want)
			}
		}
		counts, err := s.readCounts(t.Context(), []civil.Day{20_000, 20_001})
		if err != nil {
			t.Fatal(err)
		}
		checkNear("a day", counts[0].count(), 2000)
		both, err := s.countUnion(t.Context(), []civil.Day{20_000, 20_001})
		if err != nil {
			t.Fatal(err)
		}
		checkNear("two days", both, 3000)
		recordUsers(t, s, false, 20_001, users[:10]...) // the setting has changed
		mixed, err := s.countUnion(t.Context(), []civil.Day{20_000, 20_001})
		if err != nil || !mixed.Partial || mixed.Exact || mixed.Actives != both.Actives {
			t.Errorf("both kinds: got %+v, %v; want the larger number, as a partial one", mixed, err)
		}
	})
}

func TestRedisErase_KeepsCountsAndRemovesUser(t *testing.T) {
	testEachRedis(t, func(t *testing.T, s *redisStore, db *redis.DB) {
		users := newUsers(3)
		days := Span{20_000, 20_003}.days()
		recordUsers(t, s, false, 20_000, users[0])
		recordUsers(t, s, false, 20_001, users...)
		recordUsers(t, s, false, 20_002, users[1], users[2])
		for range 2 {
			if err := s.erase(t.Context(), users[0], days); err != nil {
				t.Fatal(err)
			}
			counts, err := s.readCounts(t.Context(), days)
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(counts); got != "[{1 0} {3 0} {2 0} {0 0}]" {
				t.Errorf("the days have %s", got)
			}
			if got, err := s.countUnion(t.Context(), days); err != nil || got.Actives != 3 {
				t.Errorf("the range has %+v, %v; want 3", got, err)
			}
			for _, d := range days {
				if absent, err := s.filterMissing(t.Context(), d, idsOf(users[:1])); err != nil || len(absent) != 1 {
					t.Errorf("the user is in the set of day %d (%v)", d-20_000, err)
				}
			}
		}
	})
}
