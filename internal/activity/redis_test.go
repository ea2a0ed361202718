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

func eachRedis(t *testing.T, test func(t *testing.T, s *redisStore, db *redis.DB)) {
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

func note(t *testing.T, s *redisStore, estimates bool, d civil.Day, users ...accounts.ID) {
	t.Helper()
	var batches []*batch
	for _, u := range users {
		var m member
		copy(m[:], u.String())
		if len(batches) == 0 || len(batches[len(batches)-1].users) == atOnce {
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

func people(n int) []accounts.ID {
	all := make([]accounts.ID, n)
	for i := range all {
		all[i] = ids.New[accounts.User]()
	}
	return all
}

// The twin is a map. Sets are larger than one piece of Redis, so that they are read in pages.
func TestTheUnionOfDaysIsWhatAMapSays(t *testing.T) {
	eachRedis(t, func(t *testing.T, s *redisStore, _ *redis.DB) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 1))
		users := people(3 * atOnce)
		const first, last = 20_000, 20_006
		on := map[civil.Day]map[accounts.ID]bool{}
		for d := civil.Day(first); d <= last; d++ {
			on[d] = map[accounts.ID]bool{}
			if d == first+3 {
				continue // no user
			}
			var some []accounts.ID
			for _, u := range users {
				if r.IntN(3) == 0 {
					some, on[d][u] = append(some, u), true
				}
			}
			note(t, s, false, d, some...)
			note(t, s, false, d, some[:10]...)
		}
		for from := civil.Day(first); from <= last; from++ {
			for to := from; to <= last; to++ {
				all := map[accounts.ID]bool{}
				for d := from; d <= to; d++ {
					for u := range on[d] {
						all[u] = true
					}
				}
				got, err := s.union(t.Context(), Span{from, to}.days())
				if want := (Count{Actives: int64(len(all)), Exact: true}); err != nil || got != want {
					t.Errorf("days %d to %d: got %+v, %v; want %+v", from-first, to-first, got, err, want)
				}
			}
		}
		looked, err := s.look(t.Context(), Span{first, last}.days())
		if err != nil {
			t.Fatal(err)
		}
		for i, f := range looked {
			if want := len(on[first+civil.Day(i)]); f != (found{set: int64(want)}) {
				t.Errorf("day %d: got %+v, want %d in the set", i, f, want)
			}
		}
		absent, err := s.missing(t.Context(), first, names(users[:50]))
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range absent {
			if id, _ := ids.Parse[accounts.User](u); on[first][id] {
				t.Errorf("%s is said to be missing", u)
			}
		}
		there := 0
		for _, u := range users[:50] {
			if on[first][u] {
				there++
			}
		}
		if len(absent) != 50-there {
			t.Errorf("%d are missing, want %d", len(absent), 50-there)
		}
	})
}

func names(users []accounts.ID) (all []string) {
	for _, u := range users {
		all = append(all, u.String())
	}
	return all
}

// The embedded server adds up the estimates of several keys, so the settings refuse it: see app.Config.
func TestEstimatesOfDaysAreUnited(t *testing.T) {
	eachRedis(t, func(t *testing.T, s *redisStore, db *redis.DB) {
		if db.Mode() == "embedded" {
			return
		}
		users := people(3000)
		note(t, s, true, 20_000, users[:2000]...)
		note(t, s, true, 20_001, users[1000:]...)
		near := func(what string, got Count, want int64) {
			t.Helper()
			if got.Exact || got.Partial || got.falls(Count{Actives: want}) || (Count{Actives: want}).falls(got) {
				t.Errorf("%s: got %+v, want about %d", what, got, want)
			}
		}
		looked, err := s.look(t.Context(), []civil.Day{20_000, 20_001})
		if err != nil {
			t.Fatal(err)
		}
		near("a day", looked[0].count(), 2000)
		both, err := s.union(t.Context(), []civil.Day{20_000, 20_001})
		if err != nil {
			t.Fatal(err)
		}
		near("two days", both, 3000)
		note(t, s, false, 20_001, users[:10]...) // the setting has changed
		mixed, err := s.union(t.Context(), []civil.Day{20_000, 20_001})
		if err != nil || !mixed.Partial || mixed.Exact || mixed.Actives != both.Actives {
			t.Errorf("both kinds: got %+v, %v; want the larger number, as a partial one", mixed, err)
		}
	})
}

func TestErasureChangesNoNumberAndLeavesNoUser(t *testing.T) {
	eachRedis(t, func(t *testing.T, s *redisStore, db *redis.DB) {
		users := people(3)
		days := Span{20_000, 20_003}.days()
		note(t, s, false, 20_000, users[0])
		note(t, s, false, 20_001, users...)
		note(t, s, false, 20_002, users[1], users[2])
		for range 2 {
			if err := s.erase(t.Context(), users[0], days); err != nil {
				t.Fatal(err)
			}
			looked, err := s.look(t.Context(), days)
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(looked); got != "[{1 0} {3 0} {2 0} {0 0}]" {
				t.Errorf("the days have %s", got)
			}
			if got, err := s.union(t.Context(), days); err != nil || got.Actives != 3 {
				t.Errorf("the range has %+v, %v; want 3", got, err)
			}
			for _, d := range days {
				if absent, err := s.missing(t.Context(), d, names(users[:1])); err != nil || len(absent) != 1 {
					t.Errorf("the user is in the set of day %d (%v)", d-20_000, err)
				}
			}
		}
	})
}
