package checkin

import (
	"cmp"
	"context"
	"slices"
	"unicode/utf8"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/checkin/ranking"
	"github.com/stoa-dev/stoa/internal/checkin/records"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
)

// Streaks returns the current streaks of the users that exist and are not deleted. It takes one round trip to Redis for
// all records that exist, and reads the others from SQL, some hundred at a time. It may use clocks that are a moment
// old.
func (s *Service) Streaks(ctx context.Context, users []accounts.ID) (_ map[accounts.ID]int, err error) {
	defer errs.Wrap(&err, "checkin.Streaks")
	people, err := s.users.UsersOf(ctx, users)
	if err != nil {
		return nil, err
	}
	return s.valuesOf(ctx, ranking.StreakBoard, people)
}

// FriendsBoard returns the ranking of a user and the user's friends, by their current records. Users with equal values
// share a rank and are ordered by name. Users whose names the caller may not see come after them. It also returns the
// people, who may be a moment old.
func (s *Service) FriendsBoard(ctx context.Context, b ranking.Board, user accounts.ID,
	n, near int) (_ ranking.Ranking, _ map[accounts.ID]accounts.User, err error) {
	defer errs.Wrap(&err, "checkin.FriendsBoard %s", b)
	friends, err := s.friends(ctx, user)
	if err != nil {
		return ranking.Ranking{}, nil, err
	}
	people, err := s.users.UsersOf(ctx, append(friends, user))
	if err != nil {
		return ranking.Ranking{}, nil, err
	}
	values, err := s.valuesOf(ctx, b, people)
	if err != nil {
		return ranking.Ranking{}, nil, err
	}
	var rows []ranking.Row
	for id, value := range values {
		if value > 0 {
			rows = append(rows, ranking.Row{User: id, Value: value})
		}
	}
	now := s.now()
	name := func(r ranking.Row) string { // an order by hidden names would reveal them
		if u := people[r.User]; u.ShownTo(user, now) {
			return u.Name
		}
		return string(utf8.MaxRune)
	}
	slices.SortFunc(rows, func(a, b ranking.Row) int {
		return cmp.Or(cmp.Compare(b.Value, a.Value), cmp.Compare(name(a), name(b)), cmp.Compare(a.User.String(), b.User.String()))
	})
	var out ranking.Ranking
	for i := range rows {
		if rows[i].Rank = i + 1; i > 0 && rows[i].Value == rows[i-1].Value {
			rows[i].Rank = rows[i-1].Rank
		}
	}
	if i := slices.IndexFunc(rows, func(r ranking.Row) bool { return r.User == user }); i >= 0 {
		out.Me = &rows[i]
		if near > 0 {
			out.Around = rows[max(0, i-near):min(len(rows), i+near+1)]
		}
	}
	out.Top = rows[:min(n, len(rows))]
	return out, people, nil
}

// valuesOf returns the users' values on a board, by their records. Deleted users have none.
func (s *Service) valuesOf(ctx context.Context, b ranking.Board, people map[accounts.ID]accounts.User) (map[accounts.ID]int, error) {
	now := s.now()
	var first, last civil.Day
	if b.Season() != "" {
		first, last = b.Span()
	}
	var keys []records.Key
	for id, u := range people {
		if u.Deleted() {
			continue
		}
		if b.Season() == "" {
			keys = append(keys, records.Key{User: id, Year: u.Clock.Today(now).Year()})
			continue
		}
		until := min(last, u.Clock.Today(now))                   // see ranking.Boards.ownEntry
		for year := first.Year(); year <= until.Year(); year++ { // a week may have days of two years
			keys = append(keys, records.Key{User: id, Year: year})
		}
	}
	recs, err := s.records(ctx, keys)
	if err != nil {
		return nil, err
	}
	values := make(map[accounts.ID]int, len(people))
	for i, k := range keys {
		switch b {
		case ranking.StreakBoard:
			clock := people[k.User].Clock
			values[k.User] = s.freezes.Status(recs[i], clock, clock.Today(now)).Streak
		case ranking.TotalBoard:
			values[k.User] = recs[i].Total()
		default:
			values[k.User] += recs[i].SignedIn(k.Year, max(first, civil.DayOf(k.Year, 1, 1)), last)
		}
	}
	return values, nil
}

// records is record for many keys.
func (s *Service) records(ctx context.Context, keys []records.Key) ([]*streak.Record, error) {
	recs := make([]*streak.Record, len(keys))
	if len(keys) > 0 && s.projection.Up() {
		found, err := s.redis.patient().ReadAll(ctx, keys)
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, err
		case err != nil:
			s.projection.Suspect()
		case s.projection.Up(): // still complete
			for i, rec := range found {
				if rec.Loaded() {
					recs[i] = rec
					s.metrics.reads.redis.Inc()
				}
			}
		}
	}
	var absent []int
	for i, rec := range recs {
		if rec == nil {
			absent = append(absent, i)
		}
	}
	for chunk := range slices.Chunk(absent, maxLoad) {
		s.metrics.reads.sql.Add(float64(len(chunk)))
		loaded, err := s.loadBatch(ctx, mapped(chunk, func(i int) records.Key { return keys[i] }))
		if err != nil {
			return nil, asKind(err)
		}
		for at, i := range chunk {
			recs[i] = loaded[at]
		}
	}
	return recs, nil
}
