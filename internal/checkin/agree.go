package checkin

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/checkin/ranking"
	"github.com/stoa-dev/stoa/internal/checkin/records"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/internal/checkin/transfer"
)

// change names a user whose data in SQL may have something that Redis lacks: rows of the log, a grant, another zone.
// The projection computes the user's state from SQL and writes it; see [projection.Projection.Renew].
type change struct {
	user accounts.ID
	days []civil.Day // rows of the log; none: only what follows from the others has changed
	at   time.Time   // when they were written, if Redis does not have them; else zero

	// fresh rows may owe freezes however old they are.
	fresh bool
	// An imported change has rows of any age. All records of the user in Redis are merged. The boards get the signed
	// days from first to last, or, if these are unknown, the seasons of today.
	imported    bool
	first, last civil.Day
	// An unranked change does not move the user on the boards, because a second move of the same change causes a
	// recount.
	unranked bool
}

func rowChange(k rowKey) change { return change{user: k.user, days: []civil.Day{k.day}} }

// state is what Redis should have of a user because of a change.
type state struct {
	change
	began     time.Time     // before SQL was read
	lost      []records.Key // of days that SQL does not have: to be deleted
	records   []records.Key // to be loaded
	held      []records.Key // to be merged where they exist
	history   streak.History
	placement ranking.Placement
	ranked    bool
}

// applyChange applies a change that was announced and is committed to Redis, through the projection.
func (s *Service) applyChange(ctx context.Context, at time.Time, c change) {
	// Records, merges and boards take a round trip each.
	if s.projection.Bring(ctx, 3*s.redis.Budget, c) {
		s.projection.Done(at)
		return
	}
	c.at = time.Time{} // Redis may have applied it without a reply
	s.projection.Missed(at, c)
}

// renew merges the log of a user into all records that Redis has. With boards, it also moves the user on the current
// boards.
func (s *Service) renew(ctx context.Context, user accounts.ID, boards bool) error {
	return s.projection.Renew(ctx, change{user: user, imported: true, unranked: !boards})
}

// changed calls fn with the changes that were written at that time or later: rows, grants, and imports, whose rows have
// their own times.
func (s *Service) changed(ctx context.Context, since time.Time, fn func([]change) error) error {
	err := s.sql.since(ctx, since, func(rows []logRow) error {
		return fn(mapped(rows, func(r logRow) change {
			return change{user: r.User, days: []civil.Day{civil.Day(r.Day)}, fresh: true}
		}))
	})
	if err != nil {
		return err
	}
	err = s.sql.grantedSince(ctx, since, func(users []accounts.ID) error {
		return fn(mapped(users, func(user accounts.ID) change { return change{user: user} }))
	})
	if err != nil {
		return err
	}
	return s.sql.touchedSince(ctx, since, func(users []accounts.ID) error {
		return fn(mapped(users, func(user accounts.ID) change { return change{user: user, imported: true} }))
	})
}

// state computes what Redis should have of users because of changes. It closes gaps that a crash left open between two
// commits.
func (s *Service) state(ctx context.Context, changes []change) ([]state, error) {
	began := time.Now()
	users := mapped(changes, func(c change) accounts.ID { return c.user })
	clocks, err := s.users.Clocks(ctx, users)
	if err != nil {
		return nil, err
	}
	histories, err := s.checkins.histories(ctx, users)
	if err != nil {
		return nil, err
	}
	gaps, now := []gap{}, s.now()
	for _, c := range changes {
		for _, day := range c.days {
			if m, found := histories[c.user].On(day); found && mayClose(m.Kind) && (c.fresh || !m.At.Before(now.Add(-dueFor))) {
				gaps = append(gaps, gap{user: c.user, clock: clocks[c.user], day: day, at: m.At})
			}
		}
	}
	covered, err := s.coverGaps(ctx, gaps, histories)
	if err != nil {
		return nil, err
	}
	boards := ranking.Kept(now)
	return mapped(changes, func(c change) state {
		st := s.stateOf(c, clocks[c.user], histories[c.user], covered[c.user], boards)
		st.began = began
		return st
	}), nil
}

// stateOf is state for one user. covered is the first day of a gap that was closed, or 0 without one.
func (s *Service) stateOf(c change, clock civil.Clock, h streak.History, covered civil.Day, boards []ranking.Board) (st state) {
	st.change, st.history = c, h
	today := clock.Today(s.now())
	from := today
	if covered != 0 {
		from = min(from, covered)
	}
	for _, day := range c.days {
		m, found := h.On(day)
		if !found {
			st.lost = append(st.lost, records.Key{User: c.user, Year: day.Year()})
			continue
		}
		from = min(from, h.FirstWith(m))
	}
	switch {
	case c.imported:
		first := today.Year() - 1
		if len(h.Marks) > 0 {
			first = h.Marks[0].Day.Year()
		}
		for year := first; year <= today.Year()+1; year++ { // the years that a reconciliation compares
			st.held = append(st.held, records.Key{User: c.user, Year: year})
		}
	default:
		for year := from.Year(); year <= today.Year(); year++ {
			st.records = append(st.records, records.Key{User: c.user, Year: year})
		}
	}
	if c.unranked {
		return st
	}
	signed := h.SignedOf(c.days)
	if c.imported {
		signed = c.imports(h, today)
	}
	st.placement, st.ranked = ranking.PlacementSince(s.freezes, c.user, clock, h, signed, c.at)
	st.placement.Only(boards)
	return st
}

// writeStates writes the computed states to Redis, and repeats this for users whose log changed meanwhile.
func (s *Service) writeStates(ctx context.Context, states []state) error {
	for len(states) > 0 {
		if err := s.redis.patient().writeRecords(ctx, states); err != nil {
			return err
		}
		var ms ranking.Moves
		for _, st := range states {
			if st.ranked {
				ms.Add(st.placement)
			}
		}
		err := s.Boards.Move(ctx, ms)
		if err != nil {
			return err
		}
		if states, err = s.overtaken(ctx, states); err != nil {
			return err
		}
	}
	return nil
}

// overtaken returns the new states of users whose log changed while their states were written. Two cases need this. A
// board cannot order two rows of one second, so the older state may have replaced the newer one. And the message of an
// import skips a record that does not exist yet. Each writer rechecks SQL after its write, so the state of SQL wins in
// the end.
func (s *Service) overtaken(ctx context.Context, states []state) ([]state, error) {
	now := s.now()
	written := map[accounts.ID]state{}
	for _, st := range states {
		fresh := st.ranked && now.Sub(st.history.LastWrite()) < overtakenWithin
		if fresh || time.Since(st.began) > transfer.LoadWithin {
			written[st.user] = st
		}
	}
	if len(written) == 0 {
		return nil, nil
	}
	histories, err := s.checkins.histories(ctx, slices.Collect(maps.Keys(written)))
	if err != nil {
		return nil, err
	}
	var again []change
	for user, st := range written {
		if !histories[user].Equal(st.history) {
			c := st.change
			c.at = time.Time{} // the boards have the move already
			again = append(again, c)
		}
	}
	if len(again) == 0 {
		return nil, nil
	}
	return s.state(ctx, again)
}

// overtakenWithin is the age of a user's newest row when no other row can have the same second. It is more than the
// clocks of two nodes differ.
const overtakenWithin = time.Minute

// imports returns the days that the boards of seasons get because of an import.
func (c change) imports(h streak.History, today civil.Day) (days []civil.Day) {
	if c.last == 0 {
		return []civil.Day{today}
	}
	for _, m := range h.Marks {
		if m.Kind.Signs() && c.first <= m.Day && m.Day <= c.last {
			days = append(days, m.Day)
		}
	}
	return days
}

// laterAgain is the delay of a [transfer.Touched] message while Redis is away.
const laterAgain = 10 * time.Second

// followTouched applies rows with times in the past to Redis. It skips users with a later message. It may be repeated.
func (s *Service) followTouched(ctx context.Context, t transfer.Touched) (err error) {
	defer errs.Wrap(&err, "checkin.followTouched")
	if !s.projection.Writable() {
		return s.sql.followLater(ctx, t, s.laterAgain)
	}
	due, err := transfer.Due(ctx, s.sql.db, t)
	if err != nil {
		return err
	}
	for _, part := range due {
		err := s.projection.Renew(ctx, mapped(part.Users, func(user accounts.ID) change {
			return change{user: user, imported: true, first: part.First, last: part.Last}
		})...)
		if err == nil && part.Mark != 0 {
			err = transfer.Followed(ctx, s.sql.db, part)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
