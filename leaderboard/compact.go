package leaderboard

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoa-dev/stoa/keyspace"
	"github.com/stoa-dev/stoa/redis"
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

// The fields of State.
const (
	fieldVersion = "v"    // changes with each fold
	fieldMeta    = "meta" // there once the board is loaded; see table.meta
	fieldHead    = "head" // the best
	fieldTail    = "tail" // those of the best that come after
	fieldSum     = "sum"  // counts of everybody alive at the last fold
	fieldRows    = "rows" // the same by death
	fieldLoad    = "load" // token of the load under way
	fieldBeat    = "beat" // when it was last heard of, Unix ms
)

type compact struct {
	db *redis.DB
	k  CompactKeys
	sizes

	watch   watch        // over others' loads
	folding sync.Mutex   // one reader at a time tidies up
	floor   atomic.Int64 // its score as last seen; only a guess at what a read will need
}

// Compact returns the board that lives under k. It sends nothing.
func Compact(db *redis.DB, k CompactKeys) Board {
	b := &compact{db: db, k: k, sizes: usual}
	b.floor.Store(noFloor.score)
	return b
}

// Update is one RPUSH.
func (b *compact) Update(es []Entry) []keyspace.Cmd {
	if len(es) == 0 {
		return nil
	}
	restarts := restarting(es)
	return []keyspace.Cmd{b.push(len(es), func(i int) change {
		e := es[i]
		// As on an exact board, a restart takes its member's other entries along.
		e.Restart = e.Restart || restarts[e.Member]
		return changeOf(e)
	})}
}

// push appends n changes to the log.
func (b *compact) push(n int, change func(int) change) keyspace.Cmd {
	var blobs []string
	for first := 0; first < n; first += blobChunk {
		last := min(first+blobChunk, n)
		blob := make([]byte, 0, 48*(last-first))
		for i := first; i < last; i++ {
			blob = appendChange(blob, change(i))
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
		c := changeOf(Entry{Member: es[i].Member})
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

// parts are the large fields of a board's state.
type parts struct{ head, tail, sum, rows bool }

// snapshot is what Redis holds of a board at one moment.
type snapshot struct {
	size    sizes
	got     parts
	version string
	meta    string // empty: not loaded
	floor   place
	until   int64
	doubt   bool
	load    string
	beat    int64
	head    string
	tail    string
	sum     string
	rows    string
	blobs   []keyspace.Reply
	pending []change // decoded blobs
	length  int64    // of the log
}

// fetch reads parts of a board and its log, as they were at one moment: the
// version, read first and last, says that nothing was folded between.
func (b *compact) fetch(ctx context.Context, want parts) (*snapshot, error) {
	fields := []string{fieldVersion, fieldMeta, fieldLoad, fieldBeat}
	s := &snapshot{size: b.sizes, got: want}
	into := []*string{&s.version, &s.meta, &s.load, nil}
	for _, f := range []struct {
		want bool
		name string
		into *string
	}{{want.head, fieldHead, &s.head}, {want.tail, fieldTail, &s.tail}, {want.sum, fieldSum, &s.sum}, {want.rows, fieldRows, &s.rows}} {
		if f.want {
			fields, into = append(fields, f.name), append(into, f.into)
		}
	}
	cmds := []keyspace.Cmd{
		{Name: "HMGET", Key: b.k.State.Key, Args: fields},
		{Name: "LRANGE", Key: b.k.Log.Key, Args: []string{"0", strconv.Itoa(foldChunk - 1)}},
		{Name: "LLEN", Key: b.k.Log.Key},
		{Name: "HGET", Key: b.k.State.Key, Args: []string{fieldVersion}},
	}
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		replies := b.db.DoMulti(ctx, cmds)
		if err := keyspace.FirstErr(replies); err != nil {
			return nil, err
		}
		values := replies[0].List
		if values[0].Str != replies[3].Str {
			continue
		}
		for i, to := range into {
			if to != nil {
				*to = values[i].Str
			}
		}
		s.blobs, s.length = replies[1].List, replies[2].N
		s.beat, _ = strconv.ParseInt(values[3].Str, 10, 64)
		break
	}
	if s.meta != "" {
		var err error
		if s.floor, s.until, s.doubt, err = readMeta(s.meta); err != nil {
			return nil, err
		}
		b.floor.Store(s.floor.score)
	}
	var err error
	s.pending, err = decode(nil, s.blobs)
	return s, err
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
func (b *compact) read(ctx context.Context, now time.Time, want parts) (*snapshot, error) {
	s, err := b.fetch(ctx, want)
	for {
		switch {
		case err != nil:
			return nil, err
		case s.meta == "":
			return nil, ErrNotLoaded
		case s.length > foldChunk:
			if _, _, err = b.fold(ctx, now.UnixMilli()); err != nil {
				return nil, err
			}
		case s.length > foldAbove && b.folding.TryLock():
			_, _, err = b.fold(ctx, now.UnixMilli())
			b.folding.Unlock()
			if err != nil {
				return nil, err
			}
		default:
			return s, nil
		}
		s, err = b.fetch(ctx, want)
	}
}

// best returns the known best as they are with the log, and the score above
// which all are known. If more of them have to be read for that, ok is false.
func (s *snapshot) best() (t *table, ok bool, err error) {
	t = newTable(s.size)
	t.floor = s.floor
	if t.top, err = readPlaces(make([]place, 0, (len(s.head)+len(s.tail))/24), s.head); err != nil {
		return nil, false, err
	}
	switch {
	case s.got.tail:
		if t.top, err = readPlaces(t.top, s.tail); err != nil {
			return nil, false, err
		}
	case len(t.top) == s.size.head:
		t.floor = t.top[len(t.top)-1]
		t.top = t.top[:len(t.top)-1]
	}
	if len(s.pending) == 0 {
		return t, true, nil
	}
	t.reindex()
	for _, c := range s.pending {
		if _, known := t.index[c.member]; !known && !s.got.tail && t.known(c.place) {
			return nil, false, nil // what the tail says of this member matters
		}
		t.rank(c)
	}
	t.order()
	return t, true, nil
}

// above returns how many count at now with a greater value; ok is false if the
// rows have to be read for that.
func (s *snapshot) above(value, now int64) (n int64, ok bool, err error) {
	switch {
	case s.got.rows:
		rows, err := readRows(s.rows)
		if err != nil {
			return 0, false, err
		}
		n = (&table{rows: rows}).above(value, now)
	case now >= s.until: // somebody has died since
		return 0, false, nil
	default:
		if n, err = sumAbove(s.sum, value); err != nil {
			return 0, false, err
		}
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
	return max(n, 0), true, nil
}

func (b *compact) Read(ctx context.Context, now time.Time, n int, me Entry) ([]Ranked, Ranked, bool, error) {
	a, err := b.ask(ctx, now, n, me)
	if err != nil {
		return nil, Ranked{}, false, fmt.Errorf("leaderboard: read: %w", err)
	}
	return a.best, a.mine, a.ok, nil
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
	a, err := b.ask(ctx, now, 0, me)
	if err != nil {
		return nil, fmt.Errorf("leaderboard: around: %w", err)
	}
	if !a.ok {
		return nil, nil
	}
	i := slices.IndexFunc(a.alive, func(p place) bool { return p.member == me.Member })
	if i < 0 {
		return []Ranked{a.mine}, nil
	}
	k = min(max(k, 0), (MaxTop-1)/2)
	first := max(i-k, 0)
	near := make([]Ranked, 0, 2*k+1)
	for j, p := range a.alive[first:min(i+k+1, len(a.alive))] {
		near = append(near, rankedOf(first+j+1, p.member, p.score))
	}
	return near, nil
}

// answer is what a board says.
type answer struct {
	best  []Ranked
	mine  Ranked
	ok    bool
	alive []place // as many of the best as were read
}

// ask reads no more of the board than it needs: of the best only the head, and
// nothing of them for who stands far below. Where that guess was wrong it asks
// again.
func (b *compact) ask(ctx context.Context, now time.Time, n int, me Entry) (answer, error) {
	n = min(max(n, 0), b.want)
	asks := me.Member != "" && death(me.Dies) > now.UnixMilli()
	want := parts{head: n > 0, tail: n >= b.head, sum: asks}
	if asks && me.mayScore() >= b.floor.Load() {
		want.head, want.tail = true, true
	}
	for {
		s, err := b.read(ctx, now, want)
		if err != nil {
			return answer{}, err
		}
		a, more, err := s.answer(now.UnixMilli(), n, asks, me)
		if err != nil || more == (parts{}) {
			return a, err
		}
		want = parts{want.head || more.head, want.tail || more.tail, want.sum || more.sum, want.rows || more.rows}
	}
}

// mayScore is the most that e's value can score, whenever it was reached.
func (e Entry) mayScore() int64 { return cut(e.Value)<<32 | timeMax }

// answer answers from what was read. What else has to be read for that is in
// more.
func (s *snapshot) answer(now int64, n int, asks bool, me Entry) (a answer, more parts, err error) {
	all := parts{head: true, tail: true}
	if asks && me.mayScore() >= s.floor.score && !(s.got.head && s.got.tail) {
		return answer{}, all, nil
	}
	if s.got.head {
		t, enough, err := s.best()
		if err != nil || !enough {
			return answer{}, all, err
		}
		a.alive = slices.DeleteFunc(t.top, func(p place) bool { return p.dies <= now })
		if len(a.alive) < n && t.floor != noFloor {
			if s.got.tail {
				return answer{}, parts{}, ErrNotLoaded // there are more, and nobody knows who
			}
			return answer{}, all, nil
		}
		for i, p := range a.alive[:min(n, len(a.alive))] {
			a.best = append(a.best, rankedOf(i+1, p.member, p.score))
		}
		if asks {
			if i := slices.IndexFunc(a.alive, func(p place) bool { return p.member == me.Member }); i >= 0 {
				a.mine, a.ok = rankedOf(i+1, me.Member, a.alive[i].score), true
			}
		}
	}
	if !asks || a.ok || cut(me.Value) == 0 {
		return a, parts{}, nil
	}
	above, enough, err := s.above(cut(me.Value), now)
	if err != nil || !enough {
		return answer{}, parts{rows: true}, err
	}
	a.mine, a.ok = rankedOf(int(above)+1, me.Member, me.score()), true
	return a, parts{}, nil
}

// Complete is false also when the best are so few that a read may soon ask for
// more than is known.
func (b *compact) Complete(ctx context.Context, now time.Time) (bool, error) {
	s, err := b.read(ctx, now, parts{head: true, tail: true})
	if err == nil {
		var t *table
		if t, _, err = s.best(); err == nil {
			alive := 0
			for _, p := range t.top {
				if p.dies > now.UnixMilli() {
					alive++
				}
			}
			replayed := slices.ContainsFunc(s.pending, func(c change) bool { return c.flags&flagReplay != 0 })
			return !s.doubt && !replayed && (t.floor == noFloor || alive >= b.want), nil
		}
	}
	if errors.Is(err, ErrNotLoaded) {
		return false, nil
	}
	return false, fmt.Errorf("leaderboard: complete: %w", err)
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
		s, err := b.fetch(ctx, parts{head: true, tail: true, rows: true, sum: true})
		if err != nil {
			return 0, false, err
		}
		if b.watch.dead(s.load, s.beat) {
			if err := b.abandon(ctx, s.load); err != nil {
				return 0, false, err
			}
		}
		var fields []string
		if s.meta != "" {
			t, err := s.table()
			if err != nil {
				return 0, false, err
			}
			for _, c := range s.pending {
				t.apply(c)
			}
			died = t.settle(now)
			fields = s.changed(t)
		}
		if len(fields) == 0 && len(s.blobs) == 0 {
			return 0, false, nil
		}
		args := append([]string{s.version, rand.Text(), strconv.Itoa(len(s.blobs))}, fields...)
		n, err := compactFold.Run(ctx, b.db, b.keys(), args...).Int()
		if err != nil {
			return 0, false, err
		}
		if n == 1 {
			return died, s.length > int64(len(s.blobs)), nil
		}
	}
}

// table decodes a snapshot of all parts.
func (s *snapshot) table() (*table, error) {
	t := newTable(s.size)
	t.floor, t.doubt = s.floor, s.doubt
	var err error
	if t.top, err = readPlaces(nil, s.head+s.tail); err != nil {
		return nil, err
	}
	t.rows, err = readRows(s.rows)
	return t, err
}

// changed returns the fields in which t differs from what was read.
func (s *snapshot) changed(t *table) (fields []string) {
	all, until := t.sum()
	head := min(t.head, len(t.top))
	for _, f := range []struct{ name, was, is string }{
		{fieldMeta, s.meta, t.meta(until)},
		{fieldHead, s.head, string(appendPlaces(nil, t.top[:head]))},
		{fieldTail, s.tail, string(appendPlaces(nil, t.top[head:]))},
		{fieldSum, s.sum, string(appendRow(nil, 0, all)[1:])},
		{fieldRows, s.rows, string(appendRows(nil, t.rows))},
	} {
		if f.was != f.is {
			fields = append(fields, f.name, f.is)
		}
	}
	return fields
}
