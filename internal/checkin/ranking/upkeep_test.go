package ranking

import (
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/checkin/checkintest"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/lib/leaderboard"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// A wrong count of a compact board, whatever its cause, is corrected within the hour.
func TestCounts_RebuiltEachHour(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Compact)
	today := civil.Clock{}.Today(w.Clock.Now())
	many, last := checkintest.NewUsers(1100), checkintest.NewUsers(1)[0]
	w.Write(t, many, today-1, today)
	w.Write(t, []accounts.ID{last}, today)
	keep := func(want int) {
		t.Helper()
		if err := w.LoadMissing(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := w.rank(t, TotalBoard, last); got != want {
			t.Errorf("rank %d, want %d", got, want)
		}
	}
	keep(1101)
	// a user who is not in SQL
	w.update(t, TotalBoard, leaderboard.Entry{Member: checkintest.NewUsers(1)[0].String(), Value: 2, At: w.Clock.Now()})
	if err := w.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	keep(1102)
	w.filled.Store(TotalBoard, filled{at: time.Now().Add(-recountEvery)})
	keep(1101)
}

func TestUpkeep_IncludesPastSeasons(t *testing.T) {
	t.Parallel()
	for kind, other := range map[string]string{Compact: Exact, Exact: Compact} {
		t.Run(kind, func(t *testing.T) {
			w := newWorld(t, kind)
			friday := civil.Clock{}.Today(w.Clock.Now()) - 1
			users := checkintest.NewUsers(3)
			w.Write(t, users, friday)
			late, week := users[0], WeekOf(friday)
			if err := w.LoadMissing(t.Context()); err != nil {
				t.Fatal(err)
			}
			// tidied runs the job, and returns how many keys the week then has.
			tidied := func() (n int) {
				t.Helper()
				if err := w.Tidy(t.Context()); err != nil {
					t.Fatal(err)
				}
				keys, err := w.server.Do("KEYS", "*"+week.Key()+"*")
				if err != nil {
					t.Fatal(err)
				}
				return len(keys)
			}
			all := tidied()
			if all == 0 {
				t.Fatal("the board of this week is gone")
			}
			w.Clock.Set(w.Clock.Now().AddDate(0, 0, 20))

			// A day is made up late.
			w.Write(t, []accounts.ID{late}, friday-1)
			w.update(t, week, leaderboard.Entry{Member: late.String(), Value: 2, At: w.Clock.Now(), From: leaderboard.Standing{Value: 1}})
			if n := tidied(); n != all {
				t.Errorf("it has %d keys, want %d: what came late is folded in", n, all)
			}
			if got := w.rank(t, week, late); got != 1 {
				t.Errorf("rank %d, want 1", got)
			}

			if kind == Compact {
				w.update(t, week, leaderboard.Entry{Member: late.String(), Value: 2, At: w.Clock.Now(), Replay: true})
				if n := tidied(); n != 0 {
					t.Errorf("it has %d keys, although its counts are in doubt", n)
				}
				_, err := w.Read(t.Context(), week, late, civil.Clock{}, 1, 0) // from SQL
				if err != nil {
					t.Error(err)
				}
				eventually.True(t, "the board that was asked for", func() bool {
					_, err := w.FromRedis(t.Context(), week, late, civil.Clock{}, 1, 0)
					return err == nil
				})
				if got := w.rank(t, week, late); got != 1 {
					t.Errorf("rank %d, want 1", got)
				}
			}

			// The boards were of another kind before.
			err := w.open(week, other).Load(t.Context(), w.Clock.Now(), w.entries(t.Context(), week))
			if err != nil {
				t.Fatal(err)
			}
			redistest.KeysDeclared(t, w.redis, Keys)
			if n := tidied(); n != all {
				t.Errorf("it has %d keys, want the %d of its kind", n, all)
			}
			w.Clock.Set(w.Clock.Now().AddDate(0, 9, 0))
			if n := tidied(); n != 0 {
				t.Errorf("nine months later it has %d keys", n)
			}
		})
	}
}

// Ann flies over the date line on the 20th, and her calendar skips the 21st. A message writes the row of that date; a
// board that is counted before includes the date all the same.
func TestCount_IncludesSkippedDate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Compact)
	ann := checkintest.NewUsers(1)[0]
	left, err := civil.Clock{Zone: "Etc/GMT+11"}.Change("Pacific/Kiritimati", time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC))
	if _, skips := left.Skipped(); err != nil || !skips {
		t.Fatalf("%+v leaves nothing out, %v", left, err)
	}
	w.clocks[ann] = left
	skipped, _ := left.Skipped()
	w.Clock.Set(left.Start(skipped + 1).Add(time.Hour))
	w.Write(t, []accounts.ID{ann}, skipped-2, skipped-1, skipped+1)
	if err := w.LoadMissing(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := w.FromRedis(t.Context(), StreakBoard, ann, left, 1, 0)
	if err != nil || len(r.Top) != 1 || r.Top[0].Value != 3 {
		t.Errorf("the board has %+v, %v, want a streak of three signed days", r.Top, err)
	}
}

// With other settings of freezes, streaks die at other times.
func TestStreakBoard_RebuiltByOtherRules(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Compact)
	w.freezes = streak.Freezes{Every: 1, Max: 2}
	users, today := checkintest.NewUsers(1), dayAt(w.Clock.Now())
	w.Write(t, users, today-3, today-2)
	for _, want := range []int{1, 0} {
		if err := w.LoadMissing(t.Context()); err != nil {
			t.Fatal(err)
		}
		top, err := w.Of(StreakBoard).Top(t.Context(), w.Clock.Now(), 10)
		if err != nil || len(top) != want {
			t.Errorf("by the rules %q the board has %+v, %v, want %d", w.freezes, top, err, want)
		}
		if have, err := w.rules(t.Context()); err != nil || have != w.freezes.String() {
			t.Errorf("the board was made by %q, %v, want %q", have, err, w.freezes)
		}
		w.freezes = streak.Freezes{}
	}
}
