package social

import (
	"context"
	"database/sql"
	"maps"
	"math"
	"slices"
	"strings"
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

func (l list) values(user accounts.ID) []any {
	return []any{user, l.version, l.news, l.pruned, l.asked, l.seen}
}

// newLists inserts missing lists, and changedLists updates locked ones.
var (
	newLists = sqldb.Upsert{Table: "friend_lists", Columns: []string{"user_id", "version", "news", "pruned", "asked", "seen"},
		Key: []string{"user_id"}}
	changedLists = func() sqldb.Upsert { u := newLists; u.Set = u.Columns[1:]; return u }()
)

// lockLists locks the lists of users until tx ends. Each change that concerns two users holds both locks, which are
// always taken in the same order.
func lockLists(ctx context.Context, tx *sqldb.Tx, users ...accounts.ID) (map[accounts.ID]list, error) {
	lists := make(map[accounts.ID]list, len(users))
	read := func(users []accounts.ID) error {
		rows, err := tx.QueryContext(ctx, "SELECT user_id, version, news, pruned, asked, seen FROM friend_lists"+tx.Dialect().ByIndex("PRIMARY")+
			" WHERE user_id IN (?) ORDER BY user_id"+tx.Dialect().ForUpdate(), bun.List(users))
		return sqldb.Each(rows, err, func(rows *sql.Rows) error {
			var u accounts.ID
			var l list
			err := rows.Scan(&u, &l.version, &l.news, &l.pruned, &l.asked, &l.seen)
			lists[u] = l
			return err
		})
	}
	users = slices.Compact(slices.SortedFunc(slices.Values(users), accounts.ID.Compare))
	if err := read(users); err != nil || len(lists) == len(users) {
		return lists, err
	}
	missing := slices.DeleteFunc(users, func(u accounts.ID) bool { _, ok := lists[u]; return ok })
	var args []any
	for _, u := range missing {
		args = append(args, list{}.values(u)...)
		lists[u] = list{}
	}
	added, err := sqldb.Affected(tx.ExecContext(ctx, tx.Dialect().Compile(newLists).For(len(missing)), args...))
	if err != nil || int(added) == len(missing) {
		return lists, err
	}
	return lists, read(missing) // another transaction has inserted one
}

// saveLists stores locked lists.
func saveLists(ctx context.Context, tx *sqldb.Tx, lists map[accounts.ID]list) error {
	var args []any
	for _, u := range slices.SortedFunc(maps.Keys(lists), accounts.ID.Compare) {
		args = append(args, lists[u].values(u)...)
	}
	return tx.ExecLater(ctx, tx.Dialect().Compile(changedLists).For(len(lists)), args...)
}

// readList returns a user's list, or the zero list for a user without a row.
func readList(ctx context.Context, q sqldb.Querier, user accounts.ID) (l list, err error) {
	err = q.QueryRowContext(ctx, "SELECT version, pruned, asked, seen FROM friend_lists WHERE user_id = ?", user).Scan(&l.version, &l.pruned,
		&l.asked, &l.seen)
	return l, sqldb.Missing(err, nil)
}

const friendColumns = "friend_id, remark, tag, source, sort, since, updated"

func scanFriend(rows *sql.Rows, more ...any) (f Friend, err error) {
	var since, updated int64
	err = rows.Scan(append([]any{&f.User, &f.Remark, &f.Tag, &f.Source, &f.Order, &since, &updated}, more...)...)
	f.Since, f.Updated = sqldb.Time(since), sqldb.Time(updated)
	return f, err
}

// friendUpsert replaces rows of former friendships. The versions are new, so that only a pair can be a duplicate.
var friendUpsert = func() sqldb.Upsert {
	columns := append(strings.Split("user_id, "+friendColumns, ", "), "version", "gone")
	return sqldb.Upsert{Table: "friends", Columns: columns, Key: columns[:2], Set: columns[2:]}
}()

// insertFriends inserts friend rows with the versions of their lists.
func insertFriends(ctx context.Context, tx *sqldb.Tx, lists map[accounts.ID]list, a, b friendRow) error {
	var args []any
	for _, t := range []friendRow{a, b} {
		args = append(args, t.user, t.User, t.Remark, t.Tag, t.Source, t.Order, t.Since.UnixMilli(), t.Updated.UnixMilli(),
			lists[t.user].version, 0)
	}
	return tx.ExecLater(ctx, tx.Dialect().Compile(friendUpsert).For(2), args...)
}

// updateFriend stores a user's data about a friend, with the version of the list.
func updateFriend(ctx context.Context, tx *sqldb.Tx, version int64, t friendRow) error {
	return tx.ExecLater(ctx, "UPDATE friends SET remark = ?, tag = ?, sort = ?, updated = ?, version = ? WHERE user_id = ? AND friend_id = ?",
		t.Remark, t.Tag, t.Order, t.Updated.UnixMilli(), version, t.user, t.User)
}

// removeFriends removes friends from lists, with the versions of the lists. The rows stay for a while without their
// content. Each user removes at most one friend in a call.
func removeFriends(ctx context.Context, tx *sqldb.Tx, lists map[accounts.ID]list, edges ...edge) error {
	args := []any{tx.Now().UnixMilli()}
	for _, e := range edges {
		args = append(args, e.user, lists[e.user].version)
	}
	for _, e := range edges {
		args = append(args, e.user, e.other)
	}
	return tx.ExecLater(ctx, "UPDATE friends SET remark = '', tag = '', source = '', sort = 0, gone = ?, version = CASE user_id"+
		strings.Repeat(" WHEN ? THEN ?", len(edges))+" END WHERE gone = 0 AND "+sqldb.AnyOf("(user_id = ? AND friend_id = ?)", len(edges)),
		args...)
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

// friendCount is an expression for the number of a user's friends.
const friendCount = "(SELECT COUNT(*) FROM friends WHERE user_id = ? AND gone = 0)"

// countFriends returns the numbers of two users' friends.
func countFriends(ctx context.Context, q sqldb.Querier, a, b accounts.ID) (ofA, ofB int, err error) {
	err = q.QueryRowContext(ctx, "SELECT "+friendCount+", "+friendCount, a, b).Scan(&ofA, &ofB)
	return ofA, ofB, err
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
	for u, l := range locked {
		l.pruned = max(l.pruned, upTo[u])
		locked[u] = l
	}
	var rows []any
	if err := saveLists(ctx, tx, locked); err != nil {
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

// joinedColumns are requestColumns of r in a query with other tables.
var joinedColumns = "r." + strings.ReplaceAll(requestColumns, ", ", ", r.")

// scanRequest scans a row of requestColumns and more.
func scanRequest(scan func(...any) error, more ...any) (r Request, err error) {
	var created, expires int64
	err = scan(append([]any{&r.ID, &r.From, &r.To, &r.Message, &r.Source, &r.remark, &r.tag, &r.State, &created, &expires}, more...)...)
	r.Created, r.Expires = sqldb.Time(created), sqldb.Time(expires)
	return r, err
}

func scanRequests(rows *sql.Rows, err error) ([]Request, error) {
	return sqldb.Collect(rows, err, func(rows *sql.Rows) (Request, error) { return scanRequest(rows.Scan) })
}

// selectRequest returns a request, or ErrNoRequest.
func selectRequest(ctx context.Context, q sqldb.Querier, id RequestID) (Request, error) {
	return oneRequest(scanRequests(q.QueryContext(ctx, "SELECT "+requestColumns+" FROM friend_requests WHERE id = ?", id)))
}

// selectPending returns the pending request between two users, even if it has expired. It returns ErrNoRequest if there
// is none.
func selectPending(ctx context.Context, q sqldb.Querier, a, b accounts.ID) (Request, error) {
	return oneRequest(scanRequests(q.QueryContext(ctx, "SELECT "+requestColumns+" FROM friend_requests WHERE pair = ?", pairOf(a, b))))
}

// acceptState has the rows of SQL that decide whether a request can be accepted.
type acceptState struct {
	Request
	senderExists     bool // the sender has an account that is not deleted
	sendersFriends   int  // their number
	receiversFriends int
	unread           int // pending requests that the receiver has not seen, including this one
}

// readAcceptState returns the rows of SQL about a request, whose sender and receiver never change. Their lists are
// locked. It returns ErrNoRequest if the request is deleted.
func readAcceptState(ctx context.Context, tx *sqldb.Tx, r Request) (b acceptState, err error) {
	var sender accounts.StandingRow
	row := tx.QueryRowContext(ctx, "SELECT "+joinedColumns+", "+accounts.StandingColumns+", "+friendCount+", "+friendCount+", "+unreadCount+
		" FROM friend_requests r LEFT JOIN users u ON u.id = r.from_id WHERE r.id = ?",
		r.From, r.To, r.To, tx.Now().UnixMilli(), r.ID)
	b.Request, err = scanRequest(row.Scan, append(sender.Columns(), &b.sendersFriends, &b.receiversFriends, &b.unread)...)
	standing, known := sender.Standing(tx.Now())
	b.senderExists = known && !standing.Deleted
	return b, sqldb.Missing(err, ErrNoRequest)
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
	return tx.ExecLater(ctx, "INSERT INTO friend_requests ("+requestColumns+", pair) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		r.ID, r.From, r.To, r.Message, r.Source, r.remark, r.tag, int(r.State), r.Created.UnixMilli(), r.Expires.UnixMilli(),
		pairOf(r.From, r.To))
}

// closeRequests ends pending requests to users whose lists are locked.
func closeRequests(ctx context.Context, tx *sqldb.Tx, state State, ids ...RequestID) error {
	return tx.ExecLater(ctx, "UPDATE friend_requests SET state = ?, pair = NULL, closed = ? WHERE id IN (?)", int(state),
		tx.Now().UnixMilli(), bun.List(ids))
}

// optionalColumns are joinedColumns for a left join, with zero values if there is no request.
var optionalColumns = func() string {
	columns := strings.Split(joinedColumns, ", ")
	for i, c := range columns {
		none := "''"
		if slices.Contains([]string{"r.state", "r.created", "r.expires"}, c) {
			none = "0"
		}
		columns[i] = "COALESCE(" + c + ", " + none + ")"
	}
	return strings.Join(columns, ", ")
}()

// readPairState returns the rows of SQL about from and to, or the zero state if the receiver never existed. In a
// transaction their lists are locked.
func readPairState(ctx context.Context, q sqldb.Querier, from, to accounts.ID, cfg Settings) (b pairState, err error) {
	var receiver accounts.StandingRow
	var refused, withdrawn int64
	now := q.Now().UnixMilli()
	row := q.QueryRowContext(ctx, "SELECT "+optionalColumns+", "+accounts.StandingColumns+`,
		EXISTS (SELECT 1 FROM friends WHERE user_id = ? AND friend_id = ? AND gone = 0),
		EXISTS (SELECT 1 FROM blocks WHERE user_id = ? AND blocked_id = ?),
		EXISTS (SELECT 1 FROM blocks WHERE user_id = ? AND blocked_id = ?),
		(SELECT COUNT(*) FROM friend_requests WHERE from_id = ? AND state = 0 AND expires > ?),
		(SELECT COUNT(*) FROM friend_requests WHERE to_id = ? AND state = 0 AND expires > ?),
		(SELECT COALESCE(MAX(closed), 0) FROM friend_requests WHERE from_id = ? AND to_id = ? AND state = ?),
		(SELECT COALESCE(MAX(closed), 0) FROM friend_requests WHERE from_id = ? AND to_id = ? AND state = ?), `+unreadCount+`
		FROM users u LEFT JOIN friend_requests r ON r.pair = ? WHERE u.id = ?`,
		from, to, from, to, to, from, from, now, to, now, from, to, int(Refused), from, to, int(Withdrawn), to, now, pairOf(from, to), to)
	b.pending, err = scanRequest(row.Scan, append(receiver.Columns(), &b.friends, &b.youBlock, &b.theyBlock, &b.out, &b.in, &refused,
		&withdrawn, &b.unread)...)
	standing, known := receiver.Standing(q.Now())
	b.exists, b.accepts = known && !standing.Deleted, standing.Requests
	b.cooldown = sqldb.Time(max(refused+cfg.CooldownRefused.Milliseconds(), withdrawn+cfg.CooldownWithdrawn.Milliseconds()))
	return b, sqldb.Missing(err, nil)
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

// unreadCount is an expression for the number of pending requests that a user has not seen.
const unreadCount = "(SELECT COUNT(*) FROM friend_requests q JOIN friend_lists l ON l.user_id = q.to_id WHERE q.to_id = ? AND " +
	"q.state = 0 AND q.created > l.seen AND q.expires > ?)"

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

// selectExpired returns up to n expired requests that are still pending.
func selectExpired(ctx context.Context, q sqldb.Querier, n int) ([]Request, error) {
	return scanRequests(q.QueryContext(ctx, "SELECT "+requestColumns+
		" FROM friend_requests WHERE state = 0 AND expires <= ? ORDER BY expires LIMIT ?", q.Now().UnixMilli(), n))
}

// selectOpen returns the requests that are still pending.
func selectOpen(ctx context.Context, q sqldb.Querier, ids []RequestID) ([]Request, error) {
	return scanRequests(q.QueryContext(ctx, "SELECT "+requestColumns+" FROM friend_requests WHERE id IN (?) AND state = 0 ORDER BY id",
		bun.List(ids)))
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
