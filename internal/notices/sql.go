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

// asKind converts errors of the SQL engine to the kinds that callers handle.
func asKind(err error) error { return sqldb.AsKind(err, ErrStore) }

// inTx runs fn in a transaction of [sqldb.DB.Tx]. No cache needs a fence, because this package caches nothing.
func inTx(ctx context.Context, db *sqldb.DB, fn func(ctx context.Context, tx *sqldb.Tx) error) error {
	return db.Tx(ctx, fn)
}

// batchSize is the largest number of rows of one statement.
const batchSize = 500

var (
	listUpsert = sqldb.Upsert{Table: "notice_lists", Columns: []string{"user_id", "newest", "seen", "version"}, Key: []string{"user_id"},
		Set: []string{"newest = newest + {new.newest}", "version = version + 1"}}
	columns = []string{"user_id", "seq", "kind", "source", "subject", "data", "at", "expires", "read_at"}
	// The numbers are new, so that only a source can be a duplicate.
	noticeInsert = sqldb.Upsert{Table: "notices", Columns: columns, Key: []string{"user_id", "source"}}
)

// insert stores notices and returns those with a new source.
func insert(ctx context.Context, tx *sqldb.Tx, list []Entry) (added []Notice, err error) {
	// all transactions lock lists in this order
	list = slices.SortedStableFunc(slices.Values(list), func(a, b Entry) int { return a.User.Compare(b.User) })
	for chunk := range slices.Chunk(list, batchSize) {
		stored, err := insertChunk(ctx, tx, chunk)
		if err != nil {
			return nil, err
		}
		added = append(added, stored...)
	}
	return added, nil
}

func insertChunk(ctx context.Context, tx *sqldb.Tx, list []Entry) ([]Notice, error) {
	notices := make([]Notice, len(list))
	countByUser := map[accounts.ID]int64{}
	for i, n := range list {
		data, err := json.Marshal(n.Data)
		if err != nil {
			return nil, err
		}
		countByUser[n.User]++
		notices[i] = Notice{User: n.User, Kind: n.Kind, Source: n.Source, Subject: subjectOf(n.About), Data: data, At: tx.Now().UnixMilli(),
			Expires: sqldb.MillisOrZero(n.Expires)}
		if !n.subject.IsZero() {
			notices[i].Subject = n.subject
		}
	}
	if err := assignNumbers(ctx, tx, notices, countByUser); err != nil {
		return nil, err
	}
	return store(ctx, tx, notices)
}

// assignNumbers assigns the next numbers of each user's list to notices, which are sorted by user.
func assignNumbers(ctx context.Context, tx *sqldb.Tx, notices []Notice, countByUser map[accounts.ID]int64) error {
	users := make([]accounts.ID, 0, len(countByUser))
	var args []any
	for _, n := range notices {
		if len(users) == 0 || users[len(users)-1] != n.User {
			users = append(users, n.User)
			args = append(args, n.User, countByUser[n.User], 0, 1)
		}
	}
	newest := make(map[accounts.ID]int64, len(users))
	query := tx.Dialect().Compile(listUpsert).For(len(users))
	if tx.Dialect().Returns() {
		query += " RETURNING user_id, newest"
	} else {
		if err := tx.ExecLater(ctx, query, args...); err != nil {
			return err
		}
		query, args = "SELECT user_id, newest FROM notice_lists WHERE user_id IN (?)", []any{bun.List(users)}
	}
	rows, err := tx.QueryContext(ctx, query, args...)
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
	for i := range notices {
		u := notices[i].User
		countByUser[u]--
		notices[i].Seq = newest[u] - countByUser[u]
	}
	return nil
}

// store stores numbered notices and returns the new ones.
func store(ctx context.Context, tx *sqldb.Tx, notices []Notice) ([]Notice, error) {
	args := make([]any, 0, len(columns)*len(notices))
	for _, n := range notices {
		args = append(args, n.User, n.Seq, n.Kind, n.Source, n.Subject, string(n.Data), n.At, n.Expires, n.Read)
	}
	added, err := sqldb.Affected(tx.ExecContext(ctx, tx.Dialect().Compile(noticeInsert).For(len(notices)), args...))
	if err != nil || int(added) == len(notices) {
		return notices, err
	}
	keys := make([]any, 0, 2*len(notices))
	for _, n := range notices {
		keys = append(keys, n.User, n.Seq)
	}
	stored := make(map[accounts.ID][]int64, added)
	rows, err := tx.QueryContext(ctx, "SELECT user_id, seq FROM notices WHERE "+sqldb.AnyOf("(user_id = ? AND seq = ?)", len(notices)),
		keys...)
	err = sqldb.Each(rows, err, func(rows *sql.Rows) error {
		var u accounts.ID
		var seq int64
		err := rows.Scan(&u, &seq)
		stored[u] = append(stored[u], seq)
		return err
	})
	return slices.DeleteFunc(notices, func(n Notice) bool { return !slices.Contains(stored[n.User], n.Seq) }), err
}

// listed is the condition for listed notices: not expired, and not of a stopped announcement.
const listed = ` AND (n.expires = 0 OR n.expires > ?) AND (n.kind <> '` + api.NoticeAnnouncement +
	`' OR NOT EXISTS (SELECT 1 FROM announcements a WHERE a.id = n.subject AND a.state = '` + string(Stopped) + `'))`

const noticeColumns = "n.user_id, n.seq, n.kind, n.source, n.subject, n.data, n.at, n.expires, n.read_at"

func scanNotice(rows *sql.Rows) (n Notice, err error) {
	var data []byte
	err = rows.Scan(&n.User, &n.Seq, &n.Kind, &n.Source, &n.Subject, &data, &n.At, &n.Expires, &n.Read)
	n.Data = data
	return n, err
}

// selectPage returns up to n listed notices below a number, newest first.
func selectPage(ctx context.Context, q sqldb.Querier, user accounts.ID, below int64, n int) ([]Notice, error) {
	rows, err := q.QueryContext(ctx, "SELECT "+noticeColumns+" FROM notices n WHERE n.user_id = ? AND n.seq < ?"+listed+
		" ORDER BY n.seq DESC LIMIT ?", user, below, q.Now().UnixMilli(), n)
	return sqldb.Collect(rows, err, scanNotice)
}

// selectNotice returns a listed notice, or ErrNotice.
func selectNotice(ctx context.Context, q sqldb.Querier, user accounts.ID, seq int64) (Notice, error) {
	rows, err := q.QueryContext(ctx, "SELECT "+noticeColumns+" FROM notices n WHERE n.user_id = ? AND n.seq = ?"+listed, user, seq,
		q.Now().UnixMilli())
	found, err := sqldb.Collect(rows, err, scanNotice)
	if err == nil && len(found) == 0 {
		err = ErrNotice
	}
	if err != nil {
		return Notice{}, err
	}
	return found[0], nil
}

// selectPending returns those of up to 500 notices that are listed and unread.
func selectPending(ctx context.Context, q sqldb.Querier, keys []SeqKey) ([]Notice, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	args := []any{q.Now().UnixMilli()}
	for _, p := range keys {
		args = append(args, p.User, p.Seq)
	}
	rows, err := q.QueryContext(ctx, "SELECT "+noticeColumns+
		" FROM notices n LEFT JOIN notice_lists l ON l.user_id = n.user_id WHERE n.read_at = 0 AND n.seq > COALESCE(l.seen, 0)"+listed+
		" AND ("+sqldb.AnyOf("(n.user_id = ? AND n.seq = ?)", len(keys))+")", args...)
	return sqldb.Collect(rows, err, scanNotice)
}

// selectCounts returns the unread counts of users. It is one statement, so that counts belong to their version.
func selectCounts(ctx context.Context, q sqldb.Querier, users ...accounts.ID) (map[accounts.ID]Counts, error) {
	all := make(map[accounts.ID]Counts, len(users))
	for _, u := range users {
		all[u] = Counts{Categories: map[string]int{}}
	}
	rows, err := q.QueryContext(ctx, "SELECT l.user_id, l.newest, l.seen, l.version, COALESCE(n.kind, ''), COUNT(n.seq) FROM notice_lists l "+
		"LEFT JOIN notices n ON n.user_id = l.user_id AND n.seq > l.seen AND n.read_at = 0"+listed+
		" WHERE l.user_id IN (?) GROUP BY l.user_id, l.newest, l.seen, l.version, n.kind", q.Now().UnixMilli(), bun.List(users))
	return all, sqldb.Each(rows, err, func(rows *sql.Rows) error {
		var u accounts.ID
		var c Counts
		var kind string
		var n int
		err := rows.Scan(&u, &c.Newest, &c.ReadUpTo, &c.Version, &kind, &n)
		c.Categories = all[u].Categories
		if n > 0 {
			c.Categories[Category(kind)] += n
		}
		all[u] = c
		return err
	})
}

// updateMark moves the mark of a user forward, and reports whether it moved.
func updateMark(ctx context.Context, tx *sqldb.Tx, user accounts.ID, upTo int64) (bool, error) {
	return sqldb.AffectedOne(tx.ExecContext(ctx, "UPDATE notice_lists SET seen = CASE WHEN newest < ? THEN newest ELSE ? END, version = "+
		"version + 1 WHERE user_id = ? AND seen < ? AND seen < newest", upTo, upTo, user, upTo))
}

// increaseVersions increases the versions of users' lists, and locks the lists. Call it before a change of notices:
// assignNumbers also locks a list before its notices.
func increaseVersions(ctx context.Context, tx *sqldb.Tx, users ...accounts.ID) error {
	return tx.ExecLater(ctx, "UPDATE notice_lists SET version = version + 1 WHERE user_id IN (?)", bun.List(users))
}

// markRead marks one notice as read, and reports whether it was unread. It returns ErrNotice if the notice does not
// exist.
func markRead(ctx context.Context, tx *sqldb.Tx, user accounts.ID, seq int64) (bool, error) {
	n, err := selectNotice(ctx, tx, user, seq)
	if err != nil || n.Read != 0 {
		return false, err
	}
	if err := increaseVersions(ctx, tx, user); err != nil {
		return false, err
	}
	return sqldb.AffectedOne(tx.ExecContext(ctx, "UPDATE notices SET read_at = ? WHERE user_id = ? AND seq = ? AND read_at = 0",
		tx.Now().UnixMilli(), user, seq))
}

// deleteBySource deletes notices by user and source, and returns the users who had one.
func deleteBySource(ctx context.Context, tx *sqldb.Tx, list []SourceKey) (users []accounts.ID, err error) {
	for chunk := range slices.Chunk(list, batchSize/2) {
		args := make([]any, 0, 2*len(chunk))
		for _, key := range chunk {
			args = append(args, key.User, key.Source)
		}
		found := []accounts.ID{chunk[0].User}
		where := sqldb.AnyOf("(user_id = ? AND source = ?)", len(chunk))
		if len(chunk) == 1 {
			// No engine converts a counting subquery into a join, which would lock the notice before the list.
			if had, err := sqldb.AffectedOne(tx.ExecContext(ctx, "UPDATE notice_lists SET version = version + 1 WHERE user_id = ? AND "+
				"(SELECT COUNT(*) FROM notices WHERE "+where+") > 0", append([]any{chunk[0].User}, args...)...)); err != nil {
				return nil, err
			} else if !had {
				continue
			}
		} else {
			if found, err = sqldb.Column[accounts.ID](tx.QueryContext(ctx, "SELECT DISTINCT user_id FROM notices WHERE "+where,
				args...)); err != nil {
				return nil, err
			}
			if len(found) == 0 {
				continue
			}
			if err := increaseVersions(ctx, tx, found...); err != nil {
				return nil, err
			}
		}
		if err := tx.ExecLater(ctx, "DELETE FROM notices WHERE "+where, args...); err != nil {
			return nil, err
		}
		users = append(users, found...)
	}
	return users, nil
}

// erase deletes all data of a user, in batches.
func erase(ctx context.Context, db *sqldb.DB, user accounts.ID) error {
	for {
		seqs, err := sqldb.Column[int64](db.QueryContext(ctx, "SELECT seq FROM notices WHERE user_id = ? LIMIT ?", user, batchSize))
		if err != nil {
			return err
		}
		if len(seqs) == 0 {
			break
		}
		if _, err := db.ExecContext(ctx, "DELETE FROM notices WHERE user_id = ? AND seq IN (?)", user, bun.List(seqs)); err != nil {
			return err
		}
	}
	return db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, usersErr := tx.ExecContext(ctx, "DELETE FROM announcement_users WHERE user_id = ?", user)
		_, listErr := tx.ExecContext(ctx, "DELETE FROM notice_lists WHERE user_id = ?", user)
		return cmp.Or(usersErr, listErr)
	})
}

// deleteOld deletes notices that are older than before, and expired notices, in batches.
func deleteOld(ctx context.Context, db *sqldb.DB, before, now time.Time) error {
	for _, rule := range []struct {
		where string
		until time.Time
	}{{"at < ?", before}, {"expires > 0 AND expires < ?", now}} {
		for {
			rows, err := db.QueryContext(ctx, "SELECT user_id, seq FROM notices WHERE "+rule.where+" LIMIT ?", rule.until.UnixMilli(), batchSize)
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
			if _, err := db.ExecContext(ctx, "DELETE FROM notices WHERE "+sqldb.AnyOf("(user_id = ? AND seq = ?)", len(keys)/2),
				keys...); err != nil {
				return err
			}
		}
	}
	return nil
}
