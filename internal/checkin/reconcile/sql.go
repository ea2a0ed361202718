package reconcile

import (
	"context"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/background/runs"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/checkin/transfer"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// NewStore returns the runs of a database.
func NewStore(db *sqldb.DB) *Store {
	return runs.NewStore[Options, Summary](db, runs.Tables{Runs: "checkin_runs", Repairs: "checkin_repairs", Away: transfer.ErrStore})
}

// sqlStore reads the log of check-ins, and writes months and totals.
type sqlStore struct{ db *sqldb.DB }

// asKind gives errors of the engine the kind that callers handle.
func asKind(err error) error { return sqldb.AsKind(err, transfer.ErrStore) }

// usersAfter returns the next n users by id who have rows in the log, grants or persisted totals. Their ids are later
// than after and, if before is not empty, earlier than before.
func (s *sqlStore) usersAfter(ctx context.Context, after, before string, n int) (_ []accounts.ID, err error) {
	defer errs.Wrap(&err, "checkin.usersAfter %s", after)
	if before == "" {
		before = "~" // later than every character of an id
	}
	var all []accounts.ID
	for _, table := range []string{"checkins", "checkin_grants", "checkin_totals"} {
		chunk, err := sqldb.Column[accounts.ID](s.db.QueryContext(ctx,
			"SELECT DISTINCT user_id FROM "+table+" WHERE user_id > ? AND user_id < ? ORDER BY user_id LIMIT ?", after, before, n))
		if err != nil {
			return nil, asKind(err)
		}
		all = append(all, chunk...)
	}
	slices.SortFunc(all, accounts.ID.Compare)
	all = slices.Compact(all)
	return all[:min(n, len(all))], nil
}

// countUsers counts the users of the log between two ids.
func (s *sqlStore) countUsers(ctx context.Context, after, before string) (n int64, err error) {
	defer errs.Wrap(&err, "checkin.countUsers")
	if before == "" {
		before = "~"
	}
	err = s.db.NewRaw("SELECT COUNT(DISTINCT user_id) FROM checkins WHERE user_id > ? AND user_id < ?", after, before).Scan(ctx, &n)
	return n, asKind(err)
}

// activeAfter is usersAfter for users with a day at or later than since.
func (s *sqlStore) activeAfter(ctx context.Context, after string, since civil.Day, n int) (users []accounts.ID, err error) {
	defer errs.Wrap(&err, "checkin.activeAfter %s", after)
	users, err = sqldb.Column[accounts.ID](s.db.QueryContext(ctx,
		"SELECT DISTINCT user_id FROM checkins WHERE user_id > ? AND day >= ? ORDER BY user_id LIMIT ?", after, int32(since), n))
	return users, asKind(err)
}

// countActive counts the users with a day at or later than since.
func (s *sqlStore) countActive(ctx context.Context, since civil.Day) (n int64, err error) {
	defer errs.Wrap(&err, "checkin.countActive")
	err = s.db.NewRaw("SELECT COUNT(DISTINCT user_id) FROM checkins WHERE day >= ?", int32(since)).Scan(ctx, &n)
	return n, asKind(err)
}

// firstYears returns the year of each user's first day. It omits users without days.
func (s *sqlStore) firstYears(ctx context.Context, users []accounts.ID) (_ map[accounts.ID]int, err error) {
	defer errs.Wrap(&err, "checkin.firstYears")
	if len(users) == 0 {
		return nil, nil
	}
	var rows []struct {
		User accounts.ID `bun:"user_id"`
		Day  int32       `bun:"day"`
	}
	if err := s.db.NewRaw("SELECT user_id, MIN(day) AS day FROM checkins WHERE user_id IN (?) GROUP BY user_id", bun.List(users)).Scan(ctx,
		&rows); err != nil {
		return nil, asKind(err)
	}
	out := make(map[accounts.ID]int, len(rows))
	for _, r := range rows {
		out[r.User] = civil.Day(r.Day).Year()
	}
	return out, nil
}

// forgetTouched deletes the users who were touched before that time, but not the tombstones.
func (s *sqlStore) forgetTouched(ctx context.Context, before time.Time) (err error) {
	defer errs.Wrap(&err, "checkin.forgetTouched")
	return asKind(runs.Prune(ctx, s.db, "checkin_touched", "user_id", "at <> ? AND at < ?", transfer.Tombstone, before.UnixMilli()))
}

// totals has the figures of a user's history when it was last persisted.
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

func (s *sqlStore) persisted(ctx context.Context, users []accounts.ID) (sums []totals, months []month, err error) {
	defer errs.Wrap(&err, "checkin.persisted")
	if err := s.db.NewRaw("SELECT user_id, streak, longest, total, last_day, as_of FROM checkin_totals WHERE user_id IN (?)",
		bun.List(users)).Scan(ctx, &sums); err != nil {
		return nil, nil, asKind(err)
	}
	err = s.db.NewRaw("SELECT user_id, month, days, covered FROM checkin_months WHERE user_id IN (?)", bun.List(users)).Scan(ctx, &months)
	return sums, months, asKind(err)
}

// persist writes totals and months over the stored ones.
func (s *sqlStore) persist(ctx context.Context, sums []totals, months []month) (err error) {
	defer errs.Wrap(&err, "checkin.persist")
	d := s.db.Dialect()
	putTotals := d.Compile(sqldb.Upsert{Table: "checkin_totals",
		Columns: []string{"user_id", "streak", "longest", "total", "last_day", "as_of"},
		Key:     []string{"user_id"}, Set: []string{"streak", "longest", "total", "last_day", "as_of"}})
	putMonths := d.Compile(sqldb.Upsert{Table: "checkin_months", Columns: []string{"user_id", "month", "days", "covered"},
		Key: []string{"user_id", "month"}, Set: []string{"days", "covered"}})
	return asKind(s.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		for chunk := range slices.Chunk(sums, 500) {
			args := make([]any, 0, 6*len(chunk))
			for _, t := range chunk {
				args = append(args, t.User.String(), t.Streak, t.Longest, t.Total, t.LastDay, t.AsOf)
			}
			if _, err := tx.SQL().ExecContext(ctx, putTotals.For(len(chunk)), args...); err != nil {
				return err
			}
		}
		for chunk := range slices.Chunk(months, 500) {
			args := make([]any, 0, 4*len(chunk))
			for _, m := range chunk {
				args = append(args, m.User.String(), m.Month, m.Days, m.Covered)
			}
			if _, err := tx.SQL().ExecContext(ctx, putMonths.For(len(chunk)), args...); err != nil {
				return err
			}
		}
		return nil
	}))
}
