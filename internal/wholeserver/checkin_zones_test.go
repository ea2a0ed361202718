package wholeserver

import (
	"slices"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/internal/background/runs"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/checkin"
	"github.com/stoa-dev/stoa/internal/checkin/reconcile"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/internal/testkit"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// Five users like Ben of docs/checkin.md: each skips another date about New Year, and some choose a zone again on the
// day after. The jobs of the server do all the work.
func TestADateThatWasLeftOutStaysCovered(t *testing.T) {
	for _, e := range sqldbtest.Engines(t) {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			if e.Name == "sqlite" {
				bubble.Test(t, func(t *testing.T) { datesThatWereLeftOut(t, e) })
			} else {
				datesThatWereLeftOut(t, e)
			}
		})
	}
}

func datesThatWereLeftOut(t *testing.T, e sqldbtest.Engine) {
	cfg := e.Config(t)
	s := testkit.Start(t, func(a *app.Config) {
		a.Accounts.AccessLife = 60 * 24 * time.Hour
		if cfg.URL != "" {
			a.SQL = cfg.URL
		} else {
			a.Data = cfg.Dir
		}
	})
	first := civil.DayOf(2026, 12, 25)
	// 09:00 in Pago Pago and 10:00 of the next date in Kiritimati.
	at := func(d civil.Day) { s.Clock.Set(time.Unix(int64(d)*86400, 0).Add(20 * time.Hour)) }
	at(first)
	bens := make([]*client.Client, 5)
	for i := range bens {
		bens[i] = s.SignUp(t, "Pacific/Pago_Pago")
	}
	moves := func(i int) civil.Day { return first + 2 + civil.Day(i) }
	const days = 9
	for d := first; d < first+days; d++ {
		at(d)
		for i, ben := range bens {
			if _, err := ben.Checkin(t.Context(), api.CheckinRequest{}); err != nil {
				t.Fatal(err)
			}
			zone := ""
			switch {
			case d == moves(i):
				zone = "Pacific/Kiritimati"
			case d == moves(i)+1 && i%3 == 0:
				zone = "Asia/Tokyo"
			case d == moves(i)+1 && i%3 == 1: // the zone in force again, as a program may send it at each start
				zone = "Pacific/Kiritimati"
			default:
				continue
			}
			if _, err := ben.UpdateMe(t.Context(), api.UserUpdate{Zone: &zone}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, name := range []string{"streak", "total_days"} {
		var board api.Board
		eventually.True(t, "everybody to be on the board "+name, func() bool {
			var err error
			board, err = bens[0].Board(t.Context(), name, client.BoardQuery{})
			must(t, err)
			return len(board.Entries) == len(bens) && !slices.ContainsFunc(board.Entries, func(e api.BoardRow) bool { return e.Value != days })
		})
	}
	for i, ben := range bens {
		st, err := ben.CheckinStatus(t.Context())
		if err != nil || st.Streak != days || st.Longest != days || st.Total != days {
			t.Errorf("who left out %s: %+v, %v, want %d days", moves(i)+1, st, err, days)
		}
		left := moves(i) + 1
		if cal, err := ben.CheckinYear(t.Context(), left.Year()); err != nil || !slices.Equal(cal.Covered, []string{left.String()}) {
			t.Errorf("who left out %s: the calendar has %v covered, %v", left, cal.Covered, err)
		}
	}
	db := s.SQL(t)
	x := checkin.NewAdmin(db)
	r, err := x.Request(t.Context(), reconcile.ReconcileRun, reconcile.Options{})
	must(t, err)
	eventually.True(t, "the reconciliation", func() bool {
		r, err = x.Runs.Run(t.Context(), r.ID)
		return err != nil || r.State == runs.Done
	})
	if err != nil || r.Summary.Compared != len(bens) || r.Summary.Differences != 0 {
		t.Errorf("the reconciliation: %+v, %v", r, err)
	}
}
