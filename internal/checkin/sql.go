package checkin

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/foundation/civil"
	"github.com/stoa-dev/stoa/internal/foundation/errs"
	"github.com/stoa-dev/stoa/internal/foundation/ids"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb"
)

// ErrStore reports that SQL is away: nothing can be promised then.
var ErrStore = errs.New(errs.Unavailable, "checkin.store_away", "Check-in cannot be stored right now. Please try again.").Retry(2 * time.Second)

// store is the log of check-ins, the truth of this package.
type store struct {
	db     *sqldb.DB
	insert *sqldb.Inserter
	flush  *sqldb.Statement // see harden
}

func newStore(db *sqldb.DB) *store {
	return &store{db: db, insert: db.Inserter(sqldb.Upsert{
		Table:   "checkins",
		Columns: []string{"user_id", "day", "at", "kind", "words", "minutes", "req"},
		Key:     []string{"user_id", "day"}, // a day that exists stays as it is
	}), flush: db.Dialect().Compile(sqldb.Upsert{
		Table:   "checkin_flushes",
		Columns: []string{"id", "n"},
		Key:     []string{"id"},
		Set:     []string{"n = n + 1"},
	})}
}

// hardenFor is for how long after its arrival a row may not be on disk: longer
// than any batch is under way.
const hardenFor = time.Minute

// harden returns when every row that could be read before is on disk. InnoDB
// shows a commit to others a moment before it is, and who only reads, or inserts
// nothing new, waits for no disk; who changes something waits for all that was
// committed before. SQLite shows nothing that is not on disk.
func (s *store) harden(ctx context.Context, on sqldb.Querier) error {
	if s.db.Dialect() == sqldb.SQLite {
		return nil
	}
	_, err := on.ExecContext(ctx, s.flush.For(1), 1, 1)
	return err
}

// rowKey is the primary key of the log.
type rowKey struct {
	user accounts.ID
	day  civil.Day
}

// row is what the log holds for a key: written now, or by who was first.
type row struct {
	at   int64
	kind Kind
	req  int64
}

// write adds one row for each request, unless the user's day is there, and
// returns what the log then holds. The requests must be sorted and free of
// duplicates.
func (s *store) write(ctx context.Context, reqs []request) (map[rowKey]row, error) {
	args := make([]any, 0, 7*len(reqs))
	held := make(map[rowKey]row, len(reqs))
	for _, r := range reqs {
		args = append(args, r.user.String(), int64(r.day), r.at.UnixMilli(), int64(r.kind), int64(r.act.Words), int64(r.act.Minutes), r.req) // as drivers want them
		held[r.key()] = row{at: r.at.UnixMilli(), kind: r.kind, req: r.req}
	}
	added, err := s.insert.Insert(ctx, args)
	if err != nil || added == int64(len(reqs)) {
		return held, err
	}
	// Somebody was there before, perhaps an earlier try of this batch. Rows do
	// not change, so it matters little when they are read.
	keys := make([]any, 0, 2*len(reqs))
	for _, r := range reqs {
		keys = append(keys, r.user.String(), int32(r.day))
	}
	held, err = scanRows(s.db.Writer().QueryContext(ctx, "SELECT user_id, day, at, kind, req FROM checkins WHERE (user_id, day) IN ("+
		tuples(2, len(reqs))+")", keys...))
	if err != nil || added > 0 {
		return held, err // what was added is on disk, and so is what was there before
	}
	for _, r := range reqs {
		if r.at.UnixMilli()-held[r.key()].at < hardenFor.Milliseconds() {
			return held, s.harden(ctx, s.db)
		}
	}
	return held, nil
}

func scanRows(rows *sql.Rows, err error) (map[rowKey]row, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	held := map[rowKey]row{}
	for rows.Next() {
		var k rowKey
		var r row
		if err := rows.Scan(&k.user, &k.day, &r.at, &r.kind, &r.req); err != nil {
			return nil, err
		}
		held[k] = r
	}
	return held, rows.Err()
}

// retryable reports errors after which the same batch may be written again:
// the request ids tell what an earlier try has done.
func retryable(err error) bool { return sqldb.IsRetryable(err) || unanswered(err) }

// unanswered reports errors after which the batch may be committed or not. Of
// several tries one is enough: nobody there at the last one says nothing about
// those before.
func unanswered(err error) bool {
	if tries, ok := err.(interface{ Unwrap() []error }); ok {
		return slices.ContainsFunc(tries.Unwrap(), unanswered)
	}
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
		return false // nobody was there to commit it
	}
	return errors.Is(err, sqldb.ErrOutcomeUnknown) || sqldb.IsUnavailable(err)
}

// asKind gives errors of the engine the kind that callers act on.
func asKind(err error) error {
	if err != nil && (sqldb.IsUnavailable(err) || sqldb.IsRetryable(err)) {
		return errors.Join(ErrStore, err)
	}
	return err
}

type logRow struct {
	User accounts.ID `bun:"user_id"`
	Day  int32       `bun:"day"`
	At   int64       `bun:"at"`
	Kind uint8       `bun:"kind"`
}

func (r logRow) mark() Mark {
	return Mark{Day: civil.Day(r.Day), Kind: Kind(r.Kind), At: time.UnixMilli(r.At)}
}

// histories returns the whole log of some users.
func (s *store) histories(ctx context.Context, users []accounts.ID) (map[accounts.ID]History, error) {
	return historiesFrom(ctx, s.db, users)
}

func historiesFrom(ctx context.Context, q sqldb.Querier, users []accounts.ID) (_ map[accounts.ID]History, err error) {
	defer errs.Wrap(&err, "checkin.histories")
	out := make(map[accounts.ID]History, len(users))
	for some := range slices.Chunk(users, 500) {
		var rows []logRow
		if err := q.NewRaw("SELECT user_id, day, at, kind FROM checkins WHERE user_id IN (?) ORDER BY user_id, day", bun.List(some)).Scan(ctx, &rows); err != nil {
			return nil, asKind(err)
		}
		for len(rows) > 0 {
			user := rows[0].User
			n := slices.IndexFunc(rows, func(r logRow) bool { return r.User != user })
			if n < 0 {
				n = len(rows)
			}
			out[user] = History{Marks: mapped(rows[:n], logRow.mark)}
			rows = rows[n:]
		}
		var grants []struct {
			User accounts.ID `bun:"user_id"`
			N    int         `bun:"n"`
			At   int64       `bun:"at"`
		}
		if err := q.NewRaw("SELECT user_id, n, at FROM checkin_grants WHERE user_id IN (?)", bun.List(some)).Scan(ctx, &grants); err != nil {
			return nil, asKind(err)
		}
		for _, g := range grants {
			h := out[g.User]
			h.Grants = append(h.Grants, Grant{g.N, time.UnixMilli(g.At)})
			out[g.User] = h
		}
	}
	return out, nil
}

// granted returns how many freezes the users from first to last were ever given.
func (s *store) granted(ctx context.Context, first, last accounts.ID) (_ map[accounts.ID]int, err error) {
	defer errs.Wrap(&err, "checkin.granted")
	rows, err := s.db.QueryContext(ctx, "SELECT user_id, n FROM checkin_grants WHERE user_id BETWEEN ? AND ?", first, last)
	if err != nil {
		return nil, asKind(err)
	}
	defer rows.Close()
	out := map[accounts.ID]int{}
	for rows.Next() {
		var user accounts.ID
		var n int
		if err := rows.Scan(&user, &n); err != nil {
			return nil, err
		}
		out[user] += n
	}
	return out, asKind(rows.Err())
}

// activity returns all words and minutes that a user's check-ins carried.
func (s *store) activity(ctx context.Context, user accounts.ID) (words, minutes int64, err error) {
	defer errs.Wrap(&err, "checkin.activity %s", user)
	err = s.db.NewRaw("SELECT COALESCE(SUM(words), 0), COALESCE(SUM(minutes), 0) FROM checkins WHERE user_id = ?", user).Scan(ctx, &words, &minutes)
	return words, minutes, asKind(err)
}

// since calls fn with the rows that arrived at that time or later, in pieces.
func (s *store) since(ctx context.Context, from time.Time, fn func([]logRow) error) (err error) {
	defer errs.Wrap(&err, "checkin.since %s", from.UTC())
	rows, err := s.db.QueryContext(ctx, "SELECT user_id, day, at, kind FROM checkins WHERE at >= ?", from.UnixMilli())
	if err != nil {
		return asKind(err)
	}
	defer rows.Close()
	piece := make([]logRow, 0, 500)
	for rows.Next() {
		var r logRow
		if err := rows.Scan(&r.User, &r.Day, &r.At, &r.Kind); err != nil {
			return err
		}
		if piece = append(piece, r); len(piece) == cap(piece) {
			if err := fn(piece); err != nil {
				return err
			}
			piece = piece[:0]
		}
	}
	if err := rows.Err(); err != nil || len(piece) == 0 {
		return asKind(err)
	}
	return fn(piece)
}

// everybody calls fn with each user's tally, in one pass over the log.
func (s *store) everybody(ctx context.Context, fn func(accounts.ID, Tally) error) (err error) {
	defer errs.Wrap(&err, "checkin.everybody")
	rows, err := s.db.QueryContext(ctx, "SELECT user_id, day, at, kind FROM checkins ORDER BY user_id, day")
	if err != nil {
		return asKind(err)
	}
	defer rows.Close()
	var user accounts.ID
	var t Tally
	// As the driver has them: nothing goes by way of text, and no id is made for each row.
	var name sql.RawBytes
	var day, at, kind int64
	for rows.Next() {
		if err := rows.Scan(&name, &day, &at, &kind); err != nil {
			return err
		}
		if string(name) != user.String() {
			if !user.IsZero() {
				if err := fn(user, t); err != nil {
					return err
				}
			}
			if user, err = ids.Parse[accounts.User](string(name)); err != nil {
				return err
			}
			t = Tally{}
		}
		t.Add(Mark{Day: civil.Day(day), Kind: Kind(kind), At: time.UnixMilli(at)}) //nolint:gosec // as they were written
	}
	if err := rows.Err(); err != nil || user.IsZero() {
		return asKind(err)
	}
	return fn(user, t)
}

// grantedSince calls fn with the users who were given freezes at that time or
// later, in pieces.
func (s *store) grantedSince(ctx context.Context, from time.Time, fn func([]accounts.ID) error) (err error) {
	defer errs.Wrap(&err, "checkin.grantedSince %s", from.UTC())
	var after string
	for {
		var users []accounts.ID
		if err := s.db.NewRaw("SELECT DISTINCT user_id FROM checkin_grants WHERE at >= ? AND user_id > ? ORDER BY user_id LIMIT 500", from.UnixMilli(), after).Scan(ctx, &users); err != nil {
			return asKind(err)
		}
		if len(users) == 0 {
			return nil
		}
		if err := fn(users); err != nil {
			return err
		}
		after = users[len(users)-1].String()
	}
}

// newest returns when the last row of the log was written.
func (s *store) newest(ctx context.Context) (time.Time, error) {
	var ms sql.NullInt64
	err := s.db.QueryRowContext(ctx, "SELECT MAX(at) FROM checkins").Scan(&ms)
	return time.UnixMilli(ms.Int64), asKind(err)
}

// TopicGranted is the outbox's topic for a user who was given freezes; the
// payload is a [GrantedTo].
const TopicGranted = "checkin.granted"

// GrantedTo is the payload of [TopicGranted].
type GrantedTo struct {
	User accounts.ID `json:"user"`
}

// Granted is a grant with why it was given.
type Granted struct {
	Grant
	Reason string
}

// granted is a row of the grants.
type granted struct {
	Granted
	user accounts.ID
	id   string
}

// grant writes a grant and the message that brings it to Redis.
func (s *store) grant(ctx context.Context, user accounts.ID, g Granted) (err error) {
	defer errs.Wrap(&err, "checkin.grant %s", user)
	payload, err := json.Marshal(GrantedTo{user})
	if err != nil {
		return err
	}
	return asKind(s.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO checkin_grants (user_id, at, id, n, reason) VALUES (?, ?, ?, ?, ?)", user, g.At.UnixMilli(), ids.New[Grant](), g.N, g.Reason)
		if err != nil {
			return err
		}
		return tx.Enqueue(ctx, sqldb.Message{Topic: TopicGranted, Key: user.String(), Payload: payload})
	}))
}

// grantsOf returns a user's grants, the newest first.
func (s *store) grantsOf(ctx context.Context, user accounts.ID, limit int) (out []Granted, err error) {
	defer errs.Wrap(&err, "checkin.grantsOf %s", user)
	var rows []struct {
		N      int    `bun:"n"`
		At     int64  `bun:"at"`
		Reason string `bun:"reason"`
	}
	err = s.db.NewRaw("SELECT n, at, reason FROM checkin_grants WHERE user_id = ? ORDER BY at DESC, id DESC LIMIT ?", user, limit).Scan(ctx, &rows)
	for _, r := range rows {
		out = append(out, Granted{Grant{r.N, time.UnixMilli(r.At).UTC()}, r.Reason})
	}
	return out, asKind(err)
}

// makeup is a day to be made up.
type makeup struct {
	user  accounts.ID
	month int // 202611
	n     int // which of the month's, from 1
	day   civil.Day
	at    time.Time
	req   int64
}

// errTaken reports that another request was quicker; the next try tells what it
// has left.
var errTaken = errors.New("checkin: another request took the number or the day")

// makeUp writes a day that was made up, if the user has made up fewer than limit
// in that month, and the days that rule says freezes cover because of it. It
// returns how many are made up then, and when the day was. Rule may refuse.
func (s *store) makeUp(ctx context.Context, m makeup, limit int, rule func(History) (frozen []civil.Day, err error)) (n int, at time.Time, frozen []civil.Day, err error) {
	defer errs.Wrap(&err, "checkin.makeUp %s", m.user)
	// Each number that was taken under our hands is one of the month's.
	for range limit + 2 {
		err = s.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			n, at, frozen, err = s.tryMakeUp(ctx, tx, m, limit, rule)
			return err
		})
		if !errors.Is(err, errTaken) {
			break
		}
	}
	return n, at, frozen, asKind(err)
}

func (s *store) tryMakeUp(ctx context.Context, tx *sqldb.Tx, m makeup, limit int, rule func(History) ([]civil.Day, error)) (n int, at time.Time, frozen []civil.Day, err error) {
	if err := tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM checkin_makeups WHERE user_id = ? AND month = ?", m.user, m.month).Scan(&n); err != nil {
		return 0, at, nil, err
	}
	var own row
	switch err := tx.QueryRowContext(ctx, "SELECT at, kind, req FROM checkins WHERE user_id = ? AND day = ?", m.user, int32(m.day)).Scan(&own.at, &own.kind, &own.req); {
	case err == nil && own.kind == MadeUp && own.req == m.req: // this request, an earlier try
		return n, time.UnixMilli(own.at).UTC(), nil, s.harden(ctx, tx)
	case err == nil:
		return 0, at, nil, ErrDayCounts
	case !errors.Is(err, sql.ErrNoRows):
		return 0, at, nil, err
	}
	histories, err := historiesFrom(ctx, tx, []accounts.ID{m.user})
	if err != nil {
		return 0, at, nil, err
	}
	if frozen, err = rule(histories[m.user]); err != nil {
		return 0, at, nil, err
	}
	if n >= limit {
		return 0, at, nil, ErrMakeupLimit
	}
	n++
	// The key of either table refuses a second one.
	if _, err := tx.ExecContext(ctx, "INSERT INTO checkin_makeups (user_id, month, n, day, at, req) VALUES (?, ?, ?, ?, ?, ?)", m.user, m.month, n, int32(m.day), m.at.UnixMilli(), m.req); err != nil {
		return 0, at, nil, taken(err)
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO checkins (user_id, day, at, kind, words, minutes, req) VALUES (?, ?, ?, ?, 0, 0, ?)", m.user, int32(m.day), m.at.UnixMilli(), uint8(MadeUp), m.req); err != nil {
		return 0, at, nil, taken(err)
	}
	if len(frozen) > 0 {
		var args []any
		for _, d := range frozen {
			args = append(args, m.user.String(), int32(d), m.at.UnixMilli(), uint8(Frozen), 0, 0, 0)
		}
		if _, err := tx.SQL().ExecContext(ctx, s.insert.For(len(frozen)), args...); err != nil {
			return 0, at, nil, err
		}
	}
	return n, m.at, frozen, nil
}

func taken(err error) error {
	if sqldb.IsDuplicate(err) {
		return errTaken
	}
	return err
}

// madeUp is a line of the audit of days made up.
type madeUp struct {
	Month int   `bun:"month"`
	N     int   `bun:"n"`
	Day   int32 `bun:"day"`
	At    int64 `bun:"at"`
}

// makeups returns a user's days made up, the newest first, from behind after on.
func (s *store) makeups(ctx context.Context, user accounts.ID, after madeUp, limit int) (rows []madeUp, err error) {
	defer errs.Wrap(&err, "checkin.makeups %s", user)
	err = s.db.NewRaw("SELECT month, n, day, at FROM checkin_makeups WHERE user_id = ? AND (month < ? OR month = ? AND n < ?) ORDER BY month DESC, n DESC LIMIT ?",
		user, after.Month, after.Month, after.N, limit).Scan(ctx, &rows)
	return rows, asKind(err)
}

func (s *store) makeupsIn(ctx context.Context, user accounts.ID, month int) (n int, err error) {
	defer errs.Wrap(&err, "checkin.makeupsIn %s", user)
	err = s.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM checkin_makeups WHERE user_id = ? AND month = ?", user, month).Scan(&n)
	return n, asKind(err)
}

// attended is how many days of a season a user signed, and when the last one was.
type attended struct {
	user accounts.ID
	days int
	at   time.Time
}

// season yields who signed days of a season. Nobody signs a day before it has
// begun somewhere, nor does an import say so of longer before than dayOff, so that
// the index by time finds the rows.
func (s *store) season(ctx context.Context, b Board) iter.Seq2[attended, error] {
	first, last := b.span()
	return func(yield func(attended, error) bool) {
		rows, err := s.db.QueryContext(ctx, "SELECT user_id, COUNT(*), MAX(at) FROM checkins WHERE at >= ? AND day BETWEEN ? AND ? AND kind IN (?, ?) GROUP BY user_id",
			civil.Clock{}.Start(first-2).UnixMilli(), int32(first), int32(last), uint8(Tapped), uint8(MadeUp))
		if err != nil {
			yield(attended{}, asKind(err))
			return
		}
		defer rows.Close()
		for rows.Next() {
			var a attended
			var at int64
			err := rows.Scan(&a.user, &a.days, &at)
			a.at = time.UnixMilli(at)
			if !yield(a, err) || err != nil {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(attended{}, asKind(err))
		}
	}
}

// usersAfter returns the next n users by id who have rows in the log, grants or
// totals persisted, later than after and, if before is not empty, earlier than before.
func (s *store) usersAfter(ctx context.Context, after, before string, n int) (_ []accounts.ID, err error) {
	defer errs.Wrap(&err, "checkin.usersAfter %s", after)
	if before == "" {
		before = "~" // later than every character of an id
	}
	var all []accounts.ID
	for _, table := range []string{"checkins", "checkin_grants", "checkin_totals"} {
		some, err := scanUsers(s.db.QueryContext(ctx, "SELECT DISTINCT user_id FROM "+table+" WHERE user_id > ? AND user_id < ? ORDER BY user_id LIMIT ?", after, before, n))
		if err != nil {
			return nil, asKind(err)
		}
		all = append(all, some...)
	}
	slices.SortFunc(all, compareIDs)
	all = slices.Compact(all)
	return all[:min(n, len(all))], nil
}

func scanUsers(rows *sql.Rows, err error) (users []accounts.ID, _ error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var user accounts.ID
		if err := rows.Scan(&user); err != nil {
			return nil, err
		}
		users = append(users, user)
	}
	return users, rows.Err()
}

// countUsers counts the users of the log between two ids.
func (s *store) countUsers(ctx context.Context, after, before string) (n int64, err error) {
	defer errs.Wrap(&err, "checkin.countUsers")
	if before == "" {
		before = "~"
	}
	err = s.db.NewRaw("SELECT COUNT(DISTINCT user_id) FROM checkins WHERE user_id > ? AND user_id < ?", after, before).Scan(ctx, &n)
	return n, asKind(err)
}

// activeAfter is usersAfter for those with a day at or later than since.
func (s *store) activeAfter(ctx context.Context, after string, since civil.Day, n int) (users []accounts.ID, err error) {
	defer errs.Wrap(&err, "checkin.activeAfter %s", after)
	users, err = scanUsers(s.db.QueryContext(ctx, "SELECT DISTINCT user_id FROM checkins WHERE user_id > ? AND day >= ? ORDER BY user_id LIMIT ?", after, int32(since), n))
	return users, asKind(err)
}

// countActive counts the users with a day at or later than since.
func (s *store) countActive(ctx context.Context, since civil.Day) (n int64, err error) {
	defer errs.Wrap(&err, "checkin.countActive")
	err = s.db.NewRaw("SELECT COUNT(DISTINCT user_id) FROM checkins WHERE day >= ?", int32(since)).Scan(ctx, &n)
	return n, asKind(err)
}

// firstYears returns the year of each user's first day; who has none is left out.
func (s *store) firstYears(ctx context.Context, users []accounts.ID) (_ map[accounts.ID]int, err error) {
	defer errs.Wrap(&err, "checkin.firstYears")
	if len(users) == 0 {
		return nil, nil
	}
	var rows []struct {
		User accounts.ID `bun:"user_id"`
		Day  int32       `bun:"day"`
	}
	if err := s.db.NewRaw("SELECT user_id, MIN(day) AS day FROM checkins WHERE user_id IN (?) GROUP BY user_id", bun.List(users)).Scan(ctx, &rows); err != nil {
		return nil, asKind(err)
	}
	out := make(map[accounts.ID]int, len(rows))
	for _, r := range rows {
		out[r.User] = civil.Day(r.Day).Year()
	}
	return out, nil
}

// An arrival is a user whose rows changed, and when.
type arrival struct {
	At   int64       `bun:"at"`
	User accounts.ID `bun:"user_id"`
}

// arrivals returns the next n arrivals later than after in order of time and
// user, from the log or, for rows whose own time lies in the past, from the
// touched users.
func (s *store) arrivals(ctx context.Context, touched bool, after arrival, n int) (some []arrival, err error) {
	defer errs.Wrap(&err, "checkin.arrivals")
	table := "checkins"
	if touched {
		table = "checkin_touched"
	}
	// In two steps: with OR between them no engine goes on in the index, and an
	// import may give a hundred thousand rows one time.
	for _, q := range []struct {
		where string
		args  []any
	}{{"at = ? AND user_id > ?", []any{after.At, after.User}}, {"at > ?", []any{after.At}}} {
		var more []arrival
		err := s.db.NewRaw("SELECT DISTINCT at, user_id FROM "+table+" WHERE "+q.where+" ORDER BY at, user_id LIMIT ?", append(q.args, n-len(some))...).Scan(ctx, &more)
		if err != nil {
			return nil, asKind(err)
		}
		if some = append(some, more...); len(some) == n {
			break
		}
	}
	return some, nil
}

// touchedSince returns those of some users who got rows with times in the past
// since then, or are being erased.
func (s *store) touchedSince(ctx context.Context, users []accounts.ID, since time.Time) (_ map[accounts.ID]bool, err error) {
	defer errs.Wrap(&err, "checkin.touchedSince")
	out := map[accounts.ID]bool{}
	for some := range slices.Chunk(users, 500) {
		found, err := scanUsers(s.db.QueryContext(ctx, "SELECT user_id FROM checkin_touched WHERE user_id IN (?) AND (at >= ? OR at = ?)", bun.List(some), since.UnixMilli(), tombstone))
		if err != nil {
			return nil, asKind(err)
		}
		for _, user := range found {
			out[user] = true
		}
	}
	return out, nil
}

// tombstone is the time of a touched user who is being erased. Imports leave it.
const tombstone = 0

// followedWithin is how long after an import the boards may not have heard of it.
const followedWithin = time.Hour

// erase removes a user's rows and leaves a tombstone, until untouch. gone reports
// that there were any; again that nobody knows what the boards were told: there was
// a tombstone, or an import of a moment ago.
func (s *store) erase(ctx context.Context, user accounts.ID) (gone, again bool, err error) {
	defer errs.Wrap(&err, "checkin.erase")
	mark := s.db.Dialect().Compile(sqldb.Upsert{Table: "checkin_touched", Columns: []string{"user_id", "at"}, Key: []string{"user_id"}, Set: []string{"at"}})
	err = s.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM checkin_touched WHERE user_id = ? AND (at = ? OR at > ?))",
			user, tombstone, tx.Now().Add(-followedWithin).UnixMilli()).Scan(&again); err != nil {
			return err
		}
		gone = false
		for _, table := range []string{"checkins", "checkin_makeups", "checkin_grants", "checkin_months", "checkin_totals"} {
			res, err := tx.ExecContext(ctx, "DELETE FROM "+table+" WHERE user_id = ?", user)
			if err != nil {
				return err
			}
			n, err := res.RowsAffected()
			if err != nil {
				return err
			}
			gone = gone || n > 0
		}
		if !gone && !again {
			return nil
		}
		_, err := tx.SQL().ExecContext(ctx, mark.For(1), user.String(), tombstone)
		return err
	})
	if err == nil && (gone || again) { // lines of the repair log tell days
		_, err = s.db.ExecContext(ctx, "DELETE FROM checkin_repairs WHERE member = ?", user)
	}
	return gone, again, asKind(err)
}

// untouch says that Redis has heard of a user's change.
func (s *store) untouch(ctx context.Context, user accounts.ID) (err error) {
	defer errs.Wrap(&err, "checkin.untouch")
	_, err = s.db.ExecContext(ctx, "DELETE FROM checkin_touched WHERE user_id = ?", user)
	return asKind(err)
}

type runRow struct {
	ID      int64  `bun:"id"`
	Kind    string `bun:"kind"`
	Options string `bun:"options"`
	State   string `bun:"state"`
	Done    int64  `bun:"done"`
	Total   int64  `bun:"total"`
	Created int64  `bun:"created"`
	Started int64  `bun:"started"`
	Ended   int64  `bun:"ended"`
	Node    string `bun:"node"`
	Error   string `bun:"error"`
	Summary string `bun:"summary"`
	Resume  string `bun:"resume_at"`
	Rev     int64  `bun:"rev"`
}

const runColumns = "id, kind, options, state, done, total, created, started, ended, node, error, summary, resume_at, rev"

func (s *store) addRun(ctx context.Context, r *Run) (err error) {
	defer errs.Wrap(&err, "checkin.addRun %s", r.Kind)
	row := r.row()
	err = s.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		res, err := tx.ExecContext(ctx, "INSERT INTO checkin_runs (kind, options, state, done, total, created, started, ended, node, error, summary, resume_at, rev) VALUES (?, ?, ?, 0, 0, ?, 0, 0, '', '', '{}', '{}', 0)",
			row.Kind, row.Options, row.State, row.Created)
		if err != nil {
			return err
		}
		r.ID, err = res.LastInsertId()
		return err
	})
	return asKind(err)
}

// runs returns runs by a condition on the table.
func (s *store) runs(ctx context.Context, where string, args ...any) (_ []Run, err error) {
	defer errs.Wrap(&err, "checkin.runs")
	var rows []runRow
	if err := s.db.NewRaw("SELECT "+runColumns+" FROM checkin_runs WHERE "+where, args...).Scan(ctx, &rows); err != nil {
		return nil, asKind(err)
	}
	var out []Run
	for _, row := range rows {
		r, err := row.run()
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// nextRun returns the run that is to be worked on, of some kinds: the one begun
// before those that wait.
func (s *store) nextRun(ctx context.Context, kinds ...RunKind) (*Run, error) {
	some, err := s.runs(ctx, "state IN (?, ?) AND kind IN (?) ORDER BY CASE state WHEN ? THEN 0 ELSE 1 END, id LIMIT 1", runRunning, runWaiting, bun.List(kinds), runRunning)
	if err != nil || len(some) == 0 {
		return nil, err
	}
	return &some[0], nil
}

func (s *store) run(ctx context.Context, id int64) (*Run, error) {
	some, err := s.runs(ctx, "id = ?", id)
	if err == nil && len(some) == 0 {
		err = ErrNoRun
	}
	if err != nil {
		return nil, err
	}
	return &some[0], nil
}

// lastRun returns when a run of that kind over everybody was last asked for, except
// for one that failed and was asked for before then.
func (s *store) lastRun(ctx context.Context, kind RunKind, failed time.Time) (at time.Time, err error) {
	defer errs.Wrap(&err, "checkin.lastRun %s", kind)
	var ms int64
	err = s.db.NewRaw("SELECT COALESCE(MAX(created), 0) FROM checkin_runs WHERE kind = ? AND options = '{}' AND (state <> ? OR created >= ?)", kind, RunFailed, failed.UnixMilli()).Scan(ctx, &ms)
	return time.UnixMilli(ms), asKind(err)
}

// lastReconciled returns the last reconciliation of more than one user that is
// done, or nil.
func (s *store) lastReconciled(ctx context.Context) (*Run, error) {
	some, err := s.runs(ctx, `kind = ? AND state = ? AND options NOT LIKE '%"user"%' ORDER BY id DESC LIMIT 1`, ReconcileRun, RunDone)
	if err != nil || len(some) == 0 {
		return nil, err
	}
	return &some[0], nil
}

// saveRun stores how far a run is, and what it found. It returns errOvertaken
// when somebody else has stored something since r was read.
func (s *store) saveRun(ctx context.Context, r *Run, found []Repair) (err error) {
	defer errs.Wrap(&err, "checkin.saveRun %d", r.ID)
	row := r.row()
	err = s.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		res, err := tx.ExecContext(ctx, `UPDATE checkin_runs SET state = ?, done = ?, total = ?, started = ?, ended = ?, node = ?, error = ?, summary = ?, resume_at = ?, rev = rev + 1
			WHERE id = ? AND rev = ?`, row.State, row.Done, row.Total, row.Started, row.Ended, row.Node, row.Error, row.Summary, row.Resume, row.ID, row.Rev)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return cmp.Or(err, errOvertaken)
		}
		for some := range slices.Chunk(found, 200) {
			args := make([]any, 0, 7*len(some))
			for _, f := range some {
				args = append(args, f.At.UnixMilli(), r.ID, f.User, f.What, f.Was, f.Becomes, f.Repaired)
			}
			_, err := tx.ExecContext(ctx, "INSERT INTO checkin_repairs (at, run, member, what, was, becomes, repaired) VALUES "+
				tuples(7, len(some)), args...)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		r.rev++
	}
	return asKind(err)
}

// withdraw removes a run that nobody has begun, and reports whether it did.
func (s *store) withdraw(ctx context.Context, id int64) (bool, error) {
	res, err := s.db.ExecContext(ctx, "DELETE FROM checkin_runs WHERE id = ? AND state = ?", id, runWaiting)
	if err != nil {
		return false, asKind(err)
	}
	n, err := res.RowsAffected()
	return n == 1, err
}

// repairs returns n lines of the repair log, the newest first: those with an id
// below before, unless it is 0, of one run, unless that is 0.
func (s *store) repairs(ctx context.Context, before, run int64, n int) (_ []Repair, err error) {
	defer errs.Wrap(&err, "checkin.repairs")
	query, args := "SELECT id, at, run, member, what, was, becomes, repaired FROM checkin_repairs WHERE ", []any{}
	if before != 0 {
		query, args = query+"id < ? AND ", append(args, before)
	}
	if run != 0 {
		query, args = query+"run = ?", append(args, run)
	} else {
		query += "repaired = 1"
	}
	rows, err := s.db.QueryContext(ctx, query+" ORDER BY id DESC LIMIT ?", append(args, n)...)
	if err != nil {
		return nil, asKind(err)
	}
	defer rows.Close()
	var out []Repair
	for rows.Next() {
		var r Repair
		var at int64
		if err := rows.Scan(&r.ID, &at, &r.Run, &r.User, &r.What, &r.Was, &r.Becomes, &r.Repaired); err != nil {
			return nil, err
		}
		r.At = time.UnixMilli(at).UTC()
		out = append(out, r)
	}
	return out, asKind(rows.Err())
}

// forgetRuns removes runs that ended before then, and lines of the log that
// were written before and repaired nothing; repairs are kept.
func (s *store) forgetRuns(ctx context.Context, before time.Time) (err error) {
	defer errs.Wrap(&err, "checkin.forgetRuns")
	return errors.Join(
		s.forget(ctx, "checkin_repairs", "id", "repaired = 0 AND at < ?", before.UnixMilli()),
		s.forget(ctx, "checkin_runs", "id", "ended <> 0 AND ended < ?", before.UnixMilli()))
}

// forgetTouched removes who was touched before then, as far as a snapshot that is
// done has seen them. Tombstones are kept.
func (s *store) forgetTouched(ctx context.Context, before time.Time) (err error) {
	defer errs.Wrap(&err, "checkin.forgetTouched")
	done, err := s.runs(ctx, "kind = ? AND state = ? ORDER BY id DESC LIMIT 1", SnapshotRun, RunDone)
	if err != nil || len(done) == 0 {
		return err
	}
	if seen := done[0].Started.Add(-settled); seen.Before(before) {
		before = seen
	}
	return s.forget(ctx, "checkin_touched", "user_id", "at <> ? AND at < ?", tombstone, before.UnixMilli())
}

// forget removes rows by a condition, some at a time, and at most so many that
// the rest can wait for the next minute.
func (s *store) forget(ctx context.Context, table, key, where string, args ...any) error {
	for range 50 {
		var some []string
		if err := s.db.NewRaw("SELECT "+key+" FROM "+table+" WHERE "+where+" LIMIT 1000", args...).Scan(ctx, &some); err != nil || len(some) == 0 {
			return asKind(err)
		}
		if _, err := s.db.ExecContext(ctx, "DELETE FROM "+table+" WHERE "+key+" IN (?) AND "+where, append([]any{bun.List(some)}, args...)...); err != nil {
			return asKind(err)
		}
	}
	return nil
}

// totals is what a user's history came to when it was last persisted.
type totals struct {
	User    accounts.ID `bun:"user_id"`
	Streak  int         `bun:"streak"` // the run that ended on LastDay
	Longest int         `bun:"longest"`
	Total   int         `bun:"total"`
	LastDay int32       `bun:"last_day"`
	AsOf    int64       `bun:"as_of"`
}

// month is a user's month: bit n-1 is day n.
type month struct {
	User    accounts.ID `bun:"user_id"`
	Month   int         `bun:"month"` // 202611
	Days    int         `bun:"days"`  // signed
	Covered int         `bun:"covered"`
}

func (s *store) persisted(ctx context.Context, users []accounts.ID) (sums []totals, months []month, err error) {
	defer errs.Wrap(&err, "checkin.persisted")
	if err := s.db.NewRaw("SELECT user_id, streak, longest, total, last_day, as_of FROM checkin_totals WHERE user_id IN (?)", bun.List(users)).Scan(ctx, &sums); err != nil {
		return nil, nil, asKind(err)
	}
	err = s.db.NewRaw("SELECT user_id, month, days, covered FROM checkin_months WHERE user_id IN (?)", bun.List(users)).Scan(ctx, &months)
	return sums, months, asKind(err)
}

// persist writes totals and months over what is stored.
func (s *store) persist(ctx context.Context, sums []totals, months []month) (err error) {
	defer errs.Wrap(&err, "checkin.persist")
	d := s.db.Dialect()
	putTotals := d.Compile(sqldb.Upsert{Table: "checkin_totals", Columns: []string{"user_id", "streak", "longest", "total", "last_day", "as_of"},
		Key: []string{"user_id"}, Set: []string{"streak", "longest", "total", "last_day", "as_of"}})
	putMonths := d.Compile(sqldb.Upsert{Table: "checkin_months", Columns: []string{"user_id", "month", "days", "covered"},
		Key: []string{"user_id", "month"}, Set: []string{"days", "covered"}})
	return asKind(s.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		for some := range slices.Chunk(sums, 500) {
			args := make([]any, 0, 6*len(some))
			for _, t := range some {
				args = append(args, t.User.String(), t.Streak, t.Longest, t.Total, t.LastDay, t.AsOf)
			}
			if _, err := tx.SQL().ExecContext(ctx, putTotals.For(len(some)), args...); err != nil {
				return err
			}
		}
		for some := range slices.Chunk(months, 500) {
			args := make([]any, 0, 4*len(some))
			for _, m := range some {
				args = append(args, m.User.String(), m.Month, m.Days, m.Covered)
			}
			if _, err := tx.SQL().ExecContext(ctx, putMonths.For(len(some)), args...); err != nil {
				return err
			}
		}
		return nil
	}))
}

// TopicTouched names the messages that tell the server whose rows with times in
// the past have arrived: an import writes SQL alone.
const TopicTouched = "checkin.touched"

// catchUpAfter is how long after the commit Redis is told. A load of that moment
// that has read the log before the commit is written by then, so that what
// follows is not undone.
var catchUpAfter = 3 * time.Second

// touched is the payload of [TopicTouched]: users, and between which days there is
// something new that signs. Without days it says nothing of them.
type touched struct {
	Users []accounts.ID `json:"users"`
	First civil.Day     `json:"first,omitempty"`
	Last  civil.Day     `json:"last,omitempty"`
}

func parseTouched(payload []byte) (t touched, err error) {
	err = json.Unmarshal(payload, &t)
	return t, err
}

func enqueueTouched(ctx context.Context, tx *sqldb.Tx, t touched, after time.Duration) error {
	payload, err := json.Marshal(t)
	if err != nil {
		return err
	}
	return tx.Enqueue(ctx, sqldb.Message{Topic: TopicTouched, Payload: payload, Due: tx.Now().Add(after)})
}

// followLater puts off telling Redis.
func (s *store) followLater(ctx context.Context, t touched, after time.Duration) error {
	return asKind(s.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return enqueueTouched(ctx, tx, t, after) }))
}

// tellLater is followLater for users of whom no day is new that signs.
func (s *store) tellLater(ctx context.Context, users []accounts.ID, after time.Duration) error {
	return s.followLater(ctx, touched{Users: users}, after)
}

// putOff has a date that was left out told again then.
func (s *store) putOff(ctx context.Context, c accounts.ZoneChanged, until time.Time) error {
	payload, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return asKind(s.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		return tx.Enqueue(ctx, sqldb.Message{Topic: accounts.TopicZone, Key: c.User.String(), Payload: payload, Due: until, Each: true})
	}))
}

// importRows writes rows with times in the past, of accounts that are opened in
// the same transaction, and returns how many were new.
func (s *store) importRows(ctx context.Context, b batch, open []accounts.User) (added int64, err error) {
	defer errs.Wrap(&err, "checkin.importRows")
	for range 3 { // somebody may take the number of a day made up under our hands
		if added, err = s.tryImport(ctx, b, open); !errors.Is(err, errTaken) {
			break
		}
	}
	return added, err
}

func (s *store) tryImport(ctx context.Context, b batch, open []accounts.User) (added int64, err error) {
	users := mapped(b.days, func(r request) accounts.ID { return r.user })
	users = append(users, mapped(b.grants, func(g granted) accounts.ID { return g.user })...)
	slices.SortFunc(users, compareIDs)
	users = slices.Compact(users)
	if len(users) == 0 {
		return 0, nil
	}
	news := touched{Users: users}
	for _, r := range b.days {
		if r.kind.Signs() && (news.Last == 0 || r.day < news.First) {
			news.First = r.day
		}
		if r.kind.Signs() {
			news.Last = max(news.Last, r.day)
		}
	}
	touch := s.db.Dialect().Compile(sqldb.Upsert{Table: "checkin_touched", Columns: []string{"user_id", "at"}, Key: []string{"user_id"},
		Set: []string{fmt.Sprintf("at = CASE WHEN at = %[1]d THEN %[1]d ELSE {new.at} END", tombstone)}})
	err = s.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		added = 0
		if err := accounts.Open(ctx, tx, open); err != nil {
			return err
		}
		for _, part := range []func(context.Context, *sqldb.Tx) (int64, error){
			func(ctx context.Context, tx *sqldb.Tx) (int64, error) { return s.importDays(ctx, tx, b.days) },
			func(ctx context.Context, tx *sqldb.Tx) (int64, error) { return s.importMakeups(ctx, tx, b.makeups) },
			func(ctx context.Context, tx *sqldb.Tx) (int64, error) { return s.importGrants(ctx, tx, b.grants) },
		} {
			n, err := part(ctx, tx)
			if added += n; err != nil {
				return err
			}
		}
		if added == 0 {
			return nil
		}
		args := make([]any, 0, 2*len(users))
		for _, user := range users {
			args = append(args, user.String(), tx.Now().UnixMilli())
		}
		if _, err := tx.SQL().ExecContext(ctx, touch.For(len(users)), args...); err != nil {
			return err
		}
		return enqueueTouched(ctx, tx, news, catchUpAfter)
	})
	return added, err
}

func (s *store) importDays(ctx context.Context, tx *sqldb.Tx, rows []request) (added int64, err error) {
	if len(rows) == 0 {
		return 0, nil
	}
	args := make([]any, 0, 7*len(rows))
	for _, r := range rows {
		args = append(args, r.user.String(), int32(r.day), r.at.UnixMilli(), uint8(r.kind), r.act.Words, r.act.Minutes, r.req)
	}
	done, err := tx.SQL().ExecContext(ctx, s.insert.For(len(rows)), args...)
	if err != nil {
		return 0, err
	}
	return done.RowsAffected()
}

// importMakeups writes to the audit what it does not have of days that are in the
// log, and returns for how many the day itself was there before.
func (s *store) importMakeups(ctx context.Context, tx *sqldb.Tx, all []makeup) (added int64, err error) {
	rows, log, err := s.unaudited(ctx, tx, all)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	args := make([]any, 0, 6*len(rows))
	for _, m := range rows {
		held := log[rowKey{m.user, m.day}]
		if held.req != m.req {
			added++
		}
		args = append(args, m.user, m.month, m.n, int32(m.day), held.at, held.req)
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO checkin_makeups (user_id, month, n, day, at, req) VALUES "+
		tuples(6, len(rows)), args...)
	return added, taken(err)
}

// unaudited returns those of some days made up that are so in the log and not in
// the audit, each with a number that is free: the one it has, else a later one.
// Beside them it returns what the log has.
func (s *store) unaudited(ctx context.Context, q sqldb.Querier, all []makeup) (missing []makeup, log map[rowKey]row, err error) {
	if len(all) == 0 {
		return nil, nil, nil
	}
	var keys, users []any
	for _, m := range all {
		keys, users = append(keys, m.user.String(), int32(m.day)), append(users, m.user.String())
	}
	log, err = scanRows(q.QueryContext(ctx, "SELECT user_id, day, at, kind, req FROM checkins WHERE (user_id, day) IN ("+
		tuples(2, len(all))+")", keys...))
	if err != nil {
		return nil, nil, err
	}
	var audit []struct {
		User  accounts.ID `bun:"user_id"`
		Month int         `bun:"month"`
		N     int         `bun:"n"`
		Day   int32       `bun:"day"`
	}
	if err := q.NewRaw("SELECT user_id, month, n, day FROM checkin_makeups WHERE user_id IN (?)", bun.List(users)).Scan(ctx, &audit); err != nil {
		return nil, nil, err
	}
	type number struct {
		user     accounts.ID
		month, n int
	}
	used, there := map[number]bool{}, map[rowKey]bool{}
	for _, a := range audit {
		used[number{a.User, a.Month, a.N}], there[rowKey{a.User, civil.Day(a.Day)}] = true, true
	}
	for _, m := range all {
		key := rowKey{m.user, m.day}
		if log[key].kind != MadeUp || there[key] {
			continue
		}
		for used[number{m.user, m.month, m.n}] {
			m.n++
		}
		used[number{m.user, m.month, m.n}] = true
		missing = append(missing, m)
	}
	return missing, log, nil
}

func (s *store) importGrants(ctx context.Context, tx *sqldb.Tx, rows []granted) (added int64, err error) {
	if len(rows) == 0 {
		return 0, nil
	}
	args := make([]any, 0, 5*len(rows))
	for _, g := range rows {
		args = append(args, g.user.String(), g.At.UnixMilli(), g.id, g.N, g.Reason)
	}
	add := s.db.Dialect().Compile(sqldb.Upsert{Table: "checkin_grants", Columns: []string{"user_id", "at", "id", "n", "reason"}, Key: []string{"user_id", "at", "id"}})
	done, err := tx.SQL().ExecContext(ctx, add.For(len(rows)), args...)
	if err != nil {
		return 0, err
	}
	return done.RowsAffected()
}

// countHeld returns for how many of the rows the log has the day.
func (s *store) countHeld(ctx context.Context, rows []request) (n int64, err error) {
	defer errs.Wrap(&err, "checkin.countHeld")
	if len(rows) == 0 {
		return 0, nil
	}
	args := make([]any, 0, 2*len(rows))
	for _, r := range rows {
		args = append(args, r.user.String(), int32(r.day))
	}
	err = s.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM checkins WHERE (user_id, day) IN ("+
		tuples(2, len(rows))+")", args...).Scan(&n)
	return n, asKind(err)
}

// countNew returns what importRows would, and writes nothing.
func (s *store) countNew(ctx context.Context, b batch) (n int64, err error) {
	defer errs.Wrap(&err, "checkin.countNew")
	held, err := s.countHeld(ctx, b.days)
	if err != nil {
		return 0, err
	}
	makeups, _, err := s.unaudited(ctx, s.db, b.makeups)
	if err != nil {
		return 0, asKind(err)
	}
	n = int64(len(b.days)+len(makeups)+len(b.grants)) - held
	if len(b.grants) == 0 {
		return n, nil
	}
	args := make([]any, 0, 3*len(b.grants))
	for _, g := range b.grants {
		args = append(args, g.user.String(), g.At.UnixMilli(), g.id)
	}
	err = s.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM checkin_grants WHERE (user_id, at, id) IN ("+
		tuples(3, len(b.grants))+")", args...).Scan(&held)
	return n - held, asKind(err)
}

// exported is whose row it is that leaves, and when it was written.
type exported struct {
	User        accounts.ID
	At          int64
	Email, Name string
	Clock       civil.Clock
}

// exportedDay is what else a row of the log has; Month and N are those of the audit
// of days made up.
type exportedDay struct {
	Day            int32
	Kind           uint8
	Words, Minutes int
	Month, N       int
}

const exportedColumns = "COALESCE(u.email, ''), COALESCE(u.name, ''), COALESCE(u.zone, ''), COALESCE(u.zone_next, ''), COALESCE(u.zone_from, 0)"

func (e *exported) columns() []any {
	return []any{&e.Email, &e.Name, &e.Clock.Zone, &e.Clock.Next, &e.Clock.From}
}

// export calls fn with the rows of one user, or of everybody when user is the
// zero ID, between two days.
func (s *store) export(ctx context.Context, user accounts.ID, first, last civil.Day, fn func(exported, exportedDay) error) (err error) {
	defer errs.Wrap(&err, "checkin.export")
	where, args := exportedDays(user, first, last)
	// Of the audit, in the order of its key, a user has a few rows.
	rows, err := s.db.QueryContext(ctx, "SELECT c.user_id, c.at, c.day, c.kind, c.words, c.minutes, COALESCE(m.month, 0), COALESCE(m.n, 0), "+exportedColumns+
		" FROM checkins c LEFT JOIN users u ON u.id = c.user_id LEFT JOIN checkin_makeups m ON m.user_id = c.user_id AND m.day = c.day AND c.kind = ?"+
		" WHERE "+where+" ORDER BY c.user_id, c.day", append([]any{uint8(MadeUp)}, args...)...)
	if err != nil {
		return asKind(err)
	}
	defer rows.Close()
	for rows.Next() {
		var e exported
		var d exportedDay
		if err := rows.Scan(append([]any{&e.User, &e.At, &d.Day, &d.Kind, &d.Words, &d.Minutes, &d.Month, &d.N}, e.columns()...)...); err != nil {
			return err
		}
		if err := fn(e, d); err != nil {
			return err
		}
	}
	return asKind(rows.Err())
}

// exportGrants is export for the grants that were given on these days.
func (s *store) exportGrants(ctx context.Context, user accounts.ID, first, last civil.Day, fn func(exported, granted) error) (err error) {
	defer errs.Wrap(&err, "checkin.exportGrants")
	where, args := exportedGrants(user, first, last)
	rows, err := s.db.QueryContext(ctx, "SELECT g.user_id, g.at, g.id, g.n, g.reason, "+exportedColumns+
		" FROM checkin_grants g LEFT JOIN users u ON u.id = g.user_id WHERE "+where+" ORDER BY g.user_id, g.at, g.id", args...)
	if err != nil {
		return asKind(err)
	}
	defer rows.Close()
	for rows.Next() {
		var e exported
		var g granted
		if err := rows.Scan(append([]any{&e.User, &e.At, &g.id, &g.N, &g.Reason}, e.columns()...)...); err != nil {
			return err
		}
		if err := fn(e, g); err != nil {
			return err
		}
	}
	return asKind(rows.Err())
}

func (s *store) countExport(ctx context.Context, user accounts.ID, first, last civil.Day) (n int64, err error) {
	defer errs.Wrap(&err, "checkin.countExport")
	days, args := exportedDays(user, first, last)
	grants, more := exportedGrants(user, first, last)
	err = s.db.QueryRowContext(ctx, "SELECT (SELECT COUNT(*) FROM checkins c WHERE "+days+") + (SELECT COUNT(*) FROM checkin_grants g WHERE "+grants+")", append(args, more...)...).Scan(&n)
	return n, asKind(err)
}

func exportedDays(user accounts.ID, first, last civil.Day) (where string, args []any) {
	return ofUser(user, "c", "c.day BETWEEN ? AND ?", int32(first), int32(last))
}

func exportedGrants(user accounts.ID, first, last civil.Day) (where string, args []any) {
	const ms = 24 * 60 * 60 * 1000
	return ofUser(user, "g", "g.at >= ? AND g.at < ?", int64(first)*ms, (int64(last)+1)*ms)
}

func ofUser(user accounts.ID, table, where string, args ...any) (string, []any) {
	if user.IsZero() {
		return where, args
	}
	return table + ".user_id = ? AND " + where, append([]any{user}, args...)
}

// NewExchange returns the domain as far as SQL alone carries it.
func NewExchange(db *sqldb.DB) *Exchange {
	return &Exchange{store: newStore(db), accounts: accounts.NewDirectory(db), now: db.Now}
}

// tuples are n groups of placeholders, each so wide.
func tuples(width, n int) string {
	one := "(?" + strings.Repeat(", ?", width-1) + "), "
	return strings.TrimSuffix(strings.Repeat(one, n), ", ")
}
