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
	// MaxValue is the largest value of an entry: with 32 bits of time below it, its score is just exact as a double.
	MaxValue = 1<<21 - 1
	// MaxTop is the largest number of entries that one read returns.
	MaxTop = 1000
)

var (
	// ErrNotLoaded is returned if the board cannot answer: Redis was emptied, no load has completed yet, or so many of
	// a compact board's best have expired that the following ones are not known. Call [Board.Load].
	ErrNotLoaded = errors.New("the board is not loaded (Load, Ensure)")
	// ErrValue is returned if an entry's value is not from 0 to [MaxValue]. No part of its update was sent, or the load
	// has ended.
	ErrValue = errors.New("leaderboard: the value is out of range")
	// ErrEmptied is returned if Redis was emptied, restarted or failed over during the load: load the board again.
	ErrEmptied = errors.New("the board was emptied while it was being loaded")
)

// notLoaded returns ErrNotLoaded with the name of the board, which is one of its keys.
func notLoaded(k keyspace.Key) error { return fmt.Errorf("%s: %w", k, ErrNotLoaded) }

// Board is a ranking, made by [Exact] or [Compact]; the package documentation describes the guarantees of each. It is
// safe for concurrent use.
type Board interface {
	// Put sends [Board.Update] by itself: an update of one or several members. A zero At means the present, by this
	// machine's clock. With [ErrValue] nothing was sent. After any other error it is unknown what was applied: Put the
	// entries again, with Replay set.
	Put(ctx context.Context, es ...Entry) error

	// Update returns the commands that move the members of es: a few commands, to be pipelined with the caller's
	// others. They may be in any order among other commands. After an error among their replies it is unknown what was
	// applied: send the entries again, with Replay set. If a value is not from 0 to [MaxValue], nothing is sent and the
	// only reply is [ErrValue].
	Update(es []Entry) []keyspace.Cmd

	// Read returns, in one round trip, the best n that are alive at now, best first, and the place of me. See Top and
	// Rank. A compact board needs a second round trip if it was folded since this process read it last.
	Read(ctx context.Context, now time.Time, n int, me Entry) (best []Ranked, mine Ranked, ok bool, err error)

	// Top returns the best n entries that are alive at now, best first; n is limited to [MaxTop]. It returns
	// [ErrNotLoaded] while the board cannot answer.
	Top(ctx context.Context, now time.Time, n int) ([]Ranked, error)

	// Rank returns the place of a member at now; ok is false if it is not on the board, or expired. An exact board only
	// needs the name of me. A compact board needs Value and Dies as well, as in the caller's own record of the member;
	// a member with value 0 is on it only among the best.
	Rank(ctx context.Context, now time.Time, me Entry) (mine Ranked, ok bool, err error)

	// Around returns up to k entries on either side of me, and me between them, best first; k is limited so that at
	// most [MaxTop] are returned. It returns none if me is not on the board. A compact board only knows the neighbours
	// of its best: a member below them is returned alone.
	Around(ctx context.Context, now time.Time, me Entry, k int) ([]Ranked, error)

	// Complete reports whether the board has all members and will continue to answer. If it is false, call Load, even
	// if reads still succeed: a compact board that got a Replay answers from counts that may be off by one.
	Complete(ctx context.Context, now time.Time) (bool, error)

	// Load fills the board from the truth, during live traffic. It begins to range over everybody after it has
	// registered in Redis. Each entry has to be as in the truth at that time or later, each member once. Restart, From,
	// Told and Replay are ignored. An error of the sequence ends the load, and the board is not marked as loaded. It
	// returns [ErrEmptied] if Redis was emptied during the load. Set a deadline in ctx: a load that waits forever keeps
	// others waiting.
	Load(ctx context.Context, now time.Time, everybody iter.Seq2[Entry, error]) error

	// Sweep removes entries that are expired at now, in steps of at most a few milliseconds, and returns their number.
	// Reads do not need it. A compact board needs it every second or so, because it also folds the updates into the
	// board; without work it is one round trip.
	Sweep(ctx context.Context, now time.Time) (removed int, err error)

	// Remove removes members from the board. A compact board needs their standing, as for Rank, or Replay if it is
	// unknown whether they are on it. An entry of theirs that is applied afterwards adds them again.
	Remove(ctx context.Context, es ...Entry) error

	// Drop removes the whole board. The server frees it in the background, whatever its size.
	Drop(ctx context.Context) error
}

// Ensure loads a board that is not [Board.Complete], because no load has completed yet, or Redis was emptied. Call it
// at start, and every few seconds from then on. everybody is as for [Board.Load], and is only read if needed;
// [FromRows] makes one from a query. loaded reports whether the board was loaded.
func Ensure(ctx context.Context, b Board, now time.Time, everybody iter.Seq2[Entry, error]) (loaded bool, err error) {
	complete, err := b.Complete(ctx, now)
	if err != nil || complete {
		return false, err
	}
	err = b.Load(ctx, now, everybody)
	return err == nil, err
}

// put implements Put for both kinds of board.
func put(ctx context.Context, db *redis.DB, b Board, es []Entry) error {
	now, es := time.Now(), slices.Clone(es) // the caller may reuse its slice
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

// CheckValue returns an error that is [ErrValue] if a value is out of range. Call it before the truth is committed,
// because a load with such a value fails.
func CheckValue(value int64) error { return checkValues(Entry{Value: value}) }

// Entry is the state of one member.
type Entry struct {
	Member string
	// Value ranks the entry, from 0 to [MaxValue]; see [ErrValue].
	Value int64
	// At is when the value was reached, not when it was last confirmed; the earlier one wins a tie. Zero is 2020,
	// except for [Board.Put]. It is stored in whole seconds from 2020 to 2156.
	At time.Time
	// Dies is the first moment at which the entry no longer counts, in milliseconds. Zero: it never expires.
	Dies time.Time
	// Restart allows the value to be lower than the stored one, because it begins a new run or because the stored one
	// is not known: set it if you do not know. The later At then wins. Without it a lower value changes nothing.
	Restart bool

	// The fields below are for compact boards, which count changes. Exact boards ignore them.

	// From is the member's standing before this change, expired or alive; zero if it was not on the board. Each change
	// must be sent once, and its From must be the result of the change before.
	From Standing
	// Told is what was sent by mistake for the same change before, and is undone now: its move from its From to its
	// Value. It implies Restart. If a load ended between the two and their Froms differ, one member stays miscounted
	// until the next load.
	Told *Entry
	// Replay means that it is unknown whether this change was sent before. It implies Restart. The best are still
	// exact; the counts stay unchanged, and the board is not [Board.Complete] until it is loaded again.
	Replay bool
}

// Standing is a value and its death, as in [Entry].
type Standing struct {
	Value int64
	Dies  time.Time
}

// Ranked is an entry with its rank.
type Ranked struct {
	// Rank is 1 for the best. On an exact board, and among the best of a compact one, no two members share it; below
	// them, members with equal values do.
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

// checkValues returns an error that is [ErrValue] if a value is out of range.
func checkValues(es ...Entry) error {
	for i := range es {
		if v := es[i].Value; v < 0 || v > MaxValue {
			return fmt.Errorf("%w: %d of %q must be from 0 to %d", ErrValue, v, es[i].Member, MaxValue)
		}
	}
	return nil
}

func (e *Entry) restarts() bool { return e.Restart || e.Replay || e.Told != nil }

// death returns Unix milliseconds, or never.
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
