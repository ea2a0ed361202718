package activity

import (
	"context"
	"math"

	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// Admin reads the stored numbers for operators. It needs no running server.
type Admin struct{ db *sqldb.DB }

// NewAdmin returns the Admin of a database.
func NewAdmin(db *sqldb.DB) Admin { return Admin{db} }

// allDays contains all days.
var allDays = Span{0, math.MaxInt32}

// Days returns up to n days, newest first.
func (k Admin) Days(ctx context.Context, n int) (_ []Day, err error) {
	defer errs.Wrap(&err, "activity.Days")
	return selectDays(ctx, k.db, allDays, n)
}

// Ranges returns up to n weeks or months, newest first. It includes the current one.
func (k Admin) Ranges(ctx context.Context, p Period, n int) (_ []Range, err error) {
	defer errs.Wrap(&err, "activity.Ranges")
	return selectRanges(ctx, k.db, p, allDays, n)
}

// Retention returns the cohorts of the n days before the newest counted day. They are sorted by day, newest first, and
// then by the days after registration. It returns ErrNotExact if days are counted approximately.
func (k Admin) Retention(ctx context.Context, n int) (_ []Cohort, err error) {
	defer errs.Wrap(&err, "activity.Retention")
	newest, err := selectDays(ctx, k.db, allDays, 1)
	if err != nil || len(newest) == 0 {
		return nil, err
	}
	all, err := selectCohorts(ctx, k.db, Span{newest[0].Date - civil.Day(n), newest[0].Date})
	if err == nil && len(all) == 0 && !newest[0].Exact {
		err = ErrNotExact
	}
	return all, err
}
