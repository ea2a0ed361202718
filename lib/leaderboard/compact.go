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
	// blobChunk limits the changes in one element of the log, about 20 KB.
	blobChunk = 500
	// foldChunk limits the elements of the log that one command reads.
	foldChunk = 128
	// foldAbove is the length above which a reader folds the log.
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

// CompactKeys are the keys of a compact board. They share a hash tag and do not expire.
type CompactKeys struct {
	State keyspace.Hash // the board, up to the last fold of the log
	Log   keyspace.List // changes since
	Held  keyspace.List // changes that were folded during a load
}

// The fields of State, in addition to those of a state.
const (
	fieldVersion = "v"    // changes with each fold
	fieldLoad    = "load" // token of the running load
	fieldBeat    = "beat" // time of its last heartbeat, Unix ms
	fieldBy      = "by"   // token of the load that made the board
)

type compact struct {
	db *redis.DB
	k  CompactKeys
	sizes

	watch   watch                 // watches the loads of others
	folding sync.Mutex            // so that only one reader folds at a time
	known   atomic.Pointer[state] // last state that was read; nil before that
}

// Compact returns the board under k. It sends nothing.
func Compact(db *redis.DB, k CompactKeys) Board { return &compact{db: db, k: k, sizes: defaultSizes} }

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
		if restarts[c.member] { // as on an exact board, a restart applies to all entries of its member
			c.flags |= flagRestart
		}
		return c
	})}
}

// push returns the command that appends n changes to the log.
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

// snapshot is the content of a board in Redis at one moment.
type snapshot struct {
	*state
	load    string
	beat    int64
	by      string
	blobs   []keyspace.Reply // elements of the log, at most foldChunk
	pending []change         // decoded blobs
	more    bool             // the log has more elements
}

// fetch reads a board and its log as of one moment. A state never changes without a new version, so a state that this
// process has read is not read again. The version that is read after the log shows whether that state is still current,
// and that no fold has happened in between.
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
			if known, err = b.storeState(replies[0].List); err != nil {
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

// storeState stores a state as it was read: its version and its fields.
func (b *compact) storeState(values []keyspace.Reply) (*state, error) {
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
	cs = slices.Grow(cs, size/40) // most changes take a little more
	var err error
	for _, blob := range blobs {
		if cs, err = readChanges(cs, blob.Str); err != nil {
			return nil, err
		}
	}
	return cs, nil
}

// read is fetch for queries: the log is short, and all of it was read.
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

// best yields the best that are alive at now, with the changes of the log, best first.
func (s *snapshot) best(now int64) iter.Seq[place] {
	return func(yield func(place) bool) {
		gone := make([]bool, len(s.top)) // places of the state that have changed
		moved := map[string]place{}
		for _, c := range s.pending {
			was, found := moved[c.member]
			if i, ok := s.index()[c.member]; ok && !gone[i] {
				was, found, gone[i] = s.top[i], true, true
			}
			switch {
			case c.gone():
				delete(moved, c.member)
				continue
			case found:
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

// above returns the number of members that count at now with a greater value.
func (s *snapshot) above(value, now int64) (n int64, err error) {
	if now < s.until {
		n, err = sumAbove(s.fields[sumField], value)
	} else { // members have expired since
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
	case !a.amongBest:
		return []Ranked{a.mine}, nil
	}
	return ranked(a.best, a.mine.Rank-1-k, a.mine.Rank+k), nil
}

// ranked returns the best from one index up to another, as far as they exist.
func ranked(best []place, from, to int) (out []Ranked) {
	for i := max(from, 0); i < min(to, len(best)); i++ {
		out = append(out, rankedOf(i+1, best[i].member, best[i].score))
	}
	return out
}

// answer is the result of a query.
type answer struct {
	best      []place // as many as requested, and as were needed to find me
	mine      Ranked
	ok        bool
	amongBest bool // among the best
}

// ask returns the best n, and the place of me with the next k of the best.
func (b *compact) ask(ctx context.Context, now time.Time, n int, me Entry, k int) (a answer, err error) {
	s, err := b.read(ctx, now)
	if err != nil {
		return answer{}, err
	}
	n, at := min(max(n, 0), b.want), now.UnixMilli()
	asks := me.Member != "" && death(me.Dies) > at
	may := asks && me.maxScore() >= s.floor.score // me may be among the best
	if n > 0 || may {
		for p := range s.best(at) {
			if a.best = append(a.best, p); may && p.member == me.Member {
				a.mine, a.ok, a.amongBest = rankedOf(len(a.best), p.member, p.score), true, true
			}
			if len(a.best) >= n && (!may || a.ok && len(a.best) >= a.mine.Rank+k) {
				break
			}
		}
		if len(a.best) < n && s.floor != noFloor {
			return answer{}, ErrNotLoaded // there are more members, but they are not known by name
		}
	}
	if !asks || a.ok || cut(me.Value) == 0 {
		return a, nil
	}
	above, err := s.above(cut(me.Value), at)
	a.mine, a.ok = rankedOf(int(above)+1, me.Member, me.score()), true
	return a, err
}

// maxScore returns the largest score that e's value can have, whenever it was reached.
func (e Entry) maxScore() int64 { return cut(e.Value)<<32 | timeMax }

// Complete is also false if the best are so few that a read may soon need more than are known.
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

// Sweep folds the log into the board, drops expired entries and ends a load without heartbeats. The entries that expire
// at one midnight are a row or two, whatever their number.
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

// fold applies the first elements of the log to the board. If another fold has happened meanwhile, it starts again.
// more reports whether the log has more elements.
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
