package leaderboard_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/keyspace"
	"github.com/stoa-dev/stoa/leaderboard"
	"github.com/stoa-dev/stoa/redis"
	"github.com/stoa-dev/stoa/redis/redistest"
)

var (
	schema = keyspace.New("boards")

	scores = keyspace.Def1[keyspace.Text](schema, "board:{{name}}", keyspace.ZSetOf("member → value and time"),
		keyspace.Forever("a board is rewritten, never renewed"), keyspace.Doc{Purpose: "who stands where"})
	deaths = keyspace.Def1[keyspace.Text](schema, "board:{{name}}:deaths", keyspace.ZSetOf("member → Unix ms"),
		keyspace.Forever("goes with the board"), keyspace.Doc{Purpose: "when entries stop to count"})
	loaded = keyspace.Def1[keyspace.Text](schema, "board:{{name}}:loaded", keyspace.BytesOf("leaderboard: state and token"),
		keyspace.Forever("goes with the board"), keyspace.Doc{Purpose: "whether the board is complete"})
)

var (
	names atomic.Int64
	noon  = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
)

// fresh returns the keys of a board that nobody has used.
func fresh() leaderboard.Keys {
	name := keyspace.Text{S: "b" + strconv.FormatInt(names.Add(1), 10)}
	return leaderboard.Keys{Scores: scores.At(name), Deaths: deaths.At(name), Loaded: loaded.At(name)}
}

// ready returns a board that is loaded and empty.
func ready(t testing.TB, db *redis.DB) *leaderboard.Board {
	t.Helper()
	b := leaderboard.Exact(db, fresh())
	must(t, b.Load(t.Context(), slices.Values([]leaderboard.Entry{})))
	return b
}

// apply does what a caller of Update and Restart does.
func apply(t testing.TB, db *redis.DB, b *leaderboard.Board, es ...leaderboard.Entry) {
	t.Helper()
	cmds := b.Update(es)
	for _, call := range b.Restart(es) {
		cmds = append(cmds, call.Cmd())
	}
	must(t, keyspace.FirstErr(db.DoMulti(t.Context(), cmds)))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// top returns the board as text: "bob 7, eve 7".
func top(t testing.TB, b *leaderboard.Board, now time.Time) string {
	t.Helper()
	best, err := b.Top(t.Context(), now, leaderboard.MaxTop)
	must(t, err)
	var out []string
	for i, r := range best {
		if r.Rank != i+1 {
			t.Errorf("entry %d has rank %d", i, r.Rank)
		}
		alone, ok, err := b.Rank(t.Context(), now, r.Member)
		if err != nil || !ok || alone != r {
			t.Errorf("Rank(%s) = %+v %v %v, Top has %+v", r.Member, alone, ok, err, r)
		}
		out = append(out, fmt.Sprint(r.Member, " ", r.Value))
	}
	return strings.Join(out, ", ")
}

func wantTop(t testing.TB, b *leaderboard.Board, now time.Time, want string) {
	t.Helper()
	if got := top(t, b, now); got != want {
		t.Errorf("the board is\n%s, want\n%s", got, want)
	}
}

func entry(member string, value int64, at time.Time) leaderboard.Entry {
	return leaderboard.Entry{Member: member, Value: value, At: at, Dies: noon.Add(24 * time.Hour)}
}

func many(n int, dies time.Time) []leaderboard.Entry {
	es := make([]leaderboard.Entry, n)
	for i := range es {
		es[i] = leaderboard.Entry{Member: fmt.Sprintf("m%06d", i), Value: int64(i), At: noon, Dies: dies}
	}
	return es
}

func TestBoard(t *testing.T) {
	for _, engine := range redistest.Engines(t) {
		t.Run(engine.Name, func(t *testing.T) {
			db := engine.Open(t)
			for _, c := range []struct {
				name string
				test func(*testing.T, *redis.DB)
			}{
				{"the greater value ranks higher, then who was first, then the greater member", testOrder},
				{"an update that is behind changes nothing", testUpdateBehind},
				{"a restart lowers a value unless the stored time is later", testRestart},
				{"an update after a later restart is what the conditions exclude", testExcluded},
				{"a batch holds several entries of one member", testFold},
				{"values and times are exact up to their limits and cut beyond", testLimits},
				{"the dead are neither shown nor counted", testDead},
				{"an entry without death is not swept and outlives an earlier death", testImmortal},
				{"a board without deaths keeps everybody", testNoDeaths},
				{"a sweep removes all that is due and nothing else", testSweep},
				{"a sweep and a read end with their context", testContext},
				{"removed members are gone from both sets", testRemove},
				{"a board that is not loaded does not answer", testNotLoaded},
				{"a load gives way to newer entries and yields to none that are older", testLoad},
				{"a board emptied in mid-load is not marked", testEmptied},
				{"a source that fails marks nothing", testSourceFails},
				{"loads at once complete each other", testTwoLoads},
				{"random histories end as the model says", testHistories},
			} {
				t.Run(c.name, func(t *testing.T) { c.test(t, db) })
			}
			redistest.KeysDeclared(t, db, schema)
		})
	}
}

func testOrder(t *testing.T, db *redis.DB) {
	b := ready(t, db)
	apply(t, db, b,
		entry("late", 7, noon.Add(time.Second)),
		entry("first", 7, noon),
		entry("same2", 7, noon.Add(time.Second+time.Millisecond)), // the same second as late
		entry("best", 8, noon.Add(time.Hour)),
		entry("zero", 0, noon.Add(-time.Hour)))
	wantTop(t, b, noon, "best 8, first 7, same2 7, late 7, zero 0")
	best, err := b.Top(t.Context(), noon, 2)
	must(t, err)
	want := []leaderboard.Ranked{{Rank: 1, Member: "best", Value: 8, At: noon.Add(time.Hour)}, {Rank: 2, Member: "first", Value: 7, At: noon}}
	if !slices.Equal(best, want) {
		t.Errorf("Top(2) = %+v, want %+v", best, want)
	}
	if none, err := b.Top(t.Context(), noon, 0); len(none) != 0 || err != nil {
		t.Errorf("Top(0) = %v %v, want nothing", none, err)
	}
	if r, ok, err := b.Rank(t.Context(), noon, "nobody"); ok || err != nil {
		t.Errorf("Rank(nobody) = %v %v %v, want not found", r, ok, err)
	}
}

func testUpdateBehind(t *testing.T, db *redis.DB) {
	b := ready(t, db)
	apply(t, db, b, entry("eve", 5, noon))
	older := entry("eve", 4, noon.Add(-time.Hour))
	older.Dies = noon.Add(time.Hour)
	apply(t, db, b, older)
	wantTop(t, b, noon.Add(2*time.Hour), "eve 5")
}

func testRestart(t *testing.T, db *redis.DB) {
	b := ready(t, db)
	apply(t, db, b, entry("eve", 9, noon))
	lower := entry("eve", 1, noon.Add(time.Second))
	lower.Restart, lower.Dies = true, noon.Add(time.Hour)
	apply(t, db, b, lower)
	wantTop(t, b, noon, "eve 1")
	wantTop(t, b, noon.Add(time.Hour), "") // the death moved back as well

	apply(t, db, b, lower)
	before := entry("eve", 9, noon)
	before.Restart = true
	apply(t, db, b, before)
	wantTop(t, b, noon, "eve 1")

	same := entry("eve", 0, noon.Add(time.Second))
	same.Restart = true
	apply(t, db, b, same)
	wantTop(t, b, noon, "eve 0")
}

func testExcluded(t *testing.T, db *redis.DB) {
	b := ready(t, db)
	old := entry("eve", 9, noon)
	restart := entry("eve", 1, noon.Add(time.Hour))
	restart.Restart = true
	apply(t, db, b, restart)
	apply(t, db, b, old)
	wantTop(t, b, noon, "eve 9") // GT cannot know better
	apply(t, db, b, restart)
	wantTop(t, b, noon, "eve 1") // and a replay heals it
	old.Restart = true
	apply(t, db, b, old)
	wantTop(t, b, noon, "eve 1") // as it does no harm itself
}

func testFold(t *testing.T, db *redis.DB) {
	b := ready(t, db)
	again := entry("eve", 1, noon.Add(time.Minute))
	again.Restart = true
	apply(t, db, b, entry("eve", 2, noon.Add(time.Hour)), again, entry("eve", 9, noon), entry("bob", 3, noon), entry("bob", 2, noon.Add(-time.Hour)))
	wantTop(t, b, noon, "bob 3, eve 2")

	// The restart takes its member's other entries along: sent after it, as an
	// update, the old one would win.
	es := []leaderboard.Entry{entry("eve", 99, noon), again}
	for _, call := range b.Restart(es) {
		must(t, call.Script.Run(t.Context(), db, call.Keys, call.Args...).Err)
	}
	must(t, keyspace.FirstErr(db.DoMulti(t.Context(), b.Update(es))))
	wantTop(t, b, noon, "bob 3, eve 2")

	longer := entry("bob", 3, noon)
	longer.Dies = longer.Dies.Add(time.Hour)
	never := entry("ada", 3, noon)
	never.Dies = time.Time{}
	apply(t, db, b, longer, entry("bob", 3, noon), entry("ada", 3, noon), never, longer)
	wantTop(t, b, noon.Add(24*time.Hour), "bob 3, ada 3")
	wantTop(t, b, noon.Add(25*time.Hour), "ada 3")
}

func testLimits(t *testing.T, db *redis.DB) {
	b := ready(t, db)
	year := func(y int) time.Time { return time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC) }
	for i, c := range []struct {
		value, want int64
		at, wantAt  time.Time
	}{
		{leaderboard.MaxValue, leaderboard.MaxValue, noon, noon},
		{leaderboard.MaxValue, leaderboard.MaxValue, noon.Add(time.Second), noon.Add(time.Second)},
		{leaderboard.MaxValue + 1, leaderboard.MaxValue, year(2020), year(2020)},
		{-1, 0, year(2019), year(2020)},
		{1, 1, year(2200), year(2020).Add((1<<32 - 1) * time.Second)},
	} {
		member := strconv.Itoa(i)
		apply(t, db, b, entry(member, c.value, c.at))
		r, ok, err := b.Rank(t.Context(), noon, member)
		if err != nil || !ok || r.Value != c.want || !r.At.Equal(c.wantAt) {
			t.Errorf("%d at %s became %d at %s (%v %v), want %d at %s", c.value, c.at, r.Value, r.At, ok, err, c.want, c.wantAt)
		}
	}
	wantTop(t, b, noon, "2 2097151, 0 2097151, 1 2097151, 4 1, 3 0")
}

func testDead(t *testing.T, db *redis.DB) {
	b := ready(t, db)
	midnight := noon.Add(12 * time.Hour)
	apply(t, db, b, many(2500, midnight)...)
	apply(t, db, b, entry("alive", 1, noon))
	if r, _, err := b.Rank(t.Context(), midnight.Add(-time.Millisecond), "alive"); r.Rank != 2500 || err != nil {
		t.Errorf("before midnight alive has rank %d (%v), want 2500", r.Rank, err)
	}
	// Two thousand five hundred are due: three scripts, one call.
	if r, _, err := b.Rank(t.Context(), midnight, "alive"); r.Rank != 1 || err != nil {
		t.Errorf("at midnight alive has rank %d (%v), want 1", r.Rank, err)
	}
	wantTop(t, b, midnight, "alive 1")
	if _, ok, err := b.Rank(t.Context(), midnight, "m002499"); ok || err != nil {
		t.Errorf("the best of the dead is still on the board (%v)", err)
	}
	apply(t, db, b, many(1000, midnight)...) // a late replay: exactly one chunk of dead
	wantTop(t, b, midnight, "alive 1")
}

func testImmortal(t *testing.T, db *redis.DB) {
	b := ready(t, db)
	apply(t, db, b, entry("eve", 1, noon))
	apply(t, db, b, leaderboard.Entry{Member: "eve", Value: 2, At: noon.Add(time.Hour)})
	apply(t, db, b, entry("eve", 1, noon))
	wantTop(t, b, noon.AddDate(500, 0, 0), "eve 2")
}

func testNoDeaths(t *testing.T, db *redis.DB) {
	k := fresh()
	k.Deaths = keyspace.ZSet{}
	b := leaderboard.Exact(db, k)
	must(t, b.Load(t.Context(), slices.Values([]leaderboard.Entry{entry("eve", 1, noon)})))
	lower := entry("bob", 1, noon.Add(time.Hour))
	lower.Restart = true
	apply(t, db, b, entry("bob", 3, noon), entry("ada", 2, noon))
	apply(t, db, b, lower)
	wantTop(t, b, noon.AddDate(1, 0, 0), "ada 2, eve 1, bob 1")
	if n, err := b.Sweep(t.Context(), noon.AddDate(1, 0, 0)); n != 0 || err != nil {
		t.Errorf("Sweep = %d %v, want 0", n, err)
	}
	must(t, b.Remove(t.Context(), "ada"))
	wantTop(t, b, noon, "eve 1, bob 1")
}

func testSweep(t *testing.T, db *redis.DB) {
	b := ready(t, db)
	apply(t, db, b, many(2000, noon)...)
	apply(t, db, b, entry("alive", 1, noon))
	if n, err := b.Sweep(t.Context(), noon.Add(-time.Millisecond)); n != 0 || err != nil {
		t.Errorf("Sweep before the deaths = %d %v, want 0", n, err)
	}
	if n, err := b.Sweep(t.Context(), noon); n != 2000 || err != nil {
		t.Errorf("Sweep = %d %v, want 2000", n, err)
	}
	wantTop(t, b, noon.Add(-time.Hour), "alive 1")
}

func testContext(t *testing.T, db *redis.DB) {
	b := ready(t, db)
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err := b.Sweep(ctx, noon); !errors.Is(err, why) {
		t.Errorf("Sweep: %v, want %v", err, why)
	}
	if _, err := b.Top(ctx, noon, 1); !errors.Is(err, why) {
		t.Errorf("Top: %v, want %v", err, why)
	}
	if _, _, err := b.Rank(ctx, noon, "eve"); !errors.Is(err, why) {
		t.Errorf("Rank: %v, want %v", err, why)
	}
}

func testRemove(t *testing.T, db *redis.DB) {
	k := fresh()
	b := leaderboard.Exact(db, k)
	must(t, b.Load(t.Context(), slices.Values(many(1200, noon.Add(time.Hour)))))
	apply(t, db, b, entry("eve", 1, noon))
	var gone []string
	for _, e := range many(1200, noon) {
		gone = append(gone, e.Member)
	}
	must(t, b.Remove(t.Context(), gone...))
	must(t, b.Remove(t.Context()))
	wantTop(t, b, noon, "eve 1")
	for _, set := range []keyspace.Key{k.Scores.Key, k.Deaths.Key} {
		if n, err := db.Do(t.Context(), keyspace.Cmd{Name: "ZCARD", Key: set}).Int(); n != 1 || err != nil {
			t.Errorf("%s holds %d (%v), want 1", set, n, err)
		}
	}
}

func testNotLoaded(t *testing.T, db *redis.DB) {
	b := leaderboard.Exact(db, fresh())
	apply(t, db, b, entry("eve", 1, noon))
	refuses := func() {
		t.Helper()
		if _, err := b.Top(t.Context(), noon, 1); !errors.Is(err, leaderboard.ErrNotLoaded) {
			t.Errorf("Top: %v, want %v", err, leaderboard.ErrNotLoaded)
		}
		if _, _, err := b.Rank(t.Context(), noon, "eve"); !errors.Is(err, leaderboard.ErrNotLoaded) {
			t.Errorf("Rank: %v, want %v", err, leaderboard.ErrNotLoaded)
		}
	}
	refuses()
	must(t, b.Load(t.Context(), func(yield func(leaderboard.Entry) bool) {
		refuses()
		yield(entry("bob", 2, noon))
	}))
	wantTop(t, b, noon, "bob 2, eve 1")
}

func testLoad(t *testing.T, db *redis.DB) {
	b := leaderboard.Exact(db, fresh())
	lives := noon.Add(24 * time.Hour)
	es := many(2100, lives)
	fresher := leaderboard.Entry{Member: es[2099].Member, Value: 5000, At: noon.Add(time.Second), Dies: lives}
	restarted := leaderboard.Entry{Member: es[2098].Member, Value: 1, At: noon.Add(time.Second), Dies: lives, Restart: true}
	greater := leaderboard.Entry{Member: es[2097].Member, Value: 4000, At: noon, Dies: lives}
	longer := leaderboard.Entry{Member: es[2096].Member, Value: 2096, At: noon, Dies: lives.Add(time.Hour)}
	older := leaderboard.Entry{Member: es[2095].Member, Value: 6000, At: noon.Add(-time.Second), Dies: lives.Add(time.Hour)}
	must(t, b.Load(t.Context(), func(yield func(leaderboard.Entry) bool) {
		for i, e := range es {
			if i == 1500 { // traffic, between two chunks
				apply(t, db, b, fresher, restarted, greater, longer, older)
			}
			e.Restart = true // ignored
			if !yield(e) {
				return
			}
		}
	}))
	best, err := b.Top(t.Context(), noon, 4)
	must(t, err)
	got := fmt.Sprint(best[0].Value, best[1].Value, best[2].Value, best[3].Value)
	if want := "5000 4000 2096 2095"; got != want {
		t.Errorf("the best are %s, want %s", got, want)
	}
	if r, _, err := b.Rank(t.Context(), noon, restarted.Member); r.Value != 1 || err != nil {
		t.Errorf("the restarted entry is %+v (%v), want value 1", r, err)
	}
	// Only the longer life is left of the loaded.
	wantTop(t, b, lives, longer.Member+" 2096")
}

func testEmptied(t *testing.T, db *redis.DB) {
	for _, at := range []int{0, 500, 1000, 1999, 2000} {
		for _, others := range []bool{false, true} {
			k := fresh()
			b := leaderboard.Exact(db, k)
			asked := 0
			err := b.Load(t.Context(), func(yield func(leaderboard.Entry) bool) {
				es := many(2000, noon.Add(time.Hour))
				for i := 0; i <= len(es); i++ {
					asked = i
					if i == at {
						empty(t, db, k)
						if others { // somebody else begins to load before we notice
							_ = b.Load(t.Context(), func(func(leaderboard.Entry) bool) {})
						}
					}
					if i == len(es) || !yield(es[i]) {
						return
					}
				}
			})
			if !errors.Is(err, leaderboard.ErrEmptied) {
				t.Errorf("emptied at %d, others %v: %v, want %v", at, others, err, leaderboard.ErrEmptied)
			}
			if at < 1000 && asked > 1000 {
				t.Errorf("emptied at %d: the load went on to entry %d", at, asked)
			}
			if _, err := b.Top(t.Context(), noon, 1); !others && !errors.Is(err, leaderboard.ErrNotLoaded) {
				t.Errorf("emptied at %d: Top: %v, want %v", at, err, leaderboard.ErrNotLoaded)
			}
		}
	}
}

// empty does to one board what FLUSHALL does to all.
func empty(t testing.TB, db *redis.DB, k leaderboard.Keys) {
	t.Helper()
	for _, key := range []keyspace.Key{k.Loaded.Key, k.Scores.Key, k.Deaths.Key} {
		must(t, db.Do(t.Context(), keyspace.Cmd{Name: "UNLINK", Key: key}).Err)
	}
}

func testSourceFails(t *testing.T, db *redis.DB) {
	b := leaderboard.Exact(db, fresh())
	broken := errors.New("the source broke")
	ctx, cancel := context.WithCancelCause(t.Context())
	err := b.Load(ctx, func(yield func(leaderboard.Entry) bool) {
		yield(entry("eve", 1, noon))
		cancel(broken)
	})
	if !errors.Is(err, broken) {
		t.Errorf("Load: %v, want %v", err, broken)
	}
	if _, err := b.Top(t.Context(), noon, 1); !errors.Is(err, leaderboard.ErrNotLoaded) {
		t.Errorf("Top: %v, want %v", err, leaderboard.ErrNotLoaded)
	}
}

func testTwoLoads(t *testing.T, db *redis.DB) {
	b := leaderboard.Exact(db, fresh())
	must(t, b.Load(t.Context(), func(yield func(leaderboard.Entry) bool) {
		must(t, b.Load(t.Context(), slices.Values(many(3, noon.Add(time.Hour)))))
		wantTop(t, b, noon, "m000002 2, m000001 1, m000000 0")
		for _, e := range many(3, noon.Add(time.Hour)) {
			if !yield(e) {
				return
			}
		}
	}))
	must(t, b.Load(t.Context(), iter.Seq[leaderboard.Entry](func(yield func(leaderboard.Entry) bool) {
		wantTop(t, b, noon, "m000002 2, m000001 1, m000000 0") // a board that is loaded anew keeps answering
	})))
	wantTop(t, b, noon, "m000002 2, m000001 1, m000000 0")
}

func TestUpdateSendsDeathsBeforeScoresInCommandsOfFiveHundred(t *testing.T) {
	k := fresh()
	b := leaderboard.Exact(nil, k)
	var got []string
	for _, c := range b.Update(many(1201, noon)) {
		got = append(got, fmt.Sprint(c.Name, " ", c.Args[0], " ", c.Key == k.Deaths.Key, " ", len(c.Args)/2))
	}
	want := []string{"ZADD GT true 500", "ZADD GT false 500", "ZADD GT true 500", "ZADD GT false 500", "ZADD GT true 201", "ZADD GT false 201"}
	if !slices.Equal(got, want) {
		t.Errorf("commands %q, want %q", got, want)
	}
	if calls := b.Restart(many(3, noon)); len(calls) != 0 {
		t.Errorf("Restart wants %d scripts for entries that do not restart", len(calls))
	}
}

func TestLoadMarksNothingWhenTheServerCameBackFromAnOldSnapshot(t *testing.T) {
	server := redistest.Server(t)
	db := redistest.Open(t, server.URL)
	k := fresh()
	b := leaderboard.Exact(db, k)
	err := b.Load(t.Context(), func(yield func(leaderboard.Entry) bool) {
		for _, e := range many(1000, noon.Add(time.Hour)) {
			if !yield(e) {
				return
			}
		}
		// The snapshot was taken before these entries and after the token.
		token, _, err := k.Loaded.Get(t.Context(), db)
		must(t, err)
		server.RestartEmpty()
		back := redistest.Open(t, server.URL)
		must(t, k.Loaded.Set(t.Context(), back, token))
		for db.Ping(t.Context()) != nil {
			if t.Context().Err() != nil {
				t.Fatal("the server did not come back")
			}
		}
	})
	if !errors.Is(err, leaderboard.ErrEmptied) {
		t.Errorf("Load: %v, want %v", err, leaderboard.ErrEmptied)
	}
	if _, err := b.Top(t.Context(), noon, 1); !errors.Is(err, leaderboard.ErrNotLoaded) {
		t.Errorf("Top: %v, want %v", err, leaderboard.ErrNotLoaded)
	}
}

func TestErrorsSayThatRedisIsAway(t *testing.T) {
	server := redistest.Server(t)
	db := redistest.Open(t, server.URL)
	b := ready(t, db)
	server.Kill()
	_, top := b.Top(t.Context(), noon, 1)
	_, _, rank := b.Rank(t.Context(), noon, "eve")
	_, sweep := b.Sweep(t.Context(), noon)
	for name, err := range map[string]error{
		"Top": top, "Rank": rank, "Sweep": sweep,
		"Remove": b.Remove(t.Context(), "eve"),
		"Load":   b.Load(t.Context(), slices.Values(many(1, noon))),
	} {
		if !errors.Is(err, redis.ErrUnavailable) {
			t.Errorf("%s: %v, want %v", name, err, redis.ErrUnavailable)
		}
	}
}
