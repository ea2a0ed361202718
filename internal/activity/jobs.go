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
	unlessAway := func(run func(context.Context) error) func(context.Context) error {
		return func(ctx context.Context) error {
			if err := run(ctx); err != nil && !away(err) { // the watcher of the connection logs it
				return err
			}
			return nil
		}
	}
	return []worker.Job{
		// A lost Redis loses at most the counts since the last run.
		{Name: "activity.count", Every: 2 * time.Minute, Singleton: true, Timeout: 2 * madeGood, Run: unlessAway(s.count)},
		// Sets of many millions of users take minutes.
		{Name: "activity.close", Every: 5 * time.Minute, Singleton: true, Timeout: 2 * time.Hour, Run: unlessAway(s.close)},
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
// without active users, unless a number is stored.
func (s *Service) countDays(ctx context.Context, days []civil.Day) (map[civil.Day]counted, error) {
	span := Span{days[0], days[len(days)-1]}
	rows, err := selectDays(ctx, s.db, span, len(days))
	if err != nil {
		return nil, err
	}
	before := make(map[civil.Day]Day, len(rows))
	for _, d := range rows {
		before[d.Date] = d
	}
	looked, err := s.lookTwice(ctx, days, before)
	if err != nil {
		return nil, err
	}
	all := make(map[civil.Day]counted, len(days))
	var write []Day
	for i, d := range days {
		is, known := before[d]
		if !known && looked[i].count().Actives == 0 {
			continue
		}
		is.Date, is.Updated = d, s.db.Now()
		if known {
			is.Count = looked[i].count().over(is.Count)
		} else {
			is.Count = looked[i].count()
		}
		write = append(write, is)
		all[d] = counted{is, looked[i]}
	}
	return all, writeDays(ctx, s.db, write)
}

// madeGood bounds the time until nodes detect a loss in Redis and send their users again.
const madeGood = pollEvery + 10*time.Second

// lookTwice returns the numbers of days in Redis. If one is smaller than the stored number, it reads again after the
// nodes had time to send their users, because a number that is marked as partial stays so.
func (s *Service) lookTwice(ctx context.Context, days []civil.Day, before map[civil.Day]Day) ([]found, error) {
	looked, err := s.redis.look(ctx, days)
	if err != nil {
		return nil, err
	}
	for i, d := range days {
		if is, known := before[d]; known && !is.Partial && looked[i].count().falls(is.Count) {
			select {
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			case <-time.After(madeGood):
			}
			return s.redis.look(ctx, days)
		}
	}
	return looked, nil
}

// counted is the stored data of a day, and its numbers in Redis.
type counted struct {
	Day
	found
}

// close closes the finished days that are due.
func (s *Service) close(ctx context.Context) (err error) {
	defer errs.Wrap(&err, "activity.close")
	now := s.db.Now()
	yesterday := s.clock.Today(now) - 1
	rows, err := selectDays(ctx, s.db, Span{yesterday - kept, yesterday}, kept+1)
	if err != nil || len(rows) == 0 {
		return err
	}
	closed := make(map[civil.Day]time.Time, len(rows))
	for _, d := range rows {
		closed[d.Date] = d.Closed
	}
	var days []civil.Day
	for d := rows[len(rows)-1].Date; d <= yesterday; d++ { // no day was counted before
		if due(now, closed[d], s.clock.Start(d+1)) {
			days = append(days, d)
		}
	}
	if len(days) == 0 {
		return nil
	}
	done, err := s.countDays(ctx, days)
	if err != nil {
		return err
	}
	for _, d := range days {
		if err := s.lookUp(ctx, d, done[d]); err != nil {
			return err
		}
	}
	if err := s.countRanges(ctx, days, yesterday); err != nil {
		return err
	}
	// This is the last step, so that a failure before it is retried.
	write := make([]Day, 0, len(days))
	for _, d := range days {
		is := done[d].Day
		is.Date, is.Closed, is.Updated = d, now, now
		if is.Actives == 0 {
			is.Exact = !s.cfg.Settings.Approximate()
		}
		write = append(write, is)
	}
	s.log.Info("activity: days closed", "days", len(days), "last", yesterday.String())
	return writeDays(ctx, s.db, write)
}

// lookUp counts the users of earlier registration days who were active on a day. It stores nothing if the set is
// missing: the day was counted approximately, or its set has expired.
func (s *Service) lookUp(ctx context.Context, d civil.Day, is counted) error {
	if is.estimate > 0 || is.set == 0 && (is.Actives > 0 || s.cfg.Settings.Approximate()) {
		return nil
	}
	var all []Cohort
	for _, after := range daysAfter {
		c := Cohort{Date: d - civil.Day(after), After: after}
		var last accounts.Registered
		for {
			some, err := accounts.RegisteredBetween(ctx, s.db, s.clock.Start(c.Date), s.clock.Start(c.Date+1), last, atOnce)
			if err != nil {
				return err
			}
			if len(some) == 0 {
				break
			}
			last = some[len(some)-1]
			users := make([]string, len(some))
			for i, r := range some {
				users[i] = r.User.String()
			}
			absent, err := s.redis.missing(ctx, d, users)
			if err != nil {
				return err
			}
			c.Size += int64(len(some))
			c.Active += int64(len(some) - len(absent))
			if len(some) < atOnce {
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
			if span := p.Of(d); !slices.Contains(spans, span) {
				spans = append(spans, span)
			}
		}
		for _, span := range spans {
			is := Range{Period: p, Span: span, Through: min(span.Last, yesterday), Updated: s.db.Now()}
			var err error
			if is.Count, err = s.between(ctx, Span{span.First, is.Through}); err != nil {
				return err
			}
			before, err := selectRanges(ctx, s.db, p, Span{span.First, span.First}, 1)
			if err != nil {
				return err
			}
			if len(before) > 0 {
				is = is.over(before[0])
			}
			if err := writeRange(ctx, s.db, is); err != nil {
				return err
			}
		}
	}
	return nil
}

// between counts the users of a span of days. The count is partial if a day is partial, or if Redis has fewer users of
// a day than are stored.
func (s *Service) between(ctx context.Context, span Span) (Count, error) {
	rows, err := selectDays(ctx, s.db, span, int(span.Last-span.First)+1)
	if err != nil {
		return Count{}, err
	}
	return s.redis.within(ctx, span, rows)
}
