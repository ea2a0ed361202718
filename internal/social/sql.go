package social

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/cursor"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// ErrStore reports that SQL is unavailable.
var ErrStore = errs.New(errs.Unavailable, "friends.store_away", "Friends are unavailable. Please try again.").Retry(2 * time.Second)

// asKind gives errors of the engine the kind that callers handle.
func asKind(ctx context.Context, err error) error { return sqldb.AsKindWithin(ctx, err, ErrStore) }

// list is a user's row in friend_lists. Each transaction that changes friends or requests of the user locks it; see
// lockLists.
type list struct {
	version int64 // of the list of friends: the highest one in the user's rows
	news    int64 // the number of changes of blocks and of unread requests, which is the version of their events
	pruned  int64 // removals up to this version are deleted
	asked   int64 // Unix ms of the newest request to the user; no two have the same
	seen    int64 // Unix ms of the newest request that the user has seen
}

var newLists = sqldb.Upsert{Table: "friend_lists", Columns: []string{"user_id", "version", "pruned", "asked", "seen"},
	Key: []string{"user_id"}}

// lockLists locks the lists of users until tx ends. Each change that concerns two users holds both locks, which are
// always taken in the same order.
func lockLists(ctx context.Context, tx *sqldb.Tx, users ...accounts.ID) (map[accounts.ID]list, error) {
	users = slices.SortedFunc(slices.Values(users), accounts.ID.Compare)
	lists := make(map[accounts.ID]list, len(users))
	read := func() error {
		rows, err := tx.QueryContext(ctx, "SELECT user_id, version, pruned, asked, seen FROM friend_lists"+tx.Dialect().ByIndex("PRIMARY")+
			" WHERE user_id IN (?) ORDER BY user_id"+tx.Dialect().ForUpdate(), bun.List(users))
		return sqldb.Each(rows, err, func(rows *sql.Rows) error {
			var u accounts.ID
			var l list
			err := rows.Scan(&u, &l.version, &l.pruned, &l.asked, &l.seen)
			lists[u] = l
			return err
		})
	}
	if err := read(); err != nil || len(lists) == len(users) {
		return lists, err
	}
	args := make([]any, 0, 5*len(users))
	for _, u := range users {
		args = append(args, u, 0, 0, 0, 0)
	}
	if _, err := tx.ExecContext(ctx, tx.Dialect().Compile(newLists).For(len(users)), args...); err != nil {
		return nil, err
	}
	return lists, read()
}

// readList returns a user's list, or the zero list for a user without a row.
func readList(ctx context.Context, q sqldb.Querier, user accounts.ID) (l list, err error) {
	err = q.QueryRowContext(ctx, "SELECT version, pruned, asked, seen FROM friend_lists WHERE user_id = ?", user).Scan(&l.version, &l.pruned,
		&l.asked, &l.seen)
	return l, sqldb.Missing(err, nil)
}

// selectLists returns the versions of lists.
func selectLists(ctx context.Context, q sqldb.Querier, users []accounts.ID) (map[accounts.ID]list, error) {
	lists := make(map[accounts.ID]list, len(users))
	rows, err := q.QueryContext(ctx, "SELECT user_id, version, news FROM friend_lists WHERE user_id IN (?)", bun.List(users))
	return lists, sqldb.Each(rows, err, func(rows *sql.Rows) error {
		var u accounts.ID
		var l list
		err := rows.Scan(&u, &l.version, &l.news)
		lists[u] = l
		return err
	})
}

// countNews counts a change of blocks or of unread requests of users.
func countNews(ctx context.Context, tx *sqldb.Tx, users []accounts.ID) error {
	_, err := tx.ExecContext(ctx, "UPDATE friend_lists SET news = news + 1 WHERE user_id IN (?)", bun.List(users))
	return err
}

// bumpVersions gives each list the next version.
func bumpVersions(ctx context.Context, tx *sqldb.Tx, users ...accounts.ID) error {
	_, err := tx.ExecContext(ctx, "UPDATE friend_lists SET version = version + 1 WHERE user_id IN (?)", bun.List(users))
	return err
}

// ownVersion is the version of the row's own list, in an UPDATE of friends.
const ownVersion = "(SELECT l.version FROM friend_lists l WHERE l.user_id = friends.user_id)"

const friendColumns = "friend_id, remark, tag, source, sort, since, updated"

func scanFriend(rows *sql.Rows, more ...any) (f Friend, err error) {
	var since, updated int64
	err = rows.Scan(append([]any{&f.User, &f.Remark, &f.Tag, &f.Source, &f.Order, &since, &updated}, more...)...)
	f.Since, f.Updated = sqldb.Time(since), sqldb.Time(updated)
	return f, err
}

// insertFriends inserts friend rows into lists with bumped versions. It replaces rows of former friendships.
func insertFriends(ctx context.Context, tx *sqldb.Tx, a, b friendRow) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM friends WHERE (user_id = ? AND friend_id = ?) OR (user_id = ? AND friend_id = ?)", a.user,
		a.User, b.user, b.User); err != nil {
		return err
	}
	var args []any
	for _, t := range []friendRow{a, b} {
		args = append(args, t.user, t.User, t.Remark, t.Tag, t.Source, t.Order, t.Since.UnixMilli(), t.Updated.UnixMilli(), t.user)
	}
	const row = "(?, ?, ?, ?, ?, ?, ?, ?, (SELECT l.version FROM friend_lists l WHERE l.user_id = ?), 0)"
	_, err := tx.ExecContext(ctx, "INSERT INTO friends (user_id, "+friendColumns+", version, gone) VALUES "+row+", "+row, args...)
	return err
}

// updateFriend stores a user's data about a friend, in a list with a bumped version.
func updateFriend(ctx context.Context, tx *sqldb.Tx, t friendRow) error {
	_, err := tx.ExecContext(ctx, "UPDATE friends SET remark = ?, tag = ?, sort = ?, updated = ?, version = "+ownVersion+
		" WHERE user_id = ? AND friend_id = ?",
		t.Remark, t.Tag, t.Order, t.Updated.UnixMilli(), t.user, t.User)
	return err
}

// removeFriend removes other from the lists of users, whose versions were bumped. The rows stay for a while without
// their content.
func removeFriend(ctx context.Context, tx *sqldb.Tx, other accounts.ID, users ...accounts.ID) error {
	_, err := tx.ExecContext(ctx, "UPDATE friends SET remark = '', tag = '', source = '', sort = 0, gone = ?, version = "+ownVersion+
		" WHERE friend_id = ? AND user_id IN (?) AND gone = 0", tx.Now().UnixMilli(), other, bun.List(users))
	return err
}

// selectFriend returns a friend, or ErrNoFriend.
func selectFriend(ctx context.Context, q sqldb.Querier, user, other accounts.ID) (Friend, error) {
	found, err := friendsAmong(ctx, q, user, []accounts.ID{other})
	if err != nil {
		return Friend{}, err
	}
	k, ok := found[other]
	if !ok {
		return Friend{}, ErrNoFriend
	}
	return k.friend(other), nil
}

func allFriends(ctx context.Context, q sqldb.Querier, user accounts.ID) (map[accounts.ID]cachedFriend, error) {
	rows, err := q.QueryContext(ctx, "SELECT "+friendColumns+" FROM friends WHERE user_id = ? AND gone = 0", user)
	return collectFriends(rows, err)
}

// friendsAmong returns the friends among at most 500 others.
func friendsAmong(ctx context.Context, q sqldb.Querier, user accounts.ID, others []accounts.ID) (map[accounts.ID]cachedFriend, error) {
	rows, err := q.QueryContext(ctx, "SELECT "+friendColumns+" FROM friends WHERE user_id = ? AND gone = 0 AND friend_id IN (?)", user,
		bun.List(others))
	return collectFriends(rows, err)
}

func collectFriends(rows *sql.Rows, err error) (map[accounts.ID]cachedFriend, error) {
	all := map[accounts.ID]cachedFriend{}
	return all, sqldb.Each(rows, err, func(rows *sql.Rows) error {
		f, err := scanFriend(rows)
		all[f.User] = f.cached()
		return err
	})
}

func countFriends(ctx context.Context, q sqldb.Querier, user accounts.ID) (n int, err error) {
	err = q.QueryRowContext(ctx, "SELECT COUNT(*) FROM friends WHERE user_id = ? AND gone = 0", user).Scan(&n)
	return n, err
}

// Count returns a user's totals from SQL, for tools next to a running server. The totals of an unknown user are 0.
func Count(ctx context.Context, q sqldb.Querier, user accounts.ID) (t Totals, err error) {
	defer errs.Wrap(&err, "social.Count %s", user)
	now := q.Now().UnixMilli()
	err = q.QueryRowContext(ctx, `SELECT
		(SELECT COUNT(*) FROM friends WHERE user_id = ? AND gone = 0),
		(SELECT COUNT(*) FROM friend_requests WHERE to_id = ? AND state = 0 AND expires > ?),
		(SELECT COUNT(*) FROM friend_requests WHERE from_id = ? AND state = 0 AND expires > ?),
		(SELECT COUNT(*) FROM blocks WHERE user_id = ?)`,
		user, user, now, user, now, user).Scan(&t.Friends, &t.RequestsIn, &t.RequestsOut, &t.Blocks)
	return t, asKind(ctx, err)
}

// firstFriend is the place before every friend. Friends are sorted by their order, which is A, and the time B.
var firstFriend = cursor.Place{Primary: math.MinInt32, Secondary: math.MaxInt64}

// pageFriends returns up to n friends after a place, of one tag unless it is empty.
func pageFriends(ctx context.Context, q sqldb.Querier, user accounts.ID, tag string, after cursor.Place, n int) ([]Friend, error) {
	rows, err := q.QueryContext(ctx, "SELECT "+friendColumns+` FROM friends WHERE user_id = ? AND gone = 0 AND sort >= ? AND (? = '' OR tag = ?)
		AND (sort > ? OR since < ? OR (since = ? AND friend_id > ?)) ORDER BY sort, since DESC, friend_id LIMIT ?`,
		user, after.Primary, tag, tag, after.Primary, after.Secondary, after.Secondary, after.ID, n)
	return sqldb.Collect(rows, err, func(rows *sql.Rows) (Friend, error) { return scanFriend(rows) })
}

// changedFriends returns up to n changes of a list after a version, in the order of versions.
func changedFriends(ctx context.Context, q sqldb.Querier, user accounts.ID, since int64, n int) (ChangePage, error) {
	c := ChangePage{Version: since}
	rows, err := q.QueryContext(ctx, "SELECT "+friendColumns+
		", gone, version FROM friends WHERE user_id = ? AND version > ? ORDER BY version LIMIT ?", user, since, n+1)
	err = sqldb.Each(rows, err, func(rows *sql.Rows) error {
		var gone, version int64
		f, err := scanFriend(rows, &gone, &version)
		switch {
		case len(c.Changed)+len(c.Removed) == n:
			c.More = true
			return err
		case gone == 0:
			c.Changed = append(c.Changed, f)
		default:
			c.Removed = append(c.Removed, f.User)
		}
		c.Version = version
		return err
	})
	return c, err
}

// pruneFriends deletes up to n removals that are older than before, and returns their number. A device with an older
// list must read the whole list.
func pruneFriends(ctx context.Context, db *sqldb.DB, before time.Time, n int) (pruned int, err error) {
	err = db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		pruned, err = pruneFriendsIn(ctx, tx, before, n)
		return err
	})
	return pruned, err
}

func pruneFriendsIn(ctx context.Context, tx *sqldb.Tx, before time.Time, n int) (int, error) {
	type row struct {
		UserID   accounts.ID
		FriendID accounts.ID
		Version  int64
	}
	var old []row
	if err := tx.NewRaw("SELECT user_id, friend_id, version FROM friends WHERE gone > 0 AND gone < ? ORDER BY gone LIMIT ?",
		before.UnixMilli(), n).Scan(ctx, &old); err != nil || len(old) == 0 {
		return 0, err
	}
	upTo := map[accounts.ID]int64{}
	for _, r := range old {
		upTo[r.UserID] = max(upTo[r.UserID], r.Version)
	}
	lists := make([]accounts.ID, 0, len(upTo))
	for u := range upTo {
		lists = append(lists, u)
	}
	locked, err := lockLists(ctx, tx, lists...)
	if err != nil {
		return 0, err
	}
	var args, rows []any
	for u, l := range locked {
		args = append(args, u, 0, upTo[u], l.asked, l.seen)
	}
	up := newLists
	up.Set = []string{"pruned = {greatest}(pruned, {new.pruned})"}
	if _, err := tx.ExecContext(ctx, tx.Dialect().Compile(up).For(len(locked)), args...); err != nil {
		return 0, err
	}
	for _, r := range old {
		rows = append(rows, r.UserID, r.FriendID)
	}
	// A user who has become a friend again is no longer marked as gone.
	_, err = tx.ExecContext(ctx, "DELETE FROM friends WHERE gone > 0 AND gone < ? AND (user_id, friend_id) IN ("+sqldb.Tuples(2, len(old))+")",
		append([]any{before.UnixMilli()}, rows...)...)
	return len(old), err
}

const requestColumns = "id, from_id, to_id, message, source, remark, tag, state, created, expires"

func scanRequests(rows *sql.Rows, err error) ([]Request, error) {
	return sqldb.Collect(rows, err, func(rows *sql.Rows) (r Request, err error) {
		var created, expires int64
		err = rows.Scan(&r.ID, &r.From, &r.To, &r.Message, &r.Source, &r.remark, &r.tag, &r.State, &created, &expires)
		r.Created, r.Expires = sqldb.Time(created), sqldb.Time(expires)
		return r, err
	})
}

// selectRequest returns a request, or ErrNoRequest.
func selectRequest(ctx context.Context, q sqldb.Querier, id RequestID) (Request, error) {
	return oneRequest(scanRequests(q.QueryContext(ctx, "SELECT "+requestColumns+" FROM friend_requests WHERE id = ?", id)))
}

// lockRequest is selectRequest with a lock.
func lockRequest(ctx context.Context, tx *sqldb.Tx, id RequestID) (Request, error) {
	return oneRequest(scanRequests(tx.QueryContext(ctx, "SELECT "+requestColumns+" FROM friend_requests WHERE id = ?"+tx.Dialect().ForUpdate(),
		id)))
}

// lockPending returns the pending request between two users, even if it has expired. It returns ErrNoRequest if there
// is none.
func lockPending(ctx context.Context, tx *sqldb.Tx, a, b accounts.ID) (Request, error) {
	return readPending(ctx, tx, a, b, tx.Dialect().ForUpdate())
}

// readPending is lockPending with the given lock clause.
func readPending(ctx context.Context, q sqldb.Querier, a, b accounts.ID, lock string) (Request, error) {
	return oneRequest(scanRequests(q.QueryContext(ctx, "SELECT "+requestColumns+" FROM friend_requests WHERE pair = ?"+lock, pairOf(a, b))))
}

func oneRequest(found []Request, err error) (Request, error) {
	if err != nil {
		return Request{}, err
	}
	if len(found) == 0 {
		return Request{}, ErrNoRequest
	}
	return found[0], nil
}

// insertRequest stores a request to a user whose list is locked.
func insertRequest(ctx context.Context, tx *sqldb.Tx, r Request) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO friend_requests ("+requestColumns+", pair) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		r.ID, r.From, r.To, r.Message, r.Source, r.remark, r.tag, int(r.State), r.Created.UnixMilli(), r.Expires.UnixMilli(),
		pairOf(r.From, r.To))
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "UPDATE friend_lists SET asked = ? WHERE user_id = ?", r.Created.UnixMilli(), r.To)
	return err
}

// closeRequests ends locked pending requests.
func closeRequests(ctx context.Context, tx *sqldb.Tx, state State, ids ...RequestID) error {
	_, err := tx.ExecContext(ctx, "UPDATE friend_requests SET state = ?, pair = NULL, closed = ? WHERE id IN (?)", int(state),
		tx.Now().UnixMilli(), bun.List(ids))
	return err
}

// cooldownEnd returns the end of from's cooldown after a refused or withdrawn request to the same user.
func cooldownEnd(ctx context.Context, q sqldb.Querier, from, to accounts.ID, cfg Settings) (time.Time, error) {
	var refused, withdrawn int64
	err := q.QueryRowContext(ctx, `SELECT
		(SELECT COALESCE(MAX(closed), 0) FROM friend_requests WHERE from_id = ? AND to_id = ? AND state = ?),
		(SELECT COALESCE(MAX(closed), 0) FROM friend_requests WHERE from_id = ? AND to_id = ? AND state = ?)`,
		from, to, int(Refused), from, to, int(Withdrawn)).Scan(&refused, &withdrawn)
	until := max(refused+cfg.CooldownRefused.Milliseconds(), withdrawn+cfg.CooldownWithdrawn.Milliseconds())
	return sqldb.Time(until), err
}

// readPairState returns the rows of SQL about from and to. In a transaction their lists are locked, and the lock clause
// locks their pending request.
func readPairState(ctx context.Context, q sqldb.Querier, from, to accounts.ID, lock string) (b pairState, err error) {
	standings, err := accounts.Standings(ctx, q, to)
	if err != nil {
		return b, err
	}
	receiver, known := standings[to]
	b.exists, b.accepts = known && !receiver.Deleted, receiver.Requests
	if b.pending, err = readPending(ctx, q, from, to, lock); err != nil && !errors.Is(err, ErrNoRequest) {
		return b, err
	}
	now := q.Now().UnixMilli()
	err = q.QueryRowContext(ctx, `SELECT
		EXISTS (SELECT 1 FROM friends WHERE user_id = ? AND friend_id = ? AND gone = 0),
		EXISTS (SELECT 1 FROM blocks WHERE user_id = ? AND blocked_id = ?),
		EXISTS (SELECT 1 FROM blocks WHERE user_id = ? AND blocked_id = ?),
		(SELECT COUNT(*) FROM friend_requests WHERE from_id = ? AND state = 0 AND expires > ?),
		(SELECT COUNT(*) FROM friend_requests WHERE to_id = ? AND state = 0 AND expires > ?)`,
		from, to, from, to, to, from, from, now, to, now).Scan(&b.friends, &b.youBlock, &b.theyBlock, &b.out, &b.in)
	return b, err
}

// allPending returns the senders of a user's pending requests, with the time of each.
func allPending(ctx context.Context, q sqldb.Querier, user accounts.ID) (map[accounts.ID]float64, error) {
	all := map[accounts.ID]float64{}
	rows, err := q.QueryContext(ctx, "SELECT from_id, created FROM friend_requests WHERE to_id = ? AND state = 0 AND expires > ?", user,
		q.Now().UnixMilli())
	return all, sqldb.Each(rows, err, func(rows *sql.Rows) error {
		var from accounts.ID
		var created int64
		err := rows.Scan(&from, &created)
		all[from] = float64(created)
		return err
	})
}

// pendingWith returns the pending requests between a user and others.
func pendingWith(ctx context.Context, q sqldb.Querier, user accounts.ID, others []accounts.ID) ([]Request, error) {
	pairs := make([]string, len(others))
	for i, o := range others {
		pairs[i] = pairOf(user, o)
	}
	return scanRequests(q.QueryContext(ctx, "SELECT "+requestColumns+" FROM friend_requests WHERE pair IN (?) AND expires > ?",
		bun.List(pairs), q.Now().UnixMilli()))
}

// newest is the place before every row of a list with the newest first. Its rows are sorted by the time B alone.
var newest = cursor.Place{Secondary: math.MaxInt64}

// pageSent returns up to n pending requests of a user, after a place.
func pageSent(ctx context.Context, q sqldb.Querier, user accounts.ID, after cursor.Place, n int) ([]Request, error) {
	return scanRequests(q.QueryContext(ctx, "SELECT "+requestColumns+` FROM friend_requests WHERE from_id = ? AND state = 0 AND created <= ? AND expires > ?
		AND (created < ? OR to_id > ?) ORDER BY created DESC, to_id LIMIT ?`, user, after.Secondary, q.Now().UnixMilli(), after.Secondary, after.ID, n))
}

// unread returns the numbers of pending requests that users have not seen. It omits users without any.
func unread(ctx context.Context, q sqldb.Querier, users ...accounts.ID) (map[accounts.ID]int, error) {
	all := make(map[accounts.ID]int, len(users))
	rows, err := q.QueryContext(ctx, `SELECT r.to_id, COUNT(*) FROM friend_requests r JOIN friend_lists l ON l.user_id = r.to_id
		WHERE r.to_id IN (?) AND r.state = 0 AND r.created > l.seen AND r.expires > ? GROUP BY r.to_id`, bun.List(users), q.Now().UnixMilli())
	return all, sqldb.Each(rows, err, func(rows *sql.Rows) error {
		var u accounts.ID
		var n int
		err := rows.Scan(&u, &n)
		all[u] = n
		return err
	})
}

// markSeen marks all requests to a user as seen.
func markSeen(ctx context.Context, tx *sqldb.Tx, user accounts.ID) error {
	_, err := tx.ExecContext(ctx, "UPDATE friend_lists SET seen = asked WHERE user_id = ?", user)
	return err
}

// selectExpired returns up to n expired requests that are still pending.
func selectExpired(ctx context.Context, q sqldb.Querier, n int) ([]Request, error) {
	return scanRequests(q.QueryContext(ctx, "SELECT "+requestColumns+
		" FROM friend_requests WHERE state = 0 AND expires <= ? ORDER BY expires LIMIT ?", q.Now().UnixMilli(), n))
}

// lockOpen locks and returns the requests that are still pending.
func lockOpen(ctx context.Context, tx *sqldb.Tx, ids []RequestID) ([]Request, error) {
	return scanRequests(tx.QueryContext(ctx, "SELECT "+requestColumns+" FROM friend_requests WHERE id IN (?) AND state = 0 ORDER BY id"+
		tx.Dialect().ForUpdate(), bun.List(ids)))
}

// pruneRequests deletes up to n closed requests that expired before a time.
func pruneRequests(ctx context.Context, db *sqldb.DB, before time.Time, n int) (int64, error) {
	return sqldb.DeleteSome(ctx, db, "friend_requests", []string{"id"}, n, "state IN (1, 2, 3, 4) AND expires < ?", before.UnixMilli())
}

func allBlocks(ctx context.Context, q sqldb.Querier, user accounts.ID) ([]accounts.ID, error) {
	return sqldb.Column[accounts.ID](q.QueryContext(ctx, "SELECT blocked_id FROM blocks WHERE user_id = ?", user))
}

func blocksAmong(ctx context.Context, q sqldb.Querier, user accounts.ID, others []accounts.ID) ([]accounts.ID, error) {
	return sqldb.Column[accounts.ID](q.QueryContext(ctx, "SELECT blocked_id FROM blocks WHERE user_id = ? AND blocked_id IN (?)", user,
		bun.List(others)))
}

// selectApart returns the users in others who block the user, or whom the user blocks.
func selectApart(ctx context.Context, q sqldb.Querier, user accounts.ID, others []accounts.ID) ([]accounts.ID, error) {
	return sqldb.Column[accounts.ID](q.QueryContext(ctx, `SELECT blocked_id FROM blocks WHERE user_id = ? AND blocked_id IN (?)
		UNION ALL SELECT user_id FROM blocks WHERE blocked_id = ? AND user_id IN (?)`, user, bun.List(others), user, bun.List(others)))
}

// allBlockers returns the users who block a user.
func allBlockers(ctx context.Context, q sqldb.Querier, user accounts.ID) ([]accounts.ID, error) {
	return sqldb.Column[accounts.ID](q.QueryContext(ctx, "SELECT user_id FROM blocks WHERE blocked_id = ?", user))
}

func blockersAmong(ctx context.Context, q sqldb.Querier, user accounts.ID, others []accounts.ID) ([]accounts.ID, error) {
	return sqldb.Column[accounts.ID](q.QueryContext(ctx, "SELECT user_id FROM blocks WHERE blocked_id = ? AND user_id IN (?)", user,
		bun.List(others)))
}

// selectTies returns the pairs that are friends, and the pairs with a block between them.
func selectTies(ctx context.Context, q sqldb.Querier, views []View) (friends, apart map[View]bool, err error) {
	var friendArgs, blockArgs, blockerArgs []any
	for _, v := range views {
		friendArgs, blockArgs, blockerArgs = append(friendArgs, v.Viewer, v.Of), append(blockArgs, v.Viewer, v.Of),
			append(blockerArgs, v.Of, v.Viewer)
	}
	friends, apart = map[View]bool{}, map[View]bool{}
	rows, err := q.QueryContext(ctx, "SELECT 1, user_id, friend_id FROM friends WHERE gone = 0 AND "+
		sqldb.AnyOf("(user_id = ? AND friend_id = ?)", len(views))+
		" UNION ALL SELECT 0, user_id, blocked_id FROM blocks WHERE "+sqldb.AnyOf("(user_id = ? AND blocked_id = ?)", len(views))+
		" UNION ALL SELECT 0, blocked_id, user_id FROM blocks WHERE "+sqldb.AnyOf("(user_id = ? AND blocked_id = ?)", len(views)),
		slices.Concat(friendArgs, blockArgs, blockerArgs)...)
	return friends, apart, sqldb.Each(rows, err, func(rows *sql.Rows) error {
		var friend bool
		var v View
		err := rows.Scan(&friend, &v.Viewer, &v.Of)
		if friend {
			friends[v] = true
		} else {
			apart[v] = true
		}
		return err
	})
}

// selectBetween returns the relations of two users to each other.
func selectBetween(ctx context.Context, q sqldb.Querier, a, b accounts.ID) (ofA, ofB Relation, err error) {
	err = q.QueryRowContext(ctx, `SELECT
		EXISTS (SELECT 1 FROM friends WHERE user_id = ? AND friend_id = ? AND gone = 0),
		EXISTS (SELECT 1 FROM blocks WHERE user_id = ? AND blocked_id = ?),
		EXISTS (SELECT 1 FROM friends WHERE user_id = ? AND friend_id = ? AND gone = 0),
		EXISTS (SELECT 1 FROM blocks WHERE user_id = ? AND blocked_id = ?)`, a, b, a, b, b, a, b, a).
		Scan(&ofA.Friend, &ofA.Blocked, &ofB.Friend, &ofB.Blocked)
	return ofA, ofB, err
}

func countBlocks(ctx context.Context, q sqldb.Querier, user accounts.ID) (n int, err error) {
	err = q.QueryRowContext(ctx, "SELECT COUNT(*) FROM blocks WHERE user_id = ?", user).Scan(&n)
	return n, err
}

func insertBlock(ctx context.Context, tx *sqldb.Tx, user, other accounts.ID) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO blocks (user_id, blocked_id, since) VALUES (?, ?, ?)", user, other, tx.Now().UnixMilli())
	return err
}

// deleteBlock deletes a block, and reports whether there was one.
func deleteBlock(ctx context.Context, tx *sqldb.Tx, user, other accounts.ID) (bool, error) {
	return sqldb.AffectedOne(tx.ExecContext(ctx, "DELETE FROM blocks WHERE user_id = ? AND blocked_id = ?", user, other))
}

// pageBlocks returns up to n blocks of a user after a place.
func pageBlocks(ctx context.Context, q sqldb.Querier, user accounts.ID, after cursor.Place, n int) ([]Block, error) {
	rows, err := q.QueryContext(ctx, `SELECT blocked_id, since FROM blocks WHERE user_id = ? AND since <= ? AND (since < ? OR blocked_id > ?)
		ORDER BY since DESC, blocked_id LIMIT ?`, user, after.Secondary, after.Secondary, after.ID, n)
	return sqldb.Collect(rows, err, func(rows *sql.Rows) (b Block, err error) {
		var since int64
		err = rows.Scan(&b.User, &since)
		b.Since = sqldb.Time(since)
		return b, err
	})
}
