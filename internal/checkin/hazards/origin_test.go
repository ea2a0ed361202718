//go:build hazards

package hazards

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

// origin is the design that Stoa's check-in began with, as its document states it. Redis acknowledges a check-in. SQL
// follows by a message for each check-in and by the job of the night. Where the document is not complete, the most
// favourable reading is used:
//
//   - No key has the total that the board by total needs. It is the value on the board, plus one.
//   - Accounts are created with the rows that UPDATE needs, for their first month.
//   - The document has no day except today. Another day, named by a client or made up, uses the same steps with that
//     date.
type origin struct {
	t       *testing.T
	redis   *redistest.Instance
	db      *sqldb.DB
	zone    *time.Location       // of the server
	now     time.Time            // its clock
	ends    map[string]time.Time // of keys that expire by this clock, which Redis' own does not follow
	handled string               // the last message
	users   []string
	down    bool
}

func startOrigin(t *testing.T, s scenario) system {
	zone, err := time.LoadLocation(s.zone)
	if err != nil {
		t.Fatal(err)
	}
	o := &origin{t: t, redis: redistest.Server(t), db: sqldbtest.SQLite(t), zone: zone, ends: map[string]time.Time{}, handled: "0-0"}
	o.sql("CREATE TABLE user_stats (user_id VARCHAR(12) PRIMARY KEY, streak_days INT, max_streak_days INT, last_sign_date VARCHAR(10))")
	o.sql("CREATE TABLE user_calendar (user_id VARCHAR(12), year INT, month INT, sign_days BLOB, PRIMARY KEY (user_id, year, month))")
	return o
}

// A tap is a check-in in progress.
type tap struct {
	user             string
	date             time.Time
	today, yesterday string
	signed           bool // today, already
	goesOn           bool // the streak continues
	streak           string
	record           bool // it is the longest
}

// steps are the document's check-in, one command each.
var steps = []func(*origin, *tap){
	func(o *origin, t *tap) { t.signed = o.get(dailyKey(t.user, t.today)) == "1" },
	func(o *origin, t *tap) { t.goesOn = o.get(dailyKey(t.user, t.yesterday)) == "1" },
	func(o *origin, t *tap) {
		if t.streak = "1"; t.goesOn {
			t.streak = o.do("INCR", streakKey(t.user))[0]
		} else {
			o.do("SET", streakKey(t.user), "1")
		}
	},
	func(o *origin, t *tap) { t.record = number(t.streak) > number(o.get(longestKey(t.user))) },
	func(o *origin, t *tap) {
		if t.record {
			o.do("SET", longestKey(t.user), t.streak)
		}
	},
	func(o *origin, t *tap) { // "double write for decisive moments"
		if t.record {
			o.sql("UPDATE user_stats SET max_streak_days = ? WHERE user_id = ?", t.streak, t.user)
		}
	},
	func(o *origin, t *tap) {
		o.do("SETBIT", monthKey(t.user, t.date.Year(), t.date.Month()), strconv.Itoa(t.date.Day()-1), "1")
		o.ends[monthKey(t.user, t.date.Year(), t.date.Month())] = o.now.AddDate(0, 0, 45)
	},
	func(o *origin, t *tap) { o.do("ZADD", byStreak, t.streak, t.user) },
	func(o *origin, t *tap) { o.do("ZINCRBY", byTotal, "1", t.user) },
	func(o *origin, t *tap) {
		o.do("SET", dailyKey(t.user, t.today), "1")
		o.ends[dailyKey(t.user, t.today)] = o.now.Add(259200 * time.Second)
	},
	func(o *origin, t *tap) { o.do("XADD", messages, "*", "user", t.user, "date", t.today) },
}

// recordSet is the number of steps up to a new record in Redis.
const recordSet = 5

// The document's keys, under a name of their own.
func dailyKey(user, date string) string { return "origin:daily:" + user + ":" + date }
func streakKey(user string) string      { return "origin:streak:" + user }
func longestKey(user string) string     { return "origin:max_streak:" + user }
func monthKey(user string, year int, month time.Month) string {
	return fmt.Sprintf("origin:monthly:%s:%d:%d", user, year, month)
}

const byStreak, byTotal, messages = "origin:leaderboard:streak", "origin:leaderboard:total_days", "origin:messages"

// begin starts a tap at a time: dates are the server's, and yesterday is 86,400,000 ms ago.
func (o *origin) begin(u user, at time.Time) *tap {
	at = at.In(o.zone)
	return &tap{user: o.users[u], date: at, today: at.Format(time.DateOnly),
		yesterday: at.Add(-86_400_000 * time.Millisecond).Format(time.DateOnly)}
}

// run does the steps of a tap from one to another.
func (o *origin) run(t *tap, from, to int) {
	for _, step := range steps[from:to] {
		if !t.signed {
			step(o, t)
		}
	}
}

func (o *origin) tap(u user, at time.Time) (first bool) {
	t := o.begin(u, at)
	if o.down {
		return o.tapSQL(t)
	}
	o.run(t, 0, len(steps))
	return !t.signed
}

// tapSQL is the mode while Redis is away: "read and write MySQL".
func (o *origin) tapSQL(t *tap) bool {
	streak, last := 0, ""
	o.scan("SELECT streak_days, last_sign_date FROM user_stats WHERE user_id = ?", []any{t.user}, &streak, &last)
	if last == t.today {
		return false
	}
	if last != t.yesterday {
		streak = 0
	}
	o.sql("UPDATE user_stats SET streak_days = ?, max_streak_days = MAX(max_streak_days, ?), last_sign_date = ? WHERE user_id = ?", streak+1,
		streak+1, t.today, t.user)
	return true
}

func (o *origin) CheckIn(u user) bool                      { return o.tap(u, o.now) }
func (o *origin) CheckInBy(u user, off time.Duration) bool { return o.tap(u, o.now.Add(off)) }
func (o *origin) MakeUp(u user, day string)                { o.CheckInFor(u, day) }
func (o *origin) Interrupted(u user, n int)                { o.run(o.begin(u, o.now), 0, n) }
func (o *origin) MoveTo(user, string)                      {} // it has no zones of users

func (o *origin) CheckInFor(u user, day string) {
	at, err := time.ParseInLocation(time.DateOnly, day, o.zone)
	if err != nil {
		o.t.Fatal(err)
	}
	o.tap(u, at.Add(12*time.Hour))
}

// AtOnce does the same step of all taps before the next one, which two devices may well do.
func (o *origin) AtOnce(u user, n int) (firsts int) {
	taps := make([]*tap, n)
	for i := range taps {
		taps[i] = o.begin(u, o.now)
	}
	for i := range steps {
		for _, t := range taps {
			o.run(t, i, i+1)
		}
	}
	for _, t := range taps {
		if !t.signed {
			firsts++
		}
	}
	return firsts
}

func (o *origin) At(now time.Time) {
	o.now = now
	for key, end := range o.ends {
		if !end.After(now) {
			o.do("DEL", key)
			delete(o.ends, key)
		}
	}
}

func (o *origin) Open(string) user {
	id := fmt.Sprintf("user-%d", len(o.users))
	o.users = append(o.users, id)
	o.sql("INSERT INTO user_stats VALUES (?, 0, 0, '')", id)
	o.sql("INSERT INTO user_calendar VALUES (?, ?, ?, '')", id, o.now.In(o.zone).Year(), int(o.now.In(o.zone).Month()))
	return user(len(o.users) - 1)
}

// Standing is from Redis and, if Redis does not have it, from SQL.
func (o *origin) Standing(u user) (s standing) {
	id := o.users[u]
	o.scan("SELECT streak_days, max_streak_days FROM user_stats WHERE user_id = ?", []any{id}, &s.Streak, &s.Longest)
	if v := o.get(streakKey(id)); v != "" {
		s.Streak = number(v)
	}
	if v := o.get(longestKey(id)); v != "" {
		s.Longest = number(v)
	}
	s.Total = number(o.do("ZSCORE", byTotal, id)[0]) // SQL has none
	return s
}

// Month is the bitmap in Redis, or else the column in SQL. Bit n−1 of the column is day n, as it was before there was a
// bitmap.
func (o *origin) Month(u user, year int, month time.Month) (days []int) {
	key, bits, inSQL := monthKey(o.users[u], year, month), "", false
	if bits = o.get(key); bits == "" {
		inSQL = true
		o.scan("SELECT COALESCE(MAX(sign_days), '') FROM user_calendar WHERE user_id = ? AND year = ? AND month = ?",
			[]any{o.users[u], year, int(month)}, &bits)
	}
	for n := range len(bits) * 8 {
		bit := 7 - n%8 // Redis counts from the other end
		if inSQL {
			bit = n % 8
		}
		if bits[n/8]>>bit&1 == 1 {
			days = append(days, n+1)
		}
	}
	return days
}

func (o *origin) Top() (top []user) {
	for _, id := range o.do("ZREVRANGE", byStreak, "0", "9") {
		top = append(top, user(slices.Index(o.users, id)))
	}
	return top
}

func (o *origin) ByID(a, b user) (user, user) { return min(a, b), max(a, b) }

func (o *origin) OneSlot(u user) bool { return oneSlot(o.do("KEYS", "*"+o.users[u]+"*")) }

func oneSlot(keys []string) bool {
	return len(keys) > 0 && !slices.ContainsFunc(keys, func(k string) bool { return keyspace.Slot(k) != keyspace.Slot(keys[0]) })
}

// Persist is the consumer of the messages: it writes the present values of Redis to SQL.
func (o *origin) Persist() {
	// An entry has five parts: its id, "user", the user, "date", the date.
	for entries := o.do("XRANGE", messages, "("+o.handled, "+"); len(entries) > 0; entries = entries[5:] {
		date, err := time.Parse(time.DateOnly, entries[4])
		if err != nil {
			o.t.Fatal(err)
		}
		o.persist(entries[2], date)
		o.sql("UPDATE user_stats SET last_sign_date = ? WHERE user_id = ?", entries[4], entries[2])
		o.handled = entries[0]
	}
}

func (o *origin) persist(id string, month time.Time) {
	o.sql("UPDATE user_calendar SET sign_days = ? WHERE user_id = ? AND year = ? AND month = ?",
		[]byte(o.get(monthKey(id, month.Year(), month.Month()))), id, month.Year(), int(month.Month()))
	o.sql("UPDATE user_stats SET streak_days = ?, max_streak_days = ? WHERE user_id = ?",
		number(o.get(streakKey(id))), number(o.get(longestKey(id))), id)
}

func (o *origin) Night() {
	for _, id := range o.users {
		o.persist(id, o.now.In(o.zone))
	}
}

func (o *origin) Empty()   { o.redis.FlushAll() }
func (o *origin) Recover() { o.rebuild(func() {}) }
func (o *origin) Away()    { o.down = true }

func (o *origin) Back(meanwhile func()) {
	o.down = false
	o.rebuild(meanwhile)
}

// rebuild reads streaks and bitmaps of SQL and writes them to Redis.
func (o *origin) rebuild(between func()) {
	type row struct {
		streak, longest int
		bits            string
	}
	year, month := o.now.In(o.zone).Year(), o.now.In(o.zone).Month()
	rows := make([]row, len(o.users))
	for i, id := range o.users {
		o.scan("SELECT streak_days, max_streak_days FROM user_stats WHERE user_id = ?", []any{id}, &rows[i].streak, &rows[i].longest)
		o.scan("SELECT COALESCE(MAX(sign_days), '') FROM user_calendar WHERE user_id = ? AND year = ? AND month = ?", []any{id, year, int(month)},
			&rows[i].bits)
	}
	between()
	for i, id := range o.users {
		o.do("SET", streakKey(id), strconv.Itoa(rows[i].streak))
		o.do("SET", longestKey(id), strconv.Itoa(rows[i].longest))
		o.do("SET", monthKey(id, year, month), rows[i].bits)
		o.do("ZADD", byStreak, strconv.Itoa(rows[i].streak), id)
	}
}

func (o *origin) do(args ...string) []string {
	o.t.Helper()
	reply, err := o.redis.Do(args...)
	if err != nil {
		o.t.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
	return reply
}

func (o *origin) get(key string) string { return o.do("GET", key)[0] }

func (o *origin) sql(text string, args ...any) {
	o.t.Helper()
	if _, err := o.db.ExecContext(o.t.Context(), text, args...); err != nil {
		o.t.Fatal(err)
	}
}

func (o *origin) scan(query string, args []any, into ...any) {
	o.t.Helper()
	if err := o.db.QueryRowContext(o.t.Context(), query, args...).Scan(into...); err != nil {
		o.t.Fatal(err)
	}
}

// number parses a reply of Redis; an empty one is 0.
func number(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}
