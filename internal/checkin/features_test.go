package checkin

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/checkin/ranking"
	"github.com/stoa-dev/stoa/internal/checkin/records"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/internal/checkin/transfer"
	"github.com/stoa-dev/stoa/internal/config"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

var ruled = Settings{MakeupDays: 30, MakeupLimit: 3, FreezeEvery: 2, FreezeMax: 2, Grace: 10 * time.Minute}

// twoNodes runs a test on two nodes with one database and one Redis.
func twoNodes(t *testing.T, test func(t *testing.T, nodes [2]*world)) {
	for _, e := range []struct {
		name string
		db   func(t *testing.T) func() *sqldb.DB
	}{
		{"SQLite", func(t *testing.T) func() *sqldb.DB {
			db := sqldbtest.SQLite(t) // one file, one writer
			return func() *sqldb.DB { return db }
		}},
		{"MariaDB", func(t *testing.T) func() *sqldb.DB {
			cfg := sqldbtest.Default(t).Config(t)
			return func() *sqldb.DB { return sqldbtest.Open(t, cfg) }
		}},
	} {
		t.Run(e.name, func(t *testing.T) {
			open, server := e.db(t), redistest.Server(t)
			var nodes [2]*world
			for i := range nodes {
				nodes[i] = newWorld(t, open(), redistest.Open(t, server.URL), Settings{MakeupDays: 30, MakeupLimit: 3})
			}
			test(t, nodes)
		})
	}
}

func TestCheckIn_ConcurrentOnTwoNodesCountsOnce(t *testing.T) {
	t.Parallel()
	twoNodes(t, func(t *testing.T, nodes [2]*world) {
		user := newUsers(1)[0]
		nodes[0].register(t, user, "UTC")
		fresh := 0
		var mu sync.Mutex
		var wg sync.WaitGroup
		for i := range 64 {
			wg.Go(func() {
				res, err := nodes[i%2].Mark(t.Context(), user, civil.Clock{}, Activity{Words: 1}, rand.Uint64())
				if err != nil || res.Status.Streak != 1 || res.Status.Total != 1 {
					t.Errorf("got %+v, %v", res, err)
				}
				mu.Lock()
				defer mu.Unlock()
				if res.New {
					fresh++
				}
			})
		}
		wg.Wait()
		if fresh != 1 {
			t.Errorf("%d taps were told that they were the first", fresh)
		}
		nodes[1].check(t, []accounts.ID{user}, civil.Clock{})
	})
}

func TestMakeUp_ConcurrentOnTwoNodesObeysLimit(t *testing.T) {
	t.Parallel()
	twoNodes(t, func(t *testing.T, nodes [2]*world) {
		c := civil.Clock{}
		users := newUsers(2)
		for name, day := range map[string]func(today civil.Day, i int) civil.Day{
			"of different days": func(today civil.Day, i int) civil.Day { return today - 1 - civil.Day(i%20) },
			"of one day":        func(today civil.Day, _ int) civil.Day { return today - 5 },
		} {
			user := users[0]
			if name == "of one day" {
				user = users[1]
			}
			nodes[0].register(t, user, "UTC")
			today := c.Today(nodes[0].clock.now())
			done := map[civil.Day]int{}
			var mu sync.Mutex
			var wg sync.WaitGroup
			for i := range 64 {
				wg.Go(func() {
					res, err := nodes[i%2].MakeUp(t.Context(), user, c, day(today, i), rand.Uint64())
					mu.Lock()
					defer mu.Unlock()
					switch {
					case err == nil:
						done[res.Day]++
					case !errors.Is(err, ErrMakeupLimit) && !errors.Is(err, ErrDayCounts):
						t.Error(err)
					}
				})
			}
			wg.Wait()
			want := ruled.MakeupLimit
			if name == "of one day" {
				want = 1
			}
			list, err := nodes[1].Makeups(t.Context(), user, c, "", 100)
			if err != nil || len(done) != want || len(list.History) != want || list.Left != ruled.MakeupLimit-want {
				t.Errorf("%s: %v were made up, the list is %+v, %v; want %d", name, done, list, err, want)
			}
			for d, n := range done {
				if n != 1 {
					t.Errorf("%s: %s was made up %d times", name, d, n)
				}
			}
		}
		for _, n := range nodes {
			n.check(t, users, c)
		}
	})
}

// Two nodes that make up days of one user in one second may move the user on the boards in the wrong order, and their
// clocks may differ.
func TestBoard_OlderStateThatArrivesLastIsCorrected(t *testing.T) {
	t.Parallel()
	worlds(t, func(t *testing.T, w *world) {
		users, c := newUsers(2), civil.Clock{}
		for _, user := range users {
			w.register(t, user, "UTC")
		}
		today := w.on(t, "2026-11-20")
		if err := w.Boards.LoadMissing(t.Context()); err != nil { // later moves cause no recount
			t.Fatal(err)
		}
		first := w.mustMakeUp(t, users[0], (today - 3).String())
		states, err := w.state(t.Context(), []change{{user: users[0], days: []civil.Day{today - 3}, at: first.At}})
		if err != nil {
			t.Fatal(err)
		}
		w.mustMakeUp(t, users[0], (today - 1).String())
		if err := w.writeStates(t.Context(), states); err != nil {
			t.Fatal(err)
		}

		w.mustMakeUp(t, users[1], (today - 3).String())
		w.clock.set(w.clock.now().Add(-3 * time.Second)) // as on another node
		w.mustMakeUp(t, users[1], (today - 1).String())
		w.check(t, users, c)
	}, Settings{MakeupDays: 30, MakeupLimit: 3})
}

// on sets the clock to nine in the morning of a day.
func (w *world) on(t *testing.T, date string) civil.Day {
	t.Helper()
	d, err := civil.ParseDay(date)
	if err != nil {
		t.Fatal(err)
	}
	w.clock.set(time.Unix(int64(d)*86400+9*3600, 0))
	return d
}

func (w *world) mustMakeUp(t *testing.T, user accounts.ID, date string) MakeupResult {
	t.Helper()
	d, err := civil.ParseDay(date)
	if err != nil {
		t.Fatal(err)
	}
	res, err := w.MakeUp(t.Context(), user, civil.Clock{}, d, rand.Uint64())
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func (w *world) frozen(t *testing.T, user accounts.ID) (days []string) {
	t.Helper()
	histories, err := w.sql.histories(t.Context(), []accounts.ID{user})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range histories[user].Marks {
		if m.Kind == streak.Frozen {
			days = append(days, m.Day.String())
		}
	}
	return days
}

func TestMakeUp_LastYearJoinsStreak(t *testing.T) {
	t.Parallel()
	worlds(t, func(t *testing.T, w *world) {
		user, c := newUsers(1)[0], civil.Clock{}
		w.register(t, user, "UTC")
		for _, date := range []string{"2026-12-29", "2026-12-30", "2027-01-01", "2027-01-02"} {
			w.on(t, date)
			w.mustMark(t, user, c)
		}
		if st, err := w.Status(t.Context(), user, c); err != nil || st.Streak != 2 {
			t.Fatalf("before: %+v, %v", st, err)
		}
		w.on(t, "2027-01-03")
		res := w.mustMakeUp(t, user, "2026-12-31")
		if res.Status.Streak != 5 || res.Status.Longest != 5 || res.Status.Total != 5 || res.Left != 2 {
			t.Errorf("got %+v, want a streak of 5 and 2 left", res)
		}
		w.check(t, []accounts.ID{user}, c)
	}, Settings{MakeupDays: 30, MakeupLimit: 3})
}

func TestMakeUp_RefusalChangesNothing(t *testing.T) {
	t.Parallel()
	worlds(t, func(t *testing.T, w *world) {
		user, c := newUsers(1)[0], civil.Clock{}
		w.register(t, user, "UTC")
		if _, err := w.db.ExecContext(t.Context(), "UPDATE users SET created = ? WHERE id = ?", int64(w.on(t, "2026-11-10"))*86_400_000,
			user); err != nil {
			t.Fatal(err)
		}
		for _, date := range []string{"2026-11-10", "2026-11-11", "2026-11-12", "2026-11-13"} {
			w.on(t, date)
			w.mustMark(t, user, c)
		}
		today := w.on(t, "2026-11-18") // the 14th and the 15th are covered
		for _, tt := range []struct {
			what string
			day  civil.Day
			want error
		}{
			{"today", today, ErrMakeupDay}, {"tomorrow", today + 1, ErrMakeupDay},
			{"before the account", today - 9, ErrMakeupDay}, {"signed", today - 5, ErrDayCounts},
			{"covered by itself", today - 3, ErrDayCounts},
		} {
			if _, err := w.MakeUp(t.Context(), user, c, tt.day, rand.Uint64()); !errors.Is(err, tt.want) {
				t.Errorf("%s: got %v, want %v", tt.what, err, tt.want)
			}
		}
		if got := w.frozen(t, user); got != nil {
			t.Errorf("refusals covered %v", got)
		}
		list, err := w.Makeups(t.Context(), user, c, "", 10)
		if want := []string{"2026-11-16", "2026-11-17"}; err != nil || !slices.Equal(mapped(list.Days, civil.Day.String), want) ||
			list.Left != 3 || len(list.History) != 0 {
			t.Errorf("got %+v, %v, want %v", list, err, want)
		}
		// The first one closes the gap; with both, the streak is complete.
		w.mustMakeUp(t, user, "2026-11-16")
		if got, want := w.frozen(t, user), []string{"2026-11-14", "2026-11-15"}; !slices.Equal(got, want) {
			t.Errorf("frozen: got %v, want %v", got, want)
		}
		if res := w.mustMakeUp(t, user, "2026-11-17"); res.Status.Streak != 6 {
			t.Errorf("got %+v, want a streak of 6", res.Status)
		}
		w.on(t, "2026-12-01") // another month, another three
		if list, err := w.Makeups(t.Context(), user, c, "", 1); err != nil || list.Left != 3 || len(list.History) != 1 || list.Cursor == "" {
			t.Errorf("in December: %+v, %v", list, err)
		} else if rest, err := w.Makeups(t.Context(), user, c, list.Cursor, 1); err != nil || len(rest.History) != 1 || rest.Cursor != "" ||
			rest.History[0].Day.String() != "2026-11-16" {
			t.Errorf("behind the cursor %s: %+v, %v", list.Cursor, rest, err)
		}
	}, ruled)
}

func TestMakeUp_RetryReturnsFirstResponse(t *testing.T) {
	t.Parallel()
	worlds(t, func(t *testing.T, w *world) {
		user, c, id := newUsers(1)[0], civil.Clock{}, rand.Uint64()
		w.register(t, user, "UTC")
		today := w.on(t, "2026-11-18")
		first, err := w.MakeUp(t.Context(), user, c, today-2, id)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := w.MakeUp(t.Context(), user, c, today-2, id); err != nil || again != first {
			t.Errorf("got %+v, %v, want %+v", again, err, first)
		}
	}, ruled)
}

// SQL has committed a make-up, with the frozen day of last year before it, but the response was lost. The check that
// follows applies it to Redis, and so does a retry of the request.
func TestMakeUp_LostResponseKeepsFrozenDays(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]func(t *testing.T, w *world, m makeup, c civil.Clock){
		"looked up": func(_ *testing.T, w *world, m makeup, _ civil.Clock) {
			w.projection.Begin(m.at)
			w.projection.Unsure(m.at, rowChange(rowKey{m.user, m.day}))
		},
		"asked again": func(t *testing.T, w *world, m makeup, c civil.Clock) {
			if _, err := w.MakeUp(t.Context(), m.user, c, m.day, uint64(m.req)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			tell(t, inVirtualTime, func(t *testing.T, w *world) {
				user, c := newUsers(1)[0], civil.Clock{}
				w.register(t, user, "UTC")
				for _, date := range []string{"2026-12-29", "2026-12-30"} {
					w.on(t, date)
					w.mustMark(t, user, c)
				}
				w.persisted(t)
				today := w.on(t, "2027-01-02")
				m := makeup{user: user, month: streak.MonthOf(today), day: today - 1, at: w.now(), req: 7}
				_, _, frozen, err := w.sql.makeUp(t.Context(), m, 3, func(h streak.History) ([]civil.Day, error) {
					days, _ := w.freezes.MakeUp(h, c, m.day, today)
					return days, nil
				})
				if err != nil || len(frozen) != 1 {
					t.Fatalf("the test is void: %v are frozen, %v", frozen, err)
				}
				after(t, w, m, c)
				eventually.True(t, "December to have the covered day", func() bool {
					got, err := w.Calendar(t.Context(), user, c, 2026, time.December)
					return err == nil && slices.Equal(got.Covered, frozen)
				})
				w.check(t, []accounts.ID{user}, c)
			}, ruled)
		})
	}
}

// A node died after its commit and before it wrote the days that freezes cover. Another node writes them, and so does
// the next start.
func TestFreeze_WrittenAfterCrash(t *testing.T) {
	t.Parallel()
	crash := func(t *testing.T, w *world) (accounts.ID, []string) {
		user, c := newUsers(1)[0], civil.Clock{}
		w.register(t, user, "UTC")
		now := time.Now()
		for _, ago := range []int{-8, -7, -6, -5} {
			w.clock.set(now.AddDate(0, 0, ago))
			w.mustMark(t, user, c)
		}
		w.clock.set(now)
		today := c.Today(now)
		lost := tap(user, c, today-2, now.UTC().Truncate(time.Millisecond), Activity{}, rand.Uint64())
		if _, err := w.sql.write(t.Context(), []request{lost}); err != nil {
			t.Fatal(err)
		}
		return user, []string{(today - 4).String(), (today - 3).String()}
	}
	t.Run("by another node", func(t *testing.T) {
		worlds(t, func(t *testing.T, w *world) {
			user, want := crash(t, w)
			old := time.Now().Add(-time.Minute).UnixMilli()
			deadMark := fmt.Sprintf("%d %d", old, old)
			hset(t, w, "nodeThatDied", deadMark)
			eventually.True(t, "a replay for the dead node", func() bool {
				marks, err := appliedKey.At().All(t.Context(), w.redis)
				return err == nil && marks["nodeThatDied"] != deadMark
			})
			if got := w.frozen(t, user); !slices.Equal(got, want) {
				t.Errorf("frozen: got %v, want %v", got, want)
			}
			if st, err := w.Status(t.Context(), user, civil.Clock{}); err != nil || st.Total != 5 || st.Used != 2 {
				t.Errorf("got %+v, %v", st, err)
			}
		}, ruled)
	})
	t.Run("by the next start", func(t *testing.T) {
		db := sqldbtest.SQLite(t)
		w := newWorld(t, db, redistest.Open(t, "embedded"), ruled)
		user, want := crash(t, w)
		w.stop()
		w = newWorld(t, db, redistest.Open(t, "embedded"), ruled)
		if got := w.frozen(t, user); !slices.Equal(got, want) {
			t.Errorf("frozen: got %v, want %v", got, want)
		}
	})
}

func TestFreeze_StartSpendsNoneOnImportedDays(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		db := sqldbtest.SQLite(t)
		w := newWorld(t, db, redistest.Open(t, "embedded"), ruled)
		user := newUsers(1)[0]
		w.register(t, user, "UTC")
		now := time.Now().UTC()
		w.clock.set(now)
		file := "user,day,at\n"
		for _, ago := range []int{-8, -7, -6, -5, -2} {
			at := now.AddDate(0, 0, ago)
			if ago == -2 {
				at = now.Add(-time.Minute) // such as a new file of another service
			}
			file += fmt.Sprintf("%s,%s,%s\n", user, now.AddDate(0, 0, ago).Format(time.DateOnly), at.Format(time.RFC3339))
		}
		if sum, faults, err := imports(t, db, file, transfer.ImportOptions{Format: transfer.CSV}); err != nil || sum.New != 5 {
			t.Fatal(sum, faults, err)
		}
		w.stop()
		w = newWorld(t, db, redistest.Open(t, "embedded"), ruled)
		if got := w.frozen(t, user); len(got) != 0 {
			t.Errorf("frozen: %v", got)
		}
	})
}

// The tap on the 16th closed its gap without a freeze, because the user had none. A day of January that is imported
// afterwards earns one.
func TestImport_KeepsClosedGaps(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]func(t *testing.T, w *world, user accounts.ID) error{
		"a second tap": func(t *testing.T, w *world, user accounts.ID) error {
			res, err := w.Mark(t.Context(), user, civil.Clock{}, Activity{}, 2)
			if res.New {
				err = errors.New("the second tap is new")
			}
			return err
		},
		"the same request, tried again": func(t *testing.T, w *world, user accounts.ID) error {
			_, err := w.Mark(t.Context(), user, civil.Clock{}, Activity{}, 16)
			return err
		},
		"a replay of the log": func(t *testing.T, w *world, _ accounts.ID) error {
			return w.replay(t.Context(), w.clock.now().Add(-time.Minute))
		},
		"a second tap while Redis is away": func(t *testing.T, w *world, user accounts.ID) error {
			w.projection.Suspect()
			_, err := w.Mark(t.Context(), user, civil.Clock{}, Activity{}, 3)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"), Settings{FreezeEvery: 3, FreezeMax: 2})
				user, c := newUsers(1)[0], civil.Clock{}
				w.register(t, user, "UTC")
				for _, date := range []string{"2026-11-12", "2026-11-14", "2026-11-16"} {
					day := w.on(t, date)
					if _, err := w.Mark(t.Context(), user, c, Activity{}, uint64(day-civil.DayOf(2026, 11, 0))); err != nil {
						t.Fatal(err)
					}
				}
				file := fmt.Sprintf("user,day\n%s,2026-01-10\n", user)
				if sum, faults, err := imports(t, w.db, file, transfer.ImportOptions{Format: transfer.CSV}); err != nil || sum.New != 1 {
					t.Fatal(sum, faults, err)
				}
				w.follow(t)
				bubble.Sleep(time.Second)
				if err := again(t, w, user); err != nil {
					t.Fatal(err)
				}
				st, err := w.Status(t.Context(), user, c)
				if err != nil || st.Streak != 1 || st.Total != 4 || st.Freezes != 1 || st.Used != 0 {
					t.Errorf("got %+v, %v, want a streak of 1, and the freeze kept", st, err)
				}
				if days := w.frozen(t, user); len(days) > 0 {
					t.Errorf("frozen: %v", days)
				}
			})
		})
	}
}

func TestFreeze_CoveredDaysStayWhenTurnedOff(t *testing.T) {
	t.Parallel()
	db, server := sqldbtest.SQLite(t), redistest.Server(t)
	w := newWorld(t, db, redistest.Open(t, server.URL), ruled)
	user, c := newUsers(1)[0], civil.Clock{}
	w.register(t, user, "UTC")
	for _, date := range []string{"2026-11-10", "2026-11-11", "2026-11-13"} {
		w.on(t, date)
		w.mustMark(t, user, c)
	}
	if st, err := w.Status(t.Context(), user, c); err != nil || st.Streak != 3 || st.Used != 1 || st.Freezes != 0 {
		t.Errorf("with freezes: %+v, %v", st, err)
	}
	w.stop()
	for _, emptied := range []bool{false, true} {
		if emptied {
			server.FlushAll()
		}
		w = newWorld(t, db, redistest.Open(t, server.URL), Settings{})
		w.on(t, "2026-11-13")
		if st, err := w.Status(t.Context(), user, c); err != nil || st.Streak != 3 || st.Freezes != 0 {
			t.Errorf("without, Redis emptied %v: %+v, %v", emptied, st, err)
		}
		w.stop()
	}
}

func TestFreezeAndMakeUp_WorkWhileRedisUnavailable(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, server.URL), ruled)
	user, c := newUsers(1)[0], civil.Clock{}
	w.register(t, user, "UTC")
	for _, date := range []string{"2026-11-10", "2026-11-11"} {
		w.on(t, date)
		w.mustMark(t, user, c)
	}
	server.Kill()
	w.on(t, "2026-11-13")
	if res := w.mustMark(t, user, c); res.Status.Streak != 3 || res.Status.Used != 1 {
		t.Errorf("a check-in that closes a gap: %+v", res.Status)
	}
	w.on(t, "2026-11-15")
	if res := w.mustMakeUp(t, user, "2026-11-14"); res.Status.Streak != 4 {
		t.Errorf("a make-up: %+v", res.Status)
	}
	if err := w.Grant(t.Context(), user, 1, "It was down."); err != nil {
		t.Fatal(err)
	}
	if err := w.ApplyGrant(t.Context(), user); err != nil {
		t.Fatal(err)
	}
	server.Restart() // with its former data
	eventually.True(t, "redis to be complete again", w.projection.Up)
	rec, err := w.Service.redis.Read(t.Context(), records.Key{User: user, Year: 2026})
	if err != nil || rec == nil || rec.FreezesGranted() != 1 || rec.FreezesUsed() != 1 || rec.Total() != 4 {
		t.Errorf("the record has %v, %v", rec, err)
	}
	w.check(t, []accounts.ID{user}, c)
}

// Grant does the grant of the command line.
func (w *world) Grant(ctx context.Context, user accounts.ID, n int, reason string) error {
	x := NewAdmin(w.db)
	x.now = w.now
	return x.Grant(ctx, user, n, reason)
}

func TestGrant_CoversOpenGap(t *testing.T) {
	t.Parallel()
	worlds(t, func(t *testing.T, w *world) {
		user, c := newUsers(1)[0], civil.Clock{}
		w.register(t, user, "UTC")
		w.on(t, "2026-11-10")
		w.mustMark(t, user, c)
		w.on(t, "2026-11-12")
		if r, err := w.Boards.Read(t.Context(), ranking.StreakBoard, user, c, 10, 0); err != nil || r.Me != nil {
			t.Errorf("before: %+v, %v", r, err)
		}
		if err := w.Grant(t.Context(), user, 1, "The app was down on the 11th."); err != nil {
			t.Fatal(err)
		}
		if err := w.ApplyGrant(t.Context(), user); err != nil {
			t.Fatal(err)
		}
		if st, err := w.Status(t.Context(), user, c); err != nil || st.Streak != 1 || st.Freezes != 0 || st.Used != 1 {
			t.Errorf("after: %+v, %v", st, err)
		}
		if r, err := w.Boards.Read(t.Context(), ranking.StreakBoard, user, c, 10, 0); err != nil || r.Me == nil || r.Me.Value != 1 {
			t.Errorf("on the board: %+v, %v", r, err)
		}
		for _, bad := range []struct {
			n      int
			reason string
		}{{0, "x"}, {101, "x"}, {1, " "}, {1, "a\nb"}} {
			if err := w.Grant(t.Context(), user, bad.n, bad.reason); !errors.Is(err, ErrGrant) {
				t.Errorf("%+v: got %v", bad, err)
			}
		}
		if err := w.Grant(t.Context(), newUsers(1)[0], 1, "x"); !errors.Is(err, accounts.ErrNoUser) {
			t.Errorf("nobody: got %v", err)
		}
	}, ruled)
}

func TestAudit_HasGrantsAndMakeUps(t *testing.T) {
	t.Parallel()
	worlds(t, func(t *testing.T, w *world) {
		user, c := newUsers(1)[0], civil.Clock{}
		w.register(t, user, "UTC")
		x := NewAdmin(w.db)
		x.now = w.now
		show := func() Shown {
			t.Helper()
			shown, err := x.Show(t.Context(), user, c, ruled)
			if err != nil {
				t.Fatal(err)
			}
			return shown
		}
		w.on(t, "2026-11-10")
		if got := show(); got.Total != 0 || len(got.Grants) != 0 || len(got.Makeups) != 0 {
			t.Errorf("of a new user: %+v", got)
		}
		w.mustMark(t, user, c)
		w.on(t, "2026-12-01")
		w.mustMakeUp(t, user, "2026-11-30")
		w.persisted(t)
		for i, reason := range []string{"The app was down.", "And again."} {
			w.on(t, fmt.Sprint("2026-12-0", i+2))
			if err := w.Grant(t.Context(), user, i+1, reason); err != nil {
				t.Fatal(err)
			}
		}
		got := show()
		var grants []string
		for _, g := range got.Grants {
			grants = append(grants, fmt.Sprint(g.N, " ", g.Reason))
		}
		if want := []string{"2 And again.", "1 The app was down."}; !slices.Equal(grants, want) || got.Granted != 3 {
			t.Errorf("%d freezes are granted, %q; want 3, %q", got.Granted, grants, want)
		}
		if len(got.Makeups) != 1 || got.Makeups[0].Month != "2026-12" || got.Makeups[0].Day.String() != "2026-11-30" {
			t.Errorf("made up are %+v, want 2026-11-30, which counts in 2026-12", got.Makeups)
		}
		if want := got.Total / ruled.FreezeEvery; got.Total != 2 || got.Earned != want {
			t.Errorf("%d days have earned %d freezes, want 2 and %d", got.Total, got.Earned, want)
		}
	}, ruled)
}

func TestReplay_IncludesGrants(t *testing.T) {
	t.Parallel()
	worlds(t, func(t *testing.T, w *world) {
		user, c := newUsers(1)[0], civil.Clock{}
		w.register(t, user, "UTC")
		w.on(t, "2026-11-10")
		w.mustMark(t, user, c)
		w.on(t, "2026-11-12")
		w.persisted(t)
		if err := w.Grant(t.Context(), user, 1, "The app was down on the 11th."); err != nil {
			t.Fatal(err)
		}
		// The message of the grant is still in the queue: the replay finds the grant in the log.
		if err := w.replay(t.Context(), w.clock.now().Add(-time.Hour)); err != nil {
			t.Fatalf("the replay failed: %v", err)
		}
		if r, err := w.Boards.Read(t.Context(), ranking.StreakBoard, user, c, 10, 0); err != nil || r.Me == nil || r.Me.Value != 1 {
			t.Errorf("on the board: %+v, %v", r, err)
		}
	}, ruled)
}

// Below the best of a compact board, ranks are counts. A grant moves a user in them too, however often it is applied.
func TestGrant_MovesRanksBelowBest(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"), Settings{FreezeMax: 1})
		users, c, today := newUsers(1600), civil.Clock{}, civil.Clock{}.Today(w.clock.now())
		const better = 1400
		revived, kept, last := users[0], users[1], users[len(users)-1]
		var rows []request
		for i, user := range users {
			end, n := today, 4
			switch {
			case user == revived:
				end = today - 2
			case user == kept:
				end = today - 1
			case i >= better:
				n = 2
			}
			for d := end - civil.Day(n) + 1; d <= end; d++ {
				rows = append(rows, request{user: user, day: d, at: c.Start(d).Add(time.Hour), kind: streak.Tapped})
			}
		}
		for chunk := range slices.Chunk(sorted(rows), 500) {
			if _, err := w.sql.write(t.Context(), chunk); err != nil {
				t.Fatal(err)
			}
		}
		// settled counts the boards as the jobs do, until no count is in doubt.
		settled := func() {
			t.Helper()
			eventually.True(t, "the boards to be sure", func() bool {
				if err := w.Boards.LoadMissing(t.Context()); err != nil {
					t.Fatal(err)
				}
				return w.complete(t)
			})
		}
		expect := func(when string, rank int) {
			t.Helper()
			r, err := w.Boards.FromRedis(t.Context(), ranking.StreakBoard, last, c, 0, 0)
			if err != nil || r.Me == nil || r.Me.Rank != rank {
				t.Errorf("%s: I stand at %+v, %v, want rank %d", when, r.Me, err, rank)
			}
		}
		settled()
		expect("before", better) // all except the dead one are before me
		for _, user := range []accounts.ID{revived, kept} {
			w.register(t, user, "UTC")
			if err := w.Grant(t.Context(), user, 1, "It was down."); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := w.ApplyGrant(t.Context(), user); err != nil {
					t.Fatal(err)
				}
			}
		}
		settled()
		expect("one has come back", better+1)
		w.clock.set(c.Start(today + 1).Add(time.Hour))
		expect("and has missed a day for good, the other one has not", better)
	})
}

func TestRecord_OfOtherVersionIsReplaced(t *testing.T) {
	t.Parallel()
	worlds(t, func(t *testing.T, w *world) {
		user, c := newUsers(1)[0], civil.Clock{}
		w.on(t, "2026-11-20")
		w.mustMark(t, user, c)
		key := records.BitmapOf(user, 2026)
		for _, old := range []string{"\x01" + string(slices.Repeat([]byte{0xaa}, 99)), "\x03" + string(slices.Repeat([]byte{0xff}, 140))} {
			if err := w.redis.Do(t.Context(), keyspace.Cmd{Name: "UNLINK", Key: key.Key}).Err; err != nil {
				t.Fatal(err)
			}
			if err := w.redis.Do(t.Context(), key.AddCmd(old)).Err; err != nil {
				t.Fatal(err)
			}
			w.check(t, []accounts.ID{user}, c)
		}
		// A check-in finds such a record as well.
		if err := w.redis.Do(t.Context(), keyspace.Cmd{Name: "UNLINK", Key: key.Key}).Err; err != nil {
			t.Fatal(err)
		}
		if err := w.redis.Do(t.Context(), key.AddCmd("\x01"+string(slices.Repeat([]byte{0xaa}, 99)))).Err; err != nil {
			t.Fatal(err)
		}
		w.on(t, "2026-11-21")
		if res := w.mustMark(t, user, c); res.Status.Streak != 2 || res.Status.Total != 2 {
			t.Errorf("got %+v", res.Status)
		}
		w.check(t, []accounts.ID{user}, c)
	})
}

func TestRecord_FirstDayIsMostSignificantBit(t *testing.T) {
	t.Parallel()
	worlds(t, func(t *testing.T, w *world) {
		user, c := newUsers(1)[0], civil.Clock{}
		for _, date := range []string{"2027-01-01", "2027-01-02", "2027-01-09"} {
			w.on(t, date)
			w.mustMark(t, user, c)
		}
		raw, _, err := w.redis.Do(t.Context(), records.BitmapOf(user, 2027).GetCmd()).Text()
		if err != nil || len(raw) != len(streak.Record{}) || raw[16] != 0xc0 || raw[17] != 0x80 {
			t.Errorf("got % x, %v, want c0 80 from byte 16 on", raw, err)
		}
	})
}

func TestGrace_AllowsYesterdayAfterMidnight(t *testing.T) {
	t.Parallel()
	worlds(t, func(t *testing.T, w *world) {
		c := civil.Clock{Zone: "Asia/Shanghai"}
		midnight := time.Date(2026, 12, 31, 16, 0, 0, 0, time.UTC) // New Year
		eve := civil.DayOf(2026, 12, 31)
		for _, tt := range []struct {
			what string
			at   time.Time
			day  civil.Day
			want error
		}{
			{"in time", midnight.Add(10*time.Minute - 10*time.Millisecond), eve, nil},
			{"too late", midnight.Add(10 * time.Minute), eve, ErrDayClosed},
			{"the day before", midnight.Add(time.Minute), eve - 1, ErrDayClosed},
			{"tomorrow", midnight.Add(-time.Minute), eve + 1, ErrDayClosed},
		} {
			user := newUsers(1)[0]
			w.clock.set(tt.at)
			res, err := w.MarkDay(t.Context(), user, c, tt.day, Activity{Words: 7}, rand.Uint64())
			if !errors.Is(err, tt.want) || err != nil && tt.want == nil {
				t.Errorf("%s: got %v, want %v", tt.what, err, tt.want)
			}
			if words, _, err := w.sql.activity(t.Context(), user); err != nil || words != int64(7*res.Status.Total) {
				t.Errorf("%s: %d words, %v", tt.what, words, err)
			}
			if tt.want != nil {
				continue
			}
			if want := (streak.Status{Day: eve + 1, Yesterday: true, Streak: 1, Longest: 1, Total: 1}); !res.New || res.Status != want {
				t.Errorf("%s: got %+v, want %+v", tt.what, res, want)
			}
			if next := w.mustMark(t, user, c); next.Status.Streak != 2 {
				t.Errorf("and today: %+v", next.Status)
			}
			w.clock.set(tt.at)
			if again, err := w.MarkDay(t.Context(), user, c, eve, Activity{}, rand.Uint64()); err != nil || again.New {
				t.Errorf("again: %+v, %v", again, err)
			}
		}
	}, Settings{Grace: 10 * time.Minute})
}

// After a midnight that skips a date, the day that has just ended is the last one that the user lived. If a clock goes
// back over midnight, there is one midnight only.
func TestLate_DayThatJustEnded(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 19, 20, 0, 0, 0, time.UTC)
	moved, err := civil.Clock{Zone: "Pacific/Pago_Pago"}.Change("Pacific/Kiritimati", start)
	if err != nil {
		t.Fatal(err)
	}
	last, left := moved.Today(start), time.UnixMilli(moved.From)
	back, sunday := civil.Clock{Zone: "America/St_Johns"}, civil.DayOf(2010, 11, 7)
	first := time.Date(2010, 11, 7, 2, 30, 0, 0, time.UTC) // its clock shows 23:01 again a minute later
	for _, tt := range []struct {
		what  string
		clock civil.Clock
		at    time.Time
		day   civil.Day
		late  bool
		want  error
	}{
		{"the day before the one left out", moved, left.Add(9 * time.Minute), last, true, nil},
		{"the date left out", moved, left.Add(9 * time.Minute), last + 1, false, ErrDayClosed},
		{"today", moved, left.Add(9 * time.Minute), last + 2, false, nil},
		{"too late", moved, left.Add(10 * time.Minute), last, false, ErrDayClosed},
		{"Saturday, in time", back, first.Add(9 * time.Minute), sunday - 1, true, nil},
		{"Saturday, while its clock says Saturday", back, first.Add(30 * time.Minute), sunday - 1, false, ErrDayClosed},
		{"Sunday, while its clock says Saturday", back, first.Add(30 * time.Minute), sunday, false, nil},
		{"Saturday, after the second midnight", back, first.Add(time.Hour + time.Minute), sunday - 1, false, ErrDayClosed},
	} {
		if late, err := ruled.late(tt.clock, tt.at, tt.day); late != tt.late || !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, %v, want %v, %v", tt.what, late, err, tt.late, tt.want)
		}
	}
}

func TestMakeUp_CompletesWhenCallerDisconnects(t *testing.T) {
	t.Parallel()
	worlds(t, func(t *testing.T, w *world) {
		c := civil.Clock{}
		for i := range 20 {
			user := newUsers(1)[0]
			w.register(t, user, "UTC")
			today := w.on(t, "2026-11-18")
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*200*time.Microsecond)
			_, _ = w.MakeUp(ctx, user, c, today-1, rand.Uint64())
			cancel()
			eventually.True(t, "redis to agree with sql", func() bool {
				histories, err := w.sql.histories(t.Context(), []accounts.ID{user})
				st, err2 := w.Status(t.Context(), user, c)
				return err == nil && err2 == nil && st.Total == len(histories[user].Marks)
			})
			list, err := w.Makeups(t.Context(), user, c, "", 10)
			st, err2 := w.Status(t.Context(), user, c)
			if err != nil || err2 != nil || len(list.History) != st.Total {
				t.Errorf("%d: the list has %d, the status %d; %v, %v", i, len(list.History), st.Total, err, err2)
			}
		}
	}, ruled)
}

func TestSettings_ReportAllFaults(t *testing.T) {
	t.Parallel()
	if err := ruled.Validate(); err != nil {
		t.Errorf("good settings: %v", err)
	}
	err := Settings{MakeupDays: 367, MakeupLimit: -1, FreezeEvery: -1, FreezeMax: 101, Grace: 24 * time.Hour, Replicas: 6, WordsName: "a\tb",
		MinutesName: strings.Repeat("m", 41), Mode: "fast", Boards: "all", ReconcileEvery: time.Minute, ReconcileRate: -1}.Validate()
	var got []string
	for _, f := range config.Faults(err) {
		got = append(got, f.Key)
	}
	slices.Sort(got)
	if want := []string{"boards", "freeze_every", "freeze_max", "grace", "makeup_days", "makeup_limit", "minutes_name", "mode",
		"reconcile_every",
		"reconcile_rate", "replicas", "words_name"}; !slices.Equal(got, want) {
		t.Errorf("faults with %q, want %q", got, want)
	}
}

func TestBoards_FollowNewFreezeRules(t *testing.T) {
	t.Parallel()
	generous := ruled
	generous.FreezeEvery, generous.FreezeMax = 1, 2
	worlds(t, func(t *testing.T, w *world) {
		user, c := newUsers(1)[0], civil.Clock{}
		w.register(t, user, "UTC")
		for _, date := range []string{"2026-11-10", "2026-11-11"} {
			w.on(t, date)
			w.mustMark(t, user, c)
		}
		if err := w.Boards.LoadMissing(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.stop()
		// The next start gives no freezes: the streak ends with the first missed day.
		strict := w.Service.rules
		strict.FreezeEvery, strict.FreezeMax = 0, 0
		next := newWorld(t, w.db, w.redis, strict)
		next.on(t, "2026-11-13")
		eventually.True(t, "redis to be complete", next.projection.Up)
		if err := next.Boards.LoadMissing(t.Context()); err != nil {
			t.Fatal(err)
		}
		top, err := next.Boards.Of(ranking.StreakBoard).Top(t.Context(), next.now(), 10)
		if err != nil || len(top) != 0 {
			t.Errorf("a streak that the rules of before kept: %v, %v", top, err)
		}
	}, generous)
}

// The week of New Year has days of two years. A read in December requests the record of a year that has not begun.
func TestWeek_OfNewYearHasDaysOfTwoYears(t *testing.T) {
	t.Parallel()
	tell(t, inVirtualTime, func(t *testing.T, w *world) {
		w.friends = func(context.Context, accounts.ID) ([]accounts.ID, error) { return nil, nil }
		users, c := newUsers(2), civil.Clock{}
		for _, user := range users {
			w.register(t, user, "UTC")
		}
		for i, date := range []string{"2026-12-28", "2026-12-29", "2026-12-30", "2026-12-31", "2027-01-01", "2027-01-02"} {
			today, n := w.on(t, date), i+1
			if err := w.Boards.LoadMissing(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, user := range users {
				if s, err := w.Status(t.Context(), user, c); err != nil || s.Streak != i || s.Total != i {
					t.Errorf("in the morning of %s: %+v, %v, want a streak of %d", today, s, err, i)
				}
				if res := w.mustMark(t, user, c); res.Status.Streak != n || res.Status.Total != n {
					t.Errorf("on %s: %+v, want a streak of %d", today, res, n)
				}
			}
			all, err := w.Boards.FromRedis(t.Context(), ranking.WeekOf(today), users[0], c, 10, 0)
			if err != nil || all.Me == nil || all.Me.Value != n {
				t.Errorf("on %s the board of all has %+v, %v, want %d", today, all.Me, err, n)
			}
			friends, _, err := w.FriendsBoard(t.Context(), ranking.WeekOf(today), users[1], 10, 0)
			if err != nil || friends.Me == nil || friends.Me.Value != n {
				t.Errorf("on %s the board of friends has %+v, %v, want %d", today, friends.Me, err, n)
			}
		}
	})
}

// A day that is signed after its gap is found and before it is covered costs no freeze.
func TestFreeze_DaySignedMeanwhileCostsNone(t *testing.T) {
	t.Parallel()
	rules := Settings{FreezeEvery: 1, FreezeMax: 1, Grace: 10 * time.Minute}
	tell(t, inVirtualTime[:1], func(t *testing.T, w *world) {
		user, c := newUsers(1)[0], civil.Clock{}
		w.register(t, user, "UTC")
		w.on(t, "2026-11-02")
		w.mustMark(t, user, c)
		tuesday := w.on(t, "2026-11-03")
		histories, err := w.sql.histories(t.Context(), []accounts.ID{user})
		if err != nil {
			t.Fatal(err)
		}
		late := tap(user, c, tuesday, w.now(), Activity{}, rand.Uint64())
		wednesday := w.on(t, "2026-11-04")
		today := tap(user, c, wednesday, w.now(), Activity{}, rand.Uint64())
		if _, err := w.sql.write(t.Context(), []request{late, today}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.coverGaps(t.Context(), []gap{{user, c, wednesday, today.at, true}}, histories); err != nil {
			t.Fatal(err)
		}
		rec := streak.RecordOf(2026, histories[user])
		if !rec.Has(tuesday, streak.Tapped) || rec.Has(tuesday, streak.Frozen) || rec.FreezesUsed() != 0 {
			t.Errorf("the day is signed: %t, covered: %t, with %d freezes", rec.Has(tuesday, streak.Tapped), rec.Has(tuesday, streak.Frozen),
				rec.FreezesUsed())
		}
	}, rules)
}
