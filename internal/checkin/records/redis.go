package records

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
)

//go:embed lua/load.lua
var loadLua string

var loadScript = redis.NewScript(loadLua)

const (
	// patience bounds background work, which no caller waits for.
	patience = 5 * time.Second
	// scanPage is the number of keys that one command scans. The embedded engine has its own number.
	scanPage = 1000
)

// Key names one record.
type Key struct {
	User accounts.ID
	Year int
}

func (k Key) bitmap() keyspace.Bitmap { return BitmapOf(k.User, k.Year) }

// Day is a day that counts.
type Day struct {
	User accounts.ID
	Day  civil.Day
	Kind streak.Kind
}

func (d Day) key() Key { return Key{d.User, d.Day.Year()} }

// Config has the settings of a [Store].
type Config struct {
	Redis    *redis.DB
	Budget   time.Duration // for each round trip
	ScanPage int           // keys that one command scans; 0 means 1000
}

// Store has the records in Redis. It returns [redis.ErrUnavailable] if Redis does not respond in time.
type Store struct {
	Budget time.Duration // for each round trip

	db       *redis.DB
	scanPage int
	soon     *redis.Deadlines // of reads: a timer for each read was an eighth of its cost in this process
}

// New returns the records of cfg.Redis. It sends no command.
func New(cfg Config) *Store {
	return &Store{Budget: cfg.Budget, db: cfg.Redis, scanPage: cmp.Or(cfg.ScanPage, scanPage), soon: new(redis.Deadlines)}
}

// Patient returns s with the time limits of background work: five seconds for each round trip.
func (s *Store) Patient() *Store {
	p := *s
	p.Budget, p.soon = patience, new(redis.Deadlines)
	return &p
}

// Send sends commands in one round trip and waits no longer than the budget. Commands of other packages may go together
// with those for records.
func (s *Store) Send(ctx context.Context, cmds []keyspace.Cmd) []keyspace.Reply {
	ctx, cancel := context.WithTimeout(ctx, s.Budget)
	defer cancel()
	return s.db.DoMulti(ctx, cmds)
}

func (s *Store) run(ctx context.Context, calls []redis.Call) []keyspace.Reply {
	ctx, cancel := context.WithTimeout(ctx, s.Budget)
	defer cancel()
	return s.db.RunMulti(ctx, calls)
}

// Mark sends the commands for the boards and sets days in their users' records, in one round trip. If a day is set, the
// boards have the move. It returns the records as they are afterwards, and which of them already had the day. A record
// may turn out not to be loaded; see [streak.Record].
func (s *Store) Mark(ctx context.Context, days []Day, boards []keyspace.Cmd) (recs []*streak.Record, had []bool, err error) {
	cmds, first := boards, len(boards)
	for _, d := range days {
		key := d.key().bitmap()
		cmds = append(cmds, key.SetBitBareCmd(streak.BitOf(d.Day, d.Kind)), key.GetRenewCmd())
	}
	replies := s.Send(ctx, cmds)
	if err := keyspace.FirstErr(replies); err != nil {
		return nil, nil, err
	}
	had = make([]bool, len(days))
	for i := range had {
		had[i] = replies[first+2*i].N == 1
	}
	return parseAll(len(days), func(i int) string { return replies[first+2*i+1].Str }), had, nil
}

// ReadAll returns records, loaded or not, in one round trip.
func (s *Store) ReadAll(ctx context.Context, keys []Key) ([]*streak.Record, error) {
	replies := s.Send(ctx, gets(keys))
	if err := keyspace.FirstErr(replies); err != nil {
		return nil, err
	}
	return parseAll(len(keys), func(i int) string { return replies[i].Str }), nil
}

func gets(keys []Key) []keyspace.Cmd {
	cmds := make([]keyspace.Cmd, len(keys))
	for i, k := range keys {
		cmds[i] = k.bitmap().GetCmd()
	}
	return cmds
}

func parseAll(n int, text func(int) string) []*streak.Record {
	all, recs := make([]streak.Record, n), make([]*streak.Record, n)
	for i := range all {
		copy(all[i][:], text(i))
		recs[i] = &all[i]
	}
	return recs
}

// Read returns a record, or nil if it is not loaded. One read in a hundred renews the TTL of the key.
func (s *Store) Read(ctx context.Context, k Key) (*streak.Record, error) {
	key := k.bitmap()
	cmd := key.GetCmd()
	if rand.IntN(100) == 0 {
		cmd = key.GetRenewCmd()
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	text, _, err := s.db.Do(s.soon.Within(s.Budget), cmd).Text()
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

// Load merges records computed from SQL into those in Redis, and replaces each of recs by the result.
func (s *Store) Load(ctx context.Context, keys []Key, recs []*streak.Record) error {
	cmds := make([]keyspace.Cmd, len(keys))
	for i, k := range keys {
		cmds[i] = k.bitmap().AddCmd(string(recs[i][:]))
	}
	added := s.Send(ctx, cmds)
	if err := keyspace.FirstErr(added); err != nil {
		return err
	}
	var calls []redis.Call
	var at []int
	for i, k := range keys {
		if added[i].Nil() { // the key exists
			at = append(at, i)
			calls = append(calls, redis.Call{Script: loadScript, Keys: []keyspace.Key{k.bitmap().Key}, Args: []string{string(recs[i][:]), life()}})
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

// life returns the TTL of a record that a script writes, in milliseconds.
func life() string { return keyspace.Millis(recordKeys.TTL.Base) }

// Drop deletes records; the next read loads them again. Clearing a single bit would not be safe while check-ins set it.
func (s *Store) Drop(ctx context.Context, keys []Key) error {
	cmds := make([]keyspace.Cmd, len(keys))
	for i, k := range keys {
		cmds[i] = keyspace.Cmd{Name: "UNLINK", Key: k.bitmap().Key}
	}
	return keyspace.FirstErr(s.Send(ctx, cmds))
}

// DropYears deletes a user's records from the first year to the last.
func (s *Store) DropYears(ctx context.Context, user accounts.ID, first, last int) error {
	cmd := keyspace.Cmd{Name: "UNLINK", Key: BitmapOf(user, first).Key}
	for year := first + 1; year <= last; year++ {
		cmd.More = append(cmd.More, BitmapOf(user, year).Key)
	}
	return keyspace.FirstErr(s.Send(ctx, []keyspace.Cmd{cmd}))
}

// The rest is for comparing Redis with SQL; requests do not use it.

//go:embed lua/replace.lua
var replaceLua string

var replaceScript = redis.NewScript(replaceLua)

// Held is the value under a record's key.
type Held struct {
	There   bool
	Foreign bool   // the value is not a string
	Text    string // as stored, of any length
}

// Held reads values as they are, in one round trip.
func (s *Store) Held(ctx context.Context, keys []Key) ([]Held, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	out := make([]Held, len(keys))
	for i, reply := range s.Send(ctx, gets(keys)) {
		text, ok, err := reply.Text()
		if e, ok := errors.AsType[redis.ServerError](err); ok && e.Code() == "WRONGTYPE" {
			out[i] = Held{There: true, Foreign: true}
			continue
		}
		if err != nil {
			return nil, err
		}
		out[i] = Held{There: ok, Text: text}
	}
	return out, nil
}

// Replace replaces the value was by a record. It reports false if the value has changed since.
func (s *Store) Replace(ctx context.Context, k Key, was Held, rec *streak.Record) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Budget)
	defer cancel()
	n, err := replaceScript.Run(ctx, s.db, []keyspace.Key{k.bitmap().Key}, was.Text, string(rec[:]), life()).Int()
	return n == 1, err
}

// Page returns the names of the next page of all keys in Redis, and the cursor of the page after it. A cursor is empty
// at the beginning and at the end. Cursors outlive a process. If a server has failed over, Page may miss keys, and the
// next pass finds them. If the number of servers has changed, it begins again. A key may be returned twice.
func (s *Store) Page(ctx context.Context, cursor string) (names []string, next string, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.Budget)
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
	names, page, err = owners[at].Scan(ctx, page, prefix+"*", s.scanPage)
	if err != nil {
		return nil, "", err
	}
	for i, name := range names {
		names[i] = strings.TrimPrefix(name, prefix)
	}
	if page == 0 {
		at++
	}
	if at < len(owners) {
		next = fmt.Sprintf("%d/%d %d", at, len(owners), page)
	}
	return names, next, nil
}

var parser = keyspace.NewParser(Keys)

// Scan returns the keys of the records in the next page of all keys, and the next cursor, like [Store.Page].
func (s *Store) Scan(ctx context.Context, cursor string) (keys []Key, next string, err error) {
	names, next, err := s.Page(ctx, cursor)
	for _, name := range names {
		found, ok := parser.Key(name)
		if !ok {
			continue
		}
		user, err := ids.Parse[accounts.User](found.Args[0])
		if err != nil {
			continue // the form of the key allows no other; see keys.go
		}
		year, err := strconv.Atoi(found.Args[1])
		if err != nil || year < 1 || year > 9999 {
			continue // no read uses such a record
		}
		keys = append(keys, Key{user, year})
	}
	return keys, next, err
}
