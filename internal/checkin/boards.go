package checkin

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/foundation/civil"
	"github.com/stoa-dev/stoa/internal/foundation/errs"
	"github.com/stoa-dev/stoa/internal/foundation/ids"
	"github.com/stoa-dev/stoa/leaderboard"
	"github.com/stoa-dev/stoa/redis"
)

// Row is one row of a board.
type Row struct {
	Rank  int // 1 is the top
	User  accounts.ID
	Value int // days
}

// Ranking is the top of a board and the place of one user.
type Ranking struct {
	Top    []Row
	Me     *Row  // nil when the user is not on the board
	Around []Row // the user's neighbours and the user
}

// Board returns the first n of a board, where user stands, and up to near
// neighbours on either side. Dead streaks are neither shown nor counted. A
// compact board knows neighbours among its best 1,000; below them equal values
// share a rank. While Redis is away, or the board is being loaded, the answer
// comes from SQL, and of others it may be some seconds old; see [sqlBoardLife].
func (s *Service) Board(ctx context.Context, b Board, user accounts.ID, clock civil.Clock, n, near int) (_ Ranking, err error) {
	defer errs.Wrap(&err, "checkin.Board %s", b)
	if s.projection.Up() {
		r, err := s.ranking(ctx, b, user, clock, n, near)
		switch {
		case err == nil || ctx.Err() != nil:
			return r, err
		case errors.Is(err, leaderboard.ErrNotLoaded):
			s.wanted(b)
		case errors.Is(err, redis.ErrUnavailable):
			s.projection.Suspect()
			fallthrough
		default:
			s.log.WarnContext(ctx, "a board could not be read from redis; sql answers", "board", b.key(), "err", err)
		}
	}
	return s.rankingFromSQL(ctx, b, user, clock, n, near)
}

// wanted requests the load of a board that a read has missed.
func (s *Service) wanted(b Board) {
	select {
	case s.asked <- b:
	default: // the queue is full; the next read asks again
	}
}

// loadWanted loads boards that were asked for, until ctx ends.
func (s *Service) loadWanted(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case b := <-s.asked:
			if err := s.Rebuild(ctx, b); err != nil && ctx.Err() == nil {
				s.log.WarnContext(ctx, "a board was not loaded", "board", b.key(), "err", err)
			}
		}
	}
}

// ranking reads a board from Redis.
func (s *Service) ranking(ctx context.Context, b Board, user accounts.ID, clock civil.Clock, n, near int) (out Ranking, err error) {
	me, err := s.ownEntry(ctx, b, user, clock)
	if err != nil {
		return Ranking{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*s.fast.budget) // the read may have to remove the streaks that died at a midnight
	defer cancel()
	board := s.fast.boards.of(b)
	top, mine, on, err := board.Read(ctx, s.now(), n, me)
	if err != nil {
		return Ranking{}, err
	}
	if out.Top, err = rowsOf(top); err != nil || !on {
		return out, err
	}
	out.Me = &Row{mine.Rank, user, int(mine.Value)}
	if near > 0 {
		around, err := board.Around(ctx, s.now(), me, near)
		if err != nil {
			return Ranking{}, err
		}
		out.Around, err = rowsOf(around)
		return out, err
	}
	return out, nil
}

func rowsOf(rows []leaderboard.Ranked) ([]Row, error) {
	out := make([]Row, len(rows))
	for i, r := range rows {
		id, err := ids.Parse[accounts.User](r.Member)
		if err != nil {
			return nil, err
		}
		out[i] = Row{r.Rank, id, int(r.Value)}
	}
	return out, nil
}

// entry returns where a user stands on a board by the user's own record.
func (s *Service) ownEntry(ctx context.Context, b Board, user accounts.ID, clock civil.Clock) (leaderboard.Entry, error) {
	e := leaderboard.Entry{Member: user.String()}
	if b.season != 0 {
		first, last := b.span()
		for d := first; d <= last; d = civil.DayOf(d.Year()+1, 1, 1) {
			rec, err := s.record(ctx, user, d.Year())
			if err != nil {
				return e, err
			}
			e.Value += int64(rec.SignedIn(d.Year(), d, last))
		}
		return e, nil
	}
	year := clock.Today(s.now()).Year()
	rec, err := s.record(ctx, user, year)
	if err != nil {
		return e, err
	}
	st := s.freezes.Score(rec, clock, year)
	if e.Value = int64(b.value(st)); b == StreakBoard {
		e.Dies = st.Dies
	}
	return e, nil
}

// Rebuild fills a board from SQL, beside traffic, if it cannot answer. It runs
// once at a time.
func (s *Service) Rebuild(ctx context.Context, b Board) (err error) {
	defer errs.Wrap(&err, "checkin.Rebuild %s", b)
	unlock, err := s.lockBoard(ctx, b)
	if err != nil {
		return err
	}
	defer unlock()
	_, err = s.fast.boards.of(b).Top(ctx, s.now(), 1)
	if !errors.Is(err, leaderboard.ErrNotLoaded) {
		return err
	}
	return s.fill(ctx, b, nil)
}

// recount fills a board from SQL in any case; each is as for fill.
func (s *Service) recount(ctx context.Context, b Board, each func() error) error {
	unlock, err := s.lockBoard(ctx, b)
	if err != nil {
		return err
	}
	defer unlock()
	return s.fill(ctx, b, each)
}

// lockBoard keeps this node's loads of a board apart.
func (s *Service) lockBoard(ctx context.Context, b Board) (unlock func(), err error) {
	lock, _ := s.filling.LoadOrStore(b, make(chan struct{}, 1))
	select {
	case lock.(chan struct{}) <- struct{}{}:
		return func() { <-lock.(chan struct{}) }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// fill loads a board; each is called for every entry, if not nil.
func (s *Service) fill(ctx context.Context, b Board, each func() error) error {
	began := time.Now()
	var read time.Duration
	err := s.fast.boards.of(b).Load(ctx, s.now(), func(yield func(leaderboard.Entry, error) bool) {
		if err := s.checkins.drain(ctx); err != nil {
			yield(leaderboard.Entry{}, err)
			return
		}
		for e, err := range s.entries(ctx, b) {
			if err == nil && each != nil {
				err = each()
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
		read = time.Since(began)
	})
	if err != nil {
		return err
	}
	s.filled.Store(b, filled{time.Now(), read})
	s.log.InfoContext(ctx, "a board was rebuilt from sql", "board", b.key(), "took", time.Since(began))
	return nil
}

// filled is when this node filled a board last, and how long it read for that.
type filled struct {
	at   time.Time
	read time.Duration
}

// recountEvery is after how long a compact board is counted anew whatever happened:
// a sum of changes keeps a mistake for ever.
const recountEvery = time.Hour

// keepBoards loads the boards of now that cannot answer, and compact ones whose
// counts are in doubt because something was applied that may have been before, or
// old. A node spends no more than a tenth of its time on the latter.
func (s *Service) keepBoards(ctx context.Context) error {
	if !s.projection.Up() {
		return nil
	}
	boards := current(s.now())
	failed := make([]error, len(boards))
	var all sync.WaitGroup // most of a load is waiting
	for i, b := range boards {
		all.Go(func() { failed[i] = s.keepBoard(ctx, b) })
	}
	all.Wait()
	return errors.Join(failed...)
}

func (s *Service) keepBoard(ctx context.Context, b Board) error {
	if b == StreakBoard {
		if err := s.keepRules(ctx); err != nil {
			return err
		}
	}
	if err := s.Rebuild(ctx, b); err != nil {
		return err
	}
	last, _ := s.filled.LoadOrStore(b, filled{at: time.Now()}) // another node did, or this one before it was started
	was := last.(filled)
	if time.Since(was.at) < 10*was.read {
		return nil
	}
	sure, err := s.fast.boards.of(b).Complete(ctx, s.now())
	if old := time.Since(was.at) > recountEvery; err != nil || sure && !(old && s.fast.boards.kind == CompactBoards) {
		return err
	}
	return s.recount(ctx, b, nil)
}

// keepRules makes the streak board anew when its deaths were computed by other
// settings of freezes than this node's. Where nothing is written the board was
// lost as well, and is loaded by those of now.
func (s *Service) keepRules(ctx context.Context) error {
	want := s.freezes.String()
	have, err := s.fast.patient().rules(ctx)
	if err != nil || have == want {
		return err
	}
	if have != "" {
		s.log.InfoContext(ctx, "freezes are given by other rules than before; the board of streaks is made anew", "were", have, "are", want)
		if _, err := s.rebuildAnew(ctx, nil, StreakBoard); err != nil {
			return err
		}
	}
	return s.fast.patient().setRules(ctx, want)
}

// sweepBoards removes the dead and folds in what was written.
func (s *Service) sweepBoards(ctx context.Context) error {
	if !s.projection.Writable() {
		return nil
	}
	var all []error
	for _, b := range current(s.now()) {
		_, err := s.fast.boards.of(b).Sweep(ctx, s.now())
		all = append(all, err)
	}
	return errors.Join(all...)
}

// tidySeasons looks after the boards that no job keeps in order every second: of
// seasons that are over, those that can be asked for take in what came late, or go
// until a read asks for them where they are not sure of it. The others go, and so do boards
// of the kind that is not in use.
func (s *Service) tidySeasons(ctx context.Context) error {
	kind, other := s.fast.boards.kind, ExactBoards
	if kind == ExactBoards {
		other = CompactBoards
	}
	now := s.now()
	var all []error
	for _, b := range bygone(now) {
		all = append(all, s.fast.boards.drop(ctx, b, kind), s.fast.boards.open(b, other).Drop(ctx))
	}
	ofNow := current(now)
	for _, b := range kept(now) {
		if all = append(all, s.fast.boards.open(b, other).Drop(ctx)); slices.Contains(ofNow, b) {
			continue
		}
		board := s.fast.boards.open(b, kind) // which keeps nothing of what it reads
		sure, err := board.Complete(ctx, now)
		switch {
		case err != nil:
		case sure:
			_, err = board.Sweep(ctx, now)
		default:
			err = board.Drop(ctx)
		}
		all = append(all, err)
	}
	return errors.Join(all...)
}

// nextQuarter is when streaks may die next: zones are whole quarters of an hour
// apart.
func nextQuarter(now time.Time) time.Time {
	return now.Truncate(15 * time.Minute).Add(15 * time.Minute)
}

// entries yields the entries of all users on a board, by a pass over the log.
func (s *Service) entries(ctx context.Context, b Board) iter.Seq2[leaderboard.Entry, error] {
	if b.season != 0 {
		return func(yield func(leaderboard.Entry, error) bool) {
			for a, err := range s.store.season(ctx, b) {
				if !yield(leaderboard.Entry{Member: a.user.String(), Value: int64(a.days), At: a.at}, err) {
					return
				}
			}
		}
	}
	return func(yield func(leaderboard.Entry, error) bool) {
		for p, err := range s.passes.places(ctx) {
			e := leaderboard.Entry{Member: p.user.String(), Value: int64(b.value(p.Score)), At: p.at}
			if b == StreakBoard {
				e.Dies = p.Dies
			}
			if (err != nil || e.Value > 0) && !yield(e, err) {
				return
			}
		}
	}
}
