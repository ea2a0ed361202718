package transfers

import (
	"strings"
	"testing"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/foundation/ids"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb/sqldbtest"
)

func TestFilesOfMessagesCostTheirSenderNothing(t *testing.T) {
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
	if n := sqldbtest.RowsRead(t, db, func() {
		if _, err := (&rows{db: db}).list(t.Context(), user, files, "", 10); err != nil {
			t.Error(err)
		}
	}); n > files/5 {
		t.Errorf("%d rows are read for a list of none", n)
	}
}
