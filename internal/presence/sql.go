package presence

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// asKind converts errors of the SQL engine to the kinds that callers handle.
func asKind(err error) error { return sqldb.AsKind(err, ErrStore) }

// row is a row of the table presence.
type row struct {
	wish     Wish
	lastSeen time.Time // zero: never
}

// selectRows returns the rows of up to 500 users. It omits users without a row.
func selectRows(ctx context.Context, q sqldb.Querier, users []accounts.ID) (map[accounts.ID]row, error) {
	all := map[accounts.ID]row{}
	if len(users) == 0 {
		return all, nil
	}
	rows, err := q.QueryContext(ctx, "SELECT user_id, wish, version, seen FROM presence WHERE user_id IN (?)", bun.List(users))
	return all, sqldb.Each(rows, err, func(rows *sql.Rows) error {
		var u accounts.ID
		var r row
		var seen int64
		err := rows.Scan(&u, &r.wish.Status, &r.wish.Version, &seen)
		r.lastSeen = sqldb.TimeOrZero(seen)
		all[u] = r
		return err
	})
}

var (
	columns    = []string{"user_id", "wish", "version", "seen"}
	wishUpsert = sqldb.Upsert{Table: "presence", Columns: columns, Key: columns[:1],
		Set: []string{"wish", "version = version + {new.version}"}}
	lastSeenUpsert = sqldb.Upsert{Table: "presence", Columns: columns, Key: columns[:1], Set: []string{"seen = {greatest}(seen, {new.seen})"}}
)

// updateWish sets a user's wish and returns it. changed is false if the user already had this wish.
func updateWish(ctx context.Context, db *sqldb.DB, user accounts.ID, to Status) (w Wish, changed bool, err error) {
	err = db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		changed = false
		before, err := selectRows(ctx, tx, []accounts.ID{user})
		if err != nil {
			return err
		}
		if w = before[user].wish; w.status() == to {
			return nil
		}
		if _, err := tx.ExecContext(ctx, tx.Dialect().Compile(wishUpsert).For(1), user, int(to), 1, 0); err != nil {
			return err
		}
		after, err := selectRows(ctx, tx, []accounts.ID{user}) // the transaction has the lock of the row
		w, changed = after[user].wish, true
		return err
	})
	return w, changed, err
}

// upsertLastSeen stores when users were last seen.
func upsertLastSeen(ctx context.Context, db *sqldb.DB, lastSeen map[accounts.ID]time.Time) error {
	args := make([]any, 0, 4*len(lastSeen))
	for _, u := range slices.SortedFunc(maps.Keys(lastSeen), accounts.ID.Compare) { // all writers lock rows in one order
		args = append(args, u, 0, 0, lastSeen[u].UnixMilli())
	}
	_, err := db.ExecContext(ctx, db.Dialect().Compile(lastSeenUpsert).For(len(lastSeen)), args...)
	return err
}

func deleteRow(ctx context.Context, db *sqldb.DB, user accounts.ID) error {
	_, err := db.ExecContext(ctx, "DELETE FROM presence WHERE user_id = ?", user)
	return err
}

// StoreLastSeen stores when users were last online. It writes to SQL only, for the accounts of a demo.
func StoreLastSeen(ctx context.Context, db *sqldb.DB, lastSeen map[accounts.ID]time.Time) error {
	return upsertLastSeen(ctx, db, lastSeen)
}
