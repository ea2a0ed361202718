package leaderboard

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/stoa-dev/stoa/keyspace"
	"github.com/stoa-dev/stoa/redis"
)

const (
	// MaxValue is the greatest value an entry can have: with 32 bits of time
	// below it, its score is just exact as a double.
	MaxValue = 1<<21 - 1
	// MaxTop is the most entries that [Board.Top] returns.
	MaxTop = 1000

	// updateChunk bounds the members of one command, about a millisecond of the
	// server, and of one script of Restart, five.
	updateChunk = 500
	// mergeChunk bounds the entries of one script in a load, about 6 ms. It must
	// stay well below what Lua's unpack takes, 8,000 arguments.
	mergeChunk = 1000
	// sweepChunk bounds the dead that one script removes, about 3 ms.
	sweepChunk = 1000
)

var (
	// ErrNotLoaded says that the board is incomplete, for Redis was emptied or
	// nobody has loaded it yet: call [Board.Load].
	ErrNotLoaded = errors.New("the board is not loaded")
	// ErrEmptied says that Redis was emptied, restarted or failed over while the
	// board was being loaded: load it again.
	ErrEmptied = errors.New("the board was emptied while it was being loaded")
)

var (
	//go:embed lua/merge.lua
	mergeLua string
	//go:embed lua/begin.lua
	beginLua string
	//go:embed lua/finish.lua
	finishLua string
	//go:embed lua/sweep.lua
	sweepLua string
	//go:embed lua/top.lua
	topLua string
	//go:embed lua/rank.lua
	rankLua string

	merge  = redis.NewScript(mergeLua)
	begin  = redis.NewScript(beginLua)
	finish = redis.NewScript(finishLua)
	sweep  = redis.NewScript(sweepLua)
	top    = redis.NewScript(topLua)
	rank   = redis.NewScript(rankLua)
)

// Keys are the keys of one board. They share a hash tag and live for ever: a
// board is rewritten, never renewed.
type Keys struct {
	Scores keyspace.ZSet
	// Deaths says when entries stop to count. The zero ZSet: they never do.
	Deaths keyspace.ZSet
	// Loaded says that the board is complete. Only this package writes it.
	Loaded keyspace.Bytes
}

// Entry is what one member reached.
type Entry struct {
	Member string
	// Value ranks the entry; cut to 0…[MaxValue].
	Value int64
	// At is when the value was reached, not when it was last confirmed; earlier
	// wins a tie. Kept in whole seconds from 2020 to 2156.
	At time.Time
	// Dies is the first moment at which the entry does not count any more, in
	// milliseconds. Zero: it never dies.
	Dies time.Time
	// Restart says that the value may be lower than the stored one, because it
	// begins a new run or because it is not known what is stored. The later At
	// wins then.
	Restart bool
}

// Ranked is an entry in its place.
type Ranked struct {
	Rank   int // 1 is the best; no two members share one
	Member string
	Value  int64
	At     time.Time // in UTC, whole seconds
}

// Board is an exact leaderboard; the package documentation says what it
// promises. It is safe for concurrent use.
type Board struct {
	db *redis.DB
	k  Keys
}

// Exact returns the board that lives under k. It sends nothing.
func Exact(db *redis.DB, k Keys) *Board { return &Board{db, k} }

// Update returns the commands that write the entries of es, except those that
// [Board.Restart] writes: pipeline both results, in any order, and treat an
// error among the replies as "apply all of es again, with Restart set". Each
// command carries at most 500 members. An entry that is stored already, or
// that is behind the stored one, changes nothing.
func (b *Board) Update(es []Entry) []keyspace.Cmd {
	es = b.fold(es, false)
	per := 1
	if b.mortal() {
		per = 2
	}
	cmds := make([]keyspace.Cmd, 0, per*((len(es)+updateChunk-1)/updateChunk))
	for ; len(es) > 0; es = es[min(updateChunk, len(es)):] {
		chunk := es[:min(updateChunk, len(es))]
		// Deaths first: a sweep between the two must find the later death and
		// leave the member alone.
		if b.mortal() {
			cmds = append(cmds, raise(b.k.Deaths, chunk, Entry.death))
		}
		cmds = append(cmds, raise(b.k.Scores, chunk, Entry.score))
	}
	return cmds
}

// Restart returns the scripts that write the entries of es that have Restart
// set, and all other entries of the same members, so that es may hold several
// entries of one member. The stored entry stays if its time is later; else it
// is replaced, value, time and death, by exactly this one.
func (b *Board) Restart(es []Entry) []redis.Call {
	es = b.fold(es, true)
	var calls []redis.Call
	for ; len(es) > 0; es = es[min(updateChunk, len(es)):] {
		calls = append(calls, b.merge("", es[:min(updateChunk, len(es))]))
	}
	return calls
}

// Load writes all entries, wherever a newer one is not there already, and marks
// the board as loaded. It runs beside live traffic, in chunks of 1,000 entries,
// and ignores Restart. Entries that are on the board and not in the sequence
// stay: who removed a member while a load was under way removes it again
// afterwards.
//
// A source that fails must end ctx before it ends its sequence; Load marks
// nothing then and returns the cause of ctx. It returns [ErrEmptied] if the
// board was emptied on the way.
func (b *Board) Load(ctx context.Context, entries iter.Seq[Entry]) error {
	if err := b.load(ctx, entries); err != nil {
		return fmt.Errorf("leaderboard: load: %w", err)
	}
	return nil
}

func (b *Board) load(ctx context.Context, entries iter.Seq[Entry]) error {
	before, err := b.db.Fingerprint(ctx)
	if err != nil {
		return err
	}
	loaded := []keyspace.Key{b.k.Loaded.Key}
	token, _, err := begin.Run(ctx, b.db, loaded, rand.Text()).Text()
	if err != nil {
		return err
	}
	chunk := make([]Entry, 0, mergeChunk)
	for e := range entries {
		if chunk = append(chunk, e); len(chunk) == mergeChunk {
			if err := b.loadChunk(ctx, token, chunk); err != nil {
				return err
			}
			chunk = chunk[:0]
		}
	}
	if err := b.loadChunk(ctx, token, chunk); err != nil {
		return err
	}
	// A server that came back from a snapshot has the token and not the rest.
	after, err := b.db.Fingerprint(ctx)
	if err != nil {
		return err
	}
	if after != before {
		return ErrEmptied
	}
	n, err := finish.Run(ctx, b.db, loaded, token).Int()
	if err == nil && n == 0 {
		err = ErrEmptied
	}
	return err
}

// loadChunk writes a part of a load, the last one perhaps empty.
func (b *Board) loadChunk(ctx context.Context, token string, chunk []Entry) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if len(chunk) == 0 {
		return nil
	}
	call := b.merge(token, newest(chunk, greater))
	n, err := call.Script.Run(ctx, b.db, call.Keys, call.Args...).Int()
	if err == nil && n < 0 {
		err = ErrEmptied
	}
	return err
}

// Top returns the best n entries that are alive at now, best first; n is cut to
// [MaxTop]. It returns [ErrNotLoaded] while the board is incomplete.
func (b *Board) Top(ctx context.Context, now time.Time, n int) ([]Ranked, error) {
	if n <= 0 {
		return nil, nil
	}
	items, err := b.ask(ctx, top, now, strconv.Itoa(min(n, MaxTop)-1))
	if err != nil {
		return nil, fmt.Errorf("leaderboard: top: %w", err)
	}
	best := make([]Ranked, 0, len(items)/2)
	for i := 0; i+1 < len(items); i += 2 {
		r, err := ranked(i/2+1, items[i].Str, items[i+1])
		if err != nil {
			return nil, fmt.Errorf("leaderboard: top: %w", err)
		}
		best = append(best, r)
	}
	return best, nil
}

// Rank returns where member stands at now; ok is false when it is not on the
// board, or dead. It returns [ErrNotLoaded] while the board is incomplete.
func (b *Board) Rank(ctx context.Context, now time.Time, member string) (r Ranked, ok bool, err error) {
	items, err := b.ask(ctx, rank, now, member)
	if err == nil && len(items) == 2 {
		r, err = ranked(int(items[0].N)+1, member, items[1])
		ok = err == nil
	}
	if err != nil {
		return Ranked{}, false, fmt.Errorf("leaderboard: rank: %w", err)
	}
	return r, ok, nil
}

// Sweep removes the entries that are dead at now, in chunks of 1,000, until
// none is left or ctx ends, and returns how many it removed. Reads do not need
// it; it saves the first one after a midnight the work, and gives the memory
// back of a board that nobody reads.
func (b *Board) Sweep(ctx context.Context, now time.Time) (removed int, err error) {
	if !b.mortal() {
		return 0, nil
	}
	keys := []keyspace.Key{b.k.Scores.Key, b.k.Deaths.Key}
	for {
		if ctx.Err() != nil {
			return removed, fmt.Errorf("leaderboard: sweep: %w", context.Cause(ctx))
		}
		n, err := sweep.Run(ctx, b.db, keys, millis(now), strconv.Itoa(sweepChunk)).Int()
		if err != nil {
			return removed, fmt.Errorf("leaderboard: sweep: %w", err)
		}
		removed += int(n)
		if n < sweepChunk {
			return removed, nil
		}
	}
}

// Remove takes members off the board. An entry of theirs that is applied
// afterwards brings them back.
func (b *Board) Remove(ctx context.Context, members ...string) error {
	var cmds []keyspace.Cmd
	for ; len(members) > 0; members = members[min(updateChunk, len(members)):] {
		chunk := members[:min(updateChunk, len(members))]
		// Scores first: should the rest fail, a death without an entry is swept,
		// and an entry without a death would stay for ever.
		cmds = append(cmds, keyspace.Cmd{Name: "ZREM", Key: b.k.Scores.Key, Args: chunk})
		if b.mortal() {
			cmds = append(cmds, keyspace.Cmd{Name: "ZREM", Key: b.k.Deaths.Key, Args: chunk})
		}
	}
	if err := keyspace.FirstErr(b.db.DoMulti(ctx, cmds)); err != nil {
		return fmt.Errorf("leaderboard: remove: %w", err)
	}
	return nil
}

func (b *Board) mortal() bool { return !b.k.Deaths.IsZero() }

// ask runs a reading script until no dead are due.
func (b *Board) ask(ctx context.Context, s *redis.Script, now time.Time, arg string) ([]keyspace.Reply, error) {
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		answer, err := s.Run(ctx, b.db, b.keys(), millis(now), strconv.Itoa(sweepChunk), arg).Items()
		if err != nil {
			return nil, err
		}
		switch answer[0].N {
		case 2:
			return answer[1].Items()
		case 0:
			return nil, ErrNotLoaded
		}
	}
}

func (b *Board) keys() []keyspace.Key {
	if b.mortal() {
		return []keyspace.Key{b.k.Scores.Key, b.k.Loaded.Key, b.k.Deaths.Key}
	}
	return []keyspace.Key{b.k.Scores.Key, b.k.Loaded.Key}
}

func (b *Board) merge(token string, es []Entry) redis.Call {
	args := make([]string, 1, 1+3*len(es))
	args[0] = token
	for _, e := range es {
		args = append(args, e.Member, e.score(), e.death())
	}
	return redis.Call{Script: merge, Keys: b.keys(), Args: args}
}

// raise is one ZADD that never lowers a score.
func raise(set keyspace.ZSet, es []Entry, score func(Entry) string) keyspace.Cmd {
	args := make([]string, 1, 1+2*len(es))
	args[0] = "GT"
	for _, e := range es {
		args = append(args, score(e), e.Member)
	}
	return keyspace.Cmd{Name: "ZADD", Key: set.Key, Args: args}
}

// fold returns the entries to restart, or those not to, one for each member:
// a command must not depend on how a server treats a member that occurs twice.
func (b *Board) fold(es []Entry, restart bool) []Entry {
	var restarts map[string]bool
	for _, e := range es {
		if e.Restart {
			if restarts == nil {
				restarts = map[string]bool{}
			}
			restarts[e.Member] = true
		}
	}
	if len(restarts) == 0 {
		if restart {
			return nil
		}
		return newest(es, greater)
	}
	part := make([]Entry, 0, len(es))
	for _, e := range es {
		if restarts[e.Member] == restart {
			part = append(part, e)
		}
	}
	if restart {
		return newest(part, later)
	}
	return newest(part, greater)
}

// newest returns the newest entry of each member, in the order in which they
// first occur; same says whether b replaces a when both are of one second.
func newest(es []Entry, same func(a, b Entry) bool) []Entry {
	at := make(map[string]int, len(es))
	out := make([]Entry, 0, len(es))
	for _, e := range es {
		i, twice := at[e.Member]
		if !twice {
			at[e.Member] = len(out)
			out = append(out, e)
			continue
		}
		if was, is := seconds(out[i].At), seconds(e.At); is > was || is == was && same(out[i], e) {
			out[i] = e
		}
	}
	return out
}

// later takes the entry that was given later, as a restart does.
func later(_, _ Entry) bool { return true }

// greater takes the greater value, then the later death, as GT does.
func greater(a, b Entry) bool {
	if a.Value != b.Value {
		return b.Value > a.Value
	}
	return b.Dies.IsZero() || !a.Dies.IsZero() && b.Dies.After(a.Dies)
}

const (
	epoch   = 1577836800 // 2020-01-01 UTC
	timeMax = 1<<32 - 1
)

func seconds(t time.Time) int64 { return min(max(t.Unix()-epoch, 0), timeMax) }

func (e Entry) score() string {
	return strconv.FormatInt(min(max(e.Value, 0), MaxValue)<<32|timeMax-seconds(e.At), 10)
}

// death is a number also for who never dies, so that a lost death cannot be
// mistaken for none, and the later one always wins.
func (e Entry) death() string {
	if e.Dies.IsZero() {
		return "+inf"
	}
	return millis(e.Dies)
}

func millis(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }

func ranked(place int, member string, score keyspace.Reply) (Ranked, error) {
	f, _, err := score.Float()
	if err != nil {
		return Ranked{}, err
	}
	n := int64(f)
	return Ranked{place, member, n >> 32, time.Unix(epoch+timeMax-n&timeMax, 0).UTC()}, nil
}
