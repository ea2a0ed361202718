package activity

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
)

func testEachSQL(t *testing.T, test func(t *testing.T, db *sqldb.DB)) {
	for _, e := range sqldbtest.Engines(t) {
		t.Run(e.Name, func(t *testing.T) { test(t, e.Open(t)) })
	}
}

func TestUpserts_NeverLowerNumbers(t *testing.T) {
	testEachSQL(t, func(t *testing.T, db *sqldb.DB) {
		ctx := t.Context()
		at := func(n int) time.Time { return time.UnixMilli(1_790_000_000_000 + int64(n)).UTC() }
		day := func(n int64, exact, partial bool, closed time.Time, updated int) Day {
			return Day{Date: 20_000, Count: Count{n, exact, partial}, Closed: closed, Updated: at(updated)}
		}
		for i, step := range []struct{ write, want Day }{
			{day(5, true, false, time.Time{}, 1), day(5, true, false, time.Time{}, 1)},
			{day(3, false, true, at(9), 2), day(5, true, true, at(9), 2)},
			{day(7, false, false, time.Time{}, 3), day(7, false, true, at(9), 3)},
			{day(7, true, false, at(8), 4), day(7, false, true, at(9), 4)},
		} {
			if err := writeDays(ctx, db, []Day{step.write, {Date: civil.Day(20_001 + i), Updated: at(1)}}); err != nil {
				t.Fatal(err)
			}
			got, err := selectDays(ctx, db, Span{20_000, 20_000}, 9)
			if err != nil || len(got) != 1 || got[0] != step.want {
				t.Errorf("step %d: got %+v, %v; want %+v", i, got, err, step.want)
			}
		}
		newest, err := selectDays(ctx, db, allDays, 2)
		if err != nil || len(newest) != 2 || newest[0].Date != 20_004 || newest[1].Date != 20_003 {
			t.Errorf("newest days: %+v, %v", newest, err)
		}

		span := Week.SpanOf(20_000)
		week := func(through civil.Day, n int64, partial bool, updated int) Range {
			return Range{Week, span, through, Count{n, true, partial}, at(updated)}
		}
		for i, step := range []struct{ write, want Range }{
			{week(20_000, 50, false, 1), week(20_000, 50, false, 1)},
			{week(20_001, 40, true, 2), week(20_001, 50, true, 2)},
			{week(20_000, 60, false, 3), week(20_001, 60, false, 3)},
		} {
			if err := writeRange(ctx, db, step.write); err != nil {
				t.Fatal(err)
			}
			if got, err := selectRanges(ctx, db, Week, allDays, 9); err != nil || len(got) != 1 || got[0] != step.want {
				t.Errorf("step %d: got %+v, %v; want %+v", i, got, err, step.want)
			}
		}
		if got, err := selectRanges(ctx, db, Month, allDays, 9); err != nil || len(got) != 0 {
			t.Errorf("months: %+v, %v", got, err)
		}

		for _, size := range []int64{4, 2} {
			if err := writeCohorts(ctx, db, []Cohort{{Date: 19_990, After: 10, Size: size, Active: size - 1},
				{Date: 19_990, After: 11, Size: size, Active: 1}}, at(1)); err != nil {
				t.Fatal(err)
			}
		}
		cohorts, err := selectCohorts(ctx, db, allDays)
		want := []Cohort{{19_990, 10, 4, 3, true}, {19_990, 11, 4, 1, false}}
		if err != nil || !slices.Equal(cohorts, want) {
			t.Errorf("cohorts: got %+v, %v; want %+v, because day 20,000 is partial", cohorts, err, want)
		}
	})
}

func TestRegisteredBetween_PagesAndBounds(t *testing.T) {
	testEachSQL(t, func(t *testing.T, db *sqldb.DB) {
		ctx := t.Context()
		from := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
		created := []time.Duration{-time.Millisecond, 0, 0, 0, time.Hour, 24*time.Hour - time.Millisecond, 24 * time.Hour}
		users := register(t, db, len(created))
		for i, u := range users {
			if _, err := db.ExecContext(ctx, "UPDATE users SET created = ? WHERE id = ?", from.Add(created[i]).UnixMilli(), u); err != nil {
				t.Fatal(err)
			}
		}
		for page := 1; page <= len(users); page++ {
			var got []accounts.ID
			var last accounts.Registered
			for {
				list, err := accounts.RegisteredBetween(ctx, db, from, from.Add(24*time.Hour), last, page)
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range list {
					got = append(got, r.User)
				}
				if len(list) < page {
					break
				}
				last = list[len(list)-1]
			}
			slices.SortFunc(got, accounts.ID.Compare)
			want := slices.Clone(users[1:6])
			slices.SortFunc(want, accounts.ID.Compare)
			if !slices.Equal(got, want) {
				t.Errorf("in pages of %d: got %v, want %v", page, got, want)
			}
		}
	})
}

// register creates accounts.
func register(t *testing.T, db *sqldb.DB, n int) (users []accounts.ID) {
	t.Helper()
	var all []accounts.User
	for i := range n {
		u, err := accounts.NewUser(fmt.Sprintf("user%d@example.org", i), fmt.Sprint("User ", i), "UTC")
		if err != nil {
			t.Fatal(err)
		}
		all, users = append(all, u), append(users, u.ID)
	}
	if err := db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error { return accounts.InsertUsers(ctx, tx, all) }); err != nil {
		t.Fatal(err)
	}
	return users
}
