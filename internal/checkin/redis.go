package checkin

import (
	"context"
	_ "embed"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/keyspace"
	"github.com/stoa-dev/stoa/leaderboard"
	"github.com/stoa-dev/stoa/redis"
)

//go:embed lua/load.lua
var loadLua string

var loadScript = redis.NewScript(loadLua)

const (
	// redisBudget is how long a caller waits for one answer of Redis before SQL
	// answers. The embedded engine is not away when it is slow.
	redisBudget    = 50 * time.Millisecond
	embeddedBudget = time.Second
	// patience is for work that nobody waits for.
	patience = 5 * time.Second
)

// fast is what Redis holds of this package, all of it derived from the log.
type fast struct {
	db     *redis.DB
	boards *boards
	budget time.Duration // for each round trip
}

func newFast(db *redis.DB, kind string) *fast {
	f := &fast{db: db, boards: newBoards(db, kind), budget: redisBudget}
	if db.Mode() == "embedded" {
		f.budget = embeddedBudget
	}
	return f
}

// patient is the same for work in the background.
func (f *fast) patient() *fast {
	p := *f
	p.budget = patience
	return &p
}

func (f *fast) send(ctx context.Context, cmds []keyspace.Cmd) []keyspace.Reply {
	ctx, cancel := context.WithTimeout(ctx, f.budget)
	defer cancel()
	return f.db.DoMulti(ctx, cmds)
}

func (f *fast) run(ctx context.Context, calls []redis.Call) []keyspace.Reply {
	ctx, cancel := context.WithTimeout(ctx, f.budget)
	defer cancel()
	return f.db.RunMulti(ctx, calls)
}

func recordKey(user accounts.ID, year int) keyspace.Bitmap {
	return recordKeys.At(user, keyspace.Int{N: int64(year)})
}

// mark sets the day of each request in its user's record, moves users on the
// boards, and returns the records as they are then, in one round trip. A record
// may turn out not to be loaded; see [Record].
func (f *fast) mark(ctx context.Context, reqs []request, ms moves) ([]*Record, error) {
	cmds := make([]keyspace.Cmd, 0, 2*len(reqs)+8)
	for _, r := range reqs {
		key := recordKey(r.user, r.day.Year())
		cmds = append(cmds, key.SetBitCmd(bitOf(r.day, r.kind)), key.GetRenewCmd())
	}
	replies := f.send(ctx, f.boards.update(cmds, ms))
	if err := keyspace.FirstErr(replies); err != nil {
		return nil, err
	}
	return parseAll(len(reqs), func(i int) string { return replies[2*i+1].Str }), nil
}

// rank moves users on the boards, in one round trip.
func (f *fast) rank(ctx context.Context, ms moves) error {
	if len(ms) == 0 {
		return nil
	}
	if err := keyspace.FirstErr(f.send(ctx, f.boards.update(nil, ms))); err != nil {
		return fmt.Errorf("boards: %w", err)
	}
	return nil
}

// readAll returns records, loaded or not, in one round trip.
func (f *fast) readAll(ctx context.Context, keys []yearKey) ([]*Record, error) {
	replies := f.send(ctx, mapped(keys, func(k yearKey) keyspace.Cmd { return recordKey(k.user, k.year).GetCmd() }))
	if err := keyspace.FirstErr(replies); err != nil {
		return nil, err
	}
	return parseAll(len(keys), func(i int) string { return replies[i].Str }), nil
}

func parseAll(n int, text func(int) string) []*Record {
	all, recs := make([]Record, n), make([]*Record, n)
	for i := range all {
		copy(all[i][:], text(i))
		recs[i] = &all[i]
	}
	return recs
}

// parse reads a record as it came; SETBIT on a missing key leaves a short one.
func parse(s string) *Record {
	var r Record
	copy(r[:], s)
	return &r
}

// read returns a user's year, or nil when it is not loaded. One read in a
// hundred renews the key's life.
func (f *fast) read(ctx context.Context, user accounts.ID, year int) (*Record, error) {
	key := recordKey(user, year)
	cmd := key.GetCmd()
	if rand.IntN(100) == 0 {
		cmd = key.GetRenewCmd()
	}
	ctx, cancel := context.WithTimeout(ctx, f.budget)
	defer cancel()
	s, _, err := f.db.Do(ctx, cmd).Text()
	if err != nil {
		return nil, err
	}
	return ifLoaded(s), nil
}

func ifLoaded(s string) *Record {
	if r := parse(s); r.loaded() {
		return r
	}
	return nil
}

// load writes records computed from SQL to Redis, merged into what is there, and
// replaces each by the result.
func (f *fast) load(ctx context.Context, keys []yearKey, recs []*Record) error {
	cmds := make([]keyspace.Cmd, len(keys))
	for i, k := range keys {
		cmds[i] = recordKey(k.user, k.year).AddCmd(string(recs[i][:]))
	}
	added := f.send(ctx, cmds)
	if err := keyspace.FirstErr(added); err != nil {
		return err
	}
	life := strconv.FormatInt(recordKeys.TTL.Base.Milliseconds(), 10)
	var calls []redis.Call
	var at []int
	for i, k := range keys {
		if added[i].Nil() { // something is there
			at = append(at, i)
			calls = append(calls, redis.Call{Script: loadScript, Keys: []keyspace.Key{recordKey(k.user, k.year).Key}, Args: []string{string(recs[i][:]), life}})
		}
	}
	if len(calls) == 0 {
		return nil
	}
	merged := f.run(ctx, calls)
	for j, reply := range merged {
		recs[at[j]] = parse(reply.Str)
	}
	return keyspace.FirstErr(merged)
}

// forget drops the records of these days; the next read loads them again. A bit
// alone could not be taken back beside traffic that sets it.
func (f *fast) forget(ctx context.Context, days []rowKey) error {
	return keyspace.FirstErr(f.send(ctx, mapped(days, func(k rowKey) keyspace.Cmd {
		return keyspace.Cmd{Name: "UNLINK", Key: recordKey(k.user, k.day.Year()).Key}
	})))
}

// yearKey names one record.
type yearKey struct {
	user accounts.ID
	year int
}

// boards are the rankings in Redis.
type boards struct {
	db   *redis.DB
	kind string // CompactBoards or ExactBoards

	mu  sync.Mutex
	all map[Board]leaderboard.Board
}

func newBoards(db *redis.DB, kind string) *boards {
	return &boards{db: db, kind: kind, all: map[Board]leaderboard.Board{}}
}

func (bs *boards) of(b Board) leaderboard.Board {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if bs.all[b] == nil {
		bs.all[b] = bs.open(b, bs.kind)
	}
	return bs.all[b]
}

func (bs *boards) open(b Board, kind string) leaderboard.Board {
	if kind == CompactBoards {
		return leaderboard.Compact(bs.db, leaderboard.CompactKeys{State: stateKeys.At(b), Log: logKeys.At(b), Held: heldKeys.At(b)})
	}
	keys := leaderboard.Keys{Scores: scoreKeys.At(b), Loaded: loadedKeys.At(b)}
	if b == StreakBoard {
		keys.Deaths = deathKeys.At(b)
	}
	return leaderboard.Exact(bs.db, keys)
}

// drop removes a board of either kind.
func (bs *boards) drop(ctx context.Context, b Board, kind string) error {
	bs.mu.Lock()
	delete(bs.all, b)
	bs.mu.Unlock()
	return bs.open(b, kind).Drop(ctx)
}

// update appends the commands that move users.
func (bs *boards) update(cmds []keyspace.Cmd, ms moves) []keyspace.Cmd {
	for b, entries := range ms {
		cmds = append(cmds, bs.of(b).Update(entries)...)
	}
	return cmds
}
