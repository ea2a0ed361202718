package checkin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/background/queue"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/checkin/ranking"
	"github.com/stoa-dev/stoa/internal/checkin/records"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/ratelimit"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
	"github.com/stoa-dev/stoa/lib/testing/logtest"
)

// clock is the server's clock in a test. In a bubble it follows the bubble's clock. Elsewhere it advances only by set,
// and by a millisecond at each call.
type clock struct {
	mu      sync.Mutex
	t       time.Time
	virtual bool
	ahead   time.Duration // of the bubble's clock
}

// jump bounds how far sleeping sets a clock. A world has several heartbeats a second even while it sleeps, so that a
// night would take seconds. Beyond a minute, the clock of the domain moves alone, like that of a machine whose time is
// set.
const jump = time.Minute

func newClock(t *testing.T) *clock {
	return &clock{t: bubble.Began, virtual: bubble.In(t)}
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.virtual {
		return time.Now().Add(c.ahead)
	}
	c.t = c.t.Add(time.Millisecond)
	return c.t
}

func (c *clock) set(t time.Time) {
	if by := t.Sub(c.now()); c.virtual && by > 0 && by <= jump {
		bubble.Sleep(by)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t, c.ahead = t, time.Until(t)
}

// world is one node's check-in domain on its engines.
type world struct {
	*Service
	clock *clock
	db    *sqldb.DB
	redis *redis.DB
	stop  func()
	pause func() // stops the consumer of the stream; in redis-first mode
}

// stalls bounds a pause of the machine in the middle of a test. With the budget of a server, Redis would then count as
// away. Results and repairs of SQL use a clock that runs, but the clock of a test jumps over days.
const stalls = 20 * time.Second

func newWorld(t *testing.T, db *sqldb.DB, rdb *redis.DB, rules ...Settings) *world {
	t.Helper()
	return startWorld(t, db, rdb, stalls, rules...)
}

// startWorld is newWorld for a test that depends on Redis' budget.
func startWorld(t *testing.T, db *sqldb.DB, rdb *redis.DB, budget time.Duration, rules ...Settings) *world {
	t.Helper()
	return startWorldAt(t, newClock(t), db, rdb, budget, rules...)
}

func startWorldAt(t *testing.T, c *clock, db *sqldb.DB, rdb *redis.DB, budget time.Duration, rules ...Settings) *world {
	t.Helper()
	var told logtest.Buffer
	log := told.Logger()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("a world's log:\n%s", told.String())
		}
	})
	node := ids.New[world]().String()
	bus := events.NewBus(rdb, node, log)
	users, err := accounts.New(accounts.Config{DB: db, Redis: rdb, Limiter: ratelimit.New(rdb),
		Caches: cache.NewRuntime(rdb, bus.Nodes(), cache.Config{}), Bus: bus, Secret: make([]byte, 32), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	rules = append(rules, Settings{})
	pace := Pace{Budget: budget, ScanPage: 50, RecheckAfter: 100 * time.Millisecond, LaterAgain: time.Millisecond}
	if budget == stalls {
		pace.SQL, pace.Round = stalls, stalls
	}
	if c.virtual { // no machine stalls there
		pace = Pace{}
	}
	w := &world{clock: c, db: db, redis: rdb, Service: New(Config{
		DB: db, Redis: rdb, Users: users, Bus: bus, Node: node,
		Metrics: prometheus.NewRegistry(), Log: log, Now: c.now, Settings: rules[0], Pace: pace,
	})}
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan struct{})
	go func() { defer close(ended); _ = w.Run(ctx, func() { close(ready) }) }()
	<-ready
	w.stop = sync.OnceFunc(func() { cancel(); <-ended })
	t.Cleanup(w.stop)
	if w.Journal() != nil {
		w.pause = w.consume(t)
	}
	return w
}

// consume runs a worker's consumer of the stream until it is stopped.
func (w *world) consume(t *testing.T) (stop func()) {
	t.Helper()
	c, err := queue.NewConsumer(w.Journal(), nil, w.Batches(),
		queue.Config{Claim: 3 * time.Second, Poll: 20 * time.Millisecond, Backoff: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = c.Run(ctx) }()
	stop = sync.OnceFunc(func() { cancel(); <-ended })
	t.Cleanup(stop)
	return stop
}

// persisted waits until SQL has all acknowledged check-ins.
func (w *world) persisted(t *testing.T) {
	t.Helper()
	if w.Journal() == nil {
		return
	}
	eventually.NoError(t, "SQL to have the whole stream", func() error {
		stats, err := w.Journal().Stats(t.Context())
		if err == nil && slices.ContainsFunc(stats, func(s queue.Stat) bool { return s.Depth > 0 }) {
			err = fmt.Errorf("there is more: %+v", stats)
		}
		return err
	})
}

// aof has the settings of Redis that redis-first mode needs.
var aof = []string{"appendonly yes", "appendfsync always"}

// A combination is the engines and settings of a test.
type combination struct {
	name, boards, mode string
	open               func(t *testing.T, own func(*sqldb.Config)) (*sqldb.DB, *redis.DB)
}

func onServers(conf ...string) func(*testing.T, func(*sqldb.Config)) (*sqldb.DB, *redis.DB) {
	return func(t *testing.T, own func(*sqldb.Config)) (*sqldb.DB, *redis.DB) {
		return sqldbtest.Default(t).Open(t, own), redistest.Open(t, redistest.Server(t, conf...).URL)
	}
}

func embedded(t *testing.T, own func(*sqldb.Config)) (*sqldb.DB, *redis.DB) {
	return sqldbtest.SQLite(t, own), redistest.Open(t, "embedded")
}

var (
	inVirtualTime = []combination{
		{"embedded", ranking.Compact, DurableFirst, embedded},
		{"embedded, exact boards", ranking.Exact, DurableFirst, embedded},
		{"embedded, redis first", ranking.Compact, RedisFirst, embedded},
	}
	inRealTime = []combination{
		{"real servers", ranking.Compact, DurableFirst, onServers()},
		{"exact boards", ranking.Exact, DurableFirst, onServers()},
		{"redis first", ranking.Compact, RedisFirst, onServers(aof...)},
	}
)

// worlds runs a test on the embedded engines with each setting, and on real servers with one setting, which the test's
// name selects.
func worlds(t *testing.T, test func(t *testing.T, w *world), rules ...Settings) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(t.Name()))
	one := int(h.Sum32() % uint32(len(inRealTime)))
	tell(t, slices.Concat(inVirtualTime, inRealTime[one:one+1]), test, rules...)
}

// everyWorld is worlds for a test of scripts, statements or the stream: it runs on real servers with each setting.
func everyWorld(t *testing.T, test func(t *testing.T, w *world), rules ...Settings) {
	tell(t, slices.Concat(inVirtualTime, inRealTime), test, rules...)
}

// tell runs a test on some combinations. The database uses the world's clock.
func tell(t *testing.T, on []combination, test func(t *testing.T, w *world), rules ...Settings) {
	rules = append(rules, Settings{})
	for _, e := range on {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel() // because they wait a lot
			run := func(t *testing.T) {
				c := newClock(t)
				db, rdb := e.open(t, func(cfg *sqldb.Config) { cfg.Now = c.now })
				own := rules[0]
				own.Boards, own.Mode = e.boards, e.mode
				test(t, startWorldAt(t, c, db, rdb, stalls, own))
			}
			if strings.HasPrefix(e.name, "embedded") {
				bubble.Test(t, run)
			} else {
				run(t)
			}
		})
	}
}

func (w *world) mustMark(t *testing.T, user accounts.ID, c civil.Clock) Result {
	t.Helper()
	if w.clock.virtual {
		bubble.Sleep(time.Millisecond) // no two users have one place on a board at the same moment
	}
	res, err := w.Mark(t.Context(), user, c, Activity{Words: 10, Minutes: 5}, rand.Uint64())
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// check compares all figures that a user sees, from Redis and from SQL, with the log.
func (w *world) check(t *testing.T, users []accounts.ID, c civil.Clock) {
	t.Helper()
	w.persisted(t)
	histories, err := w.sql.histories(t.Context(), users)
	if err != nil {
		t.Fatal(err)
	}
	today := c.Today(w.clock.now())
	type standing struct {
		user  accounts.ID
		value int
		at    int64
	}
	boards := map[ranking.Board][]standing{}
	for _, user := range users {
		want := expected(histories[user], today)
		got, err := w.Status(t.Context(), user, c)
		got.Freezes, got.Used = 0, 0 // this reference has no rules
		if err != nil || got != want {
			t.Errorf("%s: status %+v, %v, want %+v", user, got, err, want)
		}
		cal, err := w.Calendar(t.Context(), user, c, today.Year(), 0)
		var days []civil.Day
		for _, m := range histories[user].Marks {
			if m.Day.Year() == today.Year() && m.Kind.Signs() {
				days = append(days, m.Day)
			}
		}
		if err != nil || !slices.Equal(cal.Signed, days) {
			t.Errorf("%s: calendar %v, %v, want %v", user, cal.Signed, err, days)
		}
		var at int64
		for _, m := range histories[user].Marks {
			if m.Kind.Signs() {
				at = max(at, m.At.Unix())
			}
		}
		for _, b := range ranking.SeasonsOf(today) {
			if days, at := histories[user].SignedIn(b.Span()); days > 0 {
				boards[b] = append(boards[b], standing{user, days, at.Unix()})
			}
		}
		if want.Streak > 0 {
			_, ran := placed(w.freezes, ranking.StreakBoard, histories[user], today)
			boards[ranking.StreakBoard] = append(boards[ranking.StreakBoard], standing{user, want.Streak, ran.Unix()})
		}
		if want.Total > 0 {
			boards[ranking.TotalBoard] = append(boards[ranking.TotalBoard], standing{user, want.Total, at})
		}
	}
	if w.projection.Up() {
		if err := w.Boards.LoadMissing(t.Context()); err != nil {
			t.Error(err)
		}
	}
	for b, want := range boards {
		slices.SortFunc(want, func(x, y standing) int {
			return cmp.Or(cmp.Compare(y.value, x.value), cmp.Compare(x.at, y.at), cmp.Compare(y.user.String(), x.user.String()))
		})
		for _, user := range users[:min(3, len(users))] {
			read := w.Boards.Read
			if w.projection.Up() {
				read = w.Boards.FromRedis // from Redis alone
			}
			got, err := read(t.Context(), b, user, c, 100, 2)
			if err != nil {
				t.Errorf("board %s: %v", b, err)
				continue
			}
			var places []ranking.Row
			var me *ranking.Row
			for i, s := range want {
				p := ranking.Row{Rank: i + 1, User: s.user, Value: s.value}
				if i < 100 {
					places = append(places, p)
				}
				if s.user == user {
					me = &p
				}
			}
			if !slices.Equal(got.Top, places) {
				t.Errorf("board %s: got %v, want %v", b, got.Top, places)
			}
			if (got.Me == nil) != (me == nil) || me != nil && *got.Me != *me {
				t.Errorf("board %s: my place is %v, want %v", b, got.Me, me)
			}
			var around []ranking.Row
			if me != nil {
				for i := max(me.Rank-3, 0); i < min(me.Rank+2, len(want)); i++ {
					around = append(around, ranking.Row{Rank: i + 1, User: want[i].user, Value: want[i].value})
				}
			}
			if !slices.Equal(got.Around, around) {
				t.Errorf("board %s: around me are %v, want %v", b, got.Around, around)
			}
		}
	}
}

// replay applies the log from a time on, as the projection does.
func (w *world) replay(ctx context.Context, since time.Time) error {
	return w.changed(ctx, since, func(changes []change) error { return w.projection.Renew(ctx, changes...) })
}

// expected returns a user's status by the tally of the log. Package streak compares the tally with a plain set of days.
// It has no freezes.
func expected(h streak.History, today civil.Day) streak.Status {
	st := streak.Status{Day: today}
	var t streak.Tally
	for _, m := range h.Marks {
		t.Add(m)
		st.Today = st.Today || m.Day == today && m.Kind.Signs()
		st.Yesterday = st.Yesterday || m.Day == today-1 && m.Kind.Signs()
	}
	st.Streak, st.Longest, st.Total = t.Streak(today), t.Longest, t.Total
	return st
}

// register gives a user a zone that a rebuild finds.
func (w *world) register(t *testing.T, user accounts.ID, zone string) {
	t.Helper()
	if _, err := w.db.ExecContext(t.Context(), "INSERT INTO users (id, email, email_key, name, zone, zone_next, zone_from, created) VALUES "+
		"(?, ?, ?, ?, ?, '', 0, 0)",
		user, user.String()+"@example.org", user.String()+"@example.org", "Ann", zone); err != nil {
		t.Fatal(err)
	}
}

func newUsers(n int) (users []accounts.ID) {
	for range n {
		users = append(users, ids.New[accounts.User]())
	}
	return users
}

func TestCheckIn_MatchesReference(t *testing.T) {
	t.Parallel()
	everyWorld(t, func(t *testing.T, w *world) {
		users, c := newUsers(12), civil.Clock{Zone: "Asia/Shanghai"}
		at := time.Date(2025, 12, 20, 3, 0, 0, 0, time.UTC)
		for day := range 25 { // over New Year
			w.clock.set(at.AddDate(0, 0, day))
			for _, user := range users {
				if rand.IntN(4) == 0 {
					continue
				}
				if res := w.mustMark(t, user, c); !res.New || !res.Status.Today {
					t.Errorf("%s on day %d: got %+v", user, day, res)
				}
			}
			if day%6 == 5 {
				w.check(t, users, c)
			}
		}
		w.persisted(t) // words and minutes are in SQL only
		st, err := w.Stats(t.Context(), users[0], c)
		if err != nil || st.Words != int64(10*st.Total) || st.Minutes != int64(5*st.Total) {
			t.Errorf("stats: got %+v, %v", st, err)
		}
		redistest.KeysDeclared(t, w.redis, Keys, records.Keys, ranking.Keys, queue.Keys)
	})
}

func TestCheckIn_ConcurrentCountsOnce(t *testing.T) {
	t.Parallel()
	worlds(t, sixtyFourTaps)
}

func sixtyFourTaps(t *testing.T, w *world) {
	user, c := ids.New[accounts.User](), civil.Clock{}
	var mu sync.Mutex
	fresh := 0
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			res, err := w.Mark(t.Context(), user, c, Activity{Words: 1}, rand.Uint64())
			if err != nil || res.Status.Streak != 1 || res.Status.Total != 1 {
				t.Errorf("got %+v, %v", res, err)
			}
			mu.Lock()
			defer mu.Unlock()
			if res.New {
				fresh++
			}
		})
	}
	wg.Wait()
	if fresh != 1 {
		t.Errorf("%d taps were told that they were the first", fresh)
	}
	w.persisted(t)
	if words, _, err := w.sql.activity(t.Context(), user); err != nil || words != 1 {
		t.Errorf("%d words, %v: activity counted more than once", words, err)
	}
}

func TestCheckIn_RetryReturnsFirstResponse(t *testing.T) {
	t.Parallel()
	worlds(t, func(t *testing.T, w *world) {
		user, c, id := ids.New[accounts.User](), civil.Clock{}, rand.Uint64()
		first, err := w.Mark(t.Context(), user, c, Activity{}, id)
		if err != nil {
			t.Fatal(err)
		}
		again, err := w.Mark(t.Context(), user, c, Activity{}, id)
		if err != nil || again != first || !again.New {
			t.Errorf("got %+v, %v, want %+v", again, err, first)
		}
		if other := w.mustMark(t, user, c); other.New || !other.At.Equal(first.At) {
			t.Errorf("another request: got %+v, want New false and the first one's time", other)
		}
	})
}

func TestCheckIn_DayIsInUsersZone(t *testing.T) {
	t.Parallel()
	worlds(t, func(t *testing.T, w *world) {
		user := ids.New[accounts.User]()
		for _, tt := range []struct {
			what, zone, now, day string
			streak               int
		}{
			{"before midnight in New York", "America/New_York", "2026-03-07T04:59:00Z", "2026-03-06", 1},
			{"after it", "America/New_York", "2026-03-07T05:01:00Z", "2026-03-07", 2},
			{"the day of 23 hours", "America/New_York", "2026-03-08T23:00:00Z", "2026-03-08", 3},
			{"the day after, 20 hours later", "America/New_York", "2026-03-09T19:00:00Z", "2026-03-09", 4},
		} {
			now, err := time.Parse(time.RFC3339, tt.now)
			if err != nil {
				t.Fatal(err)
			}
			w.clock.set(now)
			res := w.mustMark(t, user, civil.Clock{Zone: tt.zone})
			if !res.New || res.Status.Day.String() != tt.day || res.Status.Streak != tt.streak {
				t.Errorf("%s: got %+v, want day %s and streak %d", tt.what, res, tt.day, tt.streak)
			}
		}
	})
}

func TestBoard_DeadStreakLeavesAtOnce(t *testing.T) {
	t.Parallel()
	worlds(t, func(t *testing.T, w *world) {
		users := newUsers(3)
		zones := []string{"Asia/Tokyo", "UTC", "America/Los_Angeles"}
		for i, user := range users {
			w.register(t, user, zones[i])
			w.mustMark(t, user, civil.Clock{Zone: zones[i]})
		}
		if err := w.Boards.LoadMissing(t.Context()); err != nil { // now, because a load takes a second of another clock
			t.Fatal(err)
		}
		// All users checked in on the 21st; the 23rd begins in Tokyo, in London, in Los Angeles.
		for i, midnight := range []string{"2026-11-22T15:00:00Z", "2026-11-23T00:00:00Z", "2026-11-23T08:00:00Z"} {
			at, _ := time.Parse(time.RFC3339, midnight)
			w.clock.set(at.Add(-time.Second))
			if r, err := w.Boards.Read(t.Context(), ranking.StreakBoard, users[2], civil.Clock{Zone: zones[2]}, 10, 0); err != nil ||
				len(r.Top) != 3-i {
				t.Errorf("a second before %s: got %v, %v, want %d alive", midnight, r.Top, err, 3-i)
			}
			w.clock.set(at)
			if r, err := w.Boards.Read(t.Context(), ranking.StreakBoard, users[i], civil.Clock{Zone: zones[i]}, 10, 0); err != nil ||
				len(r.Top) != 2-i || r.Me != nil {
				t.Errorf("at %s: got %v, me %v, %v, want %d alive", midnight, r.Top, r.Me, err, 2-i)
			}
		}
	})
}

func TestRedis_EmptiedLosesNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, server.URL))
	users, c := newUsers(20), civil.Clock{}
	for day := range 5 {
		w.clock.set(time.Date(2026, 11, 17+day, 9, 0, 0, 0, time.UTC))
		for i, user := range users {
			if i%(day+2) != 0 {
				w.mustMark(t, user, c)
			}
		}
		server.FlushAll()
		w.check(t, users, c)
		server.FlushAll()
		w.mustMark(t, users[day], c)
		w.clock.set(w.clock.now().Add(ranking.FallbackLife)) // until a board is loaded again, the ranking from SQL may be that old
		w.check(t, users, c)
	}
}

func TestRead_UsesSQLWhileRedisUnavailable(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, server.URL))
	users, c := newUsers(10), civil.Clock{}
	for day := range 4 {
		w.clock.set(time.Date(2026, 11, 17+day, 9, 0, 0, 0, time.UTC))
		if day == 1 {
			server.Kill()
		}
		if day == 3 {
			server.RestartEmpty()
			eventually.True(t, "redis to be complete again", w.projection.Up)
		}
		for _, user := range users {
			if res := w.mustMark(t, user, c); res.Status.Streak != day+1 {
				t.Errorf("day %d: streak %d, want %d", day, res.Status.Streak, day+1)
			}
		}
		w.clock.set(w.clock.now().Add(ranking.FallbackLife)) // the ranking from SQL may be that old
		w.check(t, users, c)
	}
	eventually.Equal(t, "the node to be in order", "", w.Degraded) // a machine that stalls marks Redis as away
}

func TestCheckIn_FrozenRedisDelaysByBudget(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T) {
		wire := redistest.InMemory(t).Wire()
		w := newWorld(t, sqldbtest.SQLite(t), redistest.OpenConfig(t, wire.Config()))
		users, c := newUsers(5), civil.Clock{}
		w.mustMark(t, users[0], c)
		wire.BlackHole()
		for i, user := range users {
			began := time.Now()
			if res := w.mustMark(t, user, c); res.Status.Streak != 1 {
				t.Errorf("while Redis hangs: got %+v", res)
			}
			if took := time.Since(began); took > 2*redisBudget+5*time.Millisecond { // to read and to write, and a batch gathers
				t.Errorf("check-in %d of a Redis that hangs took %s, want two budgets of %s at most", i, took, redisBudget)
			}
		}
		wire.Heal()
		eventually.True(t, "redis to be complete again", w.projection.Up)
		w.check(t, users, c)
	})
}

// A Redis that responds again lacks days until they are applied.
func TestCheckIn_IncompleteRedisUsesSQL(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"))
		user, c := newUsers(1)[0], civil.Clock{}
		for _, date := range []string{"2026-11-19", "2026-11-20", "2026-11-21"} {
			w.on(t, date)
			w.mustMark(t, user, c)
		}
		w.damage(t, user, 2026, func(r *streak.Record) { r.Clear(civil.DayOf(2026, 11, 20), streak.Tapped) })
		w.stop() // no job updates Redis from here on
		w.projection.Missed(w.now(), change{})
		day := w.on(t, "2026-11-22")
		reqs := []request{tap(user, c, day, w.now(), Activity{}, 1)}
		w.projection.Begin(reqs[0].at)
		out, err := w.commit(t.Context(), reqs)
		if err != nil {
			t.Fatal(err)
		}
		w.applyBatch(t.Context(), reqs, out)
		if out[0].err != nil || !out[0].New || out[0].Status.Streak != 4 {
			t.Errorf("got %+v, %v, want a streak of 4", out[0].Result, out[0].err)
		}
		rec, err := w.Service.redis.Read(t.Context(), records.Key{User: user, Year: 2026})
		if err != nil || rec == nil || rec.Streak(day) != 4 {
			t.Errorf("redis was not told: %v, %v", rec, err)
		}
	})
}

func TestRead_NeverStaleAcrossRedisRestart(t *testing.T) {
	t.Parallel()
	db, server := sqldbtest.SQLite(t), redistest.Server(t, "appendonly yes")
	var nodes [2]*world
	for i := range nodes {
		nodes[i] = newWorld(t, db, redistest.Open(t, server.URL))
	}
	users, c := newUsers(8), civil.Clock{}
	var days atomic.Int64
	stop, harmed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(harmed)
		for range 2 {
			server.Kill()
			was := days.Load()
			eventually.True(t, "days without redis", func() bool { return days.Load() > was+2 })
			server.Restart()
			eventually.True(t, "redis to be trusted", func() bool { return nodes[0].projection.Up() && nodes[1].projection.Up() })
		}
		close(stop)
	}()
	began := civil.DayOf(2026, 11, 21)
	behind := 0
	for day, over := began, false; !over && behind < 10; day++ {
		for _, w := range nodes {
			w.clock.set(c.Start(day).Add(9 * time.Hour))
		}
		want := int(day-began) + 1
		var all sync.WaitGroup
		answers := make([][2]streak.Status, len(users))
		for i, user := range users {
			all.Go(func() {
				here, found := nodes[(i+want)%2], nodes[(i+want+1)%2]
				res, err := here.Mark(t.Context(), user, c, Activity{}, rand.Uint64())
				if err != nil || !res.New {
					t.Errorf("got %+v, %v", res, err)
				}
				st, err := found.Status(t.Context(), user, c)
				if err != nil {
					t.Error(err)
				}
				answers[i] = [2]streak.Status{res.Status, st}
			})
		}
		all.Wait()
		days.Add(1)
		for i, a := range answers {
			if a[0].Streak != want || a[1].Streak != want {
				behind++
				t.Errorf("user %d: the tap was answered with a streak of %d, the other node says %d, want %d", i, a[0].Streak, a[1].Streak, want)
			}
		}
		select {
		case <-stop:
			over = true
		default:
		}
	}
	<-harmed
}

// Another node died after its commit: its rows are in SQL, its mark no longer moves, and Redis has records without
// them.
func TestProjection_AppliesRowsOfDeadNode(t *testing.T) {
	t.Parallel()
	worlds(t, func(t *testing.T, w *world) {
		users, c := newUsers(6), civil.Clock{}
		w.clock.set(time.Now())
		for _, user := range users[:3] {
			w.mustMark(t, user, c) // loads their records
		}
		w.clock.set(time.Now())
		var lost []request
		for i, user := range users {
			day := c.Today(w.clock.now())
			if i < 3 {
				day-- // it was late for yesterday
			}
			lost = append(lost, request{user: user, day: day, at: w.clock.now().Truncate(time.Millisecond), kind: streak.Tapped, req: rand.Int64()})
		}
		slices.SortFunc(lost, func(a, b request) int { return cmp.Compare(a.user.String(), b.user.String()) })
		if _, err := w.sql.write(t.Context(), lost); err != nil {
			t.Fatal(err)
		}
		// A busy machine may use SQL. Once Redis has the row, it keeps it.
		eventually.True(t, "Redis to answer without the row: else the test is void", func() bool {
			s, err := w.Status(t.Context(), users[0], c)
			return err == nil && !s.Yesterday
		})
		old := time.Now().Add(-time.Minute).UnixMilli()
		deadMark := fmt.Sprintf("%d %d", old, old)
		hset(t, w, "nodeThatDied", deadMark)
		eventually.True(t, "a replay for the dead node", func() bool {
			marks, err := appliedKey.At().All(t.Context(), w.redis)
			return err == nil && marks["nodeThatDied"] != deadMark
		})
		w.check(t, users, c)
	})
}

// SQL shows a row before it is on disk. A reader then applies it to Redis, although a crash of SQL may lose it.
func TestRecord_DropsDayLostInSQL(t *testing.T) {
	t.Parallel()
	worlds(t, func(t *testing.T, w *world) {
		users, c := newUsers(2), civil.Clock{}
		w.clock.set(time.Now().AddDate(0, 0, -1))
		for _, user := range users {
			w.mustMark(t, user, c)
		}
		w.clock.set(time.Now())
		lost := request{user: users[0], day: c.Today(w.clock.now()), at: w.clock.now(), kind: streak.Tapped}
		if _, _, err := w.Service.redis.Mark(t.Context(), []records.Day{lost.recorded()}, nil); err != nil {
			t.Fatal(err)
		}
		if s, err := w.Status(t.Context(), lost.user, c); err != nil || !s.Today {
			t.Fatalf("the test is void: Redis has not taken the day (%v)", err)
		}
		w.projection.Begin(lost.at)
		w.failed(lost, sqldb.ErrOutcomeUnknown)
		eventually.True(t, "the day to be gone", func() bool {
			s, err := w.Status(t.Context(), lost.user, c)
			return err == nil && !s.Today
		})
		w.check(t, users, c)
	})
}

// A node reads days that it has seen before it writes them. SQL has lost one of them, as after a restored backup, and
// has another one.
func TestCheckIn_DayLostInSQLIsSignedAgain(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"))
		users, c := newUsers(2), civil.Clock{}
		for _, date := range []string{"2026-11-20", "2026-11-21"} {
			w.on(t, date)
			for _, user := range users {
				w.mustMark(t, user, c)
			}
		}
		day := c.Today(w.now())
		if _, err := w.db.ExecContext(t.Context(), "DELETE FROM checkins WHERE user_id = ? AND day = ?", users[0], int32(day)); err != nil {
			t.Fatal(err)
		}
		reqs := []request{tap(users[0], c, day, w.now(), Activity{}, 1), tap(users[1], c, day, w.now(), Activity{}, 2)}
		if a := w.loadAhead(t.Context(), reqs); !a.repeats {
			t.Fatal("the test is void: the node has not seen these days")
		}
		for _, r := range reqs {
			w.projection.Begin(r.at)
		}
		out, err := w.commit(t.Context(), reqs)
		if err != nil || !out[0].New || out[1].New {
			t.Fatalf("the lost day is %+v and the other %+v, %v; want the lost one to be new", out[0].Result, out[1].Result, err)
		}
		w.applyBatch(t.Context(), reqs, out)
		for i, r := range reqs {
			if s := out[i].Status; out[i].err != nil || !s.Today || s.Streak != 2 {
				t.Errorf("%s is told %+v, %v; want a streak of 2", r.user, s, out[i].err)
			}
		}
		w.check(t, users, c)
	})
}

// A server that restarts with an older snapshot has lost the last days of records, and its marks with them.
func TestReplay_CatchesUpOlderRedisSnapshot(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t, "appendonly no", `save ""`)
	w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, server.URL))
	users, c := newUsers(8), civil.Clock{}
	w.clock.set(time.Now().AddDate(0, 0, -1))
	for _, user := range users {
		w.mustMark(t, user, c)
	}
	w.check(t, users, c)
	if _, err := server.Do("SAVE"); err != nil {
		t.Fatal(err)
	}
	w.clock.set(time.Now())
	for _, user := range users {
		w.mustMark(t, user, c)
	}
	server.Kill()
	server.Restart() // with yesterday's snapshot
	if _, err := w.Status(t.Context(), users[0], c); err != nil {
		t.Error(err)
	}
	eventually.True(t, "redis to be complete again", func() bool {
		w.projection.Suspect() // as the first failed command does
		time.Sleep(20 * time.Millisecond)
		return w.projection.Up()
	})
	w.check(t, users, c)
}

func TestStreak_ChangedZoneMovesDeath(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"))
		user := ids.New[accounts.User]()
		now := time.Date(2026, 11, 21, 20, 0, 0, 0, time.UTC) // 09:00 in Pago Pago
		w.clock.set(now)
		if err := w.Boards.LoadMissing(t.Context()); err != nil {
			t.Fatal(err)
		}
		west := civil.Clock{Zone: "Pacific/Pago_Pago"}
		w.mustMark(t, user, west)
		moved, err := west.Change("Pacific/Kiritimati", now)
		if err != nil {
			t.Fatal(err)
		}
		// The 22nd is skipped: on the 23rd, the streak is as alive as the day after.
		w.clock.set(time.UnixMilli(moved.From).Add(time.Hour))
		if s, err := w.Status(t.Context(), user, moved); err != nil || s.Streak != 1 || s.Day.String() != "2026-11-23" {
			t.Errorf("got %+v, %v, want a streak of 1 on the 23rd", s, err)
		}
		if res := w.mustMark(t, user, moved); res.Status.Streak != 2 {
			t.Errorf("got %+v, want a streak of 2", res)
		}
		// The same holds on the board, although no row covers the 22nd yet.
		if r, err := w.Boards.FromRedis(t.Context(), ranking.StreakBoard, user, moved, 1, 0); err != nil || len(r.Top) != 1 ||
			r.Top[0].Value != 2 {
			t.Errorf("the board has %+v, %v, want a streak of 2", r, err)
		}
	})
}

func TestSkippedDate_NotWrittenForErasedUser(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"))
		skipped := civil.Clock{}.Today(w.clock.now()) - 1
		for _, erased := range []int64{0, time.Now().Add(time.Hour).UnixMilli(), -1} { // an active user, a deleted one, an erased one
			user := newUsers(1)[0]
			w.register(t, user, "Pacific/Kiritimati")
			if _, err := w.db.ExecContext(t.Context(), "UPDATE users SET erased = ? WHERE id = ?", erased, user); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := w.ZoneChanged(t.Context(), accounts.ZoneChanged{User: user, Skipped: skipped}); err != nil {
					t.Fatal(err)
				}
			}
			histories, err := w.sql.histories(t.Context(), []accounts.ID{user})
			marks := histories[user].Marks
			if written := len(marks) == 1 && marks[0].Day == skipped && marks[0].Kind == streak.Skipped; err != nil || written != (erased >= 0) {
				t.Errorf("erased %d: the log has %v, %v", erased, marks, err)
			}
		}
	})
}

func TestService_ReturnsErrorsOfCaller(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"))
		user := ids.New[accounts.User]()
		if _, err := w.Calendar(t.Context(), user, civil.Clock{}, 2026, 13); !errors.Is(err, ErrYear) {
			t.Errorf("month 13: got %v", err)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := w.Mark(gone, user, civil.Clock{}, Activity{}, 1); !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that left: got %v", err)
		}
	})
}

func TestMark_NotDelayedByDisconnectedCallers(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"))
		w.clock.set(time.Now().Add(-time.Hour))
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		for range 40 { // about half of them are never queued
			_, _ = w.Mark(gone, ids.New[accounts.User](), civil.Clock{}, Activity{}, rand.Uint64())
		}
		left := time.Now().UnixMilli()
		eventually.True(t, "the mark to move past them", func() bool {
			marks, err := appliedKey.At().All(t.Context(), w.redis)
			if err != nil || len(marks) != 1 {
				return false
			}
			for _, mark := range marks {
				var ms int64
				if _, err := fmt.Sscan(mark, &ms); err != nil || ms <= left {
					return false
				}
			}
			return true
		})
	})
}

func hset(t *testing.T, w *world, field, value string) {
	t.Helper()
	if err := w.redis.Do(t.Context(), appliedKey.At().SetCmd(field, value)).Err; err != nil {
		t.Fatal(err)
	}
}

// A node expects the record as it saw it last, but another node has changed it.
func TestCheckIn_CorrectsStaleGuess(t *testing.T) {
	t.Parallel()
	worlds(t, func(t *testing.T, a *world) {
		b := newWorld(t, a.db, a.redis, a.rules)
		users, c := newUsers(3), civil.Clock{}
		a.clock.set(time.Date(2026, 11, 9, 9, 0, 0, 0, time.UTC)) // a Monday
		if err := a.Boards.LoadMissing(t.Context()); err != nil {
			t.Fatal(err)
		}
		for day := range 7 {
			for _, w := range []*world{a, b} {
				w.clock.set(time.Date(2026, 11, 9+day, 9, 0, 0, 0, time.UTC))
			}
			for i, user := range users {
				if w := []*world{a, b}[(day+i)%2]; day != 4 {
					w.mustMark(t, user, c)
				}
			}
		}
		for _, board := range ranking.Current(a.clock.now()) {
			// A machine that stalls may apply a batch again, which leaves doubt.
			if sure, err := a.Boards.Of(board).Complete(t.Context(), a.clock.now()); err != nil || !sure && a.clock.virtual {
				t.Errorf("board %s is in doubt: %v", board.Key(), err)
			}
		}
		a.check(t, users, c)
		b.check(t, users, c)
	})
}

// Notified listeners load the state at once, and another node may serve it from Redis.
func TestNew_BusDelaysEpochsWhileBehind(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		wire := server.Wire()
		rdb := redistest.OpenConfig(t, wire.Config())
		here, there := events.NewBus(rdb, "here", nil), events.NewBus(server.Open(t), "there", nil)
		s := New(Config{DB: sqldbtest.SQLite(t), Redis: rdb, Bus: here, Node: "here", Metrics: prometheus.NewRegistry(),
			Log: slog.New(slog.DiscardHandler)})
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer stop()
		running.Go(func() { _ = here.Run(ctx, func() {}) })
		running.Go(func() { _ = there.Run(ctx, func() {}) })
		var lost atomic.Int64
		there.Listen(ctx, "ann", &events.Listener{Lost: func() { lost.Add(1) }, Event: func(events.Event, events.Position) {}})
		bubble.Sleep(time.Second)
		s.projection.Begin(time.Now())
		s.projection.Missed(time.Now(), change{}) // the projection does not run
		wire.Refuse()
		here.Publish([]events.Event{events.New(api.EventCheckinMarked, "ann", time.Now(), []byte("{}"))})
		bubble.Sleep(time.Second)
		wire.Heal()
		bubble.Sleep(time.Minute)
		if n := lost.Load(); n != 0 {
			t.Errorf("%d new epochs while Redis lacks a check-in", n)
		}
	})
}
