package ranking

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
)

func TestRecord_HasWeekOverNewYear(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(7, 7))
	for range 2000 {
		newYear := civil.DayOf(2020+random.IntN(12), 1, 1)
		var h streak.History
		for d := newYear - 20; d < newYear+20; d++ {
			if random.IntN(2) == 0 {
				h.Marks = append(h.Marks, streak.Mark{Day: d, Kind: streak.Kind(1 + random.IntN(4))})
			}
		}
		rec := streak.RecordOf(newYear.Year(), h)
		for day := newYear; day < newYear+20; day++ {
			for _, b := range SeasonsOf(day) {
				first, last := b.Span()
				if first > day || day > last || WeekOf(first) != WeekOf(day) && b == WeekOf(day) {
					t.Fatalf("%s is not in %s, %s to %s", day, b.Key(), first, last)
				}
				want, _ := h.SignedIn(b.Span())
				if got := rec.SignedIn(newYear.Year(), first, last); got != want {
					t.Fatalf("%s: %d days by the record, %d by the log", b.Key(), got, want)
				}
			}
		}
	}
}

func TestBoard_UnknownIsCallersError(t *testing.T) {
	t.Parallel()
	for _, bad := range [][2]string{{"best", ""}, {"streak", "2026-11"}, {"week", "2026-11"}, {"week", "2026-W48"}, {"week", "2025-W53"},
		{"week", "2026-W1"},
		{"month", "2026-W47"}, {"month", "2026-13"}, {"month", "2026-12"}, {"month", "2026-00"}, {"month", "2026-11 "}, {"month", "2026-01"},
		{"week", "9999-W99"}} {
		if b, err := ParseBoard(bad[0], bad[1], civil.DayOf(2026, 11, 21)); !errors.Is(err, ErrBoard) && !errors.Is(err, ErrSeason) {
			t.Errorf("board %q: got %v, %v", bad, b, err)
		}
	}
}
