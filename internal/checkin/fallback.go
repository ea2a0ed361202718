package checkin

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/foundation/civil"
)

// fallback ranks from SQL where Redis cannot. Everybody is served by the standings of
// a while ago, and the next are taken before these are too old: whoever asks waits
// only for the first, and leaving does not end them.
type fallback struct {
	rank func(context.Context, Board) (map[Board][]ranked, error)
	now  func() time.Time

	mu   sync.Mutex
	have map[Board]*standings // the last, by what they are of
	next map[Board]*standings // those under way
	wake chan struct{}        // some are to be taken
	over chan struct{}        // none are taken any more
}

// standings are a board as it was in SQL. Those of the streaks have the totals as well,
// which the same pass counts.
type standings struct {
	of    Board
	asOf  time.Time
	took  time.Duration
	ranks map[Board][]ranked // the best first
	dead  time.Time          // who dies until then is out
	err   error
	done  chan struct{}
}

// standingsLife is how old an answer may be, unless SQL would do little else than
// give them: a node spends no more than a tenth of its time on one board's.
const standingsLife = 5 * time.Second

func (o *standings) life() time.Duration { return max(standingsLife, 20*o.took) }

func (o *standings) age(now time.Time) time.Duration { return now.Sub(o.asOf) }

// bury removes streaks that have died. Whoever reads the ranks as they were may go on.
func (o *standings) bury(now time.Time) {
	if o.of != StreakBoard || now.Before(nextQuarter(o.dead)) {
		return
	}
	var living []ranked
	for _, one := range o.ranks[StreakBoard] {
		if one.dies > now.Unix() {
			living = append(living, one)
		}
	}
	o.ranks[StreakBoard], o.dead = living, now
}

// ranked is 48 bytes; a million users are 100 MB while Redis is away.
type ranked struct {
	score int64
	dies  int64 // of a streak, in Unix seconds
	user  accounts.ID
}

// rankedOf orders as an exact board does: by value, then by who was first, then
// the greater name.
func rankedOf(value int, at time.Time, user accounts.ID) ranked {
	return ranked{score: int64(value)<<32 - at.Unix(), user: user}
}

func (x ranked) compare(y ranked) int {
	if x.score != y.score {
		return cmp.Compare(y.score, x.score)
	}
	return cmp.Compare(y.user.String(), x.user.String())
}

func (x ranked) value() int { return int((x.score + 1<<32 - 1) >> 32) }

func newFallback(rank func(context.Context, Board) (map[Board][]ranked, error), now func() time.Time) *fallback {
	return &fallback{
		rank: rank,
		now:  now,
		have: map[Board]*standings{},
		next: map[Board]*standings{},
		wake: make(chan struct{}, 1),
		over: make(chan struct{}),
	}
}

// run takes the standings that are asked for, one after the other, until ctx ends.
func (f *fallback) run(ctx context.Context) {
	defer close(f.over)
	forget := time.NewTicker(time.Minute)
	defer forget.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-forget.C:
			f.mu.Lock()
			f.forget(f.now())
			f.mu.Unlock()
		case <-f.wake:
			for o := f.due(); o != nil; o = f.due() {
				began := time.Now()
				o.asOf = f.now()
				o.dead = o.asOf
				if o.ranks, o.err = f.rank(ctx, o.of); ctx.Err() != nil {
					o.err = ErrStore
				}
				o.took = time.Since(began)
				f.took(o)
			}
		}
	}
}

// due returns standings that are to be taken.
func (f *fallback) due() *standings {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range f.next {
		return o
	}
	return nil
}

func (f *fallback) took(o *standings) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.next, o.of)
	if f.forget(o.asOf); o.err == nil {
		f.have[o.of] = o
	}
	close(o.done)
}

// forget drops what is too old to be shown.
func (f *fallback) forget(now time.Time) {
	maps.DeleteFunc(f.have, func(_ Board, o *standings) bool { return o.age(now) > o.life() })
}

// ranks returns everybody on a board, the best first.
func (f *fallback) ranks(ctx context.Context, b Board) ([]ranked, error) {
	now := f.now()
	of := b
	if b.season == 0 {
		of = StreakBoard
	}
	have, next := f.either(of, now)
	if have == nil {
		select {
		case <-next.done:
		case <-f.over:
			return nil, ErrStore
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if have = next; next.err != nil {
			return nil, next.err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	have.bury(now)
	return have.ranks[b], nil
}

// either returns what is there, or what is under way, or both.
func (f *fallback) either(of Board, now time.Time) (have, next *standings) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forget(now)
	have, next = f.have[of], f.next[of]
	if next == nil && (have == nil || have.age(now) > have.life()/2) {
		next = &standings{of: of, done: make(chan struct{})}
		f.next[of] = next
		select {
		case f.wake <- struct{}{}:
		default: // it is awake
		}
	}
	return have, next
}

// rankAll ranks a board from SQL, and with that of the streaks the totals. It waits
// for nobody who writes to Redis.
func (s *Service) rankAll(ctx context.Context, b Board) (map[Board][]ranked, error) {
	out := map[Board][]ranked{}
	add := func(b Board, value int, at time.Time, user accounts.ID, dies time.Time) {
		if value > 0 {
			one := rankedOf(value, at, user)
			one.dies = dies.Unix()
			out[b] = append(out[b], one)
		}
	}
	if b.season != 0 {
		for a, err := range s.store.season(ctx, b) {
			if err != nil {
				return nil, err
			}
			add(b, a.days, a.at, a.user, time.Time{})
		}
	} else if err := s.readPlaces(ctx, func(some []place) error {
		for _, p := range some {
			add(StreakBoard, p.streak, p.at, p.user, p.dies)
			add(TotalBoard, p.total, p.at, p.user, time.Time{})
		}
		return nil
	}); err != nil {
		return nil, err
	}
	for _, all := range out {
		slices.SortFunc(all, ranked.compare)
	}
	return out, nil
}

// rankingFromSQL is the ranking that Redis cannot give: of others as they stood a
// while ago, and of the user by what SQL has now.
func (s *Service) rankingFromSQL(ctx context.Context, b Board, user accounts.ID, clock civil.Clock, n, near int) (out Ranking, err error) {
	all, err := s.fallback.ranks(ctx, b)
	if err != nil {
		return Ranking{}, err
	}
	rows := func(from, to int) (out []Place) {
		for i := max(from, 0); i < min(to, len(all)); i++ {
			out = append(out, Place{i + 1, all[i].user, all[i].value()})
		}
		return out
	}
	out.Top = rows(0, n)
	histories, err := s.sqlHistories(ctx, []accounts.ID{user})
	if err != nil {
		return Ranking{}, err
	}
	var value int
	var at time.Time
	if b.season != 0 {
		value, at = histories[user].in(b)
	} else if me, ok := s.freezes.placeFrom(user, clock, histories[user]); ok && (b != StreakBoard || me.dies.After(s.now())) {
		value, at = b.value(me.standing), me.at
	}
	if value > 0 {
		above, _ := slices.BinarySearchFunc(all, rankedOf(value, at, user), ranked.compare)
		out.Me = &Place{above + 1, user, value}
		if near > 0 {
			out.Around = rows(above-near, above+near+1)
		}
	}
	return out, nil
}
