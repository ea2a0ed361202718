package checkin

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
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
	"github.com/stoa-dev/stoa/leaderboard"
)

// ErrStore reports that SQL is away: nothing can be promised then.
var ErrStore = errs.New(errs.Unavailable, "checkin.store_away", "Check-in cannot be stored right now. Please try again.").Retry(2 * time.Second)

// store is the log of check-ins, the truth of this package.
type store struct {
	db     *sqldb.DB
	insert *sqldb.Inserter
}

func newStore(db *sqldb.DB) *store {
	return &store{db: db, insert: db.Inserter(sqldb.Upsert{
		Table:   "checkins",
		Columns: []string{"user_id", "day", "at", "kind", "words", "minutes", "req"},
		Key:     []string{"user_id", "day"}, // a day that exists stays as it is
	})}
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
		args = append(args, r.user.String(), int32(r.day), r.at.UnixMilli(), uint8(r.kind), r.act.Words, r.act.Minutes, r.req)
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
	return scanRows(s.db.Writer().QueryContext(ctx, "SELECT user_id, day, at, kind, req FROM checkins WHERE (user_id, day) IN ("+
		strings.TrimSuffix(strings.Repeat("(?, ?), ", len(reqs)), ", ")+")", keys...))
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
		err := eachGrant(ctx, q, some, func(user accounts.ID, g Grant) {
			h := out[user]
			h.Grants = append(h.Grants, g)
			out[user] = h
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

func eachGrant(ctx context.Context, q sqldb.Querier, users []accounts.ID, fn func(accounts.ID, Grant)) error {
	var rows []struct {
		User accounts.ID `bun:"user_id"`
		N    int         `bun:"n"`
		At   int64       `bun:"at"`
	}
	if err := q.NewRaw("SELECT user_id, n, at FROM checkin_grants WHERE user_id IN (?)", bun.List(users)).Scan(ctx, &rows); err != nil {
		return asKind(err)
	}
	for _, r := range rows {
		fn(r.User, Grant{r.N, time.UnixMilli(r.At)})
	}
	return nil
}

// granted returns how many freezes each of at most 500 users was ever given.
func (s *store) granted(ctx context.Context, users []accounts.ID) (_ map[accounts.ID]int, err error) {
	defer errs.Wrap(&err, "checkin.granted")
	out := map[accounts.ID]int{}
	if len(users) == 0 {
		return out, nil
	}
	return out, eachGrant(ctx, s.db, users, func(user accounts.ID, g Grant) { out[user] += g.N })
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
	for rows.Next() {
		var r logRow
		if err := rows.Scan(&r.User, &r.Day, &r.At, &r.Kind); err != nil {
			return err
		}
		if r.User != user {
			if !user.IsZero() {
				if err := fn(user, t); err != nil {
					return err
				}
			}
			user, t = r.User, Tally{}
		}
		t.Add(r.mark())
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

// grant writes a grant and the message that brings it to Redis.
func (s *store) grant(ctx context.Context, user accounts.ID, g Grant, reason string) (err error) {
	defer errs.Wrap(&err, "checkin.grant %s", user)
	payload, err := json.Marshal(GrantedTo{user})
	if err != nil {
		return err
	}
	return asKind(s.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO checkin_grants (user_id, at, id, n, reason) VALUES (?, ?, ?, ?, ?)", user, g.At.UnixMilli(), ids.New[Grant](), g.N, reason)
		if err != nil {
			return err
		}
		return tx.Enqueue(ctx, sqldb.Message{Topic: TopicGranted, Key: user.String(), Payload: payload})
	}))
}

// makeup is a day to be made up.
type makeup struct {
	user  accounts.ID
	month int // 202611
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
	case err == nil && own.kind == MadeUp && own.req == m.req:
		return n, time.UnixMilli(own.at), nil, nil // this request, an earlier try
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

// season yields everybody's days within a season. Nobody signs a day before it
// has begun somewhere, so that the index by time finds the rows.
func (s *store) season(ctx context.Context, b Board) iter.Seq2[leaderboard.Entry, error] {
	first, last := b.span()
	return func(yield func(leaderboard.Entry, error) bool) {
		rows, err := s.db.QueryContext(ctx, "SELECT user_id, COUNT(*), MAX(at) FROM checkins WHERE at >= ? AND day BETWEEN ? AND ? AND kind IN (?, ?) GROUP BY user_id",
			civil.Clock{}.Start(first-1).UnixMilli(), int32(first), int32(last), uint8(Tapped), uint8(MadeUp))
		if err != nil {
			yield(leaderboard.Entry{}, asKind(err))
			return
		}
		defer rows.Close()
		for rows.Next() {
			var e leaderboard.Entry
			var at int64
			err := rows.Scan(&e.Member, &e.Value, &at)
			e.At = time.UnixMilli(at)
			if !yield(e, err) || err != nil {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(leaderboard.Entry{}, asKind(err))
		}
	}
}
