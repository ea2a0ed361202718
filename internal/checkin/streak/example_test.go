package streak_test

import (
	"fmt"

	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
)

// A freeze covers the 20th while the 21st is not yet signed.
func ExampleFreezes_Status() {
	var h streak.History
	for day := 16; day <= 19; day++ {
		h.Marks = append(h.Marks, streak.Mark{Day: civil.DayOf(2026, 11, day), Kind: streak.Tapped})
	}
	rules := streak.Freezes{Every: 4, Max: 1}
	st := rules.Status(streak.RecordOf(2026, h), civil.Clock{}, civil.DayOf(2026, 11, 21))
	fmt.Println(st.Streak, "days,", st.Freezes, "freezes left,", st.Used, "used")
	// Output: 4 days, 0 freezes left, 1 used
}

func ExampleTally() {
	var t streak.Tally
	for _, m := range []streak.Mark{
		{Day: civil.DayOf(2026, 11, 18), Kind: streak.Tapped},
		{Day: civil.DayOf(2026, 11, 19), Kind: streak.Frozen},
		{Day: civil.DayOf(2026, 11, 20), Kind: streak.Tapped},
	} {
		t.Add(m)
	}
	fmt.Println(t.Streak(civil.DayOf(2026, 11, 21)), t.Streak(civil.DayOf(2026, 11, 22)))
	// Output: 2 0
}
