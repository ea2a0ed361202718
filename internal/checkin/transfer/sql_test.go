package transfer

import (
	"fmt"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
)

func TestStatements_ReadRows(t *testing.T) {
	for _, e := range sqldbtest.Engines(t) {
		t.Run(e.Name, func(t *testing.T) {
			db, ctx := e.Open(t), t.Context()
			user := account(t, db, "ann@example.org", "Ann", "UTC")
			today := civil.Clock{}.Today(db.Now())
			file := fmt.Sprintf("user,day,kind,makeup,at,freezes,reason\n%[1]s,%[2]s,made_up,%[3]s,,,\n%[1]s,,grant,,%[4]s,2,a test\n",
				user, today, makeupText(streak.MonthOf(today), 1), db.Now().Add(-time.Hour).UTC().Format(time.RFC3339))
			if sum, faults, err := imports(t, db, file, ImportOptions{Format: CSV}); err != nil || len(faults) > 0 || sum.New != 2 {
				t.Fatal(sum, faults, err)
			}
			day := Day{User: user, Day: today}
			held := makeup{key: day.key(), month: streak.MonthOf(today), n: 1}
			all := ExportOptions{First: today - 2, Last: today}
			sqldbtest.Reads(t, "sql.go", map[string]func() (int, error){
				"unaudited": func() (int, error) {
					missing, log, err := unaudited(ctx, db, []makeup{held})
					return len(log) - len(missing), err
				},
				"CountHeld": func() (int, error) {
					n, err := CountHeld(ctx, db, []Day{day})
					return int(n), err
				},
				"Arrivals": func() (int, error) {
					log, err := Arrivals(ctx, db, false, Arrival{}, 5)
					if err != nil {
						return 0, err
					}
					touched, err := Arrivals(ctx, db, true, Arrival{}, 5)
					return len(log) * len(touched), err
				},
				"TouchedAt": func() (int, error) {
					all, err := TouchedAt(ctx, db, []accounts.ID{user})
					return len(all), err
				},
				"Due": func() (int, error) { // of the import's own message
					var mark int64
					if err := db.NewRaw("SELECT MAX(mark) FROM checkin_touched").Scan(ctx, &mark); err != nil {
						return 0, err
					}
					due, err := Due(ctx, db, Touched{Users: []accounts.ID{user}, Mark: mark})
					if err != nil {
						return 0, err
					}
					return int(due[0].Last), nil // without its row: 0
				},
				"countNew": func() (int, error) { // of a grant that exists
					var g grant
					if err := exportGrants(ctx, db, all, func(e exported, is grant) error {
						g, g.user, g.At = is, e.User, time.UnixMilli(e.At)
						return nil
					}); err != nil {
						return 0, err
					}
					n, err := countNew(ctx, db, batch{days: []Day{day}, makeups: []makeup{held}, grants: []grant{g}})
					return 1 - int(n), err
				},
				"exportDays": func() (n int, err error) {
					err = exportDays(ctx, db, all, func(_ exported, d exportedDay) error { n += d.N; return nil })
					return n, err
				},
				"exportGrants": func() (n int, err error) {
					err = exportGrants(ctx, db, all, func(_ exported, g grant) error { n += g.N; return nil })
					return n, err
				},
				"countExport": func() (int, error) {
					n, err := countExport(ctx, db, all)
					return int(n), err
				},
			})
		})
	}
}
