package activity

import (
	"context"
	"database/sql"
	"time"

	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// The statements keep the larger number, so that concurrent workers never lower a number. They change a column after
// the columns that depend on it.
var (
	dayColumns = []string{"day", "actives", "exact", "partial", "closed", "updated"}
	upsertDay  = sqldb.Upsert{Table: "activity_days", Columns: dayColumns, Key: dayColumns[:1], Set: []string{
		"exact = CASE WHEN {new.actives} > actives THEN {new.exact} ELSE exact END", "partial = {greatest}(partial, {new.partial})",
		"actives = {greatest}(actives, {new.actives})", "closed = {greatest}(closed, {new.closed})", "updated"}}

	rangeColumns = []string{"period", "first_day", "last_day", "through_day", "actives", "exact", "partial", "updated"}
	upsertRange  = sqldb.Upsert{Table: "activity_ranges", Columns: rangeColumns, Key: rangeColumns[:2], Set: []string{
		"exact = CASE WHEN {new.actives} > actives THEN {new.exact} ELSE exact END", "partial", "actives = {greatest}(actives, {new.actives})",
		"through_day = {greatest}(through_day, {new.through_day})", "updated"}}

	cohortColumns = []string{"cohort", "days_after", "size", "active", "updated"}
	upsertCohort  = sqldb.Upsert{Table: "activity_retention", Columns: cohortColumns, Key: cohortColumns[:2], Set: []string{
		"size = {greatest}(size, {new.size})", "active = {greatest}(active, {new.active})", "updated"}}
)

// writeDays stores the counts of days.
func writeDays(ctx context.Context, db *sqldb.DB, all []Day) error {
	if len(all) == 0 {
		return nil
	}
	args := make([]any, 0, len(dayColumns)*len(all))
	for _, d := range all {
		args = append(args, int(d.Date), d.Actives, sqldb.Bit(d.Exact), sqldb.Bit(d.Partial), sqldb.MillisOrZero(d.Closed),
			sqldb.MillisOrZero(d.Updated))
	}
	_, err := db.ExecContext(ctx, db.Dialect().Compile(upsertDay).For(len(all)), args...)
	return err
}

// selectDays returns up to n stored days of a span, newest first.
func selectDays(ctx context.Context, q sqldb.Querier, span Span, n int) ([]Day, error) {
	rows, err := q.QueryContext(ctx, "SELECT day, actives, exact, partial, closed, updated FROM activity_days WHERE day >= ? AND day <= ? "+
		"ORDER BY day DESC LIMIT ?", int(span.First), int(span.Last), n)
	return sqldb.Collect(rows, err, func(rows *sql.Rows) (d Day, err error) {
		var closed, updated int64
		err = rows.Scan(&d.Date, &d.Actives, &d.Exact, &d.Partial, &closed, &updated)
		d.Closed, d.Updated = sqldb.TimeOrZero(closed), sqldb.TimeOrZero(updated)
		return d, err
	})
}

// writeRange stores the count of a week or month.
func writeRange(ctx context.Context, db *sqldb.DB, r Range) error {
	_, err := db.ExecContext(ctx, db.Dialect().Compile(upsertRange).For(1),
		string(r.Period), int(r.First), int(r.Last), int(r.Through), r.Actives, sqldb.Bit(r.Exact), sqldb.Bit(r.Partial),
		sqldb.MillisOrZero(r.Updated))
	return err
}

// selectRanges returns up to n stored ranges that begin in a span, newest first.
func selectRanges(ctx context.Context, q sqldb.Querier, p Period, begin Span, n int) ([]Range, error) {
	rows, err := q.QueryContext(ctx, "SELECT first_day, last_day, through_day, actives, exact, partial, updated FROM activity_ranges WHERE "+
		"period = ? AND first_day >= ? AND first_day <= ? ORDER BY first_day DESC LIMIT ?",
		string(p), int(begin.First), int(begin.Last), n)
	return sqldb.Collect(rows, err, func(rows *sql.Rows) (Range, error) {
		r := Range{Period: p}
		var updated int64
		err := rows.Scan(&r.First, &r.Last, &r.Through, &r.Actives, &r.Exact, &r.Partial, &updated)
		r.Updated = sqldb.TimeOrZero(updated)
		return r, err
	})
}

// writeCohorts stores cohorts.
func writeCohorts(ctx context.Context, db *sqldb.DB, all []Cohort, now time.Time) error {
	if len(all) == 0 {
		return nil
	}
	args := make([]any, 0, len(cohortColumns)*len(all))
	for _, c := range all {
		args = append(args, int(c.Date), c.After, c.Size, c.Active, sqldb.MillisOrZero(now))
	}
	_, err := db.ExecContext(ctx, db.Dialect().Compile(upsertCohort).For(len(all)), args...)
	return err
}

// selectCohorts returns the stored cohorts of a span, newest first, and then by the days after registration. A cohort is
// partial if the number of its check day is partial.
func selectCohorts(ctx context.Context, q sqldb.Querier, span Span) ([]Cohort, error) {
	rows, err := q.QueryContext(ctx, `SELECT c.cohort, c.days_after, c.size, c.active, COALESCE(d.partial, 0) FROM activity_retention c
		LEFT JOIN activity_days d ON d.day = c.cohort + c.days_after WHERE c.cohort >= ? AND c.cohort <= ? ORDER BY c.cohort DESC, c.days_after`, int(span.First), int(span.Last))
	return sqldb.Collect(rows, err, func(rows *sql.Rows) (c Cohort, err error) {
		err = rows.Scan(&c.Date, &c.After, &c.Size, &c.Active, &c.Partial)
		return c, err
	})
}
