package runs

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// Tables names the tables of a domain's runs.
type Tables struct {
	Runs    string
	Repairs string
	Away    error // the error for callers while SQL is unavailable
}

// Store stores the runs of a domain and its repair log.
type Store[Options, Summary any] struct {
	db *sqldb.DB
	t  Tables
}

// NewStore returns a store for tables.
func NewStore[O, S any](db *sqldb.DB, t Tables) *Store[O, S] { return &Store[O, S]{db, t} }

func (s *Store[O, S]) asKind(err error) error { return sqldb.AsKind(err, s.t.Away) }

const columns = "id, kind, options, state, done, total, created, started, ended, node, error, summary, resume_at, rev"

// Request stores a run, which a server will work on.
func (s *Store[O, S]) Request(ctx context.Context, kind Kind, o O) (*Run[O, S], error) {
	return s.request(ctx, kind, o, s.db.Now())
}

func (s *Store[O, S]) request(ctx context.Context, kind Kind, o O, now time.Time) (_ *Run[O, S], err error) {
	defer errs.Wrap(&err, "runs.Request %s", kind)
	r := &Run[O, S]{Kind: kind, Options: o, State: Waiting, Created: now}
	row, err := r.row()
	if err != nil {
		return nil, err
	}
	err = s.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		res, err := tx.ExecContext(ctx, "INSERT INTO "+s.t.Runs+
			" (kind, options, state, done, total, created, started, ended, node, error, summary, resume_at, rev) VALUES (?, ?, ?, 0, 0, ?, 0, 0, "+
			"'', '', '{}', '{}', 0)",
			row.Kind, row.Options, row.State, row.Created)
		if err != nil {
			return err
		}
		r.ID, err = res.LastInsertId()
		return err
	})
	return r, s.asKind(err)
}

// find returns runs that meet a condition.
func (s *Store[O, S]) find(ctx context.Context, where string, args ...any) (out []Run[O, S], err error) {
	defer errs.Wrap(&err, "runs.find")
	var rows []row
	if err := s.db.NewRaw("SELECT "+columns+" FROM "+s.t.Runs+" WHERE "+where, args...).Scan(ctx, &rows); err != nil {
		return nil, s.asKind(err)
	}
	for _, row := range rows {
		r, err := runOf[O, S](row)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// Run returns a run, or ErrUnknown.
func (s *Store[O, S]) Run(ctx context.Context, id int64) (*Run[O, S], error) {
	found, err := s.find(ctx, "id = ?", id)
	if err == nil && len(found) == 0 {
		err = ErrUnknown
	}
	if err != nil {
		return nil, err
	}
	return &found[0], nil
}

// Next returns the next run of the kinds to work on, or nil. Runs that have begun precede waiting ones.
func (s *Store[O, S]) Next(ctx context.Context, kinds ...Kind) (*Run[O, S], error) {
	found, err := s.find(ctx, "state IN (?, ?) AND kind IN (?) ORDER BY CASE state WHEN ? THEN 0 ELSE 1 END, id LIMIT 1", Running, Waiting,
		bun.List(kinds), Running)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// List returns n runs with ids below before, newest first. 0 starts at the newest.
func (s *Store[O, S]) List(ctx context.Context, before int64, n int) ([]Run[O, S], error) {
	return s.find(ctx, "? = 0 OR id < ? ORDER BY id DESC LIMIT ?", before, before, n)
}

// LastDone returns the newest finished run of a kind that wanted accepts, or nil. A nil wanted accepts all runs.
func (s *Store[O, S]) LastDone(ctx context.Context, kind Kind, wanted func(*Run[O, S]) bool) (*Run[O, S], error) {
	for before := int64(1<<63 - 1); ; {
		found, err := s.find(ctx, "kind = ? AND state = ? AND id < ? ORDER BY id DESC LIMIT 20", kind, Done, before)
		if err != nil || len(found) == 0 {
			return nil, err
		}
		for i := range found {
			if wanted == nil || wanted(&found[i]) {
				return &found[i], nil
			}
		}
		before = found[len(found)-1].ID
	}
}

// lastRequested returns the time of the last request of a full run of that kind. It ignores failed runs requested
// before failed.
func (s *Store[O, S]) lastRequested(ctx context.Context, kind Kind, failed time.Time) (at time.Time, err error) {
	defer errs.Wrap(&err, "runs.lastRequested %s", kind)
	var ms int64
	err = s.db.NewRaw("SELECT COALESCE(MAX(created), 0) FROM "+s.t.Runs+" WHERE kind = ? AND options = '{}' AND (state <> ? OR created >= ?)",
		kind, Failed, failed.UnixMilli()).Scan(ctx, &ms)
	return time.UnixMilli(ms), s.asKind(err)
}

// Save stores the progress of a run and the differences that it found. It returns ErrOvertaken if another node has
// stored progress since r was read.
func (s *Store[O, S]) Save(ctx context.Context, r *Run[O, S], found ...Repair) (err error) {
	defer errs.Wrap(&err, "runs.Save %d", r.ID)
	row, err := r.row()
	if err != nil {
		return err
	}
	err = s.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		n, err := sqldb.Affected(tx.ExecContext(ctx, "UPDATE "+s.t.Runs+
			" SET state = ?, done = ?, total = ?, started = ?, ended = ?, node = ?, error = ?, summary = ?, resume_at = ?, rev = rev + 1 WHERE "+
			"id = ? AND rev = ?",
			row.State, row.Done, row.Total, row.Started, row.Ended, row.Node, row.Error, row.Summary, row.Resume, row.ID, row.Rev))
		if err != nil || n == 0 {
			return cmp.Or(err, ErrOvertaken)
		}
		for chunk := range slices.Chunk(found, 200) {
			args := make([]any, 0, 7*len(chunk))
			for _, f := range chunk {
				args = append(args, f.At.UnixMilli(), r.ID, Shorten(f.User, 64), f.What, Shorten(f.Was, 500), Shorten(f.Becomes, 500), f.Repaired)
			}
			if _, err := tx.ExecContext(ctx, "INSERT INTO "+s.t.Repairs+" (at, run, member, what, was, becomes, repaired) VALUES "+
				sqldb.Tuples(7, len(chunk)), args...); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		r.rev++
	}
	return s.asKind(err)
}

// Withdraw deletes a run that no node has begun, and reports whether it did.
func (s *Store[O, S]) Withdraw(ctx context.Context, id int64) (bool, error) {
	done, err := sqldb.AffectedOne(s.db.ExecContext(ctx, "DELETE FROM "+s.t.Runs+" WHERE id = ? AND state = ?", id, Waiting))
	return done, s.asKind(err)
}

// Repairs returns n rows of the repair log with ids below before, newest first; 0 starts at the newest. For one run,
// unlike for all (0), it also returns differences that were not repaired.
func (s *Store[O, S]) Repairs(ctx context.Context, before, run int64, n int) (_ []Repair, err error) {
	defer errs.Wrap(&err, "runs.Repairs")
	query, args := "SELECT id, at, run, member, what, was, becomes, repaired FROM "+s.t.Repairs+" WHERE ", []any{}
	if before != 0 {
		query, args = query+"id < ? AND ", append(args, before)
	}
	if run != 0 {
		query, args = query+"run = ?", append(args, run)
	} else {
		query += "repaired = 1"
	}
	rows, err := s.db.QueryContext(ctx, query+" ORDER BY id DESC LIMIT ?", append(args, n)...)
	out, err := sqldb.Collect(rows, err, func(rows *sql.Rows) (r Repair, err error) {
		var at int64
		err = rows.Scan(&r.ID, &at, &r.Run, &r.User, &r.What, &r.Was, &r.Becomes, &r.Repaired)
		r.At = sqldb.Time(at)
		return r, err
	})
	return out, s.asKind(err)
}

// CountNamed returns how many of users have a row in the repair log of a run.
func (s *Store[O, S]) CountNamed(ctx context.Context, run int64, users []string) (n int, err error) {
	names := make([]string, len(users))
	for i, u := range users {
		names[i] = Shorten(u, 64)
	}
	err = s.db.QueryRowContext(ctx, "SELECT COUNT(DISTINCT member) FROM "+s.t.Repairs+" WHERE run = ? AND member IN (?)", run,
		bun.List(names)).Scan(&n)
	return n, s.asKind(err)
}

// Erase removes the rows of the repair log about a user.
func (s *Store[O, S]) Erase(ctx context.Context, user string) error {
	_, err := s.db.ExecContext(ctx, "DELETE FROM "+s.t.Repairs+" WHERE member = ?", user)
	return s.asKind(err)
}

// deleteOld deletes runs that ended before a time, and older rows of the log that repaired nothing. It does not delete
// repairs.
func (s *Store[O, S]) deleteOld(ctx context.Context, before time.Time) (err error) {
	defer errs.Wrap(&err, "runs.deleteOld")
	if err := Prune(ctx, s.db, s.t.Repairs, "id", "repaired = 0 AND at < ?", before.UnixMilli()); err != nil {
		return s.asKind(err)
	}
	return s.asKind(Prune(ctx, s.db, s.t.Runs, "id", "ended <> 0 AND ended < ?", before.UnixMilli()))
}

// Prune deletes rows that meet a condition, up to 1,000 in a statement and 50,000 in a call. The caller repeats it after
// a minute.
func Prune(ctx context.Context, db *sqldb.DB, table, key, where string, args ...any) error {
	for range 50 {
		var found []string
		if err := db.NewRaw("SELECT "+key+" FROM "+table+" WHERE "+where+" LIMIT 1000", args...).Scan(ctx, &found); err != nil ||
			len(found) == 0 {
			return err
		}
		if _, err := db.ExecContext(ctx, "DELETE FROM "+table+" WHERE "+key+" IN (?) AND "+where,
			append([]any{bun.List(found)}, args...)...); err != nil {
			return err
		}
	}
	return nil
}
