package activity

import (
	"context"
	"slices"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/background/worker"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/errs"
)

// Jobs returns the background jobs of this domain, in addition to [Service.Run].
func (s *Service) Jobs() []worker.Job {
	ignoreUnavailable := func(run func(context.Context) error) func(context.Context) error {
		return func(ctx context.Context) error {
			if err := run(ctx); err != nil && !isUnavailable(err) { // the watcher of the Redis connection logs it
				return err
			}
			return nil
		}
	}
	return []worker.Job{
		// A lost Redis loses at most the counts since the last run.
		{Name: "activity.count", Every: 2 * time.Minute, Singleton: true, Timeout: 2 * resendTimeout, Run: ignoreUnavailable(s.count)},
		// Sets of many millions of users take minutes.
		{Name: "activity.close", Every: 5 * time.Minute, Singleton: true, Timeout: 2 * time.Hour, Run: ignoreUnavailable(s.close)},
	}
}

// count stores the numbers of today and yesterday.
func (s *Service) count(ctx context.Context) (err error) {
	defer errs.Wrap(&err, "activity.count")
	today := s.clock.Today(s.db.Now())
	_, err = s.countDays(ctx, Span{today - 1, today}.days())
	return err
}

// countDays counts days and stores their numbers. It returns the stored numbers and those in Redis. It skips days
// without active users, unless SQL already has a number.
func (s *Service) countDays(ctx context.Context, days []civil.Day) (map[civil.Day]dayCounts, error) {
	span := Span{days[0], days[len(days)-1]}
	storedDays, err := selectDays(ctx, s.db, span, len(days))
	if err != nil {
		return nil, err
	}
	before := make(map[civil.Day]Day, len(storedDays))
	for _, d := range storedDays {
		before[d.Date] = d
	}
	counts, err := s.readCountsWithRecheck(ctx, days, before)
	if err != nil {
		return nil, err
	}
	all := make(map[civil.Day]dayCounts, len(days))
	var rows []Day
	for i, d := range days {
		day, stored := before[d]
		if !stored && counts[i].count().Actives == 0 {
			continue
		}
		day.Date, day.Updated = d, s.db.Now()
		if stored {
			day.Count = counts[i].count().merge(day.Count)
		} else {
			day.Count = counts[i].count()
		}
		rows = append(rows, day)
		all[d] = dayCounts{day, counts[i]}
	}
	return all, writeDays(ctx, s.db, rows)
}

// resendTimeout bounds the time until nodes detect a loss in Redis and send their users again.
const resendTimeout = pollInterval + 10*time.Second

// readCountsWithRecheck returns the numbers of days in Redis. If one is smaller than the stored number, it waits until
// the nodes have sent their users again, and reads the numbers a second time. Otherwise a short loss would mark the
// stored number as partial forever.
func (s *Service) readCountsWithRecheck(ctx context.Context, days []civil.Day, before map[civil.Day]Day) ([]redisCounts, error) {
	counts, err := s.redis.readCounts(ctx, days)
	if err != nil {
		return nil, err
	}
	for i, d := range days {
		if day, stored := before[d]; stored && !day.Partial && counts[i].count().showsLoss(day.Count) {
			select {
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			case <-time.After(resendTimeout):
			}
			return s.redis.readCounts(ctx, days)
		}
	}
	return counts, nil
}

// dayCounts has the stored data of a day, and its numbers in Redis.
type dayCounts struct {
	Day
	redisCounts
}

// close closes the finished days that are due, see [isDue].
func (s *Service) close(ctx context.Context) (err error) {
	defer errs.Wrap(&err, "activity.close")
	now := s.db.Now()
	yesterday := s.clock.Today(now) - 1
	rows, err := selectDays(ctx, s.db, Span{yesterday - daysWithSets, yesterday}, daysWithSets+1)
	if err != nil || len(rows) == 0 {
		return err
	}
	closed := make(map[civil.Day]time.Time, len(rows))
	for _, d := range rows {
		closed[d.Date] = d.Closed
	}
	var days []civil.Day
	for d := rows[len(rows)-1].Date; d <= yesterday; d++ { // earlier days were never counted
		if isDue(now, closed[d], s.clock.Start(d+1)) {
			days = append(days, d)
		}
	}
	if len(days) == 0 {
		return nil
	}
	counted, err := s.countDays(ctx, days)
	if err != nil {
		return err
	}
	for _, d := range days {
		if err := s.countCohorts(ctx, d, counted[d]); err != nil {
			return err
		}
	}
	if err := s.countRanges(ctx, days, yesterday); err != nil {
		return err
	}
	// Days are marked as closed last, so that a failure before this step is retried.
	closedDays := make([]Day, 0, len(days))
	for _, d := range days {
		day := counted[d].Day
		day.Date, day.Closed, day.Updated = d, now, now
		if day.Actives == 0 {
			day.Exact = !s.cfg.Settings.Approximate()
		}
		closedDays = append(closedDays, day)
	}
	s.log.Info("activity: days closed", "days", len(days), "last", yesterday.String())
	return writeDays(ctx, s.db, closedDays)
}

// countCohorts stores how many users of earlier registration days were active on a day. It stores nothing if the set of
// the day is missing, because the day was counted approximately or Redis has lost the set.
func (s *Service) countCohorts(ctx context.Context, d civil.Day, counts dayCounts) error {
	if counts.estimate > 0 || counts.set == 0 && (counts.Actives > 0 || s.cfg.Settings.Approximate()) {
		return nil
	}
	var all []Cohort
	for _, after := range daysAfter {
		c := Cohort{Date: d - civil.Day(after), After: after}
		var last accounts.Registered
		for {
			page, err := accounts.RegisteredBetween(ctx, s.db, s.clock.Start(c.Date), s.clock.Start(c.Date+1), last, batchSize)
			if err != nil {
				return err
			}
			if len(page) == 0 {
				break
			}
			last = page[len(page)-1]
			users := make([]string, len(page))
			for i, r := range page {
				users[i] = r.User.String()
			}
			absent, err := s.redis.filterMissing(ctx, d, users)
			if err != nil {
				return err
			}
			c.Size += int64(len(page))
			c.Active += int64(len(page) - len(absent))
			if len(page) < batchSize {
				break
			}
		}
		if c.Size > 0 {
			all = append(all, c)
		}
	}
	return writeCohorts(ctx, s.db, all, s.db.Now())
}

// countRanges counts the weeks and months of closed days, up to yesterday.
func (s *Service) countRanges(ctx context.Context, days []civil.Day, yesterday civil.Day) error {
	for _, p := range periods {
		var spans []Span
		for _, d := range days {
			if span := p.SpanOf(d); !slices.Contains(spans, span) {
				spans = append(spans, span)
			}
		}
		for _, span := range spans {
			r := Range{Period: p, Span: span, Through: min(span.Last, yesterday), Updated: s.db.Now()}
			var err error
			if r.Count, err = s.countSpan(ctx, Span{span.First, r.Through}); err != nil {
				return err
			}
			before, err := selectRanges(ctx, s.db, p, Span{span.First, span.First}, 1)
			if err != nil {
				return err
			}
			if len(before) > 0 {
				r = r.merge(before[0])
			}
			if err := writeRange(ctx, s.db, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// countSpan counts the users of a span of days. The count is partial if the number of a day is partial, or if Redis has
// fewer users of a day than SQL.
func (s *Service) countSpan(ctx context.Context, span Span) (Count, error) {
	rows, err := selectDays(ctx, s.db, span, int(span.Last-span.First)+1)
	if err != nil {
		return Count{}, err
	}
	return s.redis.countSpan(ctx, span, rows)
}
