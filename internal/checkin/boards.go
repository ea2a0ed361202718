package checkin

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/foundation/errs"
	"github.com/stoa-dev/stoa/leaderboard"
	"github.com/stoa-dev/stoa/redis"
)

// Place is one row of a board.
type Place struct {
	Rank  int // 1 is the top
	User  accounts.ID
	Value int // days
}

// Ranking is the top of a board and the place of one user.
type Ranking struct {
	Top []Place
	Me  *Place // nil when the user is not on the board
}

// Board returns the first n of a board and where user stands. Dead streaks are
// neither shown nor counted. While Redis is away the answer comes from SQL and
// may be five seconds old.
func (s *Service) Board(ctx context.Context, b Board, user accounts.ID, n int) (_ Ranking, err error) {
	defer errs.Wrap(&err, "checkin.Board %s", b)
	if s.projection.Up() {
		r, err := s.fast.ranking(ctx, b, s.now(), user, n)
		if errors.Is(err, leaderboard.ErrNotLoaded) {
			if err = s.Rebuild(ctx, b); err == nil {
				r, err = s.fast.ranking(ctx, b, s.now(), user, n)
			}
		}
		if err == nil || ctx.Err() != nil {
			return r, err
		}
		s.log.WarnContext(ctx, "a board was not to be had from redis", "board", b, "err", err)
		if errors.Is(err, redis.ErrUnavailable) {
			s.projection.Suspect()
		}
	}
	return s.fallback.ranking(ctx, s, b, user, n)
}

// Rebuild fills a board from SQL, beside traffic. It does nothing when the
// board is complete, and runs once at a time.
func (s *Service) Rebuild(ctx context.Context, b Board) (err error) {
	defer errs.Wrap(&err, "checkin.Rebuild %s", b)
	s.filling[b].Lock()
	defer s.filling[b].Unlock()
	if loaded, err := s.fast.complete(ctx, b, s.now()); err != nil || loaded {
		return err
	}
	began := s.now()
	if err := s.fast.patient().fill(ctx, b, began, s.places(ctx)); err != nil {
		return err
	}
	s.log.InfoContext(ctx, "a board was rebuilt from sql", "board", b.String(), "took", s.now().Sub(began))
	return nil
}

var errEnough = errors.New("enough")

// places yields where everybody stands now, by one pass over the log.
func (s *Service) places(ctx context.Context) iter.Seq2[place, error] {
	type one struct {
		user  accounts.ID
		tally Tally
	}
	return func(yield func(place, error) bool) {
		var some []one
		flush := func() error {
			clocks, err := s.users.Clocks(ctx, mapped(some, func(o one) accounts.ID { return o.user }))
			if err != nil {
				return err
			}
			now := s.now()
			for _, o := range some {
				p := tallied(o.user, clocks[o.user], o.tally)
				if !p.dies.After(now) {
					p.streak = 0
				}
				if p.total > 0 && !yield(p, nil) {
					return errEnough
				}
			}
			some = some[:0]
			return nil
		}
		err := s.store.everybody(ctx, func(user accounts.ID, t Tally) error {
			if some = append(some, one{user, t}); len(some) == 500 {
				return flush()
			}
			return nil
		})
		if err == nil {
			err = flush()
		}
		if err != nil && !errors.Is(err, errEnough) {
			yield(place{}, err)
		}
	}
}

// fallback ranks from SQL while Redis is away. One pass over the log serves all
// callers of five seconds.
type fallback struct {
	mu     sync.Mutex
	boards map[Board]*snapshot
}

type snapshot struct {
	taken time.Time
	all   []standing // the best first
}

// standing is 40 bytes; a million users are 40 MB while Redis is away.
type standing struct {
	score int64
	user  accounts.ID
}

// standingOf orders as the Redis board does: by value, then by who was first,
// then the greater name.
func standingOf(p place, b Board) standing {
	return standing{int64(p.value(b))<<32 - p.at.Unix(), p.user}
}

func (x standing) compare(y standing) int {
	return cmp.Or(cmp.Compare(y.score, x.score), cmp.Compare(y.user.String(), x.user.String()))
}

func (x standing) value() int { return int((x.score + 1<<32 - 1) >> 32) }

const snapshotLife = 5 * time.Second

func (f *fallback) ranking(ctx context.Context, s *Service, b Board, user accounts.ID, n int) (Ranking, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	snap := f.boards[b]
	if snap == nil || s.now().Sub(snap.taken) > snapshotLife {
		var err error
		if snap, err = takeSnapshot(ctx, s, b); err != nil {
			return Ranking{}, err
		}
		if f.boards == nil {
			f.boards = map[Board]*snapshot{}
		}
		f.boards[b] = snap
	}
	var out Ranking
	for i, x := range snap.all[:min(n, len(snap.all))] {
		out.Top = append(out.Top, Place{i + 1, x.user, x.value()})
	}
	histories, err := s.store.histories(ctx, []accounts.ID{user})
	if err != nil {
		return Ranking{}, err
	}
	clocks, err := s.users.Clocks(ctx, []accounts.ID{user})
	if err != nil {
		return Ranking{}, err
	}
	me, _ := placeFrom(user, clocks[user], histories[user])
	if !me.dies.After(s.now()) {
		me.streak = 0
	}
	if me.value(b) > 0 {
		above, _ := slices.BinarySearchFunc(snap.all, standingOf(me, b), standing.compare)
		out.Me = &Place{above + 1, user, me.value(b)}
	}
	return out, nil
}

func takeSnapshot(ctx context.Context, s *Service, b Board) (*snapshot, error) {
	snap := &snapshot{taken: s.now()}
	for p, err := range s.places(ctx) {
		if err != nil {
			return nil, err
		}
		if p.value(b) > 0 {
			snap.all = append(snap.all, standingOf(p, b))
		}
	}
	slices.SortFunc(snap.all, standing.compare)
	return snap, nil
}
