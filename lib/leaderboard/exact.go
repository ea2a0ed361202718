package leaderboard

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
)

// The work of one command or script is bounded, so that other callers wait for the server for at most a millisecond or
// two.
const (
	updateChunk = 250 // members of one ZADD, or of one restart script
	mergeChunk  = 100 // entries of one script in a load; Lua's unpack takes 8,000 arguments
	sweepChunk  = 250 // expired entries that one script removes
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
	//go:embed lua/around.lua
	aroundLua string

	merge  = redis.NewScript(mergeLua)
	begin  = redis.NewScript(beginLua)
	finish = redis.NewScript(finishLua)
	sweep  = redis.NewScript(sweepLua)
	around = redis.NewScript(aroundLua)
)

// Keys are the keys of an exact board. They share a hash tag and do not expire: a board is rewritten, never renewed.
type Keys struct {
	Scores keyspace.ZSet
	// Deaths contains the expiry times of entries. The zero ZSet: entries never expire.
	Deaths keyspace.ZSet
	// Loaded marks the board as complete. Only this package writes it.
	Loaded keyspace.Bytes
}

type exact struct {
	db *redis.DB
	k  Keys
}

// Exact returns the board under k. It sends nothing.
func Exact(db *redis.DB, k Keys) Board { return &exact{db, k} }

func (b *exact) Put(ctx context.Context, es ...Entry) error { return put(ctx, b.db, b, es) }

// Update writes entries by ZADD GT, and those of members that restart by a script. Each command has at most 250
// members.
func (b *exact) Update(es []Entry) []keyspace.Cmd {
	if err := checkValues(es...); err != nil {
		return []keyspace.Cmd{{Err: err}}
	}
	restarts := restarting(es)
	rest := onePerUpdate(es, restarts, true)
	es = onePerUpdate(es, restarts, false)
	var cmds []keyspace.Cmd
	for ; len(es) > 0; es = es[min(updateChunk, len(es)):] {
		chunk := es[:min(updateChunk, len(es))]
		// Deaths first: a sweep between the two must find the later death and keep the member.
		if b.mortal() {
			cmds = append(cmds, raise(b.k.Deaths, chunk, Entry.deathText))
		}
		cmds = append(cmds, raise(b.k.Scores, chunk, Entry.scoreText))
	}
	for ; len(rest) > 0; rest = rest[min(updateChunk, len(rest)):] {
		cmds = append(cmds, b.merge("", rest[:min(updateChunk, len(rest))]))
	}
	return cmds
}

// Load writes all entries, unless a newer one is already stored, in chunks of 100. Entries on the board that are not in
// the sequence stay: a caller that removed a member during a load has to remove it again afterwards. Several loads may
// run at once.
func (b *exact) Load(ctx context.Context, _ time.Time, everybody iter.Seq2[Entry, error]) error {
	if err := b.load(ctx, everybody); err != nil {
		return fmt.Errorf("leaderboard: load: %w", err)
	}
	return nil
}

func (b *exact) load(ctx context.Context, everybody iter.Seq2[Entry, error]) error {
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
	for e, err := range everybody {
		if err := cmp.Or(err, checkValues(e)); err != nil {
			return err
		}
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
	// A server that restarted from a snapshot has the token, but may lack the rest.
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

// loadChunk writes a part of a load; the last one may be empty.
func (b *exact) loadChunk(ctx context.Context, token string, chunk []Entry) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if len(chunk) == 0 {
		return nil
	}
	n, err := b.db.Do(ctx, b.merge(token, newest(chunk, greater))).Int()
	if err == nil && n < 0 {
		err = ErrEmptied
	}
	return err
}

// Read uses plain commands, which cost the server less than a script. The mark is read first and last: if both are the
// same, everything in between was read from a loaded board.
func (b *exact) Read(ctx context.Context, now time.Time, n int, me Entry) (best []Ranked, mine Ranked, ok bool, err error) {
	cmds := []keyspace.Cmd{{Name: "GET", Key: b.k.Loaded.Key}}
	due, top, rank := -1, -1, -1
	if b.mortal() {
		due = len(cmds)
		cmds = append(cmds, keyspace.Cmd{Name: "ZRANGEBYSCORE", Key: b.k.Deaths.Key, Args: []string{"-inf", millis(now), "LIMIT", "0", "1"}})
	}
	if n > 0 {
		top = len(cmds)
		cmds = append(cmds, keyspace.Cmd{Name: "ZREVRANGE", Key: b.k.Scores.Key,
			Args: []string{"0", strconv.Itoa(min(n, MaxTop) - 1), "WITHSCORES"}})
	}
	if me.Member != "" {
		rank = len(cmds)
		cmds = append(cmds, keyspace.Cmd{Name: "ZREVRANK", Key: b.k.Scores.Key, Args: []string{me.Member}},
			keyspace.Cmd{Name: "ZSCORE", Key: b.k.Scores.Key, Args: []string{me.Member}})
	}
	cmds = append(cmds, cmds[0])
	var replies []keyspace.Reply
	for {
		if ctx.Err() != nil {
			return nil, Ranked{}, false, fmt.Errorf("leaderboard: read: %w", context.Cause(ctx))
		}
		replies = b.db.DoMulti(ctx, cmds)
		if err := keyspace.FirstErr(replies); err != nil {
			return nil, Ranked{}, false, fmt.Errorf("leaderboard: read: %w", err)
		}
		before, after := replies[0].Str, replies[len(replies)-1].Str
		if before != after || before == "" || before[0] != '1' {
			return nil, Ranked{}, false, fmt.Errorf("leaderboard: read: %w", notLoaded(b.k.Scores.Key))
		}
		if due < 0 || len(replies[due].List) == 0 {
			break
		}
		if _, err := b.Sweep(ctx, now); err != nil {
			return nil, Ranked{}, false, err
		}
	}
	if top > 0 {
		if best, err = rankedList(1, replies[top].List); err != nil {
			return nil, Ranked{}, false, fmt.Errorf("leaderboard: read: %w", err)
		}
	}
	// A removal between the two commands leaves a rank without a score.
	if rank > 0 && !replies[rank].Nil() && !replies[rank+1].Nil() {
		if mine, err = rankedReply(int(replies[rank].N)+1, me.Member, replies[rank+1]); err != nil {
			return nil, Ranked{}, false, fmt.Errorf("leaderboard: read: %w", err)
		}
		ok = true
	}
	return best, mine, ok, nil
}

func (b *exact) Top(ctx context.Context, now time.Time, n int) ([]Ranked, error) {
	if n <= 0 {
		return nil, nil
	}
	best, _, _, err := b.Read(ctx, now, n, Entry{})
	return best, err
}

func (b *exact) Rank(ctx context.Context, now time.Time, me Entry) (Ranked, bool, error) {
	_, mine, ok, err := b.Read(ctx, now, 0, me)
	return mine, ok, err
}

func (b *exact) Around(ctx context.Context, now time.Time, me Entry, k int) ([]Ranked, error) {
	k = min(max(k, 0), (MaxTop-1)/2)
	items, err := b.ask(ctx, around, now, me.Member, strconv.Itoa(k))
	var near []Ranked
	if err == nil && len(items) > 0 {
		near, err = rankedList(int(items[0].N)+1, items[1:])
	}
	if err != nil {
		return nil, fmt.Errorf("leaderboard: around: %w", err)
	}
	return near, nil
}

// Complete reads the mark; it does not detect that the sets alone were removed.
func (b *exact) Complete(ctx context.Context, _ time.Time) (bool, error) {
	mark, _, err := b.k.Loaded.Get(ctx, b.db)
	if err != nil {
		return false, fmt.Errorf("leaderboard: complete: %w", err)
	}
	return mark != "" && mark[0] == '1', nil
}

// Sweep removes entries in chunks of 250, until none is expired or ctx ends. It saves the first reader after a midnight
// the work, and frees the memory of a board without readers.
func (b *exact) Sweep(ctx context.Context, now time.Time) (removed int, err error) {
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

func (b *exact) Remove(ctx context.Context, es ...Entry) error {
	members := make([]string, len(es))
	for i, e := range es {
		members[i] = e.Member
	}
	var cmds []keyspace.Cmd
	for ; len(members) > 0; members = members[min(updateChunk, len(members)):] {
		chunk := members[:min(updateChunk, len(members))]
		// Scores first: if the rest fails, a death without an entry is swept, but an entry without a death would stay
		// forever.
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

// Drop removes the mark first, because a partly removed board must not answer.
func (b *exact) Drop(ctx context.Context) error {
	keys := []keyspace.Key{b.k.Loaded.Key, b.k.Scores.Key}
	if b.mortal() {
		keys = append(keys, b.k.Deaths.Key)
	}
	return drop(ctx, b.db, keys)
}

func drop(ctx context.Context, db *redis.DB, keys []keyspace.Key) error {
	cmds := make([]keyspace.Cmd, len(keys))
	for i, k := range keys {
		cmds[i] = keyspace.Cmd{Name: "UNLINK", Key: k}
	}
	if err := keyspace.FirstErr(db.DoMulti(ctx, cmds)); err != nil {
		return fmt.Errorf("leaderboard: drop: %w", err)
	}
	return nil
}

func (b *exact) mortal() bool { return !b.k.Deaths.IsZero() }

// ask runs a reading script until no expired entries are due.
func (b *exact) ask(ctx context.Context, s *redis.Script, now time.Time, args ...string) ([]keyspace.Reply, error) {
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		answer, err := s.Run(ctx, b.db, b.keys(), append([]string{millis(now), strconv.Itoa(sweepChunk)}, args...)...).Items()
		if err != nil {
			return nil, err
		}
		switch answer[0].N {
		case 2:
			return answer[1].Items()
		case 0:
			return nil, notLoaded(b.k.Scores.Key)
		}
	}
}

func (b *exact) keys() []keyspace.Key {
	if b.mortal() {
		return []keyspace.Key{b.k.Scores.Key, b.k.Loaded.Key, b.k.Deaths.Key}
	}
	return []keyspace.Key{b.k.Scores.Key, b.k.Loaded.Key}
}

func (b *exact) merge(token string, es []Entry) keyspace.Cmd {
	args := make([]string, 1, 1+3*len(es))
	args[0] = token
	for _, e := range es {
		args = append(args, e.Member, e.scoreText(), e.deathText())
	}
	return merge.Cmd(b.keys(), args...)
}

// raise returns one ZADD that never lowers a score.
func raise(set keyspace.ZSet, es []Entry, score func(Entry) string) keyspace.Cmd {
	args := make([]string, 1, 1+2*len(es))
	args[0] = "GT"
	for _, e := range es {
		args = append(args, score(e), e.Member)
	}
	return keyspace.Cmd{Name: "ZADD", Key: set.Key, Args: args}
}

// onePerUpdate returns the entries of members that restart, or of all others, one for each member. A command must not
// depend on how a server treats a member that occurs twice.
func onePerUpdate(es []Entry, restarts map[string]bool, restart bool) []Entry {
	if len(restarts) == 0 {
		if restart {
			return nil
		}
		return greatest(es)
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
	return greatest(part)
}

// greatest returns one entry for each member, as GT would leave it: with the greatest score and the latest death.
func greatest(es []Entry) []Entry {
	return onePerMember(es, func(was, is Entry) Entry {
		dies := was.Dies
		if death(is.Dies) > death(dies) {
			dies = is.Dies
		}
		if is.score() > was.score() {
			was = is
		}
		was.Dies = dies
		return was
	})
}

// newest returns the newest entry of each member; same reports whether b replaces a if both are of one second.
func newest(es []Entry, same func(a, b Entry) bool) []Entry {
	return onePerMember(es, func(was, is Entry) Entry {
		if a, b := seconds(was.At), seconds(is.At); b > a || b == a && same(was, is) {
			return is
		}
		return was
	})
}

// onePerMember combines each member's entries by merge, in the order of the members' first entries.
func onePerMember(es []Entry, merge func(was, is Entry) Entry) []Entry {
	at := make(map[string]int, len(es))
	out := make([]Entry, 0, len(es))
	for _, e := range es {
		if i, twice := at[e.Member]; twice {
			out[i] = merge(out[i], e)
			continue
		}
		at[e.Member] = len(out)
		out = append(out, e)
	}
	return out
}

// later selects the entry that was given later, as a restart does.
func later(_, _ Entry) bool { return true }

// greater selects the greater value, then the later death, as GT does.
func greater(a, b Entry) bool {
	if a.Value != b.Value {
		return b.Value > a.Value
	}
	return b.Dies.IsZero() || !a.Dies.IsZero() && b.Dies.After(a.Dies)
}

func (e Entry) scoreText() string { return strconv.FormatInt(e.score(), 10) }

// deathText is also a number for an entry that never expires, so that a lost death cannot be mistaken for none, and the
// later one always wins.
func (e Entry) deathText() string {
	if e.Dies.IsZero() {
		return "+inf"
	}
	return millis(e.Dies)
}

func millis(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }

// rankedList parses members and scores as ZREVRANGE returns them.
func rankedList(first int, items []keyspace.Reply) ([]Ranked, error) {
	out := make([]Ranked, 0, len(items)/2)
	for i := 0; i+1 < len(items); i += 2 {
		r, err := rankedReply(first+i/2, items[i].Str, items[i+1])
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

func rankedReply(rank int, member string, score keyspace.Reply) (Ranked, error) {
	f, _, err := score.Float()
	return rankedOf(rank, member, int64(f)), err
}
