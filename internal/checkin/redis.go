package checkin

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/foundation/civil"
	"github.com/stoa-dev/stoa/internal/foundation/ids"
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
	streak *leaderboard.Board
	total  *leaderboard.Board
	budget time.Duration // for each round trip
}

func newFast(db *redis.DB) *fast {
	f := &fast{db: db, streak: leaderboard.Exact(db, boardKeys(StreakBoard)), total: leaderboard.Exact(db, boardKeys(TotalBoard)), budget: redisBudget}
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

func (f *fast) board(b Board) *leaderboard.Board {
	if b == StreakBoard {
		return f.streak
	}
	return f.total
}

func recordKey(user accounts.ID, year int) keyspace.Bitmap {
	return recordKeys.At(user, keyspace.Int{N: int64(year)})
}

// mark sets the day of each request in its user's record, moves users on the
// boards, and returns the records as they are then, in one round trip. A record
// may turn out not to be loaded; see [Record].
func (f *fast) mark(ctx context.Context, reqs []request, places []place) ([]*Record, error) {
	cmds := make([]keyspace.Cmd, 0, 2*len(reqs)+8)
	for _, r := range reqs {
		key := recordKey(r.user, r.day.Year())
		cmds = append(cmds, key.SetBitCmd(bitOf(r.day, r.kind)), key.GetRenewCmd())
	}
	replies := f.send(ctx, f.moves(cmds, places))
	if err := keyspace.FirstErr(replies); err != nil {
		return nil, err
	}
	return parseAll(len(reqs), func(i int) string { return replies[2*i+1].Str }), nil
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

// place is what one check-in means for the boards.
type place struct {
	user    accounts.ID
	at      time.Time // when the newest day was signed
	streak  int
	dies    time.Time
	total   int
	restart bool // an older entry may stand higher
}

// placeOf returns what a mark means for the boards; ok is false unless its day
// is the user's newest and signs, and the log has to be asked.
func placeOf(rec *Record, r request, at time.Time) (p place, ok bool) {
	newest, any := rec.newest(r.day.Year())
	if !any || newest != r.day || !r.kind.Signs() {
		return place{}, false
	}
	p = place{user: r.user, at: at, streak: rec.Streak(r.day), dies: dies(r.clock, r.day), total: rec.Total()}
	p.restart = r.replay || p.streak == 1 && p.total > 1
	return p, true
}

// placeFrom returns what a whole history means for the boards; ok is false when
// nothing was ever signed. A streak that is dead has its death in the past.
func placeFrom(user accounts.ID, clock civil.Clock, history []Mark) (p place, ok bool) {
	var t Tally
	for _, m := range history {
		t.Add(m)
	}
	return tallied(user, clock, t), t.Total > 0
}

func tallied(user accounts.ID, clock civil.Clock, t Tally) place {
	p := place{user: user, at: t.Signed, streak: t.Run, dies: dies(clock, t.Last), total: t.Total, restart: true}
	if t.Run == 0 {
		p.dies = p.at // a covered day alone keeps nothing alive
	}
	return p
}

func (p place) onStreak() leaderboard.Entry { return p.on(StreakBoard) }
func (p place) onTotal() leaderboard.Entry  { return p.on(TotalBoard) }

func (p place) on(b Board) leaderboard.Entry {
	e := leaderboard.Entry{Member: p.user.String(), Value: int64(p.value(b)), At: p.at, Restart: p.restart}
	if b == StreakBoard {
		e.Dies = p.dies
	}
	return e
}

func (p place) value(b Board) int {
	if b == StreakBoard {
		return p.streak
	}
	return p.total
}

// rank moves users on both boards, in one round trip.
func (f *fast) rank(ctx context.Context, places []place) error {
	if len(places) == 0 {
		return nil
	}
	if err := keyspace.FirstErr(f.send(ctx, f.moves(nil, places))); err != nil {
		return fmt.Errorf("boards: %w", err)
	}
	return nil
}

// moves appends the commands that move users on both boards.
func (f *fast) moves(cmds []keyspace.Cmd, places []place) []keyspace.Cmd {
	if len(places) == 0 {
		return cmds
	}
	for b, entries := range map[*leaderboard.Board][]leaderboard.Entry{
		f.streak: mapped(places, place.onStreak),
		f.total:  mapped(places, place.onTotal),
	} {
		cmds = append(cmds, b.Update(entries)...)
		for _, again := range b.Restart(entries) {
			cmds = append(cmds, again.Cmd())
		}
	}
	return cmds
}

// ranking reads a board's top and one user's place.
func (f *fast) ranking(ctx context.Context, b Board, now time.Time, user accounts.ID, n int) (out Ranking, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*f.budget) // it may have a midnight's dead to remove
	defer cancel()
	top, err := f.board(b).Top(ctx, now, n)
	if err != nil {
		return Ranking{}, err
	}
	for _, r := range top {
		id, err := ids.Parse[accounts.User](r.Member)
		if err != nil {
			return Ranking{}, err
		}
		out.Top = append(out.Top, Place{r.Rank, id, int(r.Value)})
	}
	me, on, err := f.board(b).Rank(ctx, now, user.String())
	if on {
		out.Me = &Place{me.Rank, user, int(me.Value)}
	}
	return out, err
}

// complete reports whether a board has everybody.
func (f *fast) complete(ctx context.Context, b Board, now time.Time) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := f.board(b).Top(ctx, now, 1)
	if errors.Is(err, leaderboard.ErrNotLoaded) {
		return false, nil
	}
	return err == nil, err
}

// fill loads a board from everybody's places, beside traffic.
func (f *fast) fill(ctx context.Context, b Board, places iter.Seq2[place, error]) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	return f.board(b).Load(ctx, func(yield func(leaderboard.Entry) bool) {
		for p, err := range places {
			if err != nil {
				cancel(err) // nothing is marked as complete then
				return
			}
			if p.value(b) > 0 && !yield(p.on(b)) {
				return
			}
		}
	})
}

// yearKey names one record.
type yearKey struct {
	user accounts.ID
	year int
}

// What follows is for comparing Redis with SQL; traffic does not use it.

//go:embed lua/replace.lua
var replaceLua string

var replaceScript = redis.NewScript(replaceLua)

// held is what lies under a record's key.
type held struct {
	there   bool
	foreign bool   // it is no string
	text    string // as it came, of any length
}

// held reads records as they are, in one round trip.
func (f *fast) held(ctx context.Context, keys []yearKey) ([]held, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	replies := f.send(ctx, mapped(keys, func(k yearKey) keyspace.Cmd { return recordKey(k.user, k.year).GetCmd() }))
	out := make([]held, len(keys))
	for i, reply := range replies {
		text, there, err := reply.Text()
		if e, ok := errors.AsType[redis.ServerError](err); ok && e.Code() == "WRONGTYPE" {
			out[i] = held{there: true, foreign: true}
			continue
		}
		if err != nil {
			return nil, err
		}
		out[i] = held{there: there, text: text}
	}
	return out, nil
}

// replace puts a record in the place of what was looked at, and reports whether
// that was still there.
func (f *fast) replace(ctx context.Context, k yearKey, was held, rec *Record) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, f.budget)
	defer cancel()
	life := strconv.FormatInt(recordKeys.TTL.Base.Milliseconds(), 10)
	n, err := replaceScript.Run(ctx, f.db, []keyspace.Key{recordKey(k.user, k.year).Key}, was.text, string(rec[:]), life).Int()
	return n == 1, err
}

var recordParser = keyspace.NewParser(Keys)

// eachRecord calls fn with the keys of all records that there are, some at a
// time, perhaps with one twice.
func (f *fast) eachRecord(ctx context.Context, fn func([]yearKey) error) error {
	prefix := f.db.Physical(keyspace.Key{})
	some := make([]yearKey, 0, chunkUsers)
	err := f.db.Scan(ctx, func(physical string) error {
		found, ok := recordParser.Key(strings.TrimPrefix(physical, prefix))
		if !ok || found.Family != recordKeys.Family {
			return nil
		}
		user, err := ids.Parse[accounts.User](found.Args[0])
		if err != nil {
			return nil // the key's form has no other; see keys.go
		}
		year, err := strconv.Atoi(found.Args[1])
		if err != nil || year < 1 || year > 9999 {
			return nil // no record is ever asked for it
		}
		if some = append(some, yearKey{user, year}); len(some) < cap(some) {
			return nil
		}
		err, some = fn(some), some[:0]
		return err
	})
	if err != nil || len(some) == 0 {
		return err
	}
	return fn(some)
}

// entry is what a board holds of one user.
type entry struct {
	on    bool
	score int64
	dies  int64 // Unix ms; 0 where nothing is said
}

// entries returns what a board holds of some users.
func (f *fast) entries(ctx context.Context, b Board, users []accounts.ID) ([]entry, error) {
	members := mapped(users, accounts.ID.String)
	cmds := []keyspace.Cmd{{Name: "ZMSCORE", Key: scoreKeys.At(b).Key, Args: members}}
	if b == StreakBoard {
		cmds = append(cmds, keyspace.Cmd{Name: "ZMSCORE", Key: deathKeys.At(b).Key, Args: members})
	}
	replies := f.send(ctx, cmds)
	out := make([]entry, len(users))
	for i, reply := range replies {
		list, err := reply.Items()
		if err != nil {
			return nil, err
		}
		for j, item := range list {
			n, there, err := item.Float()
			switch {
			case err != nil:
				return nil, err
			case !there:
			case i == 0:
				out[j].on, out[j].score = true, int64(n)
			case n < 1<<53:
				out[j].dies = int64(n)
			}
		}
	}
	return out, nil
}

// members returns some of a board's members and where to go on; next is empty
// after the last.
func (f *fast) members(ctx context.Context, b Board, cursor string) (some []string, next string, err error) {
	reply := f.send(ctx, []keyspace.Cmd{{Name: "ZSCAN", Key: scoreKeys.At(b).Key, Args: []string{cursor, "COUNT", strconv.Itoa(chunkUsers)}}})[0]
	items, err := reply.Items()
	if err != nil {
		return nil, "", err
	}
	if len(items) != 2 {
		return nil, "", fmt.Errorf("%w: ZSCAN", keyspace.ErrReply)
	}
	for i, item := range items[1].List {
		if i%2 == 0 {
			some = append(some, item.Str)
		}
	}
	if next, _, err = items[0].Text(); next == "0" {
		next = ""
	}
	return some, next, err
}

// unrank takes a member off a board.
func (f *fast) unrank(ctx context.Context, b Board, member string) error {
	ctx, cancel := context.WithTimeout(ctx, f.budget)
	defer cancel()
	return f.board(b).Remove(ctx, member)
}

// entry returns what a board should hold of p, if p is on it.
func (p place) entry(b Board) entry {
	since2020 := min(max(p.at.Unix()-1577836800, 0), 1<<32-1) // see package leaderboard
	e := entry{on: true, score: int64(p.value(b))<<32 + 1<<32 - 1 - since2020}
	if b == StreakBoard {
		e.dies = p.dies.UnixMilli()
	}
	return e
}

func (e entry) String() string {
	if !e.on {
		return "not on it"
	}
	text := fmt.Sprintf("%d since %s", e.score>>32, time.Unix(1<<32-1-e.score&(1<<32-1)+1577836800, 0).UTC().Format(time.RFC3339))
	if e.dies != 0 {
		text += ", dies " + time.UnixMilli(e.dies).UTC().Format(time.RFC3339)
	}
	return text
}

// drop forgets a board, as an emptied Redis would.
func (f *fast) drop(ctx context.Context, b Board) error {
	cmds := mapped([]keyspace.Key{loadedKeys.At(b).Key, scoreKeys.At(b).Key, deathKeys.At(b).Key}, func(k keyspace.Key) keyspace.Cmd {
		return keyspace.Cmd{Name: "UNLINK", Key: k}
	})
	return keyspace.FirstErr(f.send(ctx, cmds))
}
