package leaderboard

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
)

const (
	// blobChunk bounds the changes in one element of the log, 20 KB.
	blobChunk = 500
	// foldChunk bounds the elements of the log that one command reads.
	foldChunk = 128
	// foldAbove is how long a log a reader leaves as it is.
	foldAbove = 16
)

var (
	//go:embed lua/compact_fold.lua
	compactFoldLua string
	//go:embed lua/compact_begin.lua
	compactBeginLua string
	//go:embed lua/compact_renew.lua
	compactRenewLua string
	//go:embed lua/compact_finish.lua
	compactFinishLua string
	//go:embed lua/compact_abandon.lua
	compactAbandonLua string

	compactFold    = redis.NewScript(compactFoldLua)
	compactBegin   = redis.NewScript(compactBeginLua)
	compactRenew   = redis.NewScript(compactRenewLua)
	compactFinish  = redis.NewScript(compactFinishLua)
	compactAbandon = redis.NewScript(compactAbandonLua)
)

// CompactKeys are the keys of a compact board. They share a hash tag and live for
// ever.
type CompactKeys struct {
	State keyspace.Hash // the board, up to where the log was folded into it
	Log   keyspace.List // changes since
	Held  keyspace.List // changes that were folded while a load is under way
}

// The fields of State, beside those of a state.
const (
	fieldVersion = "v"    // changes with each fold
	fieldLoad    = "load" // token of the load under way
	fieldBeat    = "beat" // when it was last heard of, Unix ms
	fieldBy      = "by"   // token of the load that has made the board
)

type compact struct {
	db *redis.DB
	k  CompactKeys
	sizes

	watch   watch                 // over others' loads
	folding sync.Mutex            // one reader at a time tidies up
	known   atomic.Pointer[state] // as last seen; nil before that
}

// Compact returns the board that lives under k. It sends nothing.
func Compact(db *redis.DB, k CompactKeys) Board { return &compact{db: db, k: k, sizes: usual} }

func (b *compact) Put(ctx context.Context, es ...Entry) error { return put(ctx, b.db, b, es) }

// Update returns one RPUSH to the board's log.
func (b *compact) Update(es []Entry) []keyspace.Cmd {
	if len(es) == 0 {
		return nil
	}
	if err := checkValues(es...); err != nil {
		return []keyspace.Cmd{{Err: err}}
	}
	restarts := restarting(es)
	return []keyspace.Cmd{b.push(len(es), func(i int) change {
		c := changeOf(&es[i])
		if restarts[c.member] { // as on an exact board, one takes its member's other entries along
			c.flags |= flagRestart
		}
		return c
	})}
}

// push appends n changes to the log.
func (b *compact) push(n int, change func(int) change) keyspace.Cmd {
	var blobs []string
	for first := 0; first < n; first += blobChunk {
		last := min(first+blobChunk, n)
		blob := make([]byte, 0, 48*(last-first))
		for i := first; i < last; i++ {
			c := change(i)
			blob = appendChange(blob, &c)
		}
		blobs = append(blobs, string(blob))
	}
	return keyspace.Cmd{Name: "RPUSH", Key: b.k.Log.Key, Args: blobs}
}

func (b *compact) Remove(ctx context.Context, es ...Entry) error {
	if len(es) == 0 {
		return nil
	}
	gone := b.push(len(es), func(i int) change {
		c := changeOf(&Entry{Member: es[i].Member})
		c.from, c.flags = es[i].place().standing(), flagGone
		if es[i].Replay {
			c.flags |= flagReplay
		}
		return c
	})
	if err := b.db.Do(ctx, gone).Err; err != nil {
		return fmt.Errorf("leaderboard: remove: %w", err)
	}
	return nil
}

func (b *compact) Drop(ctx context.Context) error {
	return drop(ctx, b.db, []keyspace.Key{b.k.State.Key, b.k.Log.Key, b.k.Held.Key})
}

// snapshot is what Redis holds of a board at one moment.
type snapshot struct {
	*state
	load    string
	beat    int64
	by      string
	blobs   []keyspace.Reply // of the log, at most foldChunk
	pending []change         // decoded blobs
	more    bool             // the log has others
}

// fetch reads a board and its log as they were at one moment. Nobody changes a
// state without giving it another version, so what this process has read once is
// not read again: the version that comes after the log says whether it still
// stands, and that nothing was folded since it was looked at.
func (b *compact) fetch(ctx context.Context) (*snapshot, error) {
	cmds := []keyspace.Cmd{
		{Name: "HMGET", Key: b.k.State.Key, Args: append([]string{fieldVersion}, stateFields[:]...)},
		{Name: "LRANGE", Key: b.k.Log.Key, Args: []string{"0", strconv.Itoa(foldChunk)}},
		{Name: "HMGET", Key: b.k.State.Key, Args: []string{fieldVersion, fieldLoad, fieldBeat, fieldBy}},
	}
	known := b.known.Load()
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		asked := cmds
		if known != nil {
			asked = cmds[1:]
		}
		replies := b.db.DoMulti(ctx, asked)
		if err := keyspace.FirstErr(replies); err != nil {
			return nil, err
		}
		if known == nil {
			var err error
			if known, err = b.learn(replies[0].List); err != nil {
				return nil, err
			}
			replies = replies[1:]
		}
		log, now := replies[0].List, replies[1].List
		if now[0].Str != known.version {
			known = nil
			continue
		}
		s := &snapshot{state: known, load: now[1].Str, by: now[3].Str, blobs: log[:min(foldChunk, len(log))], more: len(log) > foldChunk}
		s.beat, _ = strconv.ParseInt(now[2].Str, 10, 64)
		var err error
		s.pending, err = decode(nil, s.blobs)
		return s, err
	}
}

// learn keeps a state as it came: its version and its fields.
func (b *compact) learn(values []keyspace.Reply) (*state, error) {
	var f fields
	for i := range f {
		f[i] = values[i+1].Str
	}
	st, err := readState(values[0].Str, f)
	if err == nil {
		b.known.Store(st)
	}
	return st, err
}

func decode(cs []change, blobs []keyspace.Reply) ([]change, error) {
	size := 0
	for _, blob := range blobs {
		size += len(blob.Str)
	}
	cs = slices.Grow(cs, size/40) // most take a little more
	var err error
	for _, blob := range blobs {
		if cs, err = readChanges(cs, blob.Str); err != nil {
			return nil, err
		}
	}
	return cs, nil
}

// read is fetch for those who want an answer: the log is short, and all of it
// was read.
func (b *compact) read(ctx context.Context, now time.Time) (*snapshot, error) {
	for {
		s, err := b.fetch(ctx)
		switch {
		case err != nil:
			return nil, err
		case !s.loaded():
			return nil, notLoaded(b.k.State.Key)
		case s.more:
			_, _, err = b.fold(ctx, now.UnixMilli())
		case len(s.blobs) > foldAbove && b.folding.TryLock():
			_, _, err = b.fold(ctx, now.UnixMilli())
			b.folding.Unlock()
		default:
			return s, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// best yields the best that are alive at now as the log leaves them, the first
// one first.
func (s *snapshot) best(now int64) iter.Seq[place] {
	return func(yield func(place) bool) {
		gone := make([]bool, len(s.top)) // from where the state has them
		moved := map[string]place{}
		for _, c := range s.pending {
			was, there := moved[c.member]
			if i, ok := s.index()[c.member]; ok && !gone[i] {
				was, there, gone[i] = s.top[i], true, true
			}
			switch {
			case c.gone():
				delete(moved, c.member)
				continue
			case there:
				was = over(was, c)
			default:
				was = c.place
			}
			// A member that has fallen below the floor leaves no trace, as after a fold.
			if moved[c.member] = was; before(was, s.floor) >= 0 {
				delete(moved, c.member)
			}
		}
		come := slices.SortedFunc(maps.Values(moved), before)
		each := func(p place) bool { return p.dies <= now || yield(p) }
		for i, p := range s.top {
			for len(come) > 0 && before(come[0], p) < 0 {
				if !each(come[0]) {
					return
				}
				come = come[1:]
			}
			if !gone[i] && !each(p) {
				return
			}
		}
		for _, p := range come {
			if !each(p) {
				return
			}
		}
	}
}

// above returns how many count at now with a greater value.
func (s *snapshot) above(value, now int64) (n int64, err error) {
	if now < s.until {
		n, err = sumAbove(s.fields[sumField], value)
	} else { // somebody has died since
		var rows map[int64]row
		rows, err = readRows(s.fields[rowsField])
		n = (&table{rows: rows}).above(value, now)
	}
	for _, c := range s.pending {
		if c.flags&flagReplay == 0 {
			c.moves(func(at standing, by int64) {
				if at.value > value && at.dies > now {
					n += by
				}
			})
		}
	}
	return max(n, 0), err
}

func (b *compact) Read(ctx context.Context, now time.Time, n int, me Entry) ([]Ranked, Ranked, bool, error) {
	a, err := b.ask(ctx, now, n, me, 0)
	if err != nil {
		return nil, Ranked{}, false, fmt.Errorf("leaderboard: read: %w", err)
	}
	return ranked(a.best, 0, n), a.mine, a.ok, nil
}

func (b *compact) Top(ctx context.Context, now time.Time, n int) ([]Ranked, error) {
	if n <= 0 {
		return nil, nil
	}
	best, _, _, err := b.Read(ctx, now, n, Entry{})
	return best, err
}

func (b *compact) Rank(ctx context.Context, now time.Time, me Entry) (Ranked, bool, error) {
	_, mine, ok, err := b.Read(ctx, now, 0, me)
	return mine, ok, err
}

func (b *compact) Around(ctx context.Context, now time.Time, me Entry, k int) ([]Ranked, error) {
	k = min(max(k, 0), (MaxTop-1)/2)
	a, err := b.ask(ctx, now, 0, me, k)
	switch {
	case err != nil:
		return nil, fmt.Errorf("leaderboard: around: %w", err)
	case !a.ok:
		return nil, nil
	case !a.among:
		return []Ranked{a.mine}, nil
	}
	return ranked(a.best, a.mine.Rank-1-k, a.mine.Rank+k), nil
}

// ranked returns those of the best from one index up to another, as far as there
// are any.
func ranked(best []place, from, to int) (out []Ranked) {
	for i := max(from, 0); i < min(to, len(best)); i++ {
		out = append(out, rankedOf(i+1, best[i].member, best[i].score))
	}
	return out
}

// answer is what a board says.
type answer struct {
	best  []place // as many as were asked for, and as it took to find me
	mine  Ranked
	ok    bool
	among bool // the best
}

// ask returns the best n, and where me stands with k of the best that follow.
func (b *compact) ask(ctx context.Context, now time.Time, n int, me Entry, k int) (a answer, err error) {
	s, err := b.read(ctx, now)
	if err != nil {
		return answer{}, err
	}
	n, at := min(max(n, 0), b.want), now.UnixMilli()
	asks := me.Member != "" && death(me.Dies) > at
	may := asks && me.mayScore() >= s.floor.score // be among the best
	if n > 0 || may {
		for p := range s.best(at) {
			if a.best = append(a.best, p); may && p.member == me.Member {
				a.mine, a.ok, a.among = rankedOf(len(a.best), p.member, p.score), true, true
			}
			if len(a.best) >= n && (!may || a.ok && len(a.best) >= a.mine.Rank+k) {
				break
			}
		}
		if len(a.best) < n && s.floor != noFloor {
			return answer{}, ErrNotLoaded // there are more, and nobody knows who
		}
	}
	if !asks || a.ok || cut(me.Value) == 0 {
		return a, nil
	}
	above, err := s.above(cut(me.Value), at)
	a.mine, a.ok = rankedOf(int(above)+1, me.Member, me.score()), true
	return a, err
}

// mayScore is the most that e's value can score, whenever it was reached.
func (e Entry) mayScore() int64 { return cut(e.Value)<<32 | timeMax }

// Complete is false also when the best are so few that a read may soon ask for
// more than is known.
func (b *compact) Complete(ctx context.Context, now time.Time) (bool, error) {
	s, err := b.read(ctx, now)
	if errors.Is(err, ErrNotLoaded) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("leaderboard: complete: %w", err)
	}
	alive := 0
	for range s.best(now.UnixMilli()) {
		alive++
	}
	replayed := slices.ContainsFunc(s.pending, func(c change) bool { return c.flags&flagReplay != 0 })
	return !s.doubt && !replayed && (s.floor == noFloor || alive >= b.want), nil
}

func (b *compact) keys() []keyspace.Key {
	return []keyspace.Key{b.k.State.Key, b.k.Log.Key, b.k.Held.Key}
}

// Sweep folds the log into the board, drops the dead and ends a load of which
// nothing was heard any more. A midnight's dead are a row or two, however many
// they are.
func (b *compact) Sweep(ctx context.Context, now time.Time) (removed int, err error) {
	for {
		died, more, err := b.fold(ctx, now.UnixMilli())
		removed += died
		if err != nil {
			return removed, fmt.Errorf("leaderboard: sweep: %w", err)
		}
		if !more {
			return removed, nil
		}
	}
}

// fold takes the log's first elements into the board. If somebody else did, it
// begins anew. more says that there are others.
func (b *compact) fold(ctx context.Context, now int64) (died int, more bool, err error) {
	for {
		s, err := b.fetch(ctx)
		if err != nil {
			return 0, false, err
		}
		if b.watch.dead(s.load, s.beat) {
			if err := b.abandon(ctx, s.load); err != nil {
				return 0, false, err
			}
		}
		next := &state{version: rand.Text()}
		if s.loaded() {
			t, err := s.table(b.sizes)
			if err != nil {
				return 0, false, err
			}
			for _, c := range s.pending {
				t.apply(c)
			}
			died = t.settle(now)
			if next, err = stateOf(next.version, t); err != nil {
				return 0, false, err
			}
		}
		changed := s.changed(next)
		if len(changed) == 0 && len(s.blobs) == 0 {
			return 0, false, nil
		}
		args := append([]string{s.version, next.version, strconv.Itoa(len(s.blobs))}, changed...)
		n, err := compactFold.Run(ctx, b.db, b.keys(), args...).Int()
		if err != nil {
			return 0, false, err
		}
		if n == 1 {
			b.known.Store(next)
			return died, s.more, nil
		}
	}
}
