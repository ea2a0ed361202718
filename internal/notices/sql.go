package notices

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// asKind maps errors of the engine to the kinds that callers handle.
func asKind(err error) error { return sqldb.AsKind(err, ErrStore) }

// inTx calls [sqldb.DB.Tx], because this package caches nothing.
func inTx(ctx context.Context, db *sqldb.DB, fn func(ctx context.Context, tx *sqldb.Tx) error) error {
	return db.Tx(ctx, fn)
}

// atOnce is the largest number of rows per statement.
const atOnce = 500

var (
	lists   = sqldb.Upsert{Table: "notice_lists", Columns: []string{"user_id", "newest", "seen", "version"}, Key: []string{"user_id"}, Set: []string{"newest = newest + {new.newest}", "version = version + 1"}}
	columns = []string{"user_id", "seq", "kind", "source", "subject", "data", "at", "expires", "read_at"}
	// The numbers are new, so only a source can be a duplicate.
	inserts = sqldb.Upsert{Table: "notices", Columns: columns, Key: []string{"user_id", "source"}}
)

// insert stores notices and returns those with a new source.
func insert(ctx context.Context, tx *sqldb.Tx, list []Entry) (fresh []Notice, err error) {
	list = slices.SortedStableFunc(slices.Values(list), func(a, b Entry) int { return a.User.Compare(b.User) }) // all transactions lock in this order
	for some := range slices.Chunk(list, atOnce) {
		some, err := insertSome(ctx, tx, some)
		if err != nil {
			return nil, err
		}
		fresh = append(fresh, some...)
	}
	return fresh, nil
}

func insertSome(ctx context.Context, tx *sqldb.Tx, list []Entry) ([]Notice, error) {
	made := make([]Notice, len(list))
	many := map[accounts.ID]int64{}
	for i, n := range list {
		data, err := json.Marshal(n.Data)
		if err != nil {
			return nil, err
		}
		many[n.User]++
		made[i] = Notice{User: n.User, Kind: n.Kind, Source: n.Source, Subject: subjectOf(n.About), Data: data, At: tx.Now().UnixMilli(), Expires: sqldb.MillisOrZero(n.Expires)}
		if !n.subject.IsZero() {
			made[i].Subject = n.subject
		}
	}
	if err := number(ctx, tx, made, many); err != nil {
		return nil, err
	}
	return store(ctx, tx, made)
}

// number assigns the next numbers of their lists to notices, which are sorted by user.
func number(ctx context.Context, tx *sqldb.Tx, made []Notice, many map[accounts.ID]int64) error {
	users := make([]accounts.ID, 0, len(many))
	var args []any
	for _, n := range made {
		if len(users) == 0 || users[len(users)-1] != n.User {
			users = append(users, n.User)
			args = append(args, n.User, many[n.User], 0, 1)
		}
	}
	if _, err := tx.ExecContext(ctx, tx.Dialect().Compile(lists).For(len(users)), args...); err != nil {
		return err
	}
	newest := make(map[accounts.ID]int64, len(users))
	rows, err := tx.QueryContext(ctx, "SELECT user_id, newest FROM notice_lists WHERE user_id IN (?)", bun.List(users))
	err = sqldb.Each(rows, err, func(rows *sql.Rows) error {
		var u accounts.ID
		var n int64
		err := rows.Scan(&u, &n)
		newest[u] = n
		return err
	})
	if err != nil {
		return err
	}
	for i := range made {
		u := made[i].User
		many[u]--
		made[i].Seq = newest[u] - many[u]
	}
	return nil
}

// store stores numbered notices and returns the new ones.
func store(ctx context.Context, tx *sqldb.Tx, made []Notice) ([]Notice, error) {
	args := make([]any, 0, len(columns)*len(made))
	for _, n := range made {
		args = append(args, n.User, n.Seq, n.Kind, n.Source, n.Subject, string(n.Data), n.At, n.Expires, n.Read)
	}
	added, err := sqldb.Affected(tx.ExecContext(ctx, tx.Dialect().Compile(inserts).For(len(made)), args...))
	if err != nil || int(added) == len(made) {
		return made, err
	}
	keys := make([]any, 0, 2*len(made))
	for _, n := range made {
		keys = append(keys, n.User, n.Seq)
	}
	there := make(map[accounts.ID][]int64, added)
	rows, err := tx.QueryContext(ctx, "SELECT user_id, seq FROM notices WHERE "+sqldb.AnyOf("(user_id = ? AND seq = ?)", len(made)), keys...)
	err = sqldb.Each(rows, err, func(rows *sql.Rows) error {
		var u accounts.ID
		var seq int64
		err := rows.Scan(&u, &seq)
		there[u] = append(there[u], seq)
		return err
	})
	return slices.DeleteFunc(made, func(n Notice) bool { return !slices.Contains(there[n.User], n.Seq) }), err
}

// listed is the condition for listed notices: not expired, and not of a stopped announcement.
const listed = ` AND (n.expires = 0 OR n.expires > ?) AND (n.kind <> '` + api.NoticeAnnouncement + `' OR NOT EXISTS (SELECT 1 FROM announcements a WHERE a.id = n.subject AND a.state = '` + string(Stopped) + `'))`

const noticeColumns = "n.user_id, n.seq, n.kind, n.source, n.subject, n.data, n.at, n.expires, n.read_at"

func scanNotice(rows *sql.Rows) (n Notice, err error) {
	var data []byte
	err = rows.Scan(&n.User, &n.Seq, &n.Kind, &n.Source, &n.Subject, &data, &n.At, &n.Expires, &n.Read)
	n.Data = data
	return n, err
}

// page returns up to n notices below a number, newest first.
func page(ctx context.Context, q sqldb.Querier, user accounts.ID, below int64, n int) ([]Notice, error) {
	rows, err := q.QueryContext(ctx, "SELECT "+noticeColumns+" FROM notices n WHERE n.user_id = ? AND n.seq < ?"+listed+" ORDER BY n.seq DESC LIMIT ?", user, below, q.Now().UnixMilli(), n)
	return sqldb.Collect(rows, err, scanNotice)
}

// one returns a listed notice, or ErrNotice.
func one(ctx context.Context, q sqldb.Querier, user accounts.ID, seq int64) (Notice, error) {
	rows, err := q.QueryContext(ctx, "SELECT "+noticeColumns+" FROM notices n WHERE n.user_id = ? AND n.seq = ?"+listed, user, seq, q.Now().UnixMilli())
	found, err := sqldb.Collect(rows, err, scanNotice)
	if err == nil && len(found) == 0 {
		err = ErrNotice
	}
	if err != nil {
		return Notice{}, err
	}
	return found[0], nil
}

// pending returns the listed and unread ones of up to 500 notices.
func pending(ctx context.Context, q sqldb.Querier, places []Place) ([]Notice, error) {
	if len(places) == 0 {
		return nil, nil
	}
	args := []any{q.Now().UnixMilli()}
	for _, p := range places {
		args = append(args, p.User, p.Seq)
	}
	rows, err := q.QueryContext(ctx, "SELECT "+noticeColumns+" FROM notices n LEFT JOIN notice_lists l ON l.user_id = n.user_id WHERE n.read_at = 0 AND n.seq > COALESCE(l.seen, 0)"+listed+
		" AND ("+sqldb.AnyOf("(n.user_id = ? AND n.seq = ?)", len(places))+")", args...)
	return sqldb.Collect(rows, err, scanNotice)
}

// count returns the unread counts of users, with two statements for all. It reads the version first, so that counts are
// never older than their version.
func count(ctx context.Context, q sqldb.Querier, users ...accounts.ID) (map[accounts.ID]Counts, error) {
	all := make(map[accounts.ID]Counts, len(users))
	for _, u := range users {
		all[u] = Counts{Categories: map[string]int{}}
	}
	unread := false
	rows, err := q.QueryContext(ctx, "SELECT user_id, newest, seen, version FROM notice_lists WHERE user_id IN (?)", bun.List(users))
	err = sqldb.Each(rows, err, func(rows *sql.Rows) error {
		var u accounts.ID
		c := Counts{Categories: map[string]int{}}
		err := rows.Scan(&u, &c.Newest, &c.Seen, &c.Version)
		all[u] = c
		unread = unread || c.Newest > c.Seen
		return err
	})
	if err != nil || !unread {
		return all, err
	}
	rows, err = q.QueryContext(ctx, "SELECT n.user_id, n.kind, COUNT(*) FROM notice_lists l JOIN notices n ON n.user_id = l.user_id AND n.seq > l.seen AND n.read_at = 0"+listed+
		" WHERE l.user_id IN (?) GROUP BY n.user_id, n.kind", q.Now().UnixMilli(), bun.List(users))
	return all, sqldb.Each(rows, err, func(rows *sql.Rows) error {
		var u accounts.ID
		var kind string
		var n int
		err := rows.Scan(&u, &kind, &n)
		all[u].Categories[Category(kind)] += n
		return err
	})
}

// mark moves the mark of a user forward, and reports whether it moved.
func mark(ctx context.Context, tx *sqldb.Tx, user accounts.ID, upTo int64) (bool, error) {
	return sqldb.AffectedOne(tx.ExecContext(ctx, "UPDATE notice_lists SET seen = CASE WHEN newest < ? THEN newest ELSE ? END, version = version + 1 WHERE user_id = ? AND seen < ? AND seen < newest", upTo, upTo, user, upTo))
}

// increaseVersions increases the versions of users' lists, and locks them. Call it before a change of notices, because
// number locks in that order too.
func increaseVersions(ctx context.Context, tx *sqldb.Tx, users ...accounts.ID) error {
	_, err := tx.ExecContext(ctx, "UPDATE notice_lists SET version = version + 1 WHERE user_id IN (?)", bun.List(users))
	return err
}

// readOne marks one notice as read, and reports whether it was unread. It returns ErrNotice if there is none.
func readOne(ctx context.Context, tx *sqldb.Tx, user accounts.ID, seq int64) (bool, error) {
	n, err := one(ctx, tx, user, seq)
	if err != nil || n.Read != 0 {
		return false, err
	}
	if err := increaseVersions(ctx, tx, user); err != nil {
		return false, err
	}
	return sqldb.AffectedOne(tx.ExecContext(ctx, "UPDATE notices SET read_at = ? WHERE user_id = ? AND seq = ? AND read_at = 0", tx.Now().UnixMilli(), user, seq))
}

// deleteTold deletes notices by user and source, and returns the users who had one.
func deleteTold(ctx context.Context, tx *sqldb.Tx, list []Told) (users []accounts.ID, err error) {
	for some := range slices.Chunk(list, atOnce/2) {
		args := make([]any, 0, 2*len(some))
		for _, t := range some {
			args = append(args, t.User, t.Source)
		}
		where := sqldb.AnyOf("(user_id = ? AND source = ?)", len(some))
		found, err := sqldb.Column[accounts.ID](tx.QueryContext(ctx, "SELECT DISTINCT user_id FROM notices WHERE "+where, args...))
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			continue
		}
		if err := increaseVersions(ctx, tx, found...); err != nil {
			return nil, err
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM notices WHERE "+where, args...); err != nil {
			return nil, err
		}
		users = append(users, found...)
	}
	return users, nil
}

// erase deletes all data of a user, in batches.
func erase(ctx context.Context, db *sqldb.DB, user accounts.ID) error {
	for {
		list, err := sqldb.Column[int64](db.QueryContext(ctx, "SELECT seq FROM notices WHERE user_id = ? LIMIT ?", user, atOnce))
		if err != nil {
			return err
		}
		if len(list) == 0 {
			break
		}
		if _, err := db.ExecContext(ctx, "DELETE FROM notices WHERE user_id = ? AND seq IN (?)", user, bun.List(list)); err != nil {
			return err
		}
	}
	return db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, of := tx.ExecContext(ctx, "DELETE FROM announcement_users WHERE user_id = ?", user)
		_, list := tx.ExecContext(ctx, "DELETE FROM notice_lists WHERE user_id = ?", user)
		return cmp.Or(of, list)
	})
}

// deleteOld deletes notices from before a time, and expired ones, in batches.
func deleteOld(ctx context.Context, db *sqldb.DB, before, now time.Time) error {
	for _, some := range []struct {
		where string
		until time.Time
	}{{"at < ?", before}, {"expires > 0 AND expires < ?", now}} {
		for {
			rows, err := db.QueryContext(ctx, "SELECT user_id, seq FROM notices WHERE "+some.where+" LIMIT ?", some.until.UnixMilli(), atOnce)
			var keys []any
			err = sqldb.Each(rows, err, func(rows *sql.Rows) error {
				var u accounts.ID
				var seq int64
				err := rows.Scan(&u, &seq)
				keys = append(keys, u, seq)
				return err
			})
			if err != nil {
				return err
			}
			if len(keys) == 0 {
				break
			}
			if _, err := db.ExecContext(ctx, "DELETE FROM notices WHERE "+sqldb.AnyOf("(user_id = ? AND seq = ?)", len(keys)/2), keys...); err != nil {
				return err
			}
		}
	}
	return nil
}
