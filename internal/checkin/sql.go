package checkin

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/internal/checkin/transfer"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/webhooks"
)

// ErrStore reports that SQL is away, so that no write can be acknowledged.
var ErrStore = transfer.ErrStore

// sqlStore is the log of check-ins, the truth of this package.
type sqlStore struct {
	db     *sqldb.DB
	insert *sqldb.Inserter
	find   *sqldb.Finder
	met    *sqldb.Finder    // locks the rows that it finds, see meet
	flush  *sqldb.Statement // see harden
	hooks  *webhooks.Service
}

func newSQLStore(db *sqldb.DB) *sqlStore {
	const rows = "SELECT user_id, day, at, kind, req FROM checkins WHERE (user_id, day) IN "
	return &sqlStore{db: db, insert: db.Inserter(sqldb.Upsert{
		Table:   "checkins",
		Columns: []string{"user_id", "day", "at", "kind", "words", "minutes", "req"},
		Key:     []string{"user_id", "day"}, // a day that exists stays as it is
	}), find: db.Finder(rows, 2, ""), met: db.Finder(rows, 2, db.Dialect().ForUpdate()), flush: db.Dialect().Compile(sqldb.Upsert{
		Table:   "checkin_flushes",
		Columns: []string{"id", "n"},
		Key:     []string{"id"},
		Set:     []string{"n = n + 1"},
	})}
}

// hardenFor is the time after its arrival when a row may not yet be on disk. It is longer than any batch takes.
const hardenFor = time.Minute

// harden returns when every row that a read could return before is on disk. InnoDB shows a commit to other connections
// a moment before it is on disk. A statement that only reads, or inserts no new row, does not wait for the disk. A
// statement that changes a row waits for all earlier commits. SQLite shows only rows that are on disk.
func (s *sqlStore) harden(ctx context.Context, on sqldb.Querier) error {
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

// row is the row of the log under a key. This request or an earlier one wrote it.
type row struct {
	at   int64
	kind streak.Kind
	req  int64
}

// write adds one row for each request, unless the user's day exists, and returns the rows that the log then has. The
// requests must be sorted and free of duplicates.
func (s *sqlStore) write(ctx context.Context, reqs []request) (map[rowKey]row, error) {
	args := make([]any, 0, 7*len(reqs))
	held := make(map[rowKey]row, len(reqs))
	for _, r := range reqs {
		// as drivers want them
		args = append(args, r.user.String(), int64(r.day), r.at.UnixMilli(), int64(r.kind), int64(r.act.Words), int64(r.act.Minutes), r.req)
		held[r.key()] = row{at: r.at.UnixMilli(), kind: r.kind, req: r.req}
	}
	if s.hooks.Wants(api.HookCheckinMarked) {
		return s.writeAndNotify(ctx, reqs, args)
	}
	added, err := s.insert.Insert(ctx, args)
	if err != nil || added == int64(len(reqs)) {
		return held, err
	}
	// Another request was first, perhaps in an earlier try of this batch. Rows do not change, so the time of this read
	// matters little.
	switch held, err = s.meet(ctx, reqs); {
	case err != nil && added > 0: // the read failed for any reason, and some rows are committed
		return nil, errors.Join(sqldb.ErrOutcomeUnknown, err)
	case err != nil || added > 0:
		return held, err // the new rows are on disk, and so are the older ones
	}
	return held, s.hardenFresh(ctx, reqs, held)
}

// signed returns the rows that the log has for the days of some requests, once they are on disk.
func (s *sqlStore) signed(ctx context.Context, reqs []request) (map[rowKey]row, error) {
	held, err := scanRows(s.find.Find(ctx, keysOf(reqs)))
	if err != nil {
		return nil, err
	}
	return held, s.hardenFresh(ctx, reqs, held)
}

// meet returns the rows of days that an insert has just added or found taken. In InnoDB, an insert finds a day taken a
// moment before a plain read returns its row. A locking read returns it at once.
func (s *sqlStore) meet(ctx context.Context, reqs []request) (map[rowKey]row, error) {
	held, err := scanRows(s.find.Find(ctx, keysOf(reqs)))
	if err == nil && len(held) < len(reqs) {
		held, err = scanRows(s.met.Find(ctx, keysOf(reqs)))
	}
	if err == nil && len(held) < len(reqs) {
		err = errRowDeleted
	}
	return held, err
}

// errRowDeleted reports that a row was deleted between two statements of a batch.
var errRowDeleted = errors.New("checkin: a row was deleted during the commit")

// hardenFresh is harden for requests that may have found the row of their day a moment after it was written.
func (s *sqlStore) hardenFresh(ctx context.Context, reqs []request, held map[rowKey]row) error {
	for _, r := range reqs {
		if r.at.UnixMilli()-held[r.key()].at < hardenFor.Milliseconds() {
			return s.harden(ctx, s.db)
		}
	}
	return nil
}

// keysOf returns the keys of rows, one after the other.
func keysOf(reqs []request) []any {
	keys := make([]any, 0, 2*len(reqs))
	for _, r := range reqs {
		keys = append(keys, r.user.String(), int64(r.day))
	}
	return keys
}

// writeAndNotify is write with notifications: one transaction has the rows and one message of the outbox for the app's
// own backend. A retry of a batch with an unknown outcome may notify the backend a second time.
func (s *sqlStore) writeAndNotify(ctx context.Context, reqs []request, args []any) (held map[rowKey]row, err error) {
	notified := 0
	err = s.db.Batch(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if _, err := tx.ExecContext(ctx, s.insert.For(len(reqs)), args...); err != nil {
			return err
		}
		if held, err = scanRows(tx.SQL().QueryContext(ctx, s.met.For(len(reqs)), keysOf(reqs)...)); err != nil {
			return err
		}
		var list []any
		for _, r := range reqs {
			if row := held[r.key()]; row.req == r.req && r.kind.Signs() {
				list = append(list, r.hook())
			}
		}
		notified = len(list)
		return s.hooks.Enqueue(ctx, tx, api.HookCheckinMarked, "checkins", list...)
	})
	if err != nil || notified > 0 {
		return held, err // the notified rows are on disk, and so are the older ones
	}
	return held, s.harden(ctx, s.db)
}

func scanRows(rows *sql.Rows, err error) (map[rowKey]row, error) {
	held := map[rowKey]row{}
	return held, sqldb.Each(rows, err, func(rows *sql.Rows) error {
		var k rowKey
		var r row
		err := rows.Scan(&k.user, &k.day, &r.at, &r.kind, &r.req)
		held[k] = r
		return err
	})
}

// refused reports whether the engine refuses one row of the batch, independent of the other rows.
func refused(err error) bool { return sqldb.IsRowError(err) }

// deadlocked reports whether the engine has rolled the writes back. The caller may retry.
func deadlocked(err error) bool { return sqldb.IsRetryable(err) }

// retryable reports whether the same batch may be written again after err. The request ids show what an earlier try has
// written. A batch that has timed out is not retried, because all other check-ins would wait as long again.
func retryable(err error) bool {
	return sqldb.IsRetryable(err) || unanswered(err) && !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errRowDeleted)
}

// unanswered reports whether the batch may be committed or not after err.
func unanswered(err error) bool { return sqldb.IsUnanswered(err) }

// asKind gives errors of the engine the kind that callers handle.
func asKind(err error) error { return sqldb.AsKind(err, ErrStore) }

// asAnswer is asKind for the result of a batch.
func asAnswer(ctx context.Context, err error) error { return sqldb.AsKindWithin(ctx, err, ErrStore) }

type logRow struct {
	User accounts.ID `bun:"user_id"`
	Day  int32       `bun:"day"`
	At   int64       `bun:"at"`
	Kind uint8       `bun:"kind"`
}

func (r logRow) mark() streak.Mark {
	return streak.Mark{Day: civil.Day(r.Day), Kind: streak.Kind(r.Kind), At: time.UnixMilli(r.At)}
}

// histories returns the whole log of some users.
func (s *sqlStore) histories(ctx context.Context, users []accounts.ID) (map[accounts.ID]streak.History, error) {
	return historiesFrom(ctx, s.db, users)
}

func historiesFrom(ctx context.Context, q sqldb.Querier, users []accounts.ID) (_ map[accounts.ID]streak.History, err error) {
	defer errs.Wrap(&err, "checkin.histories")
	out := make(map[accounts.ID]streak.History, len(users))
	for chunk := range slices.Chunk(users, 500) {
		var rows []logRow
		if err := q.NewRaw("SELECT user_id, day, at, kind FROM checkins WHERE user_id IN (?) ORDER BY user_id, day", bun.List(chunk)).Scan(ctx,
			&rows); err != nil {
			return nil, asKind(err)
		}
		for len(rows) > 0 {
			user := rows[0].User
			n := slices.IndexFunc(rows, func(r logRow) bool { return r.User != user })
			if n < 0 {
				n = len(rows)
			}
			out[user] = streak.History{Marks: mapped(rows[:n], logRow.mark)}
			rows = rows[n:]
		}
		var grants []struct {
			User accounts.ID `bun:"user_id"`
			N    int         `bun:"n"`
			At   int64       `bun:"at"`
		}
		if err := q.NewRaw("SELECT user_id, n, at FROM checkin_grants WHERE user_id IN (?)", bun.List(chunk)).Scan(ctx, &grants); err != nil {
			return nil, asKind(err)
		}
		for _, g := range grants {
			h := out[g.User]
			h.Grants = append(h.Grants, streak.Grant{N: g.N, At: time.UnixMilli(g.At)})
			out[g.User] = h
		}
	}
	return out, nil
}

// activity returns the sums of words and minutes of a user's check-ins.
func (s *sqlStore) activity(ctx context.Context, user accounts.ID) (words, minutes int64, err error) {
	defer errs.Wrap(&err, "checkin.activity %s", user)
	err = s.db.NewRaw("SELECT COALESCE(SUM(words), 0), COALESCE(SUM(minutes), 0) FROM checkins WHERE user_id = ?", user).Scan(ctx, &words,
		&minutes)
	return words, minutes, asKind(err)
}

// since calls fn with the rows that arrived at that time or later, in chunks.
func (s *sqlStore) since(ctx context.Context, from time.Time, fn func([]logRow) error) (err error) {
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

// grantedSince calls fn with the users who got freezes at that time or later, in chunks.
func (s *sqlStore) grantedSince(ctx context.Context, from time.Time, fn func([]accounts.ID) error) (err error) {
	defer errs.Wrap(&err, "checkin.grantedSince %s", from.UTC())
	var after string
	for {
		users, err := sqldb.Column[accounts.ID](s.db.QueryContext(ctx,
			"SELECT DISTINCT user_id FROM checkin_grants WHERE at >= ? AND user_id > ? ORDER BY user_id LIMIT 500", from.UnixMilli(), after))
		if err != nil {
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

// newest returns the time of the newest row of the log.
func (s *sqlStore) newest(ctx context.Context) (time.Time, error) {
	var ms sql.NullInt64
	err := s.db.QueryRowContext(ctx, "SELECT MAX(at) FROM checkins").Scan(&ms)
	return time.UnixMilli(ms.Int64), asKind(err)
}

// TopicGranted is the topic of the outbox for grants of freezes. Its payload is a [GrantNotice].
const TopicGranted = "checkin.granted"

// GrantNotice is the payload of [TopicGranted].
type GrantNotice struct {
	User accounts.ID `json:"user"`
}

// GrantEntry is a grant with its reason.
type GrantEntry struct {
	streak.Grant
	Reason string
}

// grant writes a grant and the message that applies it to Redis.
func (s *sqlStore) grant(ctx context.Context, user accounts.ID, g GrantEntry) (err error) {
	defer errs.Wrap(&err, "checkin.grant %s", user)
	payload, err := json.Marshal(GrantNotice{user})
	if err != nil {
		return err
	}
	return asKind(s.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO checkin_grants (user_id, at, id, n, reason) VALUES (?, ?, ?, ?, ?)", user, g.At.UnixMilli(),
			ids.New[streak.Grant](), g.N, g.Reason)
		if err != nil {
			return err
		}
		return tx.Enqueue(ctx, sqldb.Message{Topic: TopicGranted, Key: user.String(), Payload: payload})
	}))
}

// grantsOf returns a user's grants, the newest first.
func (s *sqlStore) grantsOf(ctx context.Context, user accounts.ID, limit int) (out []GrantEntry, err error) {
	defer errs.Wrap(&err, "checkin.grantsOf %s", user)
	var rows []struct {
		N      int    `bun:"n"`
		At     int64  `bun:"at"`
		Reason string `bun:"reason"`
	}
	err = s.db.NewRaw("SELECT n, at, reason FROM checkin_grants WHERE user_id = ? ORDER BY at DESC, id DESC LIMIT ?", user, limit).Scan(ctx,
		&rows)
	for _, r := range rows {
		out = append(out, GrantEntry{streak.Grant{N: r.N, At: sqldb.Time(r.At)}, r.Reason})
	}
	return out, asKind(err)
}

// makeup is a day to be made up.
type makeup struct {
	user  accounts.ID
	month int // 202611
	day   civil.Day
	at    time.Time
	req   int64
}

// errTaken reports that another request was quicker. The next try reads what is left.
var errTaken = errors.New("checkin: another request has the number or the day")

// makeUp writes a day that was made up if the user has made up fewer than limit days in that month. It also writes the
// days that, by rule, freezes cover because of it. It returns the number of make-ups in the month, and the time of the
// day's row. rule may return an error to refuse the make-up.
func (s *sqlStore) makeUp(ctx context.Context, m makeup, limit int,
	rule func(streak.History) (frozen []civil.Day, err error)) (n int, at time.Time, frozen []civil.Day, err error) {
	defer errs.Wrap(&err, "checkin.makeUp %s", m.user)
	// Each retry means that another request took one number of the month, so limit+2 tries suffice.
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

func (s *sqlStore) tryMakeUp(ctx context.Context, tx *sqldb.Tx, m makeup, limit int,
	rule func(streak.History) ([]civil.Day, error)) (n int, at time.Time, frozen []civil.Day, err error) {
	var last int // number of the month, more than n if an import has skipped some
	if err := tx.QueryRowContext(ctx, "SELECT COUNT(*), COALESCE(MAX(n), 0) FROM checkin_makeups WHERE user_id = ? AND month = ?", m.user,
		m.month).Scan(&n, &last); err != nil {
		return 0, at, nil, err
	}
	var own row
	switch err := tx.QueryRowContext(ctx, "SELECT at, kind, req FROM checkins WHERE user_id = ? AND day = ?", m.user,
		int32(m.day)).Scan(&own.at, &own.kind, &own.req); {
	case err == nil && own.kind == streak.MadeUp && own.req == m.req: // this request, an earlier try
		return n, sqldb.Time(own.at), nil, s.harden(ctx, tx)
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
	if newest := histories[m.user].LastWrite(); newest.After(m.at) {
		m.at = newest // on a board the later time wins: no row is older than the one before it
	}
	// The keys of both tables refuse a duplicate.
	if _, err := tx.ExecContext(ctx, "INSERT INTO checkin_makeups (user_id, month, n, day, at, req) VALUES (?, ?, ?, ?, ?, ?)", m.user,
		m.month, last+1, int32(m.day), m.at.UnixMilli(), m.req); err != nil {
		return 0, at, nil, taken(err)
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO checkins (user_id, day, at, kind, words, minutes, req) VALUES (?, ?, ?, ?, 0, 0, ?)", m.user,
		int32(m.day), m.at.UnixMilli(), uint8(streak.MadeUp), m.req); err != nil {
		return 0, at, nil, taken(err)
	}
	if len(frozen) > 0 {
		var args []any
		for _, d := range frozen {
			args = append(args, m.user.String(), int32(d), m.at.UnixMilli(), uint8(streak.Frozen), 0, 0, 0)
		}
		if _, err := tx.SQL().ExecContext(ctx, s.insert.For(len(frozen)), args...); err != nil {
			return 0, at, nil, err
		}
	}
	return n, m.at, frozen, s.hooks.Enqueue(ctx, tx, api.HookCheckinMarked, "checkins",
		request{user: m.user, day: m.day, kind: streak.MadeUp}.hook())
}

func taken(err error) error {
	if sqldb.IsDuplicate(err) {
		return errTaken
	}
	return err
}

// madeUp is a line of the audit of make-ups.
type madeUp struct {
	Month int   `bun:"month"`
	N     int   `bun:"n"`
	Day   int32 `bun:"day"`
	At    int64 `bun:"at"`
}

// makeups returns a user's make-ups that follow after, the newest first.
func (s *sqlStore) makeups(ctx context.Context, user accounts.ID, after madeUp, limit int) (rows []madeUp, err error) {
	defer errs.Wrap(&err, "checkin.makeups %s", user)
	err = s.db.NewRaw("SELECT month, n, day, at FROM checkin_makeups WHERE user_id = ? AND (month < ? OR month = ? AND n < ?) ORDER BY "+
		"month DESC, n DESC LIMIT ?",
		user, after.Month, after.Month, after.N, limit).Scan(ctx, &rows)
	return rows, asKind(err)
}

func (s *sqlStore) makeupsIn(ctx context.Context, user accounts.ID, month int) (n int, err error) {
	defer errs.Wrap(&err, "checkin.makeupsIn %s", user)
	err = s.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM checkin_makeups WHERE user_id = ? AND month = ?", user, month).Scan(&n)
	return n, asKind(err)
}

// followedWithin is the time after an import when the boards may not have it yet.
const followedWithin = time.Hour

// erase deletes a user's rows and stores a tombstone until untouch. gone reports whether the user had rows. again
// reports that the state of the boards is unknown, because of a former tombstone or a recent import.
func (s *sqlStore) erase(ctx context.Context, user accounts.ID) (gone, again bool, err error) {
	defer errs.Wrap(&err, "checkin.erase")
	mark := s.db.Dialect().Compile(sqldb.Upsert{Table: "checkin_touched", Columns: []string{"user_id", "at"}, Key: []string{"user_id"},
		Set: []string{"at"}})
	err = s.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM checkin_touched WHERE user_id = ? AND (at = ? OR at > ?))",
			user, transfer.Tombstone, tx.Now().Add(-followedWithin).UnixMilli()).Scan(&again); err != nil {
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
		_, err := tx.SQL().ExecContext(ctx, mark.For(1), user.String(), transfer.Tombstone)
		return err
	})
	return gone, again, asKind(err)
}

// untouch deletes the tombstone of a user after Redis has the change.
func (s *sqlStore) untouch(ctx context.Context, user accounts.ID) (err error) {
	defer errs.Wrap(&err, "checkin.untouch")
	_, err = s.db.ExecContext(ctx, "DELETE FROM checkin_touched WHERE user_id = ?", user)
	return asKind(err)
}

// importRows writes sorted rows with times in the past; see [transfer.Write].
func (s *sqlStore) importRows(ctx context.Context, rows []request) (added int64, err error) {
	return transfer.Write(ctx, s.db, mapped(rows, request.row))
}

// chunkUsers is the number of users whose days are read or written at a time.
const chunkUsers = 200

// touchedSince calls fn with the users who were touched at that time or later, in chunks.
func (s *sqlStore) touchedSince(ctx context.Context, from time.Time, fn func([]accounts.ID) error) error {
	for at := (transfer.Arrival{At: from.UnixMilli()}); ; {
		chunk, err := transfer.Arrivals(ctx, s.db, true, at, chunkUsers)
		if err != nil || len(chunk) == 0 {
			return err
		}
		at = chunk[len(chunk)-1]
		if err := fn(mapped(chunk, func(a transfer.Arrival) accounts.ID { return a.User })); err != nil {
			return err
		}
	}
}

// countHeld returns the number of rows whose day the log already has.
func (s *sqlStore) countHeld(ctx context.Context, rows []request) (n int64, err error) {
	return transfer.CountHeld(ctx, s.db, mapped(rows, request.row))
}

func (r request) row() transfer.Day {
	return transfer.Day{User: r.user, Day: r.day, At: r.at, Kind: r.kind, Words: r.act.Words, Minutes: r.act.Minutes, Req: r.req}
}

// followLater enqueues t with a delay.
func (s *sqlStore) followLater(ctx context.Context, t transfer.Touched, after time.Duration) error {
	return asKind(s.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return transfer.Enqueue(ctx, tx, t, after) }))
}

// enqueueUpdate is followLater for users without a new signed day.
func (s *sqlStore) enqueueUpdate(ctx context.Context, users []accounts.ID, after time.Duration) error {
	return s.followLater(ctx, transfer.Touched{Users: users}, after)
}

// postpone enqueues the message of a skipped date again, for the time until.
func (s *sqlStore) postpone(ctx context.Context, c accounts.ZoneChanged, until time.Time) error {
	payload, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return asKind(s.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		return tx.Enqueue(ctx, sqldb.Message{Topic: accounts.TopicZone, Key: c.User.String(), Payload: payload, Due: until, NoDedup: true})
	}))
}
