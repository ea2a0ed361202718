package ranking

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/leaderboard"
	"github.com/stoa-dev/stoa/lib/redis"
)

// The kinds of boards, as package leaderboard describes them.
const (
	Compact = "compact"
	Exact   = "exact"
)

// Projection reports how far Redis is complete. [projection.Projection] implements it.
type Projection interface {
	Up() bool       // Redis has everything that was acknowledged
	Writable() bool // Redis accepts writes
	Suspect()       // reports that Redis did not respond
}

// Config has the dependencies and settings of the boards.
type Config struct {
	DB         *sqldb.DB
	Redis      *redis.DB
	Projection Projection
	Kind       string // [Compact] or [Exact]; empty means [Compact]
	Freezes    streak.Freezes
	Wait       time.Duration // how long a reader waits for Redis before SQL is used
	Away       error         // the error of reads while SQL is away
	Log        *slog.Logger
	Now        func() time.Time

	// Clocks returns the clocks of users.
	Clocks func(context.Context, []accounts.ID) (map[accounts.ID]civil.Clock, error)
	// Record returns a user's year as a reader sees it.
	Record func(ctx context.Context, user accounts.ID, year int) (*streak.Record, error)
	// Histories returns all days of some users. They include the acknowledged ones that SQL does not have yet, if Redis
	// responds.
	Histories func(context.Context, []accounts.ID) (map[accounts.ID]streak.History, error)
	// Logged returns the days of some users that SQL has.
	Logged func(context.Context, []accounts.ID) (map[accounts.ID]streak.History, error)
	// Drain returns when SQL has all rows that were acknowledged before.
	Drain func(context.Context) error
}

// Boards has the rankings. They can be read while [Boards.Run] runs.
type Boards struct {
	cfg        Config
	redis      *redis.DB
	sql        *sqlStore
	projection Projection
	kind       string
	freezes    streak.Freezes
	log        *slog.Logger
	now        func() time.Time

	fallback *fallback
	passes   *passes
	asked    chan Board // boards to be loaded
	filling  sync.Map   // Board → chan struct{}; one load of a board at a time
	filled   sync.Map   // Board → filled

	mu  sync.Mutex
	all map[Board]leaderboard.Board
}

// New returns the boards. It sends no command.
func New(cfg Config) *Boards {
	bs := &Boards{
		cfg: cfg, redis: cfg.Redis, sql: &sqlStore{cfg.DB, cfg.Away}, projection: cfg.Projection,
		kind: cmp.Or(cfg.Kind, Compact), freezes: cfg.Freezes, log: cfg.Log, now: cfg.Now,
		asked: make(chan Board, 8), all: map[Board]leaderboard.Board{},
	}
	bs.fallback = newFallback(bs.rankAll, cfg.Now, cfg.Away)
	bs.passes = &passes{read: bs.readPlaces, joinWindow: 100 * time.Millisecond}
	return bs
}

// Kind returns whether the boards are [Compact] or [Exact].
func (bs *Boards) Kind() string { return bs.kind }

// Run loads boards that readers have missed, and counts in SQL those that Redis cannot serve, until ctx ends.
func (bs *Boards) Run(ctx context.Context) {
	var both sync.WaitGroup
	both.Go(func() { bs.loadWanted(ctx) })
	both.Go(func() { bs.fallback.run(ctx) })
	both.Wait()
}

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

// Read returns the first n of a board, the place of user, and up to near neighbours on either side. It neither shows
// nor counts dead streaks. A compact board has neighbours among its best 1,000; below them, equal values share a rank.
// While Redis is away, or the board is being loaded, Read uses SQL, and other users' places may be some seconds old;
// see [FallbackLife].
func (bs *Boards) Read(ctx context.Context, b Board, user accounts.ID, clock civil.Clock, n, near int) (_ Ranking, err error) {
	defer errs.Wrap(&err, "checkin.Read %s", b)
	if bs.projection.Up() {
		r, err := bs.FromRedis(ctx, b, user, clock, n, near)
		switch {
		case err == nil || ctx.Err() != nil:
			return r, err
		case errors.Is(err, leaderboard.ErrNotLoaded):
			bs.wanted(b)
		case errors.Is(err, redis.ErrUnavailable):
			bs.projection.Suspect()
			fallthrough
		default:
			bs.log.WarnContext(ctx, "checkin: board not read from Redis, using SQL", "board", b.Key(), "err", err)
		}
	}
	return bs.rankingFromSQL(ctx, b, user, clock, n, near)
}

// wanted requests the load of a board that a read has missed.
func (bs *Boards) wanted(b Board) {
	select {
	case bs.asked <- b:
	default: // the queue is full; the next read requests it again
	}
}

// loadWanted loads the requested boards, until ctx ends.
func (bs *Boards) loadWanted(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case b := <-bs.asked:
			if err := bs.Rebuild(ctx, b); err != nil && ctx.Err() == nil {
				bs.log.WarnContext(ctx, "checkin: board not loaded", "board", b.Key(), "err", err)
			}
		}
	}
}

// FromRedis is Read without SQL. It returns [leaderboard.ErrNotLoaded] if the board is not loaded.
func (bs *Boards) FromRedis(ctx context.Context, b Board, user accounts.ID, clock civil.Clock, n, near int) (out Ranking, err error) {
	me, err := bs.ownEntry(ctx, b, user, clock)
	if err != nil {
		return Ranking{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, bs.cfg.Wait)
	defer cancel()
	board := bs.Of(b)
	top, mine, isPlaced, err := board.Read(ctx, bs.now(), n, me)
	if err != nil {
		return Ranking{}, err
	}
	if out.Top, err = rowsOf(top); err != nil || !isPlaced {
		return out, err
	}
	out.Me = &Row{mine.Rank, user, int(mine.Value)}
	if near > 0 {
		around, err := board.Around(ctx, bs.now(), me, near)
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

// ownEntry returns a user's entry on a board by the user's own record.
func (bs *Boards) ownEntry(ctx context.Context, b Board, user accounts.ID, clock civil.Clock) (leaderboard.Entry, error) {
	e := leaderboard.Entry{Member: user.String()}
	if b.season != 0 {
		first, last := b.Span()
		last = min(last, clock.Today(bs.now())) // a record of a future year would be stored without the last days of this year
		for d := first; d <= last; d = civil.DayOf(d.Year()+1, 1, 1) {
			rec, err := bs.cfg.Record(ctx, user, d.Year())
			if err != nil {
				return e, err
			}
			e.Value += int64(rec.SignedIn(d.Year(), d, last))
		}
		return e, nil
	}
	year := clock.Today(bs.now()).Year()
	rec, err := bs.cfg.Record(ctx, user, year)
	if err != nil {
		return e, err
	}
	st := bs.freezes.Score(rec, clock, year)
	if e.Value = int64(b.value(st)); b == StreakBoard {
		e.Dies = st.Dies
	}
	return e, nil
}

// Rebuild loads a board from SQL, while requests use it, if it is not loaded. It runs once at a time.
func (bs *Boards) Rebuild(ctx context.Context, b Board) error {
	_, err := bs.rebuild(ctx, b)
	return err
}

// rebuild is [Boards.Rebuild]; loaded reports whether it loaded the board.
func (bs *Boards) rebuild(ctx context.Context, b Board) (loaded bool, err error) {
	defer errs.Wrap(&err, "checkin.Rebuild %s", b)
	unlock, err := bs.lockBoard(ctx, b)
	if err != nil {
		return false, err
	}
	defer unlock()
	_, err = bs.Of(b).Top(ctx, bs.now(), 1)
	if !errors.Is(err, leaderboard.ErrNotLoaded) {
		return false, err
	}
	return true, bs.fill(ctx, b, nil)
}

// Recount loads a board from SQL in any case. It calls each, if not nil, for every entry.
func (bs *Boards) Recount(ctx context.Context, b Board, each func() error) error {
	unlock, err := bs.lockBoard(ctx, b)
	if err != nil {
		return err
	}
	defer unlock()
	return bs.fill(ctx, b, each)
}

// Renew deletes a board and loads it from SQL; each is as in [Boards.Recount].
func (bs *Boards) Renew(ctx context.Context, b Board, each func() error) error {
	unlock, err := bs.lockBoard(ctx, b)
	if err != nil {
		return err
	}
	defer unlock()
	if err := bs.Of(b).Drop(ctx); err != nil {
		return err
	}
	return bs.fill(ctx, b, each)
}

// lockBoard prevents two loads of a board at once on this node.
func (bs *Boards) lockBoard(ctx context.Context, b Board) (unlock func(), err error) {
	lock, _ := bs.filling.LoadOrStore(b, make(chan struct{}, 1))
	select {
	case lock.(chan struct{}) <- struct{}{}:
		return func() { <-lock.(chan struct{}) }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// fill loads a board; each is as in [Boards.Recount].
func (bs *Boards) fill(ctx context.Context, b Board, each func() error) error {
	began := time.Now()
	var read time.Duration
	err := bs.Of(b).Load(ctx, bs.now(), func(yield func(leaderboard.Entry, error) bool) {
		if err := bs.cfg.Drain(ctx); err != nil {
			yield(leaderboard.Entry{}, err)
			return
		}
		for e, err := range bs.entries(ctx, b) {
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
	bs.filled.Store(b, filled{time.Now(), read})
	bs.log.InfoContext(ctx, "checkin: board rebuilt from SQL", "board", b.Key(), "took", time.Since(began))
	return nil
}

// filled has the time when this node last loaded a board, and how long its read took.
type filled struct {
	at   time.Time
	read time.Duration
}

// entries yields the entries of all users on a board, by a pass over the log.
func (bs *Boards) entries(ctx context.Context, b Board) iter.Seq2[leaderboard.Entry, error] {
	if b.season != 0 {
		return func(yield func(leaderboard.Entry, error) bool) {
			for a, err := range bs.sql.season(ctx, b) {
				if !yield(leaderboard.Entry{Member: a.user.String(), Value: int64(a.days), At: a.at}, err) {
					return
				}
			}
		}
	}
	return func(yield func(leaderboard.Entry, error) bool) {
		for p, err := range bs.passes.places(ctx) {
			e := leaderboard.Entry{Member: p.user.String(), Value: int64(b.value(p.Score)), At: p.reached(b)}
			if b == StreakBoard {
				e.Dies = p.Dies
			}
			if (err != nil || e.Value > 0) && !yield(e, err) {
				return
			}
		}
	}
}
