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

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/leaderboard"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

var (
	names atomic.Int64
	noon  = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
)

// fresh returns the keys of an unused board.
func fresh() leaderboard.Keys {
	return leaderboard.Named("b" + strconv.FormatInt(names.Add(1), 10))
}

func freshCompact() leaderboard.CompactKeys {
	return leaderboard.NamedCompact("c" + strconv.FormatInt(names.Add(1), 10))
}

// suite is the subject of the conformance tests: a kind of board on a kind of Redis.
type suite struct {
	db      *redis.DB
	compact bool
}

// fresh returns an unused board, and its keys.
func (s suite) fresh() (leaderboard.Board, []keyspace.Key) {
	if s.compact {
		k := freshCompact()
		return leaderboard.Compact(s.db, k), []keyspace.Key{k.State.Key, k.Log.Key, k.Held.Key}
	}
	k := fresh()
	return leaderboard.Exact(s.db, k), []keyspace.Key{k.Loaded.Key, k.Scores.Key, k.Deaths.Key}
}

// ready returns a board that is loaded and empty.
func (s suite) ready(t testing.TB) leaderboard.Board {
	t.Helper()
	b, _ := s.fresh()
	must(t, b.Load(t.Context(), noon, all()))
	return b
}

// all returns a source of entries that does not fail.
func all(es ...leaderboard.Entry) iter.Seq2[leaderboard.Entry, error] {
	return func(yield func(leaderboard.Entry, error) bool) {
		for _, e := range es {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// apply sends an Update as a caller does.
func apply(t testing.TB, db *redis.DB, b leaderboard.Board, es ...leaderboard.Entry) {
	t.Helper()
	must(t, keyspace.FirstErr(db.DoMulti(t.Context(), b.Update(es))))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// top returns the board as text: "bob 7, eve 7".
func top(t testing.TB, b leaderboard.Board, now time.Time) string {
	t.Helper()
	best, err := b.Top(t.Context(), now, leaderboard.MaxTop)
	must(t, err)
	var out []string
	for i, r := range best {
		if r.Rank != i+1 {
			t.Errorf("entry %d has rank %d", i, r.Rank)
		}
		alone, ok, err := b.Rank(t.Context(), now, leaderboard.Entry{Member: r.Member, Value: r.Value, At: r.At})
		if err != nil || !ok || alone != r {
			t.Errorf("Rank(%s) = %+v %v %v, Top has %+v", r.Member, alone, ok, err, r)
		}
		out = append(out, fmt.Sprint(r.Member, " ", r.Value))
	}
	return strings.Join(out, ", ")
}

func wantTop(t testing.TB, b leaderboard.Board, now time.Time, want string) {
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
			t.Parallel()
			db := engine.Open(t)
			for name, s := range map[string]suite{"exact": {db, false}, "compact": {db, true}} {
				t.Run(name, func(t *testing.T) {
					for _, c := range []struct {
						name string
						test func(*testing.T, suite)
					}{
						{"the greater value ranks higher, then who was first, then the greater member", testOrder},
						{"an update that is behind changes nothing", testUpdateBehind},
						{"a restart lowers a value unless the stored time is later", testRestart},
						{"an update after a later restart is what the conditions exclude", testExcluded},
						{"a batch holds several entries of one member", testFold},
						{"values and times are exact up to their limits, and times are cut beyond", testLimits},
						{"a value that has no room is refused", testNoRoom},
						{"one read has the best and a member's rank", testRead},
						{"around a member are its neighbours", testAround},
						{"the dead are neither shown nor counted", testDead},
						{"an entry without death is not swept and outlives an earlier death", testImmortal},
						{"a sweep removes all that is due and nothing else", testSweep},
						{"a sweep and a read end with their context", testContext},
						{"removed members are gone", testRemove},
						{"a dropped board leaves no key", testDrop},
						{"a board that is not loaded does not answer", testNotLoaded},
						{"a load gives way to newer entries and yields to none that are older", testLoad},
						{"a board that is loaded anew keeps answering", testLoadAgain},
						{"a board emptied in mid-load is not marked", testEmptied},
						{"a source that fails marks nothing", testSourceFails},
					} {
						t.Run(c.name, func(t *testing.T) { c.test(t, s) })
					}
				})
			}
			exact, compact := suite{db, false}, suite{db, true}
			t.Run("exact, without deaths all members stay", func(t *testing.T) { testNoDeaths(t, exact) })
			t.Run("exact, loads at once complete each other", func(t *testing.T) { testTwoLoads(t, exact) })
			t.Run("compact, below the best equal values share a rank", func(t *testing.T) { testTies(t, compact) })
			t.Run("compact, unknown ranks return ErrNotLoaded", func(t *testing.T) { testExhausted(t, compact) })
			t.Run("compact, a change also updates the tail of the best", func(t *testing.T) { testTail(t, compact) })
			t.Run("compact, Told undoes wrong standings", func(t *testing.T) { testTold(t, compact) })
			t.Run("compact, a replay asks for a load", func(t *testing.T) { testReplay(t, compact) })
			t.Run("compact, folds during reads lose and repeat no change", func(t *testing.T) { testAtOnce(t, compact) })
			t.Run("compact, a load waits for another, and replaces a lost one", func(t *testing.T) { testTakeover(t, compact) })
			if engine.Name != "spawn" && engine.Name != "sentinel" { // their server is the same as standalone
				t.Run("exact, random histories end as the model says", func(t *testing.T) { testHistories(t, exact) })
				t.Run("compact, random histories end as the model says", func(t *testing.T) { testCounts(t, compact) })
			}
			redistest.KeysDeclared(t, db, leaderboard.Schema)
		})
	}
}

func testOrder(t *testing.T, s suite) {
	b := s.ready(t)
	apply(t, s.db, b,
		entry("late", 7, noon.Add(time.Second)),
		entry("first", 7, noon),
		entry("same2", 7, noon.Add(time.Second+time.Millisecond)), // the same second
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
	if r, ok, err := b.Rank(t.Context(), noon, leaderboard.Entry{Member: "nobody"}); ok || err != nil {
		t.Errorf("Rank of a missing member = %v %v %v, want not found", r, ok, err)
	}
}

func testUpdateBehind(t *testing.T, s suite) {
	b := s.ready(t)
	apply(t, s.db, b, entry("eve", 5, noon))
	older := entry("eve", 4, noon.Add(-time.Hour))
	older.Dies = noon.Add(time.Hour)
	apply(t, s.db, b, older)
	wantTop(t, b, noon.Add(2*time.Hour), "eve 5")
}

func testRestart(t *testing.T, s suite) {
	b := s.ready(t)
	apply(t, s.db, b, entry("eve", 9, noon))
	lower := entry("eve", 1, noon.Add(time.Second))
	lower.Restart, lower.Dies = true, noon.Add(time.Hour)
	apply(t, s.db, b, lower)
	wantTop(t, b, noon, "eve 1")
	wantTop(t, b, noon.Add(time.Hour), "") // the death moved back as well

	apply(t, s.db, b, lower)
	before := entry("eve", 9, noon)
	before.Restart = true
	apply(t, s.db, b, before)
	wantTop(t, b, noon, "eve 1")

	same := entry("eve", 0, noon.Add(time.Second))
	same.Restart = true
	apply(t, s.db, b, same)
	wantTop(t, b, noon, "eve 0")
}

func testExcluded(t *testing.T, s suite) {
	b := s.ready(t)
	old := entry("eve", 9, noon)
	restart := entry("eve", 1, noon.Add(time.Hour))
	restart.Restart = true
	apply(t, s.db, b, restart)
	apply(t, s.db, b, old)
	wantTop(t, b, noon, "eve 9") // GT cannot detect it
	apply(t, s.db, b, restart)
	wantTop(t, b, noon, "eve 1") // a replay repairs it
	old.Restart = true
	apply(t, s.db, b, old)
	wantTop(t, b, noon, "eve 1") // and changes nothing when repeated
}

func testFold(t *testing.T, s suite) {
	b := s.ready(t)
	again := entry("eve", 1, noon.Add(time.Minute))
	again.Restart = true
	apply(t, s.db, b, entry("eve", 2, noon.Add(time.Hour)), again, entry("eve", 9, noon), entry("bob", 3, noon),
		entry("bob", 2, noon.Add(-time.Hour)))
	wantTop(t, b, noon, "bob 3, eve 2")

	// The restart applies to its member's other entries: sent after it as an update, the old one would win.
	es := []leaderboard.Entry{entry("eve", 99, noon), again}
	cmds := b.Update(es)
	slices.Reverse(cmds)
	must(t, keyspace.FirstErr(s.db.DoMulti(t.Context(), cmds)))
	wantTop(t, b, noon, "bob 3, eve 2")

	// As in two separate updates, a lower value and a later time change nothing.
	apply(t, s.db, b, entry("kim", 5, noon), entry("kim", 4, noon.Add(time.Hour)),
		entry("leo", 4, noon), entry("leo", 4, noon.Add(time.Hour)), entry("max", 4, noon.Add(time.Minute)))
	wantTop(t, b, noon, "kim 5, leo 4, max 4, bob 3, eve 2")
	must(t, b.Remove(t.Context(), entry("kim", 5, noon), entry("leo", 4, noon), entry("max", 4, noon)))

	longer := entry("bob", 3, noon)
	longer.Dies = longer.Dies.Add(time.Hour)
	never := entry("ada", 3, noon)
	never.Dies = time.Time{}
	apply(t, s.db, b, longer, entry("bob", 3, noon), entry("ada", 3, noon), never, longer)
	wantTop(t, b, noon.Add(24*time.Hour), "bob 3, ada 3")
	wantTop(t, b, noon.Add(25*time.Hour), "ada 3")
}

func testNoRoom(t *testing.T, s suite) {
	b := s.ready(t)
	good := leaderboard.Entry{Member: "good", Value: 1, At: noon}
	for _, v := range []int64{-1, leaderboard.MaxValue + 1} {
		bad := leaderboard.Entry{Member: "bad", Value: v, At: noon}
		if err := keyspace.FirstErr(s.db.DoMulti(t.Context(), b.Update([]leaderboard.Entry{good, bad}))); !errors.Is(err, leaderboard.ErrValue) {
			t.Errorf("Update of %d: %v, want %v", v, err, leaderboard.ErrValue)
		}
		if err := b.Load(t.Context(), noon, all(bad)); !errors.Is(err, leaderboard.ErrValue) {
			t.Errorf("Load of %d: %v, want %v", v, err, leaderboard.ErrValue)
		}
	}
	if top, err := b.Top(t.Context(), noon, 10); len(top) != 0 || err != nil {
		t.Errorf("got %v, %v", top, err)
	}
}

func testLimits(t *testing.T, s suite) {
	b := s.ready(t)
	year := func(y int) time.Time { return time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC) }
	for i, c := range []struct {
		value, want int64
		at, wantAt  time.Time
	}{
		{leaderboard.MaxValue, leaderboard.MaxValue, noon, noon},
		{leaderboard.MaxValue, leaderboard.MaxValue, noon.Add(time.Second), noon.Add(time.Second)},
		{leaderboard.MaxValue, leaderboard.MaxValue, year(2020), year(2020)},
		{0, 0, year(2019), year(2020)},
		{1, 1, year(2200), year(2020).Add((1<<32 - 1) * time.Second)},
	} {
		member := strconv.Itoa(i)
		apply(t, s.db, b, entry(member, c.value, c.at))
		r, ok, err := b.Rank(t.Context(), noon, leaderboard.Entry{Member: member})
		if err != nil || !ok || r.Value != c.want || !r.At.Equal(c.wantAt) {
			t.Errorf("%d at %s became %d at %s (%v %v), want %d at %s", c.value, c.at, r.Value, r.At, ok, err, c.want, c.wantAt)
		}
	}
	wantTop(t, b, noon, "2 2097151, 0 2097151, 1 2097151, 4 1, 3 0")
}

func testDead(t *testing.T, s suite) {
	b := s.ready(t)
	midnight := noon.Add(12 * time.Hour)
	alive := entry("alive", 1, noon)
	apply(t, s.db, b, many(1400, midnight)[2:]...)
	apply(t, s.db, b, alive)
	if r, _, err := b.Rank(t.Context(), midnight.Add(-time.Millisecond), alive); r.Rank != 1399 || err != nil {
		t.Errorf("before midnight alive has rank %d (%v), want 1399", r.Rank, err)
	}
	// More entries are due than one script removes.
	if r, _, err := b.Rank(t.Context(), midnight, alive); r.Rank != 1 || err != nil {
		t.Errorf("at midnight alive has rank %d (%v), want 1", r.Rank, err)
	}
	wantTop(t, b, midnight, "alive 1")
	best := many(1400, midnight)[1399]
	if _, ok, err := b.Rank(t.Context(), midnight, best); ok || err != nil {
		t.Errorf("the best expired entry is still on the board (%v)", err)
	}
	apply(t, s.db, b, many(1000, midnight)...) // a late replay: exactly one chunk of expired entries
	wantTop(t, b, midnight, "alive 1")
}

func testImmortal(t *testing.T, s suite) {
	b := s.ready(t)
	apply(t, s.db, b, entry("eve", 1, noon))
	apply(t, s.db, b, leaderboard.Entry{Member: "eve", Value: 2, At: noon.Add(time.Hour)})
	apply(t, s.db, b, entry("eve", 1, noon))
	wantTop(t, b, noon.AddDate(500, 0, 0), "eve 2")
}

func testNoDeaths(t *testing.T, s suite) {
	k := fresh()
	k.Deaths = keyspace.ZSet{}
	b := leaderboard.Exact(s.db, k)
	must(t, b.Load(t.Context(), noon, all(entry("eve", 1, noon))))
	lower := entry("bob", 1, noon.Add(time.Hour))
	lower.Restart = true
	apply(t, s.db, b, entry("bob", 3, noon), entry("ada", 2, noon))
	apply(t, s.db, b, lower)
	wantTop(t, b, noon.AddDate(1, 0, 0), "ada 2, eve 1, bob 1")
	if n, err := b.Sweep(t.Context(), noon.AddDate(1, 0, 0)); n != 0 || err != nil {
		t.Errorf("Sweep = %d %v, want 0", n, err)
	}
	must(t, b.Remove(t.Context(), leaderboard.Entry{Member: "ada"}))
	wantTop(t, b, noon, "eve 1, bob 1")
}

func testSweep(t *testing.T, s suite) {
	b := s.ready(t)
	apply(t, s.db, b, many(2001, noon)[1:]...)
	apply(t, s.db, b, entry("alive", 3000, noon))
	if n, err := b.Sweep(t.Context(), noon.Add(-time.Millisecond)); n != 0 || err != nil {
		t.Errorf("Sweep before the deaths = %d %v, want 0", n, err)
	}
	if n, err := b.Sweep(t.Context(), noon); n != 2000 || err != nil {
		t.Errorf("Sweep = %d %v, want 2000", n, err)
	}
	if s.compact {
		// Most of the best are gone, and the following members are not known.
		if _, err := b.Top(t.Context(), noon, 2); !errors.Is(err, leaderboard.ErrNotLoaded) {
			t.Errorf("Top: %v, want %v", err, leaderboard.ErrNotLoaded)
		}
		if done, err := b.Complete(t.Context(), noon); done || err != nil {
			t.Errorf("Complete = %v %v, want false", done, err)
		}
		must(t, b.Load(t.Context(), noon, all(entry("alive", 3000, noon))))
	}
	wantTop(t, b, noon.Add(-time.Hour), "alive 3000")
}

func testContext(t *testing.T, s suite) {
	b := s.ready(t)
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err := b.Sweep(ctx, noon); !errors.Is(err, why) {
		t.Errorf("Sweep: %v, want %v", err, why)
	}
	if _, err := b.Top(ctx, noon, 1); !errors.Is(err, why) {
		t.Errorf("Top: %v, want %v", err, why)
	}
	if _, _, err := b.Rank(ctx, noon, leaderboard.Entry{Member: "eve"}); !errors.Is(err, why) {
		t.Errorf("Rank: %v, want %v", err, why)
	}
}

func testRemove(t *testing.T, s suite) {
	b, keys := s.fresh()
	gone := many(1201, noon.Add(time.Hour))[1:]
	must(t, b.Load(t.Context(), noon, all(gone...)))
	eve := entry("eve", 1, noon)
	apply(t, s.db, b, eve)
	must(t, b.Remove(t.Context(), gone...))
	must(t, b.Remove(t.Context()))
	wantTop(t, b, noon, "eve 1")
	// No entry is left to be swept.
	if n, err := b.Sweep(t.Context(), noon.Add(time.Hour)); n != 0 || err != nil {
		t.Errorf("Sweep = %d %v, want 0", n, err)
	}
	if s.compact {
		return
	}
	for _, set := range keys[1:] {
		if n, err := s.db.Do(t.Context(), keyspace.Cmd{Name: "ZCARD", Key: set}).Int(); n != 1 || err != nil {
			t.Errorf("%s holds %d (%v), want 1", set, n, err)
		}
	}
}

func testDrop(t *testing.T, s suite) {
	b, keys := s.fresh()
	must(t, b.Load(t.Context(), noon, all(entry("bob", 2, noon))))
	apply(t, s.db, b, entry("eve", 1, noon))
	must(t, b.Drop(t.Context()))
	for _, k := range keys {
		if n, err := s.db.Do(t.Context(), keyspace.Cmd{Name: "EXISTS", Key: k}).Int(); n != 0 || err != nil {
			t.Errorf("%s is still there (%v)", k, err)
		}
	}
	if _, err := b.Top(t.Context(), noon, 1); !errors.Is(err, leaderboard.ErrNotLoaded) ||
		!slices.ContainsFunc(keys, func(k keyspace.Key) bool {
			return strings.Contains(err.Error(), k.String())
		}) {
		t.Errorf("Top: %v, want %v and one of %v", err, leaderboard.ErrNotLoaded, keys)
	}
}

func testRead(t *testing.T, s suite) {
	b := s.ready(t)
	apply(t, s.db, b, many(300, noon.Add(time.Hour))...)
	for _, c := range []struct {
		n, best, value int
		rank           int
	}{{10, 10, 299, 1}, {10, 10, 1, 299}, {0, 0, 42, 258}, {400, 300, 100, 200}} {
		me := many(300, noon.Add(time.Hour))[c.value]
		best, mine, ok, err := b.Read(t.Context(), noon, c.n, me)
		must(t, err)
		want := leaderboard.Ranked{Rank: c.rank, Member: me.Member, Value: me.Value, At: noon}
		if len(best) != c.best || !ok || mine != want {
			t.Errorf("Read(%d, %s) = %d entries, %+v %v, want %d, %+v", c.n, me.Member, len(best), mine, ok, c.best, want)
		}
		if c.n > 0 && best[0].Member != "m000299" {
			t.Errorf("the best is %+v", best[0])
		}
	}
	best, _, ok, err := b.Read(t.Context(), noon, 1, leaderboard.Entry{})
	if len(best) != 1 || ok || err != nil {
		t.Errorf("Read without a member = %v %v %v", best, ok, err)
	}
}

func testAround(t *testing.T, s suite) {
	b := s.ready(t)
	es := many(5, noon.Add(time.Hour))
	apply(t, s.db, b, es...)
	apply(t, s.db, b, leaderboard.Entry{Member: "dead", Value: 3, At: noon, Dies: noon})
	for _, c := range []struct {
		me, k int
		want  string
	}{
		{2, 1, "2 m000003, 3 m000002, 4 m000001"},
		{4, 1, "1 m000004, 2 m000003"},
		{1, 9, "1 m000004, 2 m000003, 3 m000002, 4 m000001, 5 m000000"},
		{3, 0, "2 m000003"},
		{3, -1, "2 m000003"},
	} {
		near, err := b.Around(t.Context(), noon, es[c.me], c.k)
		must(t, err)
		var got []string
		for _, r := range near {
			got = append(got, fmt.Sprint(r.Rank, " ", r.Member))
		}
		if got := strings.Join(got, ", "); got != c.want {
			t.Errorf("Around(%d, %d) is %q, want %q", c.me, c.k, got, c.want)
		}
	}
	if near, err := b.Around(t.Context(), noon, leaderboard.Entry{Member: "nobody"}, 3); len(near) != 0 || err != nil {
		t.Errorf("Around a missing member = %v %v, want nothing", near, err)
	}
}

func testNotLoaded(t *testing.T, s suite) {
	b, _ := s.fresh()
	apply(t, s.db, b, entry("eve", 1, noon))
	refuses := func() {
		t.Helper()
		if _, err := b.Top(t.Context(), noon, 1); !errors.Is(err, leaderboard.ErrNotLoaded) {
			t.Errorf("Top: %v, want %v", err, leaderboard.ErrNotLoaded)
		}
		if _, _, err := b.Rank(t.Context(), noon, leaderboard.Entry{Member: "eve"}); !errors.Is(err, leaderboard.ErrNotLoaded) {
			t.Errorf("Rank: %v, want %v", err, leaderboard.ErrNotLoaded)
		}
	}
	refuses()
	must(t, b.Load(t.Context(), noon, func(yield func(leaderboard.Entry, error) bool) {
		refuses()
		yield(entry("bob", 2, noon), nil)
	}))
	wantTop(t, b, noon, "bob 2, eve 1")
}

func testLoad(t *testing.T, s suite) {
	b, _ := s.fresh()
	lives := noon.Add(24 * time.Hour)
	es := many(1400, lives)
	fresher := leaderboard.Entry{Member: es[1399].Member, Value: 5000, At: noon.Add(time.Second), Dies: lives}
	restarted := leaderboard.Entry{Member: es[1398].Member, Value: 1, At: noon.Add(time.Second), Dies: lives, Restart: true}
	greater := leaderboard.Entry{Member: es[1397].Member, Value: 4000, At: noon, Dies: lives}
	longer := leaderboard.Entry{Member: es[1396].Member, Value: 1396, At: noon, Dies: lives.Add(time.Hour)}
	older := leaderboard.Entry{Member: es[1395].Member, Value: 6000, At: noon.Add(-time.Second), Dies: lives.Add(time.Hour)}
	must(t, b.Load(t.Context(), noon, func(yield func(leaderboard.Entry, error) bool) {
		for i, e := range es {
			if i == 1200 { // traffic, between two chunks
				apply(t, s.db, b, fresher, restarted, greater, longer, older)
			}
			e.Restart = true // ignored
			if !yield(e, nil) {
				return
			}
		}
	}))
	best, err := b.Top(t.Context(), noon, 4)
	must(t, err)
	got := fmt.Sprint(best[0].Value, best[1].Value, best[2].Value, best[3].Value)
	if want := "5000 4000 1396 1395"; got != want {
		t.Errorf("the best are %s, want %s", got, want)
	}
	if r, _, err := b.Rank(t.Context(), noon, restarted); r.Value != 1 || err != nil {
		t.Errorf("the restarted entry is %+v (%v), want value 1", r, err)
	}
	// Of the loaded entries only the one with the later death is left.
	wantTop(t, b, lives, longer.Member+" 1396")
}

func testEmptied(t *testing.T, s suite) {
	for _, at := range []int{0, 500, 1000, 1999, 2000} {
		for _, others := range []bool{false, true} {
			b, keys := s.fresh()
			asked := 0
			err := b.Load(t.Context(), noon, func(yield func(leaderboard.Entry, error) bool) {
				es := many(2000, noon.Add(time.Hour))
				for i := 0; i <= len(es); i++ {
					asked = i
					if i == at {
						empty(t, s.db, keys)
						if others { // another node begins to load before this one notices
							_ = b.Load(t.Context(), noon, all())
						}
					}
					if i == len(es) || !yield(es[i], nil) {
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

// empty removes one board like FLUSHALL.
func empty(t testing.TB, db *redis.DB, keys []keyspace.Key) {
	t.Helper()
	for _, key := range keys {
		must(t, db.Do(t.Context(), keyspace.Cmd{Name: "UNLINK", Key: key}).Err)
	}
}

func testSourceFails(t *testing.T, s suite) {
	b, _ := s.fresh()
	broken := errors.New("the source failed")
	err := b.Load(t.Context(), noon, func(yield func(leaderboard.Entry, error) bool) {
		_ = yield(entry("eve", 1, noon), nil) && yield(leaderboard.Entry{}, broken)
	})
	if !errors.Is(err, broken) {
		t.Errorf("Load: %v, want %v", err, broken)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	err = b.Load(ctx, noon, func(yield func(leaderboard.Entry, error) bool) {
		_ = yield(entry("eve", 1, noon), nil)
		cancel(broken)
	})
	if !errors.Is(err, broken) {
		t.Errorf("Load: %v, want %v", err, broken)
	}
	if _, err := b.Top(t.Context(), noon, 1); !errors.Is(err, leaderboard.ErrNotLoaded) {
		t.Errorf("Top: %v, want %v", err, leaderboard.ErrNotLoaded)
	}
	// The next load does not have to wait.
	must(t, b.Load(t.Context(), noon, all()))
}

func testLoadAgain(t *testing.T, s suite) {
	b := s.ready(t)
	must(t, b.Load(t.Context(), noon, all(many(3, noon.Add(time.Hour))...)))
	must(t, b.Load(t.Context(), noon, func(yield func(leaderboard.Entry, error) bool) {
		wantTop(t, b, noon, "m000002 2, m000001 1, m000000 0")
		apply(t, s.db, b, entry("eve", 7, noon))
		wantTop(t, b, noon, "eve 7, m000002 2, m000001 1, m000000 0")
		all(many(3, noon.Add(time.Hour))...)(yield)
	}))
	wantTop(t, b, noon, "eve 7, m000002 2, m000001 1, m000000 0")
}

func testTwoLoads(t *testing.T, s suite) {
	b, _ := s.fresh()
	must(t, b.Load(t.Context(), noon, func(yield func(leaderboard.Entry, error) bool) {
		must(t, b.Load(t.Context(), noon, all(many(3, noon.Add(time.Hour))...)))
		wantTop(t, b, noon, "m000002 2, m000001 1, m000000 0")
		all(many(3, noon.Add(time.Hour))...)(yield)
	}))
	wantTop(t, b, noon, "m000002 2, m000001 1, m000000 0")
}

func TestUpdate_DeathsBeforeScores(t *testing.T) {
	k := fresh()
	b := leaderboard.Exact(nil, k)
	var got []string
	for _, c := range b.Update(many(601, noon)) {
		got = append(got, fmt.Sprint(c.Name, " ", c.Args[0], " ", c.Key == k.Deaths.Key, " ", len(c.Args)/2))
	}
	want := []string{"ZADD GT true 250", "ZADD GT false 250", "ZADD GT true 250", "ZADD GT false 250", "ZADD GT true 101", "ZADD GT false 101"}
	if !slices.Equal(got, want) {
		t.Errorf("commands %q, want %q", got, want)
	}
}

func TestExact_LoadFailsAfterSnapshotRestart(t *testing.T) {
	server := redistest.Server(t)
	db := redistest.Open(t, server.URL)
	k := fresh()
	b := leaderboard.Exact(db, k)
	err := b.Load(t.Context(), noon, func(yield func(leaderboard.Entry, error) bool) {
		for _, e := range many(1000, noon.Add(time.Hour)) {
			if !yield(e, nil) {
				return
			}
		}
		// The snapshot was made after the token was written and before these entries.
		token, _, err := k.Loaded.Get(t.Context(), db)
		must(t, err)
		server.RestartEmpty()
		back := redistest.Open(t, server.URL)
		must(t, k.Loaded.Set(t.Context(), back, token))
		for db.Ping(t.Context()) != nil {
			if t.Context().Err() != nil {
				t.Fatal("the server did not restart")
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

func TestErrors_WithoutRedis(t *testing.T) {
	server := redistest.Server(t)
	db := redistest.Open(t, server.URL)
	b := suite{db: db}.ready(t)
	server.Kill()
	_, top := b.Top(t.Context(), noon, 1)
	_, _, rank := b.Rank(t.Context(), noon, leaderboard.Entry{Member: "eve"})
	_, sweep := b.Sweep(t.Context(), noon)
	for name, err := range map[string]error{
		"Top": top, "Rank": rank, "Sweep": sweep,
		"Remove": b.Remove(t.Context(), leaderboard.Entry{Member: "eve"}),
		"Load":   b.Load(t.Context(), noon, all(many(1, noon)...)),
	} {
		if !errors.Is(err, redis.ErrUnavailable) {
			t.Errorf("%s: %v, want %v", name, err, redis.ErrUnavailable)
		}
	}
}
