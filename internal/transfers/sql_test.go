package transfers

import (
	"strings"
	"testing"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
)

// analyze makes a server update the statistics of a table. Otherwise it would do so at any time after the table was
// filled, or too late, and the plan of a query would be random.
func analyze(t *testing.T, db *sqldb.DB, table string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), "ANALYZE TABLE "+table); err != nil {
		t.Fatal(err)
	}
}

func TestSQL_SkipsFilesOfMessages(t *testing.T) {
	user := ids.New[accounts.User]()
	lite := sqldbtest.SQLite(t)
	if plan := sqldbtest.Plan(t, lite, listSent, user, never.UnixMilli(), 1, 1, "", 10); !strings.Contains(plan, "(sender=? AND expires<?)") {
		t.Errorf("the list is read by %s", plan)
	}
	if plan := sqldbtest.Plan(t, lite, countOpen, user, Pending, Transferring); !strings.Contains(plan, "(sender=? AND status=?)") {
		t.Errorf("open ones are counted by %s", plan)
	}

	db := sqldbtest.Default(t).Open(t, func(c *sqldb.Config) { c.MaxConns = 1 })
	var args []any
	const files = 1000
	for i := range files {
		args = append(args, ids.New[Transfer](), user, "", "", "", 1, "", Done, "", 1, []byte{}, 1, i, i, never.UnixMilli())
	}
	if _, err := db.ExecContext(t.Context(), "INSERT INTO transfers ("+columns+") VALUES "+sqldb.Tuples(15, files), args...); err != nil {
		t.Fatal(err)
	}
	analyze(t, db, "transfers")
	if n := sqldbtest.RowsRead(t, db, func() {
		if _, err := (&sqlStore{db: db}).list(t.Context(), user, files, "", 10); err != nil {
			t.Error(err)
		}
	}); n > files/5 {
		t.Errorf("%d rows are read for a list of none", n)
	}
}

func TestQuota_SweepDeletesPastDaysOnly(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		const old, fresh = sweepBatch + 1, 100
		today := dayOf(w.sql.db.Now())
		var args []any
		for i := range old + fresh {
			day := today - 2
			if i >= old {
				day = today - int64(i%2)
			}
			args = append(args, ids.New[accounts.User](), day, 1, 1)
		}
		_, err := w.db.ExecContext(t.Context(), "INSERT INTO transfer_quotas (user_id, day, files, bytes) VALUES "+sqldb.Tuples(4, old+fresh),
			args...)
		w.must(err)
		w.must(w.expire(t.Context()))
		var all, kept int
		w.must(w.db.QueryRowContext(t.Context(), "SELECT COUNT(*), COALESCE(SUM(CASE WHEN day >= ? THEN 1 ELSE 0 END), 0) FROM transfer_quotas",
			today-1).Scan(&all, &kept))
		if all != fresh || kept != fresh {
			t.Errorf("%d are kept, %d of them of today and yesterday; want these %d", all, kept, fresh)
		}
	})

	db := sqldbtest.Default(t).Open(t, func(c *sqldb.Config) { c.MaxConns = 1 })
	const many = 1000
	var args []any
	for range many {
		args = append(args, ids.New[accounts.User](), 100, 1, 1)
	}
	if _, err := db.ExecContext(t.Context(), "INSERT INTO transfer_quotas (user_id, day, files, bytes) VALUES "+sqldb.Tuples(4, many),
		args...); err != nil {
		t.Fatal(err)
	}
	analyze(t, db, "transfer_quotas")
	if n := sqldbtest.RowsRead(t, db, func() {
		if _, err := (&sqlStore{db: db}).forgetOldQuotas(t.Context(), 100, sweepBatch); err != nil {
			t.Error(err)
		}
	}); n > many/5 {
		t.Errorf("%d rows are read where none is old", n)
	}
}
