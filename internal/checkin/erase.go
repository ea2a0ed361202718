package checkin

import (
	"context"
	"log/slog"
	"slices"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/checkin/ranking"
)

// Erase removes everything that this domain holds of a user, in SQL and in
// Redis, so that a reconciliation finds nothing to tell. A user who was erased
// before, or was never here, is no error.
//
// A transaction removes the rows and leaves a tombstone among the touched, which
// goes when Redis is done. A tombstone that is found says that a node died on the way,
// and that the boards may have been told or not: they are counted anew. So they
// are when the user was imported a moment ago, which they may not know yet.
//
// A check-in that was under way may come later than this, and so may the load of an
// exact board. Erase again after a minute; what a stream held up for longer, the weekly
// reconciliation removes, by whom accounts call erased. What a load of more than a minute
// puts on a board of now, it removes as well; on one of a former season that stays until
// the season is not kept any more.
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
	if err := s.checkins.forget(ctx, user); err != nil { // SQL has it all by now
		return err
	}
	now := s.now()
	gone, again, err := s.sql.erase(ctx, user)
	if err != nil {
		return err
	}
	if gone || again { // lines of the repair log tell days
		if err := s.reconciler.Runs.Erase(ctx, user.String()); err != nil {
			return err
		}
	}
	if !s.projection.Up() {
		return errBehind // what Redis missed is being applied, perhaps of this user
	}
	// The load of an exact board may have written the user since the last time, and to take
	// nobody off it changes nothing.
	again = again || s.Boards.Kind() == ranking.Exact
	if gone || again {
		if err := s.Boards.Leave(ctx, user, clocks[user], histories[user], now, again); err != nil {
			return err
		}
	}
	if err := s.redis.patient().DropYears(ctx, user, firstYear, now.Year()+1); err != nil { // it has begun somewhere
		return err
	}
	return s.sql.untouch(ctx, user)
}

// eraseLate erases those of some users whom accounts call erased and who are in
// the log all the same, because something came late. It returns the others.
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
