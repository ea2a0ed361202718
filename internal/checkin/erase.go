package checkin

import (
	"context"
	"log/slog"
	"slices"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/checkin/ranking"
)

// Erase deletes everything that this domain has of a user, in SQL and in Redis, so that a reconciliation finds no
// difference. It returns nil for a user who was erased before or never existed.
//
// A transaction deletes the rows and stores a tombstone in the table of touched users. Erase deletes the tombstone when
// Redis is done. A former tombstone shows that a node died during an Erase, and that the boards may have the change or
// not. They are then counted again. The same holds after a recent import, because the boards may not have it yet.
//
// A check-in that was in progress may be committed after Erase, and so may the load of an exact board. The caller
// therefore repeats Erase after a minute. The weekly reconciliation deletes what a stream delayed for longer, because
// accounts reports the user as erased. It also deletes what a longer load writes to a current board. On a board of a
// former season, such an entry stays until the season is deleted.
func (s *Service) Erase(ctx context.Context, user accounts.ID) (err error) {
	defer errs.Wrap(&err, "checkin.Erase %s", user)
	if err := s.checkins.drain(ctx); err != nil {
		return err
	}
	users := []accounts.ID{user}
	histories, err := s.checkins.histories(ctx, users)
	if err != nil {
		return err
	}
	clocks, err := s.users.Clocks(ctx, users)
	if err != nil {
		return err
	}
	if err := s.checkins.forget(ctx, user); err != nil { // SQL has all of the user's rows
		return err
	}
	now := s.now()
	gone, again, err := s.sql.erase(ctx, user)
	if err != nil {
		return err
	}
	if gone || again { // the repair log names days
		if err := s.reconciler.Runs.Erase(ctx, user.String()); err != nil {
			return err
		}
	}
	if !s.projection.Up() {
		return errBehind // the changes that Redis missed are being applied, perhaps of this user
	}
	// The load of an exact board may have written the user again, and removing a user who is not on it changes nothing.
	again = again || s.Boards.Kind() == ranking.Exact
	if gone || again {
		if err := s.Boards.Leave(ctx, user, clocks[user], histories[user], now, again); err != nil {
			return err
		}
	}
	if err := s.redis.patient().DropYears(ctx, user, firstYear, now.Year()+1); err != nil { // the next year has begun in some zones
		return err
	}
	return s.sql.untouch(ctx, user)
}

// eraseLate erases users whom accounts reports as erased and who are in the log, because a row arrived late. It returns
// the others.
func (s *Service) eraseLate(ctx context.Context, users []accounts.ID) ([]accounts.ID, error) {
	erased, err := s.users.Erased(ctx, users)
	if err != nil {
		return nil, err
	}
	for _, user := range erased {
		s.log.LogAttrs(ctx, slog.LevelInfo, "something of an erased user came late; it is erased, too", slog.String("user", user.String()))
		if err := s.Erase(ctx, user); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(slices.Clone(users), func(u accounts.ID) bool { return slices.Contains(erased, u) }), nil
}
