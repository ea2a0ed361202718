package ranking

import (
	"context"
	"database/sql"
	"iter"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// sqlStore reads the log of check-ins.
type sqlStore struct {
	db   *sqldb.DB
	away error // returned to callers while SQL is away
}

// asKind gives errors of the engine the kind that callers handle.
func (s *sqlStore) asKind(err error) error { return sqldb.AsKind(err, s.away) }

// everybody calls fn with each user's tally, in one pass over the log.
func (s *sqlStore) everybody(ctx context.Context, fn func(accounts.ID, streak.Tally) error) (err error) {
	defer errs.Wrap(&err, "checkin.everybody")
	rows, err := s.db.QueryContext(ctx, "SELECT user_id, day, at, kind FROM checkins ORDER BY user_id, day")
	if err != nil {
		return s.asKind(err)
	}
	defer rows.Close()
	var user accounts.ID
	var t streak.Tally
	// The types of the driver avoid a conversion to text and an id for each row.
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
			t = streak.Tally{}
		}
		t.Add(streak.Mark{Day: civil.Day(day), Kind: streak.Kind(kind), At: time.UnixMilli(at)}) //nolint:gosec // as they were written
	}
	if err := rows.Err(); err != nil || user.IsZero() {
		return s.asKind(err)
	}
	return fn(user, t)
}

// freezesGranted returns how many freezes the users from first to last ever got.
func (s *sqlStore) freezesGranted(ctx context.Context, first, last accounts.ID) (_ map[accounts.ID]int, err error) {
	defer errs.Wrap(&err, "checkin.granted")
	rows, err := s.db.QueryContext(ctx, "SELECT user_id, n FROM checkin_grants WHERE user_id BETWEEN ? AND ?", first, last)
	if err != nil {
		return nil, s.asKind(err)
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
	return out, s.asKind(rows.Err())
}

// attended has how many days of a season a user signed, and when the last one was.
type attended struct {
	user accounts.ID
	days int
	at   time.Time
}

// season yields the users who signed days of a season. No day is signed before it has begun in some zone, and an import
// gives no time earlier than that by more than transfer.ZoneSpan. The index by time therefore finds the rows.
func (s *sqlStore) season(ctx context.Context, b Board) iter.Seq2[attended, error] {
	first, last := b.Span()
	return func(yield func(attended, error) bool) {
		rows, err := s.db.QueryContext(ctx, "SELECT user_id, COUNT(*), MAX(at) FROM checkins WHERE at >= ? AND day BETWEEN ? AND ? AND kind "+
			"IN (?, ?) GROUP BY user_id",
			civil.Clock{}.Start(first-2).UnixMilli(), int32(first), int32(last), uint8(streak.Tapped), uint8(streak.MadeUp))
		if err != nil {
			yield(attended{}, s.asKind(err))
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
			yield(attended{}, s.asKind(err))
		}
	}
}
