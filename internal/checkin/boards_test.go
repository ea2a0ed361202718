package checkin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/checkin/ranking"
	"github.com/stoa-dev/stoa/internal/checkin/records"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/internal/checkin/transfer"
	"github.com/stoa-dev/stoa/lib/leaderboard"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// placed returns the value of a history on a board, and when that was reached.
func placed(z streak.Freezes, b ranking.Board, h streak.History, today civil.Day) (days int, at time.Time) {
	first, last := h.Marks[0].Day, h.Marks[len(h.Marks)-1].Day
	switch {
	case b.Season() != "":
		first, last = b.Span()
	case b == ranking.StreakBoard:
		if z.Status(streak.RecordOf(today.Year(), h), civil.Clock{}, today).Streak == 0 {
			return 0, at
		}
		for first = last; ; first-- { // back to the start of the run
			if _, found := h.On(first - 1); !found {
				break
			}
		}
	}
	for _, m := range h.Marks {
		if m.Kind.Signs() && first <= m.Day && m.Day <= last {
			if days++; m.At.After(at) {
				at = m.At
			}
		}
	}
	return days, at
}

// ordered returns a board as it follows from the log.
func ordered(z streak.Freezes, b ranking.Board, histories map[accounts.ID]streak.History, today civil.Day) (rows []ranking.Row) {
	type place struct {
		user accounts.ID
		days int
		at   int64
	}
	var all []place
	for user, h := range histories {
		if days, at := placed(z, b, h, today); days > 0 {
			all = append(all, place{user, days, at.Unix()})
		}
	}
	slices.SortFunc(all, func(x, y place) int {
		return cmp.Or(cmp.Compare(y.days, x.days), cmp.Compare(x.at, y.at), cmp.Compare(y.user.String(), x.user.String()))
	})
	for i, p := range all {
		rows = append(rows, ranking.Row{Rank: i + 1, User: p.user, Value: p.days})
	}
	return rows
}

// The test plays two random weeks: taps, second taps also of users whose record is lost, make-ups, imports and freezes.
// Each board must order all users like the log: after moves, after a count in SQL, and after a load.
func TestBoards_MovedCountedAndLoadedAgree(t *testing.T) {
	t.Parallel()
	tell(t, inVirtualTime, func(t *testing.T, w *world) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 1))
		users, c := newUsers(6), civil.Clock{}
		for _, user := range users {
			w.register(t, user, "UTC")
		}
		began := civil.DayOf(2026, 10, 26)
		var boards []ranking.Board
		agree := func(how string, today civil.Day, read func(ranking.Board) ([]ranking.Row, error)) {
			t.Helper()
			histories, err := w.checkins.histories(t.Context(), users)
			if err != nil {
				t.Fatal(err)
			}
			for _, b := range boards {
				got, err := read(b)
				if errors.Is(err, leaderboard.ErrNotLoaded) {
					t.Fatalf("%s: %s is not loaded", how, b.Key())
				}
				if want := ordered(w.freezes, b, histories, today); err != nil || !slices.Equal(got, want) {
					t.Errorf("%s on %s: %s is\n%v (%v), want\n%v", how, today, b.Key(), got, err, want)
				}
			}
		}
		fromRedis := func(b ranking.Board) ([]ranking.Row, error) {
			got, err := w.Boards.FromRedis(t.Context(), b, users[0], c, 100, 0)
			return got.Top, err
		}
		for day := began; day < began+15; day++ {
			w.clock.set(c.Start(day).Add(12*time.Hour + time.Minute)) // after the noon that imports name
			if err := w.Boards.LoadMissing(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, b := range ranking.Current(w.clock.now()) {
				if !slices.Contains(boards, b) {
					boards = append(boards, b)
				}
			}
			for range 10 {
				bubble.Sleep(time.Duration(r.IntN(3)) * 400 * time.Millisecond)
				user := users[r.IntN(len(users))]
				switch n := r.IntN(20); {
				case n < 16:
					if n == 0 {
						w.do(t, "UNLINK", records.BitmapOf(user, 2026).Key)
					}
					w.mustMark(t, user, c)
				case n < 18:
					_, err := w.MakeUp(t.Context(), user, c, day-1-civil.Day(r.IntN(12)), r.Uint64())
					if err != nil && !errors.Is(err, ErrDayCounts) && !errors.Is(err, ErrMakeupLimit) {
						t.Fatal(err)
					}
				default:
					file := fmt.Sprintf("user,day\n%s,%s\n", user, day-1-civil.Day(r.IntN(40)))
					if _, faults, err := imports(t, w.db, file, transfer.ImportOptions{Format: transfer.CSV}); err != nil || len(faults) > 0 {
						t.Fatal(faults, err)
					}
					w.follow(t)
				}
			}
			if (day-began)%5 == 4 {
				w.persisted(t)
				agree("as they were moved", day, fromRedis)
			}
		}
		today := began + 14
		agree("counted in SQL", today, func(b ranking.Board) ([]ranking.Row, error) {
			w.projection.Suspect()
			got, err := w.Boards.Read(t.Context(), b, users[0], c, 100, 0)
			return got.Top, err
		})
		bubble.Sleep(2 * time.Second)
		agree("loaded", today, func(b ranking.Board) ([]ranking.Row, error) {
			if err := w.Boards.Renew(t.Context(), b, nil); err != nil {
				return nil, err
			}
			return fromRedis(b)
		})
	}, Settings{MakeupDays: 30, MakeupLimit: 9, FreezeEvery: 4, FreezeMax: 2})
}

// Of two users with equal days, the first to reach them has the higher place, whatever the two did in later seasons.
func TestBoard_PastSeasonKeepsOrderOfEquals(t *testing.T) {
	t.Parallel()
	tell(t, inVirtualTime, func(t *testing.T, w *world) {
		users, c := newUsers(2), civil.Clock{}
		ann, ben := users[0], users[1]
		for _, user := range users {
			w.register(t, user, "UTC")
		}
		for _, both := range []struct {
			date string
			who  [2]accounts.ID
		}{{"2026-10-20", [2]accounts.ID{ann, ben}}, {"2026-11-20", [2]accounts.ID{ben, ann}}} {
			w.on(t, both.date)
			for _, user := range both.who {
				w.mustMark(t, user, c)
				bubble.Sleep(time.Second)
			}
		}
		w.persisted(t)
		for _, b := range ranking.SeasonsOf(civil.DayOf(2026, 10, 20)) {
			for _, emptied := range []bool{false, true} {
				if emptied {
					if err := w.replay(t.Context(), time.Time{}); err != nil { // moves both users
						t.Fatal(err)
					}
				} else if err := w.Boards.Rebuild(t.Context(), b); err != nil {
					t.Fatal(err)
				}
				got, err := w.Boards.FromRedis(t.Context(), b, ann, c, 2, 0)
				if err != nil || len(got.Top) != 2 || got.Top[0].User != ann {
					t.Errorf("%s, replayed %v: got %v, %v, want %s first", b.Key(), emptied, got.Top, err, ann)
				}
			}
			w.projection.Suspect() // SQL counts
			got, err := w.Boards.Read(t.Context(), b, ann, c, 2, 0)
			if err != nil || len(got.Top) != 2 || got.Top[0].User != ann {
				t.Errorf("%s from SQL: got %v, %v, want %s first", b.Key(), got.Top, err, ann)
			}
			bubble.Sleep(2 * time.Second)
		}
	})
}

// A make-up before the run does not change when the run reached its length.
func TestBoard_MakeUpBeforeRunKeepsRankAmongEquals(t *testing.T) {
	t.Parallel()
	tell(t, inVirtualTime, func(t *testing.T, w *world) {
		users, c := newUsers(2), civil.Clock{}
		ann, ben := users[0], users[1]
		for _, user := range users {
			w.register(t, user, "UTC")
		}
		w.on(t, "2026-11-20")
		for _, user := range users {
			w.mustMark(t, user, c)
			bubble.Sleep(time.Second)
		}
		w.mustMakeUp(t, ann, "2026-11-10")
		w.persisted(t)
		for _, board := range []ranking.Board{ranking.StreakBoard, ranking.TotalBoard} {
			for _, how := range []func(context.Context, ranking.Board) error{w.Boards.Rebuild, func(ctx context.Context, b ranking.Board) error {
				return w.Boards.Renew(ctx, b, nil)
			}} {
				if err := how(t.Context(), board); err != nil {
					t.Fatal(err)
				}
				got, err := w.Boards.FromRedis(t.Context(), board, ben, c, 2, 0)
				if err != nil || len(got.Top) != 2 || got.Top[0].User != ann {
					t.Errorf("%s: got %v, %v, want %s first", board, got.Top, err, ann)
				}
			}
		}
		// With the day before made up, the run is longer, and was reached now.
		w.mustMakeUp(t, ben, "2026-11-19")
		bubble.Sleep(time.Second)
		w.mustMakeUp(t, ann, "2026-11-19")
		w.persisted(t)
		got, err := w.Boards.FromRedis(t.Context(), ranking.StreakBoard, ann, c, 2, 0)
		if err != nil || len(got.Top) != 2 || got.Top[0].User != ben {
			t.Errorf("both have two: got %v, %v, want %s first", got.Top, err, ben)
		}
	}, Settings{MakeupDays: 30, MakeupLimit: 5})
}
