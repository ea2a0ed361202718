package leaderboard

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"hash/maphash"
	"iter"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
)

// renewEvery is the number of entries between two checks of a load whether Redis was emptied.
const renewEvery = 1000

var (
	// grace is how long after its commit a change may still be on its way to Redis.
	grace = time.Second
	// beatEvery is the interval of a load's heartbeats.
	beatEvery = 500 * time.Millisecond
	// loadTimeout is the silence that makes a load count as dead.
	loadTimeout = 3 * time.Second
)

// A watch detects loads without heartbeats. It uses only its own clock, and the time between two checks counts for at
// most two beats: Redis may have been unavailable, so that no heartbeat could arrive.
type watch struct {
	mu     sync.Mutex
	load   string
	beat   int64
	last   time.Time     // last check
	silent time.Duration // since the beat was first seen
	ended  string        // a load of this process whose end could not be written to Redis
}

func (w *watch) markEnded(load string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = load
}

func (w *watch) dead(load string, beat int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if load == w.load && beat == w.beat {
		w.silent += min(now.Sub(w.last), 2*beatEvery)
	} else {
		w.load, w.beat, w.silent = load, beat, 0
	}
	w.last = now
	return load != "" && (load == w.ended || w.silent >= loadTimeout)
}

func (b *compact) Load(ctx context.Context, now time.Time, everybody iter.Seq2[Entry, error]) error {
	if err := b.load(ctx, now, everybody); err != nil {
		return fmt.Errorf("leaderboard: load: %w", err)
	}
	return nil
}

// load counts all members while the log continues, and holds the changes that are folded meanwhile. Then it sets each
// member that has moved since the start to its new place, wherever it was counted.
//
// A change that was sent before the start was committed before, so it was counted. A change that is sent after the end
// was committed at most grace before its sending, so the load waits that long and such a change was not counted. All
// others are held.
func (b *compact) load(ctx context.Context, now time.Time, everybody iter.Seq2[Entry, error]) (err error) {
	before, err := b.db.Fingerprint(ctx)
	if err != nil {
		return err
	}
	token := rand.Text()
	for {
		begun, err := b.begin(ctx, token)
		if err != nil {
			return err
		}
		if begun {
			break
		}
		if done, err := b.await(ctx); err != nil || done {
			return err
		}
	}
	defer func() {
		if err != nil { // also if ctx has ended
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			if b.abandon(ctx, token) != nil { // the next load or a sweep will do it
				b.watch.markEnded(token)
			}
		}
	}()
	// The source may be silent for long before it yields the first entry.
	beating, stop := context.WithCancel(ctx)
	var beat sync.WaitGroup
	beat.Go(func() {
		for pause(beating, beatEvery) == nil {
			_ = b.renew(beating, token) // a failure is detected below
		}
	})
	defer beat.Wait()
	defer stop()
	c := newCensus(b.sizes, now)
	for e, err := range everybody {
		if err := cmp.Or(err, checkValues(e)); err != nil {
			return err
		}
		if c.add(e.place()); c.n%renewEvery == 0 {
			if err := b.renew(ctx, token); err != nil {
				return err
			}
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if c.n > 0 {
		if err := pause(ctx, grace); err != nil {
			return err
		}
	}
	for {
		done, err := b.finish(ctx, token, c, before)
		if err != nil || done {
			return err
		}
	}
}

func (b *compact) begin(ctx context.Context, token string) (bool, error) {
	n, err := compactBegin.Run(ctx, b.db, []keyspace.Key{b.k.State.Key, b.k.Held.Key},
		token, strconv.FormatInt(time.Now().UnixMilli(), 10)).Int()
	return n == 1, err
}

// await waits until another node's load has ended, or ends it if it is dead. done reports whether that load has loaded
// the board; if it failed, the board is unchanged.
func (b *compact) await(ctx context.Context) (done bool, err error) {
	awaited := ""
	for {
		s, err := b.fetch(ctx)
		if err != nil {
			return false, err
		}
		if s.load == "" {
			return awaited != "" && s.by == awaited && s.loaded() && !s.doubt, nil
		}
		if b.watch.dead(s.load, s.beat) {
			return false, b.abandon(ctx, s.load)
		}
		awaited = s.load
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return false, err
		}
	}
}

func (b *compact) renew(ctx context.Context, token string) error {
	n, err := compactRenew.Run(ctx, b.db, []keyspace.Key{b.k.State.Key}, token, strconv.FormatInt(time.Now().UnixMilli(), 10)).Int()
	if err == nil && n == 0 {
		err = ErrEmptied
	}
	return err
}

func (b *compact) abandon(ctx context.Context, token string) error {
	return compactAbandon.Run(ctx, b.db, []keyspace.Key{b.k.State.Key, b.k.Held.Key}, token).Err
}

// finish replaces the old board with the new one; done is false if a fold happened in between.
func (b *compact) finish(ctx context.Context, token string, c *census, before string) (done bool, err error) {
	if err := b.renew(ctx, token); err != nil {
		return false, err
	}
	s, err := b.fetch(ctx)
	if err != nil {
		return false, err
	}
	if s.more {
		_, _, err := b.fold(ctx, c.now.UnixMilli())
		return false, err
	}
	// The version ensures that the held changes are unchanged.
	for {
		replies, err := b.db.Do(ctx, keyspace.Cmd{Name: "LRANGE", Key: b.k.Held.Key,
			Args: []string{strconv.Itoa(c.held), strconv.Itoa(c.held + foldChunk - 1)}}).Items()
		if err != nil {
			return false, err
		}
		changes, err := decode(nil, replies)
		if err != nil {
			return false, err
		}
		c.record(c.moved, changes)
		if c.held += len(replies); len(replies) < foldChunk {
			break
		}
	}
	t := c.table(s.pending)
	// A server that restarted from a snapshot has the token, but may lack the rest.
	after, err := b.db.Fingerprint(ctx)
	if err != nil {
		return false, err
	}
	if after != before {
		return false, ErrEmptied
	}
	next, err := stateOf(rand.Text(), t)
	if err != nil {
		return false, err
	}
	n, err := compactFinish.Run(ctx, b.db, b.keys(),
		append([]string{token, s.version, next.version, strconv.Itoa(len(s.blobs))}, new(state).changed(next)...)...).Int()
	if err == nil && n < 0 {
		err = ErrEmptied
	}
	return n == 1, err
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// A census counts all members, and stores where it counted each, because it has to move some later: 24 bytes for each.
type census struct {
	t       *table
	n       int
	now     time.Time // start, by the caller's clock
	began   time.Time // start, by this process' clock
	seed    maphash.Seed
	counted []counted
	deaths  []int64
	byDeath map[int64]uint32
	held    int             // number of elements of the held list in moved
	moved   map[string]fate // places of members that moved since the start
	doubt   bool            // a replay did not move its member
}

type counted struct {
	hash  uint64
	score int64
	death uint32 // index
}

// fate is the result of a member's changes.
type fate struct {
	place
	gone bool
}

func newCensus(n sizes, now time.Time) *census {
	return &census{t: newTable(n), now: now, began: time.Now(), seed: maphash.MakeSeed(), byDeath: map[int64]uint32{},
		moved: map[string]fate{}}
}

func (c *census) add(p place) {
	c.n++
	i, ok := c.byDeath[p.dies]
	if !ok {
		i = uint32(len(c.deaths))
		c.deaths = append(c.deaths, p.dies)
		c.byDeath[p.dies] = i
	}
	c.counted = append(c.counted, counted{maphash.String(c.seed, p.member), p.score, i})
	c.t.count(p.standing(), 1)
	if c.t.known(p) {
		if c.t.top = append(c.t.top, p); len(c.t.top) > 4*c.t.max {
			c.t.settle(c.now.UnixMilli())
		}
	}
}

// record records changes in their order, by the rules of the best.
func (c *census) record(moved map[string]fate, changes []change) {
	for _, ch := range changes {
		f, found := moved[ch.member]
		switch {
		case ch.gone():
			f = fate{gone: true}
		case found && !f.gone:
			c.doubt = c.doubt || ch.flags&flagReplay != 0 && lagging(f.place, ch.place)
			f = fate{place: over(f.place, ch)}
		default:
			f = fate{place: ch.place}
		}
		moved[ch.member] = f
	}
}

// table returns the board with all members after their changes: first the held ones, then those of the log. The board
// is in doubt in two cases: a member reached its value later than the truth, or a replay of it, says; or it expires
// sooner than the truth says. Then it is unknown which is newer, and the next load has the truth alone.
func (c *census) table(log []change) *table {
	moved := maps.Clone(c.moved)
	c.record(moved, log)
	hashes := make(map[uint64]string, len(moved))
	for m := range moved {
		hashes[maphash.String(c.seed, m)] = m
	}
	was := make(map[string]place, len(moved))
	if len(moved) > 0 {
		for _, one := range c.counted {
			if m, ok := hashes[one.hash]; ok {
				was[m] = place{m, one.score, c.deaths[one.death]}
			}
		}
	}
	t := &table{sizes: c.t.sizes, rows: make(map[int64]row, len(c.t.rows)), top: slices.Clone(c.t.top), floor: c.t.floor, doubt: c.doubt}
	for dies, r := range c.t.rows {
		t.rows[dies] = maps.Clone(r)
	}
	for m, f := range moved {
		p, known := was[m]
		if known {
			t.count(p.standing(), -1)
			t.doubt = t.doubt || !f.gone && (lagging(f.place, p) || f.score == p.score && f.dies < p.dies)
			f.place = newer(p, f.place)
		}
		if f.gone {
			t.rank(change{place: place{member: m}, flags: flagGone})
			continue
		}
		t.count(f.standing(), 1)
		t.put(f.place)
	}
	t.settle(c.now.Add(time.Since(c.began)).UnixMilli())
	return t
}

// lagging reports whether a place has the same value as another, but reached it later.
func lagging(a, b place) bool { return a.score>>32 == b.score>>32 && age(a.score) > age(b.score) }

// newer returns the place of a member that was counted at one place and moved to another. The truth may already have
// included the move, or a later one.
func newer(counted, moved place) place {
	switch {
	case counted.score == moved.score:
		return place{counted.member, counted.score, max(counted.dies, moved.dies)}
	case age(counted.score) > age(moved.score), age(counted.score) == age(moved.score) && counted.score > moved.score:
		return counted
	}
	return moved
}
