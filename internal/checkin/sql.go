package checkin

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/foundation/civil"
	"github.com/stoa-dev/stoa/internal/foundation/errs"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb"
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

// unanswered reports errors after which the batch may be committed or not.
func unanswered(err error) bool {
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

// histories returns the whole log of some users, each in order of days.
func (s *store) histories(ctx context.Context, users []accounts.ID) (_ map[accounts.ID][]Mark, err error) {
	defer errs.Wrap(&err, "checkin.histories")
	out := make(map[accounts.ID][]Mark, len(users))
	for some := range slices.Chunk(users, 500) {
		var rows []logRow
		if err := s.db.NewRaw("SELECT user_id, day, at, kind FROM checkins WHERE user_id IN (?) ORDER BY user_id, day", bun.List(some)).Scan(ctx, &rows); err != nil {
			return nil, asKind(err)
		}
		for _, r := range rows {
			out[r.User] = append(out[r.User], r.mark())
		}
	}
	return out, nil
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
