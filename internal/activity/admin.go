package activity

import (
	"context"
	"math"

	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// Admin is what an operator can ask for beside a server, or without one: what SQL has.
type Admin struct{ db *sqldb.DB }

// NewAdmin returns the Admin of a database.
func NewAdmin(db *sqldb.DB) Admin { return Admin{db} }

// always is every day there can be.
var always = Span{0, math.MaxInt32}

// Days returns up to n days, the newest first.
func (k Admin) Days(ctx context.Context, n int) (_ []Day, err error) {
	defer errs.Wrap(&err, "activity.Days")
	return selectDays(ctx, k.db, always, n)
}

// Ranges returns up to n weeks or months, the newest first, which may not have ended.
func (k Admin) Ranges(ctx context.Context, p Period, n int) (_ []Range, err error) {
	defer errs.Wrap(&err, "activity.Ranges")
	return selectRanges(ctx, k.db, p, always, n)
}

// Retention returns the cohorts of the n days before the newest day that was counted, the newest
// cohort first, and for each by the days after. ErrNotExact where there is none because days are counted
// approximately.
func (k Admin) Retention(ctx context.Context, n int) (_ []Cohort, err error) {
	defer errs.Wrap(&err, "activity.Retention")
	newest, err := selectDays(ctx, k.db, always, 1)
	if err != nil || len(newest) == 0 {
		return nil, err
	}
	all, err := selectCohorts(ctx, k.db, Span{newest[0].Date - civil.Day(n), newest[0].Date})
	if err == nil && len(all) == 0 && !newest[0].Exact {
		err = ErrNotExact
	}
	return all, err
}
