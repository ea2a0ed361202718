package checkin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/internal/realtime/events"
)

// Makeup is one day that was made up.
type Makeup struct {
	Day civil.Day
	At  time.Time
}

// MakeupResult is the result of a make-up.
type MakeupResult struct {
	Makeup
	Left   int // days that can still be made up this month
	Status streak.Status
}

// Makeups has the days that a user may make up and has made up.
type Makeups struct {
	Left, Limit int         // this month
	Days        []civil.Day // missed, and recent enough to be made up
	History     []Makeup    // the newest first
	Cursor      string      // of the next page of History; empty at its end
}

// makeupFrom returns the first day that can be made up on today.
func (s *Service) makeupFrom(ctx context.Context, user accounts.ID, clock civil.Clock, today civil.Day) (civil.Day, error) {
	u, err := s.users.User(ctx, user)
	if err != nil {
		return 0, err
	}
	return s.rules.firstMakeup(clock, u.Created, today), nil
}

// MakeUp signs a missed day for a user. It returns when that is durable. A retry with the same request id returns the
// first result. It returns ErrMakeupOff, ErrMakeupDay, ErrDayCounts or ErrMakeupLimit if the rules refuse the day, and
// ErrStore if SQL is away. It returns webhooks.ErrRefused or webhooks.ErrUnavailable if the backend refuses or does not
// respond.
func (s *Service) MakeUp(ctx context.Context, user accounts.ID, clock civil.Clock, day civil.Day,
	requestID uint64) (_ MakeupResult, err error) {
	defer errs.Wrap(&err, "checkin.MakeUp %s", user)
	if s.rules.MakeupLimit == 0 {
		return MakeupResult{}, ErrMakeupOff
	}
	now := s.now()
	today := clock.Today(now)
	first, err := s.makeupFrom(ctx, user, clock, today)
	switch {
	case err != nil:
		return MakeupResult{}, err
	case day >= today:
		return MakeupResult{}, ErrMakeupDay.On("body.day", "is not over yet")
	case day < first:
		return MakeupResult{}, ErrMakeupDay.On("body.day", fmt.Sprintf("is before %s, the first day that can be made up", first))
	}
	row := makeup{user: user, month: streak.MonthOf(today), day: day, at: now,
		req: int64(requestID)} //nolint:gosec // 64 random bits, not a number
	key := rowKey{user, day}
	if err := s.askBackend(ctx, request{user: user, day: day, kind: streak.MadeUp}); err != nil {
		return MakeupResult{}, err
	}
	// SQL decides. It needs all acknowledged check-ins, unless the claims are unreadable.
	if err := s.checkins.flush(ctx, []accounts.ID{user}); err != nil && !errors.Is(err, errClaims) {
		return MakeupResult{}, err
	}
	s.projection.Begin(now)
	n, at, frozen, err := s.sql.makeUp(ctx, row, s.rules.MakeupLimit, func(h streak.History) ([]civil.Day, error) {
		covered, ok := s.freezes.MakeUp(h, clock, day, today)
		if !ok {
			return nil, ErrDayCounts
		}
		return covered, nil
	})
	switch {
	case err == nil:
	case errs.KindOf(err) == errs.Internal || errs.KindOf(err) == errs.Unavailable:
		s.projection.Unsure(now, rowChange(key)) // no response, or the caller left during the commit
		return MakeupResult{}, err
	default:
		s.projection.Done(now)
		return MakeupResult{}, err
	}
	s.applyChange(ctx, now, change{user: user, days: append(frozen, day), at: now})
	out := MakeupResult{Makeup: Makeup{day, at}, Left: max(s.rules.MakeupLimit-n, 0)}
	if out.Status, err = s.Status(ctx, user, clock); err != nil {
		return MakeupResult{}, err
	}
	s.bus.Publish([]events.Event{markedEvent(user, at, out.Status)})
	return out, nil
}

// Makeups returns the days that the user may make up, and at most limit of the former make-ups that follow the cursor.
// It returns ErrCursor if the cursor is not valid.
func (s *Service) Makeups(ctx context.Context, user accounts.ID, clock civil.Clock, cursor string, limit int) (_ Makeups, err error) {
	defer errs.Wrap(&err, "checkin.Makeups %s", user)
	after := madeUp{Month: 1_000_000}
	if cursor != "" {
		if _, err := fmt.Sscanf(cursor, "%06d-%d", &after.Month, &after.N); err != nil || cursor != after.cursor() {
			return Makeups{}, ErrCursor
		}
	}
	today := clock.Today(s.now())
	out := Makeups{Limit: s.rules.MakeupLimit}
	rows, err := s.sql.makeups(ctx, user, after, limit+1)
	if err != nil {
		return Makeups{}, err
	}
	if len(rows) > limit {
		rows = rows[:limit]
		out.Cursor = rows[limit-1].cursor()
	}
	out.History = mapped(rows, func(r madeUp) Makeup { return Makeup{civil.Day(r.Day), time.UnixMilli(r.At)} })
	n, err := s.sql.makeupsIn(ctx, user, streak.MonthOf(today))
	if err != nil {
		return Makeups{}, err
	}
	out.Left = max(out.Limit-n, 0)
	if out.Limit > 0 {
		out.Days, err = s.missed(ctx, user, clock, today)
	}
	return out, err
}

func (r madeUp) cursor() string { return fmt.Sprintf("%06d-%d", r.Month, r.N) }

// missed returns the days that can be made up on today, without regard to the limit of the month.
func (s *Service) missed(ctx context.Context, user accounts.ID, clock civil.Clock, today civil.Day) (days []civil.Day, err error) {
	first, err := s.makeupFrom(ctx, user, clock, today)
	if errors.Is(err, accounts.ErrNoUser) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var rec *streak.Record
	for d := first; d < today; d++ {
		if rec == nil || d.OfYear() == 0 {
			if rec, err = s.record(ctx, user, d.Year()); err != nil {
				return nil, err
			}
			if err := s.addOpen(ctx, user, clock, rec, d.Year(), today); err != nil {
				return nil, err
			}
		}
		if !rec.Signed(d.OfYear()) && !rec.Covered(d.OfYear()) {
			days = append(days, d)
		}
	}
	return days, nil
}
