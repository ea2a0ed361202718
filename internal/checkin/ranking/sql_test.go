package ranking

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
	for _, e := range sqldbtest.Engines(t) {
		t.Run(e.Name, func(t *testing.T) {
			db, ctx := e.Open(t), t.Context()
			s, user := &sqlStore{db, errAway}, ids.New[accounts.User]()
			today := civil.Clock{}.Today(db.Now())
			in := db.Inserter(sqldb.Upsert{Table: "checkins", Columns: []string{"user_id", "day", "at", "kind", "words", "minutes", "req"},
				Key: []string{"user_id", "day"}})
			if _, err := in.Insert(ctx, []any{user.String(), int64(today), db.Now().UnixMilli(), int64(streak.Tapped), int64(0), int64(0),
				int64(1)}); err != nil {
				t.Fatal(err)
			}
			if _, err := db.ExecContext(ctx, "INSERT INTO checkin_grants (user_id, at, id, n, reason) VALUES (?, ?, ?, 2, 'a test')", user,
				db.Now().UnixMilli(), ids.New[streak.Grant]()); err != nil {
				t.Fatal(err)
			}
			sqldbtest.Reads(t, "sql.go", map[string]func() (int, error){
				"everybody": func() (n int, err error) {
					err = s.everybody(ctx, func(_ accounts.ID, t streak.Tally) error { n += t.Total; return nil })
					return n, err
				},
				"freezesGranted": func() (int, error) {
					all, err := s.freezesGranted(ctx, user, user)
					return all[user], err
				},
				"season": func() (n int, err error) {
					for a, err := range s.season(ctx, WeekOf(today)) {
						if err != nil {
							return 0, err
						}
						n += a.days
					}
					return n, nil
				},
			})
		})
	}
}
