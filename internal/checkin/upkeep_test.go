package checkin

import (
	"github.com/stoa-dev/stoa/internal/eventually"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/foundation/civil"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/leaderboard"
	"github.com/stoa-dev/stoa/redis/redistest"
)

// logged writes days into SQL alone, as if Redis had never heard of them.
func (w *world) logged(t *testing.T, users []accounts.ID, days ...civil.Day) {
	t.Helper()
	var rows []request
	for i, user := range users {
		for _, d := range days {
			rows = append(rows, tap(user, civil.Clock{}, d, w.clock.now().Truncate(time.Millisecond), Activity{}, uint64(i)))
		}
	}
	if _, err := w.store.write(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
}

// tell sends an entry to a board that Redis keeps.
func (w *world) tell(t *testing.T, b Board, e leaderboard.Entry) {
	t.Helper()
	for _, r := range w.redis.DoMulti(t.Context(), w.fast.boards.of(b).Update([]leaderboard.Entry{e})) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
}

// rank is where a user stands on the board in Redis.
func (w *world) rank(t *testing.T, b Board, user accounts.ID) int {
	t.Helper()
	r, err := w.ranking(t.Context(), b, user, civil.Clock{}, 1, 0)
	if err != nil || r.Me == nil {
		t.Fatalf("%s: %+v, %v", b.key(), r, err)
	}
	return r.Me.Rank
}

// What is wrong in a compact board's counts, for whatever reason, is right again
// within the hour.
func TestCountsAreMadeAnewEachHour(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, redistest.Server(t).URL))
	today := civil.Clock{}.Today(w.clock.now())
	many, last := newUsers(1100), newUsers(1)[0]
	w.logged(t, many, today-1, today)
	w.logged(t, []accounts.ID{last}, today)
	keep := func(want int) {
		t.Helper()
		if err := w.keepBoards(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := w.rank(t, TotalBoard, last); got != want {
			t.Errorf("rank %d, want %d", got, want)
		}
	}
	keep(1101)
	w.tell(t, TotalBoard, leaderboard.Entry{Member: newUsers(1)[0].String(), Value: 2, At: w.clock.now()}) // whom SQL does not know
	if err := w.sweepBoards(t.Context()); err != nil {
		t.Fatal(err)
	}
	keep(1102)
	w.filled.Store(TotalBoard, filled{at: time.Now().Add(-recountEvery)})
	keep(1101)
}

func TestSeasonsThatAreOverAreLookedAfter(t *testing.T) {
	t.Parallel()
	for kind, other := range map[string]string{CompactBoards: ExactBoards, ExactBoards: CompactBoards} {
		t.Run(kind, func(t *testing.T) {
			server := redistest.Server(t)
			w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, server.URL), Settings{Boards: kind})
			friday := civil.Clock{}.Today(w.clock.now()) - 1
			users := newUsers(3)
			w.logged(t, users, friday)
			late, week := users[0], WeekOf(friday)
			if err := w.keepBoards(t.Context()); err != nil {
				t.Fatal(err)
			}
			// tidied runs the job, and returns how many keys the week has then.
			tidied := func() (n int) {
				t.Helper()
				if err := w.tidySeasons(t.Context()); err != nil {
					t.Fatal(err)
				}
				keys, err := server.Do("KEYS", "*"+week.key()+"*")
				if err != nil {
					t.Fatal(err)
				}
				return len(keys)
			}
			all := tidied()
			if all == 0 {
				t.Fatal("the board of this week is gone")
			}
			w.clock.set(w.clock.now().AddDate(0, 0, 20))

			// A day is made up late.
			w.logged(t, []accounts.ID{late}, friday-1)
			w.tell(t, week, leaderboard.Entry{Member: late.String(), Value: 2, At: w.clock.now(), From: leaderboard.Standing{Value: 1}})
			if n := tidied(); n != all {
				t.Errorf("it has %d keys, want %d: what came late is folded in", n, all)
			}
			if got := w.rank(t, week, late); got != 1 {
				t.Errorf("rank %d, want 1", got)
			}

			if kind == CompactBoards {
				w.tell(t, week, leaderboard.Entry{Member: late.String(), Value: 2, At: w.clock.now(), Replay: true})
				if n := tidied(); n != 0 {
					t.Errorf("it has %d keys, although its counts are in doubt", n)
				}
				_, err := w.Board(t.Context(), week, late, civil.Clock{}, 1, 0) // from SQL
				if err != nil {
					t.Error(err)
				}
				eventually.True(t, "the board that was asked for", func() bool {
					_, err := w.ranking(t.Context(), week, late, civil.Clock{}, 1, 0)
					return err == nil
				})
				if got := w.rank(t, week, late); got != 1 {
					t.Errorf("rank %d, want 1", got)
				}
			}

			// The kind of boards was another one before.
			err := w.fast.boards.open(week, other).Load(t.Context(), w.clock.now(), w.entries(t.Context(), week))
			if err != nil {
				t.Fatal(err)
			}
			if n := tidied(); n != all {
				t.Errorf("it has %d keys, want the %d of its kind", n, all)
			}
			w.clock.set(w.clock.now().AddDate(0, 9, 0))
			if n := tidied(); n != 0 {
				t.Errorf("nine months later it has %d keys", n)
			}
		})
	}
}

// Ann flies over the date line on the 20th, and there is no 21st for her. Its row
// comes with a message; a board that is counted before knows of it all the same.
func TestABoardThatIsCountedKnowsOfADateThatIsLeftOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, redistest.Server(t).URL))
	ann := newUsers(1)[0]
	left, err := civil.Clock{Zone: "Etc/GMT+11"}.Change("Pacific/Kiritimati", time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC))
	if _, skips := left.Skipped(); err != nil || !skips {
		t.Fatalf("%+v leaves nothing out, %v", left, err)
	}
	w.register(t, ann, left.Zone)
	if _, err := w.db.ExecContext(t.Context(), "UPDATE users SET zone_next = ?, zone_from = ? WHERE id = ?", left.Next, left.From, ann); err != nil {
		t.Fatal(err)
	}
	skipped, _ := left.Skipped()
	w.clock.set(left.Start(skipped + 1).Add(time.Hour))
	w.logged(t, []accounts.ID{ann}, skipped-2, skipped-1, skipped+1)
	if err := w.keepBoards(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := w.ranking(t.Context(), StreakBoard, ann, left, 1, 0)
	if err != nil || len(r.Top) != 1 || r.Top[0].Value != 3 {
		t.Errorf("the board has %+v, %v, want a streak of three signed days", r.Top, err)
	}
}
