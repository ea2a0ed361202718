package ranking

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/civil"
)

// fallback ranks from SQL while Redis cannot. It serves all reads from boards of a while ago, and counts the next ones
// before these are too old. A caller waits only for the first count, and a caller that leaves does not end it.
type fallback struct {
	rank func(context.Context, Board) (map[Board][]sqlRow, error)
	now  func() time.Time
	away error // returned while SQL is away, or after run has ended

	mu   sync.Mutex
	have map[Board]*sqlBoard // the last counted board, by board
	next map[Board]*sqlBoard // the counts in progress
	wake chan struct{}       // signals that a board is to be counted
	over chan struct{}       // closed when run has ended
}

// sqlBoard is a board as it was in SQL. The streak board includes the totals, because the same pass counts them.
type sqlBoard struct {
	board    Board
	asOf     time.Time
	duration time.Duration
	ranks    map[Board][]sqlRow // the best first
	dead     time.Time          // streaks that die until then are removed
	err      error
	done     chan struct{}
}

// FallbackLife is the largest age of a ranking from SQL, unless counts would overload SQL: a node spends no more than a
// tenth of its time on one board.
const FallbackLife = 5 * time.Second

func (o *sqlBoard) life() time.Duration { return max(FallbackLife, 20*o.duration) }

func (o *sqlBoard) age(now time.Time) time.Duration { return now.Sub(o.asOf) }

// bury removes streaks that have died. A caller that reads the former ranks may continue.
func (o *sqlBoard) bury(now time.Time) {
	if o.board != StreakBoard || now.Before(nextQuarter(o.dead)) {
		return
	}
	var living []sqlRow
	for _, one := range o.ranks[StreakBoard] {
		if one.dies > now.Unix() {
			living = append(living, one)
		}
	}
	o.ranks[StreakBoard], o.dead = living, now
}

// sqlRow is a user on a board. It has 48 bytes; a million users take 100 MB while Redis is away.
type sqlRow struct {
	score int64
	dies  int64 // of a streak, in Unix seconds
	user  accounts.ID
}

// sqlRowOf orders like an exact board: by value, then by who was first, then the greater name.
func sqlRowOf(value int, at time.Time, user accounts.ID) sqlRow {
	return sqlRow{score: int64(value)<<32 - at.Unix(), user: user}
}

func (x sqlRow) compare(y sqlRow) int {
	if x.score != y.score {
		return cmp.Compare(y.score, x.score)
	}
	return cmp.Compare(y.user.String(), x.user.String())
}

func (x sqlRow) value() int { return int((x.score + 1<<32 - 1) >> 32) }

func newFallback(rank func(context.Context, Board) (map[Board][]sqlRow, error), now func() time.Time, away error) *fallback {
	return &fallback{
		rank: rank,
		now:  now,
		away: away,
		have: map[Board]*sqlBoard{},
		next: map[Board]*sqlBoard{},
		wake: make(chan struct{}, 1),
		over: make(chan struct{}),
	}
}

// run counts the requested boards, one after the other, until ctx ends.
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
				if o.ranks, o.err = f.rank(ctx, o.board); ctx.Err() != nil {
					o.err = f.away
				}
				o.duration = time.Since(began)
				f.finish(o)
			}
		}
	}
}

// due returns a board that is to be counted.
func (f *fallback) due() *sqlBoard {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range f.next {
		return o
	}
	return nil
}

func (f *fallback) finish(o *sqlBoard) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.next, o.board)
	if f.forget(o.asOf); o.err == nil {
		f.have[o.board] = o
	}
	close(o.done)
}

// forget deletes boards that are too old to be shown.
func (f *fallback) forget(now time.Time) {
	maps.DeleteFunc(f.have, func(_ Board, o *sqlBoard) bool { return o.age(now) > o.life() })
}

// ranks returns all users on a board, the best first.
func (f *fallback) ranks(ctx context.Context, b Board) ([]sqlRow, error) {
	now := f.now()
	counted := b
	if b.season == 0 {
		counted = StreakBoard
	}
	have, next := f.either(counted, now)
	if have == nil {
		select {
		case <-next.done:
		case <-f.over:
			return nil, f.away
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

// either returns the counted board, or the count in progress, or both.
func (f *fallback) either(board Board, now time.Time) (have, next *sqlBoard) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forget(now)
	have, next = f.have[board], f.next[board]
	if next == nil && (have == nil || have.age(now) > have.life()/2) {
		next = &sqlBoard{board: board, done: make(chan struct{})}
		f.next[board] = next
		select {
		case f.wake <- struct{}{}:
		default: // it is already awake
		}
	}
	return have, next
}

// rankAll ranks a board from SQL; for the streak board, it ranks the totals as well. It waits for no write to Redis.
func (bs *Boards) rankAll(ctx context.Context, b Board) (map[Board][]sqlRow, error) {
	out := map[Board][]sqlRow{}
	add := func(b Board, value int, at time.Time, user accounts.ID, dies time.Time) {
		if value > 0 {
			one := sqlRowOf(value, at, user)
			one.dies = dies.Unix()
			out[b] = append(out[b], one)
		}
	}
	if b.season != 0 {
		for a, err := range bs.sql.season(ctx, b) {
			if err != nil {
				return nil, err
			}
			add(b, a.days, a.at, a.user, time.Time{})
		}
	} else if err := bs.readPlaces(ctx, func(chunk []Placement) error {
		for _, p := range chunk {
			add(StreakBoard, p.Streak, p.ran, p.user, p.Dies)
			add(TotalBoard, p.Total, p.at, p.user, time.Time{})
		}
		return nil
	}); err != nil {
		return nil, err
	}
	for _, all := range out {
		slices.SortFunc(all, sqlRow.compare)
	}
	return out, nil
}

// rankingFromSQL returns the ranking that Redis cannot give. The places of other users are those of a while ago, and
// the user's own place follows from the present rows of SQL.
func (bs *Boards) rankingFromSQL(ctx context.Context, b Board, user accounts.ID, clock civil.Clock, n, near int) (out Ranking, err error) {
	all, err := bs.fallback.ranks(ctx, b)
	if err != nil {
		return Ranking{}, err
	}
	rows := func(from, to int) (out []Row) {
		for i := max(from, 0); i < min(to, len(all)); i++ {
			out = append(out, Row{i + 1, all[i].user, all[i].value()})
		}
		return out
	}
	out.Top = rows(0, n)
	histories, err := bs.cfg.Histories(ctx, []accounts.ID{user})
	if err != nil {
		return Ranking{}, err
	}
	var value int
	var at time.Time
	if b.season != 0 {
		value, at = histories[user].SignedIn(b.Span())
	} else if me, ok := placementFrom(bs.freezes, user, clock, histories[user]); ok && (b != StreakBoard || me.Dies.After(bs.now())) {
		value, at = b.value(me.Score), me.reached(b)
	}
	if value > 0 {
		above, _ := slices.BinarySearchFunc(all, sqlRowOf(value, at, user), sqlRow.compare)
		out.Me = &Row{above + 1, user, value}
		if near > 0 {
			out.Around = rows(above-near, above+near+1)
		}
	}
	return out, nil
}
