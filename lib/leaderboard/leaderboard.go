package leaderboard

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
)

const (
	// MaxValue is the greatest value an entry can have: with 32 bits of time
	// below it, its score is just exact as a double.
	MaxValue = 1<<21 - 1
	// MaxTop is the most entries that one read returns.
	MaxTop = 1000
)

var (
	// ErrNotLoaded says that the board cannot answer: Redis was emptied, nobody
	// has loaded it yet, or so many of a compact board's best have died that the
	// next ones are not known. Call [Board.Load].
	ErrNotLoaded = errors.New("the board is not loaded (Load, Ensure)")
	// ErrValue says that an entry's value is not from 0 to [MaxValue], and that nothing of
	// its update was sent, or the load has ended.
	ErrValue = errors.New("leaderboard: a value has no room on a board")
	// ErrEmptied says that Redis was emptied, restarted or failed over while the
	// board was being loaded: load it again.
	ErrEmptied = errors.New("the board was emptied while it was being loaded")
)

// notLoaded names the board that is not, by one of its keys.
func notLoaded(k keyspace.Key) error { return fmt.Errorf("%s: %w", k, ErrNotLoaded) }

// Board is a ranking, made by [Exact] or [Compact]; the package documentation
// says what each promises. It is safe for concurrent use.
type Board interface {
	// Put is [Board.Update], sent by itself: an update of one or several members. An At that is
	// zero is the present, by this machine's clock. With [ErrValue] nothing was sent;
	// after any other error nobody knows what was applied: Put the entries again, with Replay set.
	Put(ctx context.Context, es ...Entry) error

	// Update returns the commands that move the members of es: a few, to be
	// pipelined with whatever else the caller sends. They stand alone, in any
	// order among other commands. After an error among their replies nobody knows
	// what was applied: send the entries again, with Replay set. Where a value is not
	// from 0 to [MaxValue] nothing is sent at all: the only reply is [ErrValue].
	Update(es []Entry) []keyspace.Cmd

	// Read returns, in one round trip, the best n that are alive at now, best
	// first, and where me stands. See Top and Rank. A compact board takes a second
	// one where it was folded since this process read it last.
	Read(ctx context.Context, now time.Time, n int, me Entry) (best []Ranked, mine Ranked, ok bool, err error)

	// Top returns the best n entries that are alive at now, best first; n is cut
	// to [MaxTop]. It returns [ErrNotLoaded] while the board cannot tell.
	Top(ctx context.Context, now time.Time, n int) ([]Ranked, error)

	// Rank returns where a member stands at now; ok is false when it is not on
	// the board, or dead. Of me an exact board needs the name. A compact board
	// needs Value and Dies as well, as the caller's own record of the member has
	// them; a member with value 0 is on it only among the best.
	Rank(ctx context.Context, now time.Time, me Entry) (mine Ranked, ok bool, err error)

	// Around returns up to k entries on either side of me, and me between them,
	// best first; k is cut so that no more than [MaxTop] come back. It is empty
	// when me is not on the board. A compact board knows the neighbours of its
	// best only: an entry that stands below them is returned alone.
	Around(ctx context.Context, now time.Time, me Entry, k int) ([]Ranked, error)

	// Complete reports whether the board has everybody and will go on to answer.
	// False asks for a Load, perhaps while reads are still answered: a compact
	// board that was sent a Replay answers from counts that may be off by that
	// one.
	Complete(ctx context.Context, now time.Time) (bool, error)

	// Load fills the board from the truth, beside live traffic. It begins to
	// range over everybody after it has told Redis, and each entry has to be as
	// the truth has it by then or later, each member once. Restart, From, Told and
	// Replay are ignored. An error of the sequence ends it, and nothing is marked as loaded.
	// It returns [ErrEmptied] if Redis was emptied on the way. Give ctx an end: a
	// load that waits for ever keeps others waiting.
	Load(ctx context.Context, now time.Time, everybody iter.Seq2[Entry, error]) error

	// Sweep removes what is dead at now, in steps of a few milliseconds at the
	// most, and returns how much that was. Reads do not need it. A compact board
	// wants it every second or so, for it also folds what was updated since into
	// the board; when there is nothing to do it is one round trip.
	Sweep(ctx context.Context, now time.Time) (removed int, err error)

	// Remove takes members off the board. A compact board needs to be told where
	// they stand, as for Rank, or with Replay that nobody knows whether they are
	// on it. An entry of theirs that is applied afterwards brings them back.
	Remove(ctx context.Context, es ...Entry) error

	// Drop removes the whole board. However large it is, the server frees it
	// beside its other work.
	Drop(ctx context.Context) error
}

// Ensure loads a board that is not [Board.Complete], because nobody has loaded it yet, or Redis was
// emptied: at start, and every few seconds from then on. everybody is as for [Board.Load], which
// only then is asked; [FromRows] makes one of a query. loaded reports that the board was loaded.
func Ensure(ctx context.Context, b Board, now time.Time, everybody iter.Seq2[Entry, error]) (loaded bool, err error) {
	complete, err := b.Complete(ctx, now)
	if err != nil || complete {
		return false, err
	}
	err = b.Load(ctx, now, everybody)
	return err == nil, err
}

// put is Put of either kind of board.
func put(ctx context.Context, db *redis.DB, b Board, es []Entry) error {
	now, es := time.Now(), slices.Clone(es) // the caller's may be used again
	for i := range es {
		if es[i].At.IsZero() {
			es[i].At = now
		}
	}
	if err := keyspace.FirstErr(db.DoMulti(ctx, b.Update(es))); err != nil {
		return fmt.Errorf("leaderboard: put: %w", err)
	}
	return nil
}

// CheckValue returns an error that is [ErrValue] when no board has room for a value: look before the
// truth is committed, for a load that meets one fails.
func CheckValue(value int64) error { return checkValues(Entry{Value: value}) }

// Entry is what one member reached.
type Entry struct {
	Member string
	// Value ranks the entry, from 0 to [MaxValue]; see [ErrValue].
	Value int64
	// At is when the value was reached, not when it was last confirmed; earlier
	// wins a tie. Zero is 2020, but for [Board.Put]. Kept in whole seconds from 2020 to 2156.
	At time.Time
	// Dies is the first moment at which the entry does not count any more, in
	// milliseconds. Zero: it never dies.
	Dies time.Time
	// Restart says that the value may be lower than the stored one, because it
	// begins a new run or because it is not known what is stored: set it if you do not
	// know. Without it a lower value changes nothing. The later At
	// wins then.
	Restart bool

	// The fields below are for compact boards, which count changes. Exact boards
	// need none of them.

	// From is where the member stood before this change, dead or alive; zero when
	// it was not on the board. Each change is to be sent once, and the From of
	// one is what the one before led to.
	From Standing
	// Told is what was sent for the same change before, by mistake, and is taken
	// back now: its move from its From to its Value is undone. It implies Restart.
	// If a load ended between the two and their Froms differ, one member stays
	// miscounted until the next load.
	Told *Entry
	// Replay says that nobody knows whether this change was sent before. It
	// implies Restart. The best are exact all the same; the counts stay as they
	// are, and the board is not [Board.Complete] until it was loaded again.
	Replay bool
}

// Standing is a value and when it dies, as [Entry] has them.
type Standing struct {
	Value int64
	Dies  time.Time
}

// Ranked is an entry in its place.
type Ranked struct {
	// Rank is 1 for the best. On an exact board, and among the best of a compact
	// one, no two members share it; below them equal values do.
	Rank   int
	Member string
	Value  int64
	At     time.Time // in UTC, whole seconds
}

const (
	epoch   = 1577836800 // 2020-01-01 UTC
	timeMax = 1<<32 - 1
	never   = math.MaxInt64 // as a death
)

func seconds(t time.Time) int64 { return min(max(t.Unix()-epoch, 0), timeMax) }

func cut(value int64) int64 { return min(max(value, 0), MaxValue) }

func (e Entry) score() int64 { return cut(e.Value)<<32 | timeMax - seconds(e.At) }

// checkValues returns an error that is [ErrValue] when a value has no room.
func checkValues(es ...Entry) error {
	for i := range es {
		if v := es[i].Value; v < 0 || v > MaxValue {
			return fmt.Errorf("%w: %d of %q, from 0 to %d are possible", ErrValue, v, es[i].Member, MaxValue)
		}
	}
	return nil
}

func (e *Entry) restarts() bool { return e.Restart || e.Replay || e.Told != nil }

// death is Unix milliseconds, or never.
func death(t time.Time) int64 {
	if t.IsZero() {
		return never
	}
	return t.UnixMilli()
}

func rankedOf(rank int, member string, score int64) Ranked {
	return Ranked{rank, member, score >> 32, time.Unix(epoch+timeMax-score&timeMax, 0).UTC()}
}

// restarting returns the members of es that restart, or nil.
func restarting(es []Entry) map[string]bool {
	var members map[string]bool
	for i := range es {
		if e := &es[i]; e.restarts() {
			if members == nil {
				members = map[string]bool{}
			}
			members[e.Member] = true
		}
	}
	return members
}
