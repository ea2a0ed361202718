package checkin

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/internal/foundation/civil"
	"github.com/stoa-dev/stoa/internal/foundation/ids"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
)

//go:embed lua/load.lua
var loadLua string

var loadScript = redis.NewScript(loadLua)

const (
	// redisBudget is how long a caller waits for one answer of Redis before SQL
	// answers. The embedded engine is not away when it is slow.
	redisBudget    = 50 * time.Millisecond
	embeddedBudget = time.Second
	// patience is for work that no caller waits for.
	patience = 5 * time.Second
)

// redisStore is what Redis holds of this package, all of it derived from the log.
type redisStore struct {
	db       *redis.DB
	budget   time.Duration // for each round trip
	scanPage int
	soon     *redis.Deadlines // of reads: a timer for each was an eighth of what one costs this process
}

func newRedisStore(db *redis.DB, pace Pace, mode string) *redisStore {
	budget := redisBudget
	switch {
	case mode == RedisFirst:
		budget = firstBudget
	case db.Mode() == "embedded":
		budget = embeddedBudget
	}
	return &redisStore{db: db, scanPage: cmp.Or(pace.ScanPage, scanPage), budget: cmp.Or(pace.Budget, budget), soon: new(redis.Deadlines)}
}

// patient returns s with the time limits of work in the background.
func (s *redisStore) patient() *redisStore {
	p := *s
	p.budget, p.soon = patience, new(redis.Deadlines)
	return &p
}

func (s *redisStore) send(ctx context.Context, cmds []keyspace.Cmd) []keyspace.Reply {
	ctx, cancel := context.WithTimeout(ctx, s.budget)
	defer cancel()
	return s.db.DoMulti(ctx, cmds)
}

func (s *redisStore) run(ctx context.Context, calls []redis.Call) []keyspace.Reply {
	ctx, cancel := context.WithTimeout(ctx, s.budget)
	defer cancel()
	return s.db.RunMulti(ctx, calls)
}

func recordKey(user accounts.ID, year int) keyspace.Bitmap {
	return recordKeys.At(user, keyspace.Int{N: int64(year)})
}

// mark sends the commands that tell the boards and sets the day of each request in its
// user's record, in one round trip: where a day is set, the boards were told. It returns
// the records as they are then, and which of them had the day. A record may turn out not
// to be loaded; see [streak.Record].
func (s *redisStore) mark(ctx context.Context, reqs []request, boards []keyspace.Cmd) (recs []*streak.Record, had []bool, err error) {
	cmds, days := boards, len(boards)
	for _, r := range reqs {
		key := recordKey(r.user, r.day.Year())
		cmds = append(cmds, key.SetBitBareCmd(streak.BitOf(r.day, r.kind)), key.GetRenewCmd())
	}
	replies := s.send(ctx, cmds)
	if err := keyspace.FirstErr(replies); err != nil {
		return nil, nil, err
	}
	had = make([]bool, len(reqs))
	for i := range had {
		had[i] = replies[days+2*i].N == 1
	}
	return parseAll(len(reqs), func(i int) string { return replies[days+2*i+1].Str }), had, nil
}

// rank sends the commands that move users on the boards, in one round trip.
func (s *redisStore) rank(ctx context.Context, boards []keyspace.Cmd) error {
	if len(boards) == 0 {
		return nil
	}
	if err := keyspace.FirstErr(s.send(ctx, boards)); err != nil {
		return fmt.Errorf("boards: %w", err)
	}
	return nil
}

// writeRecords brings records to what was computed from the log. They are merged, so
// that what is newer stays.
func (s *redisStore) writeRecords(ctx context.Context, states []state) error {
	var lost []rowKey
	var keys, perhaps []yearKey
	var recs, merged []*streak.Record
	for _, st := range states {
		lost = append(lost, st.lost...)
		for _, k := range st.records {
			keys, recs = append(keys, k), append(recs, streak.RecordOf(k.year, st.history))
		}
		for _, k := range st.held {
			perhaps, merged = append(perhaps, k), append(merged, streak.RecordOf(k.year, st.history))
		}
	}
	if err := s.forget(ctx, lost); err != nil {
		return err
	}
	there, err := s.held(ctx, perhaps)
	if err != nil {
		return err
	}
	for i, h := range there {
		if h.there && !h.foreign { // the others are loaded by the next read
			keys, recs = append(keys, perhaps[i]), append(recs, merged[i])
		}
	}
	return s.load(ctx, keys, recs)
}

// readAll returns records, loaded or not, in one round trip.
func (s *redisStore) readAll(ctx context.Context, keys []yearKey) ([]*streak.Record, error) {
	replies := s.send(ctx, mapped(keys, func(k yearKey) keyspace.Cmd { return recordKey(k.user, k.year).GetCmd() }))
	if err := keyspace.FirstErr(replies); err != nil {
		return nil, err
	}
	return parseAll(len(keys), func(i int) string { return replies[i].Str }), nil
}

func parseAll(n int, text func(int) string) []*streak.Record {
	all, recs := make([]streak.Record, n), make([]*streak.Record, n)
	for i := range all {
		copy(all[i][:], text(i))
		recs[i] = &all[i]
	}
	return recs
}

// read returns a user's year, or nil when it is not loaded. One read in a
// hundred renews the key's life.
func (s *redisStore) read(ctx context.Context, user accounts.ID, year int) (*streak.Record, error) {
	key := recordKey(user, year)
	cmd := key.GetCmd()
	if rand.IntN(100) == 0 {
		cmd = key.GetRenewCmd()
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	text, _, err := s.db.Do(s.soon.Within(s.budget), cmd).Text()
	if err != nil {
		return nil, err
	}
	return ifLoaded(text), nil
}

func ifLoaded(s string) *streak.Record {
	if r := streak.Parse(s); r.Loaded() {
		return r
	}
	return nil
}

// load writes records computed from SQL to Redis, merged into what is there, and
// replaces each by the result.
func (s *redisStore) load(ctx context.Context, keys []yearKey, recs []*streak.Record) error {
	cmds := make([]keyspace.Cmd, len(keys))
	for i, k := range keys {
		cmds[i] = recordKey(k.user, k.year).AddCmd(string(recs[i][:]))
	}
	added := s.send(ctx, cmds)
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
	merged := s.run(ctx, calls)
	for j, reply := range merged {
		recs[at[j]] = streak.Parse(reply.Str)
	}
	return keyspace.FirstErr(merged)
}

// forget drops the records of these days; the next read loads them again. A bit
// alone could not be taken back beside traffic that sets it.
func (s *redisStore) forget(ctx context.Context, days []rowKey) error {
	return keyspace.FirstErr(s.send(ctx, mapped(days, func(k rowKey) keyspace.Cmd {
		return keyspace.Cmd{Name: "UNLINK", Key: recordKey(k.user, k.day.Year()).Key}
	})))
}

// claim asks whose the days are, in one round trip: each becomes the request's
// unless another request was first, and stays without an owner if it is signed.
func (s *redisStore) claim(ctx context.Context, reqs []request, signed func(request) bool) ([]*row, error) {
	looks := make([]bool, len(reqs))
	cmds := make([]keyspace.Cmd, len(reqs))
	for i, r := range reqs {
		key := claimKeys.At(r.user, dayKey(r.day))
		if looks[i] = signed(r); looks[i] {
			cmds[i] = keyspace.Cmd{Name: "GET", Key: key.Key}
			continue
		}
		cmds[i] = key.SetCmd(claimText(r), claimKeys.TTL.Draw())
		cmds[i].Args = append(cmds[i].Args, "NX", "GET")
	}
	out := make([]*row, len(reqs))
	for i, reply := range s.send(ctx, cmds) {
		text, there, err := reply.Text()
		if err != nil {
			return nil, err
		}
		switch own, ok := reqs[i], true; {
		case there:
			if own, ok = parseClaim(own.user, own.day, text); !ok {
				return nil, fmt.Errorf("%w: a claim", keyspace.ErrReply)
			}
			fallthrough
		case !looks[i]:
			out[i] = &row{at: own.at.UnixMilli(), kind: own.kind, req: own.req}
		}
	}
	return out, nil
}

func dayKey(d civil.Day) keyspace.Int { return keyspace.Int{N: int64(d)} }

func claimText(r request) string {
	return fmt.Sprintf("%d %d %d %d %d", r.at.UnixMilli(), r.kind, r.req, r.act.Words, r.act.Minutes)
}

func parseClaim(user accounts.ID, day civil.Day, text string) (request, bool) {
	r := request{user: user, day: day}
	var at int64
	n, err := fmt.Sscanf(text, "%d %d %d %d %d", &at, &r.kind, &r.req, &r.act.Words, &r.act.Minutes)
	r.at = time.UnixMilli(at)
	return r, err == nil && n == 5 && text == claimText(r)
}

// claims returns what users claimed of the days from first to last.
func (s *redisStore) claims(ctx context.Context, users []accounts.ID, first, last civil.Day) (out []request, err error) {
	var cmds []keyspace.Cmd
	for _, user := range users {
		cmd := keyspace.Cmd{Name: "MGET", Key: claimKeys.At(user, dayKey(first)).Key}
		for d := first + 1; d <= last; d++ {
			cmd.More = append(cmd.More, claimKeys.At(user, dayKey(d)).Key)
		}
		cmds = append(cmds, cmd)
	}
	for i, reply := range s.send(ctx, cmds) {
		items, err := reply.Items()
		if err != nil {
			return nil, err
		}
		for j, item := range items {
			if r, ok := parseClaim(users[i], first+civil.Day(j), item.Str); ok {
				out = append(out, r)
			}
		}
	}
	return out, nil
}

// claimed returns the claims of these days, as far as there are any.
func (s *redisStore) claimed(ctx context.Context, keys []rowKey) (map[rowKey]request, error) {
	replies := s.send(ctx, mapped(keys, func(k rowKey) keyspace.Cmd {
		return keyspace.Cmd{Name: "GET", Key: claimKeys.At(k.user, dayKey(k.day)).Key}
	}))
	if err := keyspace.FirstErr(replies); err != nil {
		return nil, err
	}
	out := make(map[rowKey]request, len(keys))
	for i, reply := range replies {
		if r, ok := parseClaim(keys[i].user, keys[i].day, reply.Str); ok {
			out[keys[i]] = r
		}
	}
	return out, nil
}

// someClaims returns the claims in the next page of all keys and where to go on,
// as scan does.
func (s *redisStore) someClaims(ctx context.Context, cursor string) (rows []request, next string, err error) {
	found, next, err := s.scan(ctx, claimKeys.Family, cursor)
	if err != nil {
		return nil, "", err
	}
	var keys []rowKey
	for _, args := range found {
		user, err := ids.Parse[accounts.User](args[0])
		if err != nil {
			continue // the key's form has no other; see keys.go
		}
		day, err := strconv.ParseInt(args[1], 10, 32)
		if err != nil {
			continue // no day of a calendar
		}
		keys = append(keys, rowKey{user, civil.Day(day)})
	}
	if len(keys) == 0 {
		return nil, next, nil
	}
	claims, err := s.claimed(ctx, keys)
	return slices.Collect(maps.Values(claims)), next, err
}

// risks says what this Redis may lose of what it has acknowledged, server by
// server. [redis.ErrUnavailable] says that a server did not answer, any other error
// that Redis cannot keep anything.
func (s *redisStore) risks(ctx context.Context) (risks []string, err error) {
	servers, err := s.db.Info(ctx)
	if err != nil {
		return nil, err
	}
	for _, server := range servers {
		version := server.Fields["redis_version"]
		major, _, _ := strings.Cut(version, ".")
		n, _ := strconv.Atoi(major)
		switch {
		case errors.Is(server.Err, redis.ErrUnavailable):
			return nil, server.Err
		case server.Err != nil:
			risks = append(risks, server.Addr+" does not say how it is set: "+server.Err.Error())
		case n < 7:
			return nil, fmt.Errorf("checkin.mode = redis needs Redis 7.0 or later, and %s is %s", server.Addr, version)
		case server.Fields["aof_enabled"] != "1":
			risks = append(risks, server.Addr+": AOF is off: a restart loses check-ins that are not yet in SQL")
		}
	}
	// Both or none: a rewrite of the file ends the one without the other.
	const sync, pause = "appendfsync", "no-appendfsync-on-rewrite"
	if servers, err = s.db.Settings(ctx, sync, pause); err != nil {
		return nil, err
	}
	for _, server := range servers {
		if errors.Is(server.Err, redis.ErrUnavailable) {
			return nil, server.Err
		}
		if server.Err != nil {
			risks = append(risks, fmt.Sprintf("%s does not tell %s, which should be always, and %s, which should be no (stoa keys acl --config-get lets it): %v",
				server.Addr, sync, pause, server.Err))
			continue
		}
		if is := server.Fields[sync]; is != "always" {
			risks = append(risks, server.Addr+" has "+sync+" "+is+": a failure of the machine loses some seconds of check-ins that are not yet in SQL")
		}
		if is := server.Fields[pause]; is != "no" {
			risks = append(risks, server.Addr+" has "+pause+" "+is+": a failure of the machine while redis saves or rewrites its file loses the check-ins of that time that are not yet in SQL")
		}
	}
	return risks, nil
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
func (s *redisStore) held(ctx context.Context, keys []yearKey) ([]held, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	replies := s.send(ctx, mapped(keys, func(k yearKey) keyspace.Cmd { return recordKey(k.user, k.year).GetCmd() }))
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
func (s *redisStore) replace(ctx context.Context, k yearKey, was held, rec *streak.Record) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, s.budget)
	defer cancel()
	life := strconv.FormatInt(recordKeys.TTL.Base.Milliseconds(), 10)
	n, err := replaceScript.Run(ctx, s.db, []keyspace.Key{recordKey(k.user, k.year).Key}, was.text, string(rec[:]), life).Int()
	return n == 1, err
}

var recordParser = keyspace.NewParser(Keys)

// scan returns the keys of a family in the next page of all keys, by their
// arguments, and where to go on; a cursor is empty at the beginning and at the end.
// Cursors outlive a process. Where a server has failed over since, what it leaves
// out is found the next time; where there are more or fewer, it begins anew. A key
// may be told twice.
func (s *redisStore) scan(ctx context.Context, family *keyspace.Family, cursor string) (found [][3]string, next string, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.budget)
	defer cancel()
	owners, err := s.db.Owners(ctx)
	if err != nil {
		return nil, "", err
	}
	defer func() {
		for _, o := range owners {
			o.Close()
		}
	}()
	slices.SortFunc(owners, func(a, b *redis.Owner) int { return strings.Compare(a.Addr(), b.Addr()) })
	var at, of int
	var page uint64
	if n, err := fmt.Sscanf(cursor, "%d/%d %d", &at, &of, &page); n != 3 || err != nil || of != len(owners) || at >= of {
		at, page = 0, 0
	}
	prefix := s.db.Physical(keyspace.Key{})
	names, page, err := owners[at].Scan(ctx, page, prefix+"*", s.scanPage)
	if err != nil {
		return nil, "", err
	}
	for _, name := range names {
		if key, ok := recordParser.Key(strings.TrimPrefix(name, prefix)); ok && key.Family == family {
			found = append(found, key.Args)
		}
	}
	if page == 0 {
		at++
	}
	if at < len(owners) {
		next = fmt.Sprintf("%d/%d %d", at, len(owners), page)
	}
	return found, next, nil
}

// scanPage is how many keys are looked at in one command; the embedded engine has
// its own.
const scanPage = 1000

// someRecords returns the keys of the records in the next page of all keys and
// where to go on, as scan does.
func (s *redisStore) someRecords(ctx context.Context, cursor string) (keys []yearKey, next string, err error) {
	found, next, err := s.scan(ctx, recordKeys.Family, cursor)
	for _, args := range found {
		user, err := ids.Parse[accounts.User](args[0])
		if err != nil {
			continue // the key's form has no other; see keys.go
		}
		year, err := strconv.Atoi(args[1])
		if err != nil || year < 1 || year > 9999 {
			continue // no record is ever asked for it
		}
		keys = append(keys, yearKey{user, year})
	}
	return keys, next, err
}

// errBehind reports that Redis has to be complete first.
var errBehind = fmt.Errorf("%w, or not complete yet", redis.ErrUnavailable)

// unload drops a user's records up to that year; a calendar may have been asked
// for any.
func (s *redisStore) unload(ctx context.Context, user accounts.ID, last int) error {
	cmd := keyspace.Cmd{Name: "UNLINK", Key: recordKey(user, firstYear).Key}
	for year := firstYear + 1; year <= last; year++ {
		cmd.More = append(cmd.More, recordKey(user, year).Key)
	}
	return keyspace.FirstErr(s.send(ctx, []keyspace.Cmd{cmd}))
}

// unclaim drops what a user claimed of the days from first to last.
func (s *redisStore) unclaim(ctx context.Context, user accounts.ID, first, last civil.Day) error {
	cmd := keyspace.Cmd{Name: "UNLINK", Key: claimKeys.At(user, dayKey(first)).Key}
	for d := first + 1; d <= last; d++ {
		cmd.More = append(cmd.More, claimKeys.At(user, dayKey(d)).Key)
	}
	return keyspace.FirstErr(s.send(ctx, []keyspace.Cmd{cmd}))
}
