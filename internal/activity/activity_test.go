package activity

import (
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/ids"
)

func dayOf(t *testing.T, s string) civil.Day {
	t.Helper()
	d, err := civil.ParseDay(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestSpanOf_ReturnsWeekAndMonth(t *testing.T) {
	for _, tt := range []struct {
		p                Period
		day, first, last string
	}{
		{Week, "2026-11-24", "2026-11-23", "2026-11-29"},
		{Week, "2026-11-23", "2026-11-23", "2026-11-29"},
		{Week, "2026-11-29", "2026-11-23", "2026-11-29"},
		{Week, "2027-01-01", "2026-12-28", "2027-01-03"}, // of 2026's week 53
		{Week, "1970-01-01", "1969-12-29", "1970-01-04"},
		{Month, "2026-12-31", "2026-12-01", "2026-12-31"},
		{Month, "2027-01-01", "2027-01-01", "2027-01-31"},
		{Month, "2028-02-10", "2028-02-01", "2028-02-29"},
		{Month, "2027-02-28", "2027-02-01", "2027-02-28"},
	} {
		got := tt.p.SpanOf(dayOf(t, tt.day))
		if got.First.String() != tt.first || got.Last.String() != tt.last {
			t.Errorf("the %s of %s: got %s to %s, want %s to %s", tt.p, tt.day, got.First, got.Last, tt.first, tt.last)
		}
	}
}

func TestCountMerge_NeverFallsAndMarksLoss(t *testing.T) {
	for _, tt := range []struct {
		name              string
		before, now, want Count
	}{
		{"more users", Count{5, true, false}, Count{7, true, false}, Count{7, true, false}},
		{"as many", Count{5, true, false}, Count{5, true, false}, Count{5, true, false}},
		{"fewer", Count{5, true, false}, Count{4, true, false}, Count{5, true, true}},
		{"more, after a loss", Count{5, true, true}, Count{9, true, false}, Count{9, true, true}},
		{"an estimate that moves", Count{1000, false, false}, Count{990, false, false}, Count{1000, false, false}},
		{"an estimate that falls", Count{1000, false, false}, Count{900, false, false}, Count{1000, false, true}},
		{"an estimate of more", Count{10, true, false}, Count{12, false, false}, Count{12, false, false}},
		{"an estimate below an exact number", Count{1000, true, false}, Count{995, false, false}, Count{1000, true, false}},
		{"no users", Count{0, true, false}, Count{0, true, false}, Count{0, true, false}},
	} {
		if got := tt.now.merge(tt.before); got != tt.want {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func TestRangeMerge_CompleteCountStaysComplete(t *testing.T) {
	of := func(through civil.Day, n int64, partial bool) Range {
		return Range{Through: through, Count: Count{n, true, partial}}
	}
	for _, tt := range []struct {
		name              string
		before, now, want Range
	}{
		{"the sets are gone", of(9, 50, false), of(9, 20, true), of(9, 50, false)},
		{"another day", of(8, 50, false), of(9, 60, false), of(9, 60, false)},
		{"another day, and some of the sets are gone", of(8, 50, false), of(9, 20, true), of(9, 50, true)},
		{"late users", of(9, 50, false), of(9, 51, false), of(9, 51, false)},
		{"it was partial", of(9, 50, true), of(9, 50, false), of(9, 50, true)},
		{"it was partial, and is counted with another day", of(8, 50, true), of(9, 55, true), of(9, 55, true)},
	} {
		if got := tt.now.merge(tt.before); got != tt.want {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func TestIsDue_AfterDayAndOneDayLater(t *testing.T) {
	end := time.Date(2026, 11, 24, 0, 0, 0, 0, time.UTC)
	at := func(d time.Duration) time.Time { return end.Add(d) }
	var never time.Time
	for _, tt := range []struct {
		name        string
		now, closed time.Time
		want        bool
	}{
		{"it has just ended", at(time.Minute), never, false},
		{"a quarter of an hour", at(closeDelay), never, true},
		{"it is closed", at(time.Hour), at(closeDelay), false},
		{"a day later", at(24*time.Hour + closeDelay), at(time.Hour), true},
		{"a day later, closed twice", at(25 * time.Hour), at(24*time.Hour + closeDelay), false},
		{"a worker that comes late", at(100 * time.Hour), never, true},
		{"a worker that was late", at(200 * time.Hour), at(100 * time.Hour), false},
	} {
		if got := isDue(tt.now, tt.closed, end); got != tt.want {
			t.Errorf("%s: due %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestSettings_ValidateChecksZone(t *testing.T) {
	for zone, want := range map[string]bool{"": true, "UTC": true, "Asia/Shanghai": true, "Local": false, "Mars/Olympus": false} {
		if err := (Settings{Zone: zone}).Validate(); (err == nil) != want {
			t.Errorf("%q: got %v, want valid %v", zone, err, want)
		}
	}
}

func randomMember() (m member) {
	copy(m[:], ids.New[dayUsers]().String())
	return m
}

func TestDayUsers_RecordedUserWaitsOnce(t *testing.T) {
	n := newDayUsers(20_000, civil.Clock{})
	a, b := randomMember(), randomMember()
	for range 3 {
		for _, u := range []member{a, b} {
			if !n.add(u, maxUsers) {
				t.Error("a user is refused")
			}
		}
	}
	if users, waiting := n.count(); users != 2 || waiting != 2 {
		t.Errorf("%d users, %d waiting; want 2 and 2", users, waiting)
	}
	first := n.dequeue(1)
	if got := append(first, n.dequeue(10)...); len(first) != 1 || len(got) != 2 || got[0] == got[1] {
		t.Errorf("got %v", got)
	}
	if more := n.dequeue(10); len(more) != 0 {
		t.Errorf("%d users wait twice", len(more))
	}
	n.add(a, maxUsers)
	if _, waiting := n.count(); waiting != 0 {
		t.Error("a user who was sent waits again")
	}
	n.requeue([]member{a})
	if got := n.dequeue(10); len(got) != 1 || got[0] != a {
		t.Errorf("got %v, want the user that Redis did not store", got)
	}
	if n.requeueAll() != 2 || len(n.dequeue(10)) != 2 {
		t.Error("not all users wait again")
	}
}

func TestDayUsers_MemoryIsBounded(t *testing.T) {
	const limit = 10 * shardCount
	n := newDayUsers(20_000, civil.Clock{})
	refused := 0
	for range 10 * limit {
		if !n.add(randomMember(), limit) {
			refused++
		}
	}
	if users, waiting := n.count(); users > limit || waiting != users || refused != 10*limit-users {
		t.Errorf("without Redis: %d users, %d waiting, %d refused; want at most %d users, and the others refused", users, waiting, refused, limit)
	}
	for range 10 * limit {
		n.dequeue(limit)
		if !n.add(randomMember(), limit) {
			t.Fatal("a user is refused although no user waits")
		}
	}
	if users, _ := n.count(); users > limit {
		t.Errorf("%d users, want at most %d", users, limit)
	}
}

func TestDayUsers_RecordedUserAllocatesNothing(t *testing.T) {
	n, u := newDayUsers(20_000, civil.Clock{}), randomMember()
	n.add(u, maxUsers)
	if got := testing.AllocsPerRun(100, func() { n.add(u, maxUsers) }); got != 0 {
		t.Errorf("%v allocations", got)
	}
}

func TestDays_Advance(t *testing.T) {
	clock := civil.Clock{Zone: "Asia/Shanghai"}
	at := func(s string) time.Time {
		t.Helper()
		m, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	var d *days
	d = d.advance(at("2026-11-23T15:59:59Z"), clock)
	if got := d.today.date.String(); got != "2026-11-23" || d.previous != nil || len(d.all()) != 1 {
		t.Errorf("the day is %s, %+v", got, d)
	}
	if n := d.find(at("2026-11-23T16:00:00Z")); n != nil {
		t.Errorf("midnight in Shanghai is on %s", n.date)
	}
	next := d.advance(at("2026-11-23T16:00:00Z"), clock)
	if next.today.date.String() != "2026-11-24" || next.previous != d.today || len(next.all()) != 2 {
		t.Errorf("after midnight: %+v", next)
	}
	if next.find(at("2026-11-23T15:59:59Z")) != d.today || next.find(at("2026-11-24T15:59:59Z")) != next.today ||
		next.find(at("2026-11-22T12:00:00Z")) != nil {
		t.Error("times are not on their days")
	}
	if last := next.advance(at("2026-11-28T00:00:00Z"), clock); last.previous != next.today {
		t.Error("the former today is not the previous day")
	}
}
