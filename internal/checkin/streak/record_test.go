package streak

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stoa-dev/stoa/internal/base/civil"
)

// reference computes a user's figures in the simplest way, from a set of days.
type reference struct{ signed, covered map[civil.Day]bool }

func referenceOf(history History) reference {
	r := reference{map[civil.Day]bool{}, map[civil.Day]bool{}}
	for _, m := range history.Marks {
		if m.Kind.Signs() {
			r.signed[m.Day] = true
		} else {
			r.covered[m.Day] = true
		}
	}
	return r
}

func (r reference) runTo(d civil.Day) (n int) {
	for ; r.signed[d] || r.covered[d]; d-- {
		if r.signed[d] {
			n++
		}
	}
	return n
}

func (r reference) status(today civil.Day) Status {
	s := Status{Day: today, Today: r.signed[today], Yesterday: r.signed[today-1], Total: len(r.signed)}
	if s.Streak = r.runTo(today); !r.signed[today] && !r.covered[today] {
		s.Streak = r.runTo(today - 1)
	}
	for d := range r.signed {
		s.Longest = max(s.Longest, r.runTo(d))
	}
	return s
}

func days(t *testing.T, dates ...string) (history History) {
	t.Helper()
	for _, date := range dates {
		kind := Tapped
		if date[0] == '~' {
			kind, date = Frozen, date[1:]
		}
		d, err := civil.ParseDay(date)
		if err != nil {
			t.Fatal(err)
		}
		history.Marks = append(history.Marks, Mark{Day: d, Kind: kind, At: time.Unix(int64(d)*86400, 0)})
	}
	return history
}

func TestStatus_FollowsFromDays(t *testing.T) {
	for _, tt := range []struct {
		what    string
		history []string
		today   string
		want    Status
	}{
		{"nothing yet", nil, "2026-11-21", Status{}},
		{"first day", []string{"2026-11-21"}, "2026-11-21", Status{Today: true, Streak: 1, Longest: 1, Total: 1}},
		{"today still to come", []string{"2026-11-19", "2026-11-20"}, "2026-11-21", Status{Yesterday: true, Streak: 2, Longest: 2, Total: 2}},
		{"a missed day shows 0 at once", []string{"2026-11-18", "2026-11-19"}, "2026-11-21", Status{Streak: 0, Longest: 2, Total: 2}},
		{"a covered day bridges and does not count", []string{"2026-11-18", "~2026-11-19", "2026-11-20"}, "2026-11-21",
			Status{Yesterday: true, Streak: 2, Longest: 2, Total: 2}},
		{"a covered yesterday keeps the streak", []string{"2026-11-19", "~2026-11-20"}, "2026-11-21", Status{Streak: 1, Longest: 1, Total: 1}},
		{"29 February is a day", []string{"2024-02-28", "2024-02-29", "2024-03-01"}, "2024-03-01",
			Status{Today: true, Yesterday: true, Streak: 3, Longest: 3, Total: 3}},
		{"and there is none in other years", []string{"2026-02-28", "2026-03-01"}, "2026-03-01",
			Status{Today: true, Yesterday: true, Streak: 2, Longest: 2, Total: 2}},
		{"New Year's Eve counts on 1 January", []string{"2025-12-30", "2025-12-31"}, "2026-01-01",
			Status{Yesterday: true, Streak: 2, Longest: 2, Total: 2}},
		{"a streak over New Year", []string{"2025-12-31", "2026-01-01"}, "2026-01-01",
			Status{Today: true, Yesterday: true, Streak: 2, Longest: 2, Total: 2}},
		{"31 December of a leap year is day 366", []string{"2024-12-31"}, "2024-12-31", Status{Today: true, Streak: 1, Longest: 1, Total: 1}},
		{"a year missed", []string{"2024-12-31", "2026-01-01"}, "2026-01-01", Status{Today: true, Streak: 1, Longest: 1, Total: 2}},
	} {
		today, _ := civil.ParseDay(tt.today)
		tt.want.Day = today
		history := days(t, tt.history...)
		if got := RecordOf(today.Year(), history).Status(today); got != tt.want {
			t.Errorf("%s: got %+v, want %+v", tt.what, got, tt.want)
		}
		if got := referenceOf(history).status(today); got != tt.want {
			t.Errorf("%s: the reference itself says %+v, want %+v", tt.what, got, tt.want)
		}
	}
}

// drawHistory draws up to a few years of days around New Years, with long runs.
func drawHistory(t *rapid.T) History {
	first := civil.DayOf(2023, time.December, 1) + civil.Day(rapid.IntRange(0, 60).Draw(t, "start"))
	var history []Mark
	for d, n := first, rapid.IntRange(0, 12).Draw(t, "runs"); n > 0; n-- {
		length := rapid.IntRange(1, 120).Draw(t, "length")
		for range length {
			kind := Tapped
			if rapid.IntRange(0, 9).Draw(t, "frozen") == 0 {
				kind = Frozen
			}
			history = append(history, Mark{Day: d, Kind: kind, At: time.Unix(int64(d)*86400, 0)})
			d++
		}
		d += civil.Day(rapid.IntRange(1, 40).Draw(t, "gap"))
	}
	return History{Marks: history}
}

func TestRecordAndTally_MatchReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		history := drawHistory(t)
		last := civil.DayOf(2023, time.December, 1)
		if n := len(history.Marks); n > 0 {
			last = history.Marks[n-1].Day
		}
		today := last + civil.Day(rapid.IntRange(0, 3).Draw(t, "later"))
		want := referenceOf(history).status(today)
		if got := RecordOf(today.Year(), history).Status(today); got != want {
			t.Fatalf("record: got %+v, want %+v", got, want)
		}
		var tally Tally
		for _, m := range history.Marks {
			tally.Add(m)
		}
		if tally.Streak(today) != want.Streak || tally.Longest != want.Longest || tally.Total != want.Total {
			t.Fatalf("tally: got %+v, want %+v", tally, want)
		}
	})
}

func TestRecord_DayIsOneBit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		history := drawHistory(t).Marks
		if len(history) == 0 {
			return
		}
		at := rapid.IntRange(0, len(history)-1).Draw(t, "at")
		m := history[at]
		year := history[len(history)-1].Day.Year()
		if m.Day.Year() != year {
			return
		}
		without := RecordOf(year, History{Marks: slices.Delete(slices.Clone(history), at, at+1)})
		without.Set(m.Day, m.Kind)
		if m.Kind == Frozen {
			without.put(14, without.FreezesUsed()+1)
		}
		if want := RecordOf(year, History{Marks: history}); *without != *want {
			t.Fatalf("setting the bit of %s gives another record than loading it", m.Day)
		}
	})
}

func TestAudit_RecognizesRecords(t *testing.T) {
	rec := RecordOf(2026, History{})
	for text, want := range map[string]bool{
		string(rec[:]): true, "\x00": true, "\x00\x80": true, "\x01": true, // not loaded yet, or of a former version
		"": false, "\x03": false, "2026": false, string(rec[:RecordSize-1]): false, string(rec[:]) + "x": false,
	} {
		if err := CheckRecord([]byte(text)); want != (err == nil) {
			t.Errorf("%q: got %v", text, err)
		}
	}
}

func written(days []civil.Day) (out []string) {
	for _, d := range days {
		out = append(out, d.String())
	}
	return out
}

func TestRecord_SeparatesSignedAndCoveredDays(t *testing.T) {
	rec := RecordOf(2024, days(t, "2024-02-28", "2024-02-29", "~2024-03-01", "2024-12-31"))
	signed, covered := rec.Days(civil.DayOf(2024, 1, 1), civil.DayOf(2024, 12, 31))
	if got := written(signed); !slices.Equal(got, []string{"2024-02-28", "2024-02-29", "2024-12-31"}) {
		t.Errorf("signed: got %v", got)
	}
	if got := written(covered); !slices.Equal(got, []string{"2024-03-01"}) {
		t.Errorf("covered: got %v", got)
	}
}

func TestStreak_DiesAtStartOfDayAfterNext(t *testing.T) {
	d, _ := civil.ParseDay("2026-11-21")
	if got, want := (Freezes{}).dies(civil.Clock{Zone: "Asia/Shanghai"}, d, 1, 0),
		time.Date(2026, 11, 22, 16, 0, 0, 0, time.UTC); !got.Equal(want) {
		t.Errorf("Shanghai: got %s, want %s", got, want)
	}
	now := time.Date(2026, 11, 21, 20, 0, 0, 0, time.UTC) // 09:00 on the 21st in Pago Pago
	c, err := civil.Clock{Zone: "Pacific/Pago_Pago"}.Change("Pacific/Kiritimati", now)
	if err != nil {
		t.Fatal(err)
	}
	// The 22nd is skipped, so the streak survives the 23rd.
	if got, want := (Freezes{}).dies(c, d, 1, 0), time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC); !got.Equal(want) {
		t.Errorf("over a date left out: got %s, want %s", got, want)
	}
}

func TestSkippedDate_EndsGapWithoutFreeze(t *testing.T) {
	now := time.Date(2026, 11, 21, 20, 0, 0, 0, time.UTC) // 09:00 on the 21st in Pago Pago
	c, err := civil.Clock{Zone: "Pacific/Pago_Pago"}.Change("Pacific/Kiritimati", now)
	if err != nil {
		t.Fatal(err)
	}
	newest, _ := civil.ParseDay("2026-11-20") // the 21st is missed, the 22nd skipped
	for _, tt := range []struct {
		most, owned int
		last        string
		spent       int
	}{
		{1, 0, "2026-11-20", 0}, {1, 1, "2026-11-22", 1}, {1, 2, "2026-11-23", 2}, {1, 9, "2026-11-23", 2}, {2, 9, "2026-11-24", 3},
	} {
		last, spent := Freezes{Max: tt.most}.bridge(c, newest, 5, tt.owned, newest+20)
		if last.String() != tt.last || spent != tt.spent {
			t.Errorf("%d owned, %d at most: got %s and %d spent, want %s and %d", tt.owned, tt.most, last, spent, tt.last, tt.spent)
		}
	}
}

func FuzzParseRecord(f *testing.F) {
	f.Add("", int32(20000))
	f.Add(string(make([]byte, 200)), int32(0))
	f.Add("\x02\x00\x7f\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", int32(20000))
	f.Fuzz(func(t *testing.T, s string, day int32) {
		today := civil.Day(day % 1e6)
		st := Freezes{Every: 1, Max: 5}.Status(Parse(s), civil.Clock{}, today)
		if st.Streak < 0 || st.Longest < 0 || st.Total < 0 {
			t.Fatalf("%q on %s: %+v", s, today, st)
		}
	})
}

func BenchmarkStatus(b *testing.B) {
	var history []Mark
	for d := civil.DayOf(2024, 1, 1); d <= civil.DayOf(2026, 11, 21); d++ {
		history = append(history, Mark{Day: d, Kind: Tapped})
	}
	rec, today := RecordOf(2026, History{Marks: history}), civil.DayOf(2026, 11, 21)
	b.ReportAllocs()
	for b.Loop() {
		if rec.Status(today).Streak != len(history) {
			b.Fatal("wrong streak")
		}
	}
}
