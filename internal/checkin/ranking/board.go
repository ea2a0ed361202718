package ranking

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

// The errors that a caller can cause.
var (
	ErrBoard  = errs.New(errs.NotFound, "checkin.board_unknown", "There are four boards: streak, total_days, week and month.")
	ErrSeason = errs.New(errs.NotFound, "checkin.season", "The season is unknown. Use 2026-W47 or 2026-11.")
)

// Board names one ranking.
type Board struct {
	name   string
	season int32 // 202647 for a week, 202611 for a month; 0: all time
}

// The boards for all time.
var (
	StreakBoard = Board{name: "streak"}     // by current streak; dead streaks leave it
	TotalBoard  = Board{name: "total_days"} // by days checked in
)

// The boards of a season count the days checked in within it, by each user's own calendar.
const (
	weekly  = "week" // Monday to Sunday, numbered as in ISO 8601
	monthly = "month"
)

// seasonKept is the number of days that a season is stored after its end.
const seasonKept = 183

// WeekOf returns the board of the week of d.
func WeekOf(d civil.Day) Board {
	year, week := d.ISOWeek()
	return Board{weekly, int32(100*year + week)} //nolint:gosec // a calendar's year
}

// MonthOf returns the board of the month of d.
func MonthOf(d civil.Day) Board { return Board{monthly, int32(streak.MonthOf(d))} } //nolint:gosec // a calendar's year

// SeasonsOf returns the boards of the seasons of d.
func SeasonsOf(d civil.Day) []Board { return []Board{WeekOf(d), MonthOf(d)} }

// ParseBoard returns the board with that name and season, 2026-W47 or 2026-11. An empty season is that of today. It
// returns ErrBoard or ErrSeason if there is no such board or season.
func ParseBoard(name, season string, today civil.Day) (Board, error) {
	switch {
	case name == StreakBoard.name && season == "":
		return StreakBoard, nil
	case name == TotalBoard.name && season == "":
		return TotalBoard, nil
	case name == weekly && season == "":
		return WeekOf(today), nil
	case name == monthly && season == "":
		return MonthOf(today), nil
	case name != weekly && name != monthly:
		if name == StreakBoard.name || name == TotalBoard.name {
			return Board{}, ErrSeason
		}
		return Board{}, ErrBoard
	}
	form := "%4d-%2d"
	if name == weekly {
		form = "%4d-W%2d"
	}
	var year, n int32
	if _, err := fmt.Sscanf(season, form, &year, &n); err != nil {
		return Board{}, ErrSeason
	}
	b := Board{name, 100*year + n}
	if b.Season() != season || year < 1970 || n < 1 || n > 53 || name == monthly && n > 12 {
		return Board{}, ErrSeason
	}
	first, last := b.Span()
	if name == weekly && WeekOf(first) != b || first > today || last < today-seasonKept {
		return Board{}, ErrSeason
	}
	return b, nil
}

// String returns the name without the season.
func (b Board) String() string { return b.name }

// Key returns a text that differs for all boards and seasons.
func (b Board) Key() string { return string(b.AppendSegment(nil)) }

// Season returns the name of the season. It is empty for a board for all time.
func (b Board) Season() string {
	switch b.name {
	case weekly:
		return fmt.Sprintf("%04d-W%02d", b.season/100, b.season%100)
	case monthly:
		return fmt.Sprintf("%04d-%02d", b.season/100, b.season%100)
	}
	return ""
}

// Span returns a season's first and last day.
func (b Board) Span() (first, last civil.Day) {
	year, n := int(b.season/100), int(b.season%100)
	if b.name == monthly {
		return civil.DayOf(year, time.Month(n), 1), civil.DayOf(year, time.Month(n)+1, 0)
	}
	fourth := civil.DayOf(year, time.January, 4) // always in the first week
	first = fourth - civil.Day((int(fourth.Weekday())+6)%7) + civil.Day(7*(n-1))
	return first, first + 6
}

// value returns the value of a score on a board for all time.
func (b Board) value(s streak.Score) int {
	if b == StreakBoard {
		return s.Streak
	}
	return s.Total
}

// Current returns the boards that check-ins can change at a moment, in any zone.
func Current(now time.Time) []Board {
	all := []Board{StreakBoard, TotalBoard}
	// The earliest and the latest zone are at -12 and +14 hours.
	first, last := SeasonsOf(dayAt(now.Add(-12*time.Hour))), SeasonsOf(dayAt(now.Add(14*time.Hour)))
	for i, b := range first {
		if all = append(all, b); b != last[i] {
			all = append(all, last[i])
		}
	}
	return all
}

// Kept returns the current boards and those of the seasons that can still be read.
func Kept(now time.Time) []Board {
	all := Current(now)
	for d := dayAt(now); d > dayAt(now)-seasonKept-32; d-- {
		for _, b := range SeasonsOf(d) {
			if !slices.Contains(all, b) {
				all = append(all, b)
			}
		}
	}
	return all
}

// bygone returns boards of seasons that are no longer stored. It goes back far enough for a server that was off for
// some months.
func bygone(now time.Time) (old []Board) {
	for d := dayAt(now) - seasonKept - 32; d > dayAt(now)-2*seasonKept; d -= 7 {
		old = append(old, WeekOf(d), MonthOf(d))
	}
	return old
}

func dayAt(t time.Time) civil.Day { return civil.Clock{}.Today(t) }

// AppendSegment implements [keyspace.Segment].
func (b Board) AppendSegment(buf []byte) []byte {
	if buf = append(buf, b.name...); b.season != 0 {
		buf = strconv.AppendInt(append(buf, '_'), int64(b.season), 10)
	}
	return buf
}

// SegmentForm implements [keyspace.Formed].
func (Board) SegmentForm() keyspace.Form {
	return keyspace.Form{Alphabet: keyspace.Base64URL, Min: len(monthly), Max: len("month_202611")}
}
