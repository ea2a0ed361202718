package messaging

import (
	"context"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
)

// Also if a page ends among rows that have changed at the same time.
func TestChangedSince_ReadsEachRowOnce(t *testing.T) {
	for _, e := range sqldbtest.Engines(t) {
		t.Run(e.Name, func(t *testing.T) {
			db := e.Open(t, func(c *sqldb.Config) { c.MaxConns = 1 })
			s := newSQLStore(db)
			const n = 5 * changedChunk
			want := map[memberKey]int{}
			var conversations, members []any
			var user accounts.ID
			for i := range n {
				if i%2 == 0 {
					user = ids.New[accounts.User]()
				}
				c := conversation{id: ids.New[conversation](), kind: group, changed: int64(1000 + i/3)}
				m := member{user: user, conv: c.id, changed: c.changed}
				if i%2 == 0 {
					c.kind, m.peer = direct, ids.New[accounts.User]()
				}
				conversations, members = append(conversations, c.row()...), append(members, m.row()...)
				want[memberKey{conv: c.id}], want[memberKey{user, c.id}] = c.kind, c.kind
			}
			insert := func(tx *sqldb.Tx, into *sqldb.Statement, args []any) (err error) {
				for each := len(args) / n * maxConditions; len(args) > 0 && err == nil; args = args[min(each, len(args)):] {
					some := args[:min(each, len(args))]
					_, err = tx.ExecContext(t.Context(), into.For(len(some)*maxConditions/each), some...)
				}
				return err
			}
			err := db.Tx(t.Context(), func(_ context.Context, tx *sqldb.Tx) error {
				if err := insert(tx, s.newConversations, conversations); err != nil {
					return err
				}
				return insert(tx, s.newMembers, members)
			})
			if err != nil {
				t.Fatal(err)
			}
			replay := func() {
				err := s.changedSince(t.Context(), time.UnixMilli(1000), func(list []change) error {
					for _, c := range list {
						key := memberKey{conv: c.conv}
						if c.ownOnly {
							key.user = c.users[0]
						}
						if want[key] != c.kind {
							t.Errorf("%v is of kind %d, or comes once more", key, c.kind)
						}
						delete(want, key)
					}
					return nil
				})
				if err != nil || len(want) != 0 {
					t.Errorf("%d rows do not come (%v)", len(want), err)
				}
			}
			if db.Dialect() == sqldb.SQLite {
				replay()
				return
			}
			if _, err := db.ExecContext(t.Context(), "ANALYZE TABLE conversations, chat_members"); err != nil {
				t.Fatal(err)
			}
			if read := sqldbtest.RowsRead(t, db, replay); read > 3*n {
				t.Errorf("%d rows are read of %d", read, 2*n)
			}
		})
	}
}
