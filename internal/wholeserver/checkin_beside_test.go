package wholeserver

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/background/runs"
	"github.com/stoa-dev/stoa/internal/checkin"
	"github.com/stoa-dev/stoa/internal/checkin/reconcile"
	"github.com/stoa-dev/stoa/internal/checkin/transfer"
	"github.com/stoa-dev/stoa/internal/testkit"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// A command of another process writes to SQL. The server applies the change and starts the run; only the server can
// reach its Redis.
func TestAServerFollowsWhatIsWrittenBesideIt(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := testkit.Start(t)
		c := s.SignUp(t, "UTC")
		me, err := c.Me(t.Context())
		must(t, err)
		s.Call(t, c, "POST", "/v1/checkin", "{}") // loads its record, with one day
		db := s.SQL(t)
		x := checkin.NewAdmin(db)
		today := time.Now().UTC()
		text := fmt.Sprintf("user,day\n%[1]s,%[2]s\n%[1]s,%[3]s\n", me.ID, today.AddDate(0, 0, -1).Format(time.DateOnly),
			today.AddDate(0, 0, -2).Format(time.DateOnly))
		sum, err := transfer.Import(t.Context(), db, strings.NewReader(text), transfer.ImportOptions{Format: transfer.CSV, MaxFaults: 1,
			Fault: func(f transfer.Fault) { t.Error(f) }, Progress: func(transfer.Imported) error { return nil }})
		if err != nil || sum.New != 2 {
			t.Fatalf("%+v, %v", sum, err)
		}
		eventually.True(t, "the days to be seen", func() bool {
			_, _, status := s.Call(t, c, "GET", "/v1/checkin", "")
			_, _, board := s.Call(t, c, "GET", "/v1/checkin/boards/streak", "")
			return strings.Contains(status, `"streak":3`) && strings.Contains(board, `"value":3`)
		})
		r, err := x.Request(t.Context(), reconcile.ReconcileRun, reconcile.Options{})
		must(t, err)
		eventually.True(t, "a server to do the run", func() bool {
			r, err = x.Runs.Run(t.Context(), r.ID)
			return err != nil || r.State == runs.Done
		})
		if err != nil || r.Summary.Compared != 1 || r.Summary.Differences != 0 {
			t.Errorf("%+v, %v", r, err)
		}
	})
}
