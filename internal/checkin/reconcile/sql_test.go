package reconcile

import (
	"testing"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
)

func TestStatements_ReadRows(t *testing.T) {
	t.Parallel()
	for _, e := range sqldbtest.Engines(t) {
		t.Run(e.Name, func(t *testing.T) {
			db, ctx := e.Open(t), t.Context()
			s, user := &sqlStore{db}, ids.New[accounts.User]()
			users, day := []accounts.ID{user}, civil.Clock{}.Today(db.Now())
			in := db.Inserter(sqldb.Upsert{Table: "checkins", Columns: []string{"user_id", "day", "at", "kind", "words", "minutes", "req"},
				Key: []string{"user_id", "day"}})
			if _, err := in.Insert(ctx, []any{user.String(), int64(day), db.Now().UnixMilli(), int64(streak.Tapped), int64(0), int64(0),
				int64(1)}); err != nil {
				t.Fatal(err)
			}
			if err := s.persist(ctx, []totals{{User: user, Total: 2}}, []month{{User: user, Month: 202611}}); err != nil {
				t.Fatal(err)
			}
			counted := func(n int64, err error) (int, error) { return int(n), err }
			sqldbtest.Reads(t, "sql.go", map[string]func() (int, error){
				"usersAfter": func() (int, error) {
					all, err := s.usersAfter(ctx, "", "", 5)
					return len(all), err
				},
				"countUsers": func() (int, error) { return counted(s.countUsers(ctx, "", "")) },
				"activeAfter": func() (int, error) {
					all, err := s.activeAfter(ctx, "", day-30, 5)
					return len(all), err
				},
				"countActive": func() (int, error) { return counted(s.countActive(ctx, day-30)) },
				"firstYears": func() (int, error) {
					years, err := s.firstYears(ctx, users)
					return years[user], err
				},
				"persisted": func() (int, error) {
					sums, months, err := s.persisted(ctx, users)
					return len(sums) * len(months), err
				},
			})
		})
	}
}
