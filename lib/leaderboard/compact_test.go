package leaderboard_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/leaderboard"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

func wantRank(t testing.TB, b leaderboard.Board, now time.Time, me leaderboard.Entry, want int) {
	t.Helper()
	r, ok, err := b.Rank(t.Context(), now, me)
	if err != nil || ok != (want > 0) || r.Rank != want {
		t.Errorf("%s with %d has rank %d %v (%v), want %d", me.Member, me.Value, r.Rank, ok, err, want)
	}
}

// moved returns e after its member's value has grown by one.
func moved(e leaderboard.Entry, at time.Time, dies time.Time) leaderboard.Entry {
	return leaderboard.Entry{Member: e.Member, Value: e.Value + 1, At: at, Dies: dies,
		From: leaderboard.Standing{Value: e.Value, Dies: e.Dies}}
}

func testTies(t *testing.T, s suite) {
	b := s.ready(t)
	midnight, next := noon.Add(12*time.Hour), noon.Add(36*time.Hour)
	var es []leaderboard.Entry
	for i := range 4000 { // 40 of each value
		es = append(es, leaderboard.Entry{Member: "m" + strconv.Itoa(i), Value: int64(1 + i/40), At: noon, Dies: midnight})
	}
	apply(t, s.db, b, es...)
	wantRank(t, b, noon, es[0], 4000) // as long as the log contains all members
	_, err := b.Sweep(t.Context(), noon)
	must(t, err)
	wantRank(t, b, noon, es[0], 3961)
	wantRank(t, b, noon, es[39], 3961)
	wantRank(t, b, noon, es[40], 3921)
	if near, err := b.Around(t.Context(), noon, es[0], 2); len(near) != 1 || near[0].Rank != 3961 || err != nil {
		t.Errorf("Around below the best = %v %v, want the member alone", near, err)
	}
	// Half of a value's members grow, and the others expire.
	var grown []leaderboard.Entry
	for _, e := range es[:20] {
		grown = append(grown, moved(e, noon.Add(time.Hour), next))
	}
	apply(t, s.db, b, grown...)
	wantRank(t, b, noon, grown[0], 3921)
	wantRank(t, b, noon, es[39], 3981)
	wantRank(t, b, midnight, grown[0], 1)
	wantRank(t, b, midnight, es[3999], 0)
	wantRank(t, b, next, grown[0], 0)
	// A change from a standing that has expired meanwhile subtracts nothing.
	again := moved(grown[0], next, next.Add(time.Hour))
	_, err = b.Sweep(t.Context(), next)
	must(t, err)
	apply(t, s.db, b, again)
	wantRank(t, b, next, leaderboard.Entry{Member: "other", Value: 1, Dies: next.Add(time.Hour)}, 2)
}

func testExhausted(t *testing.T, s suite) {
	b := leaderboard.SmallCompact(s.db, freshCompact())
	must(t, b.Load(t.Context(), noon, all()))
	midnight := noon.Add(12 * time.Hour)
	es := many(10, midnight)
	for i := range 6 { // the low ones stay alive
		es[i].Dies = midnight.Add(time.Hour)
	}
	apply(t, s.db, b, es...)
	if best, err := b.Top(t.Context(), noon, 3); len(best) != 3 || err != nil {
		t.Errorf("Top = %v %v, want three", best, err)
	}
	// The log contains all members; after a fold, the board only knows the best.
	_, err := b.Sweep(t.Context(), noon)
	must(t, err)
	if done, err := b.Complete(t.Context(), noon); !done || err != nil {
		t.Errorf("Complete = %v %v, want true", done, err)
	}
	for _, n := range []int{1, 3} {
		if best, err := b.Top(t.Context(), midnight, n); !errors.Is(err, leaderboard.ErrNotLoaded) {
			t.Errorf("Top(%d) = %v %v, want %v", n, best, err, leaderboard.ErrNotLoaded)
		}
	}
	if done, err := b.Complete(t.Context(), midnight); done || err != nil {
		t.Errorf("Complete = %v %v, want false", done, err)
	}
	wantRank(t, b, midnight, es[3], 3) // is still counted
	must(t, b.Load(t.Context(), noon, all(es[:6]...)))
	if best, err := b.Top(t.Context(), midnight, 3); len(best) != 3 || best[0].Member != es[5].Member || err != nil {
		t.Errorf("Top = %v %v, want three", best, err)
	}
}

func testTail(t *testing.T, s suite) {
	b := leaderboard.SmallCompact(s.db, freshCompact())
	es := many(5, noon.Add(time.Hour))
	es[1].At = noon.Add(time.Minute)
	must(t, b.Load(t.Context(), noon, all(es...)))
	late := es[1]
	late.Value, late.At, late.Restart = 9, noon, true
	apply(t, s.db, b, late)
	if best, err := b.Top(t.Context(), noon, 1); err != nil || best[0].Member != es[4].Member {
		t.Errorf("Top = %v %v, want %s", best, err, es[4].Member)
	}
	late.At = noon.Add(time.Hour)
	apply(t, s.db, b, late)
	if best, err := b.Top(t.Context(), noon, 1); err != nil || best[0].Member != late.Member {
		t.Errorf("Top = %v %v, want %s", best, err, late.Member)
	}
}

func testTold(t *testing.T, s suite) {
	b := s.ready(t)
	es := many(3000, noon.Add(time.Hour))
	apply(t, s.db, b, es...)
	_, err := b.Sweep(t.Context(), noon)
	must(t, err)
	one, two := es[10], es[20]
	wrong := moved(one, noon, noon.Add(time.Hour))
	wrong.Value = 2900
	right := moved(one, noon, noon.Add(time.Hour))
	right.From, right.Value, right.Told = leaderboard.Standing{Value: one.Value, Dies: one.Dies}, 11, &wrong
	wrong.From.Value = 9 // a second mistake
	apply(t, s.db, b, wrong)
	wantRank(t, b, noon, wrong, 101) // among the best
	wantRank(t, b, noon, two, 2981)
	apply(t, s.db, b, right)
	wantRank(t, b, noon, right, 2989)
	wantRank(t, b, noon, two, 2980)
	wantRank(t, b, noon, es[9], 2991)
	wantRank(t, b, noon, es[8], 2992)
	wantRank(t, b, noon, es[2890], 110)
	if err := b.Remove(t.Context(), two, es[2999]); err != nil {
		t.Error(err)
	}
	wantRank(t, b, noon, right, 2987)
	wantRank(t, b, noon, es[2998], 1)
}

func testReplay(t *testing.T, s suite) {
	b := s.ready(t)
	es := many(2000, noon.Add(time.Hour))
	apply(t, s.db, b, es...)
	best := moved(es[5], noon.Add(time.Second), noon.Add(time.Hour))
	best.Value, best.Replay = 3000, true
	complete := func(want bool, when string) {
		t.Helper()
		if done, err := b.Complete(t.Context(), noon); done != want || err != nil {
			t.Errorf("%s Complete = %v %v, want %v", when, done, err, want)
		}
	}
	complete(true, "at first")
	leaves := leaderboard.Entry{Member: es[7].Member, Replay: true} // whatever its standing was
	if err := b.Remove(t.Context(), leaves); err != nil {
		t.Error(err)
	}
	complete(false, "after a removal that may have been before")
	must(t, b.Load(t.Context(), noon, all(es...)))
	complete(true, "after a load")
	apply(t, s.db, b, best, best)
	complete(false, "after a replay")
	wantRank(t, b, noon, best, 1)
	_, err := b.Sweep(t.Context(), noon)
	must(t, err)
	complete(false, "after a sweep")
	wantRank(t, b, noon, best, 1)
	es[5] = best
	must(t, b.Load(t.Context(), noon, all(es...)))
	complete(true, "after a load")
	wantRank(t, b, noon, es[4], 1996)
}

func testTakeover(t *testing.T, s suite) {
	k := freshCompact()
	b := leaderboard.Compact(s.db, k)
	set := func(fields ...string) {
		must(t, s.db.Do(t.Context(), keyspace.Cmd{Name: "HSET", Key: k.State.Key, Args: fields}).Err)
	}
	begun, ended := make(chan struct{}), make(chan error)
	err := b.Load(t.Context(), noon, func(yield func(leaderboard.Entry, error) bool) {
		go func() {
			close(begun)
			ended <- b.Load(t.Context(), noon, all(entry("second", 2, noon)))
		}()
		<-begun
		apply(t, s.db, b, entry("live", 3, noon))
		_, err := b.Sweep(t.Context(), noon)
		must(t, err)
		yield(entry("first", 1, noon), nil)
	})
	must(t, err)
	must(t, <-ended)
	if got := top(t, b, noon); got != "live 3, first 1" && got != "live 3, second 2" {
		t.Errorf("the board is %q", got)
	}
	// A lost load is replaced.
	set("load", "lost", "beat", "1")
	must(t, b.Load(t.Context(), noon, all(entry("third", 3, noon))))
	wantTop(t, b, noon, "third 3")
	// A sweep ends it as well.
	set("load", "lost", "beat", "2")
	sweeps := 0
	for held := int64(1); held == 1; sweeps++ {
		_, err = b.Sweep(t.Context(), noon)
		must(t, err)
		held, err = s.db.Do(t.Context(), keyspace.Cmd{Name: "HEXISTS", Key: k.State.Key, Args: []string{"load"}}).Int()
		must(t, err)
	}
	if sweeps < 2 {
		t.Error("a load was ended without being watched")
	}
	// A slow load is not lost, and a load that has lost its token ends.
	err = b.Load(t.Context(), noon, func(yield func(leaderboard.Entry, error) bool) {
		const old = "3"
		set("beat", old)
		for {
			now, _, err := s.db.Do(t.Context(), keyspace.Cmd{Name: "HGET", Key: k.State.Key, Args: []string{"beat"}}).Text()
			must(t, err)
			if now != old {
				break
			}
		}
		set("load", "another")
		yield(entry("fourth", 9, noon), nil)
	})
	if !errors.Is(err, leaderboard.ErrEmptied) {
		t.Errorf("Load: %v, want %v", err, leaderboard.ErrEmptied)
	}
	wantTop(t, b, noon, "third 3")
}

// testAtOnce watches from the bottom how other members pass, one by one, while several goroutines fold the log: each
// must be counted once.
func testAtOnce(t *testing.T, s suite) {
	k := freshCompact()
	b := leaderboard.SmallCompact(s.db, k)
	const n = 400
	es := many(n+1, time.Time{})
	for i := range es {
		es[i].Value = 1
	}
	must(t, b.Load(t.Context(), noon, all(es...)))
	var sent, done atomic.Int64
	var others sync.WaitGroup
	for range 2 {
		others.Go(func() {
			hand := leaderboard.SmallCompact(s.db, k)
			for done.Load() < n {
				if _, err := hand.Sweep(t.Context(), noon); err != nil {
					t.Error(err)
					return
				}
			}
		})
		others.Go(func() {
			eye := leaderboard.SmallCompact(s.db, k)
			for done.Load() < n {
				least := done.Load() + 1
				r, _, err := eye.Rank(t.Context(), noon, es[0])
				if largest := sent.Load() + 1; err != nil || int64(r.Rank) < least || int64(r.Rank) > largest {
					t.Errorf("rank %d (%v), want one from %d to %d", r.Rank, err, least, largest)
					return
				}
			}
		})
	}
	for _, e := range es[1:] {
		sent.Add(1)
		apply(t, s.db, b, moved(e, noon, time.Time{}))
		done.Add(1)
	}
	others.Wait()
	wantRank(t, b, noon, es[0], n+1)
}

// testCounts draws histories of members that move, make mistakes and are replayed, with concurrent sweeps and loads, on
// a board that knows few of the best. It compares every rank with the truth.
func testCounts(t *testing.T, s suite) {
	rapid.Check(t, func(rt *rapid.T) {
		b := leaderboard.SmallCompact(s.db, freshCompact())
		must(t, b.Load(t.Context(), noon, all()))
		now := noon
		truth := map[string]leaderboard.Entry{}
		doubt := false
		var log []string
		say := func(what string, args ...any) { log = append(log, fmt.Sprintf(what, args...)) }

		send := func(es ...leaderboard.Entry) {
			say("apply %+v", es)
			apply(t, s.db, b, es...)
		}
		// late is committed but not sent yet.
		var late []leaderboard.Entry
		// next commits a change of one member, whose earlier changes were sent.
		next := func() leaderboard.Entry {
			m := "m" + strconv.Itoa(rapid.IntRange(0, 11).Draw(rt, "member"))
			if slices.ContainsFunc(late, func(l leaderboard.Entry) bool { return l.Member == m }) {
				send(late...)
				late = nil
			}
			was := truth[m]
			now = now.Add(time.Second) // events within one second are the same
			e := leaderboard.Entry{Member: m, Value: was.Value + 1, At: now, From: leaderboard.Standing{Value: was.Value, Dies: was.Dies}}
			if rapid.IntRange(0, 3).Draw(rt, "restart") == 0 {
				e.Value, e.Restart = rapid.Int64Range(1, 4).Draw(rt, "value"), true
			}
			if rapid.IntRange(0, 4).Draw(rt, "immortal") > 0 {
				e.Dies = now.Add(time.Duration(rapid.IntRange(1, 60).Draw(rt, "life")) * time.Second)
			}
			if !e.Restart && was.Value > 0 && (was.Dies.IsZero() || !e.Dies.IsZero() && e.Dies.Before(was.Dies)) {
				e.Dies = was.Dies // never earlier within a run
			}
			if !e.Restart && was.Value > 0 && !was.Dies.IsZero() && !was.Dies.After(now) {
				e.Restart = true
			}
			truth[m] = e
			return e
		}
		live := func() {
			e := next()
			switch rapid.IntRange(0, 9).Draw(rt, "mistake") {
			case 0:
				wrong := e
				wrong.Value += rapid.Int64Range(-1, 5).Draw(rt, "wrong")
				send(wrong)
				e.Told = &wrong
			case 1:
				e.Replay, doubt = true, true
				if rapid.Bool().Draw(rt, "sent before") {
					first := e
					first.Replay = false
					send(first)
				}
			}
			send(e)
		}
		check := func() {
			type stand struct{ exact, shared int }
			order := make([]leaderboard.Entry, 0, len(truth))
			for _, e := range truth {
				if e.Dies.IsZero() || e.Dies.After(now) {
					order = append(order, e)
				}
			}
			slices.SortFunc(order, func(a, b leaderboard.Entry) int {
				return cmp.Or(cmp.Compare(b.Value, a.Value), a.At.Compare(b.At), cmp.Compare(b.Member, a.Member))
			})
			for n := 1; n <= 3; n++ {
				best, err := b.Top(t.Context(), now, n)
				if errors.Is(err, leaderboard.ErrNotLoaded) {
					if done, err := b.Complete(t.Context(), now); done || err != nil {
						rt.Errorf("Top(%d) is not known although Complete is %v (%v)", n, done, err)
					}
					continue
				}
				must(t, err)
				var got, want []string
				for _, r := range best {
					got = append(got, fmt.Sprint(r.Rank, r.Member, r.Value))
				}
				for i, e := range order[:min(n, len(order))] {
					want = append(want, fmt.Sprint(i+1, e.Member, e.Value))
				}
				if !slices.Equal(got, want) {
					rt.Fatalf("at %s the best are %q, want %q after\n%s", now, got, want, strings.Join(log, "\n"))
				}
			}
			if doubt {
				return
			}
			ranks := map[string]stand{}
			for i, e := range order {
				shared := slices.IndexFunc(order, func(o leaderboard.Entry) bool { return o.Value == e.Value })
				ranks[e.Member] = stand{i + 1, shared + 1}
			}
			for m, e := range truth {
				r, ok, err := b.Rank(t.Context(), now, e)
				must(t, err)
				if want, on := ranks[m]; ok != on || on && r.Rank != want.exact && r.Rank != want.shared || on && r.Value != e.Value {
					rt.Fatalf("at %s %s is %+v %v, want %+v %v after\n%s", now, m, r, ok, want, on, strings.Join(log, "\n"))
				}
			}
		}
		load := func(beside bool) {
			say("load")
			must(t, b.Load(t.Context(), now, func(yield func(leaderboard.Entry, error) bool) {
				for i := range 12 {
					what := 5
					if beside {
						what = rapid.IntRange(0, 5).Draw(rt, "beside")
					}
					switch what {
					case 0:
						live()
					case 1: // committed, and sent before the load has ended
						late = append(late, next())
					case 2:
						_, err := b.Sweep(t.Context(), now)
						must(t, err)
					}
					if e, ok := truth["m"+strconv.Itoa(i)]; ok {
						say("count %+v", e)
						if !yield(e, nil) {
							return
						}
					}
				}
				send(late...)
				late = nil
			}))
			doubt = false
		}
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			switch rapid.IntRange(0, 9).Draw(rt, "step") {
			case 0:
				say("sweep %s", now)
				_, err := b.Sweep(t.Context(), now)
				must(t, err)
			case 1:
				load(true)
			case 2:
				now = now.Add(time.Duration(rapid.IntRange(1, 40).Draw(rt, "pause")) * time.Second)
			default:
				live()
			}
			now = now.Add(time.Second)
			check()
		}
		load(false)
		if done, err := b.Complete(t.Context(), now); !done || err != nil {
			rt.Errorf("after a load Complete is %v (%v)", done, err)
		}
		check()
	})
}

// The owner of a streak moves east, where it expires sooner, but the load has read the previous time zone.
func TestCompact_EarlierDeathDuringLoadLeavesDoubt(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		db := redistest.InMemory(t).Open(t)
		b := leaderboard.Compact(db, freshCompact())
		before := entry("ada", 5, noon)
		moved := before
		moved.Dies, moved.Replay, moved.Restart = before.Dies.Add(-8*time.Hour), true, true
		must(t, b.Load(t.Context(), noon, func(yield func(leaderboard.Entry, error) bool) {
			apply(t, db, b, moved)
			all(before)(yield)
		}))
		if done, err := b.Complete(t.Context(), noon); done || err != nil {
			t.Errorf("Complete = %v, %v after a load that knew a later death", done, err)
		}
		must(t, b.Load(t.Context(), noon, all(moved)))
		if done, err := b.Complete(t.Context(), noon); !done || err != nil {
			t.Errorf("Complete = %v, %v after the next load", done, err)
		}
		wantTop(t, b, moved.Dies, "")
	})
}

// Two writers of one value, one of which missed the other's event, may send a board two different times for it.
// Without a load, the replay of one leaves the board in doubt; during a load it must do so, too.
func TestCompact_ContradictedTimeDuringLoadLeavesDoubt(t *testing.T) {
	later := noon.Add(5 * time.Second)
	first, second := entry("ada", 1, noon), entry("ada", 1, later)
	replayed := first
	replayed.Replay = true
	for name, tt := range map[string]struct {
		beside, truth []leaderboard.Entry
	}{
		"the truth has the other time":      {beside: []leaderboard.Entry{second}, truth: []leaderboard.Entry{first}},
		"it has, and the other is replayed": {beside: []leaderboard.Entry{second, replayed}, truth: []leaderboard.Entry{first}},
		"the truth has neither yet":         {beside: []leaderboard.Entry{second, replayed}},
	} {
		t.Run(name, func(t *testing.T) {
			redistest.Bubble(t, func(t *testing.T) {
				db := redistest.InMemory(t).Open(t)
				b := leaderboard.Compact(db, freshCompact())
				must(t, b.Load(t.Context(), noon, func(yield func(leaderboard.Entry, error) bool) {
					apply(t, db, b, tt.beside...)
					all(append(tt.truth, entry("bob", 1, noon.Add(time.Second)))...)(yield)
				}))
				if done, err := b.Complete(t.Context(), noon); done || err != nil {
					t.Errorf("Complete = %v, %v after a contradicted load", done, err)
				}
				must(t, b.Load(t.Context(), noon, all(first, entry("bob", 1, noon.Add(time.Second)))))
				wantTop(t, b, noon, "ada 1, bob 1")
				if done, err := b.Complete(t.Context(), noon); !done || err != nil {
					t.Errorf("Complete = %v, %v after the next load", done, err)
				}
			})
		})
	}
}

func TestCompact_WaiterLoadsAfterFailedLoad(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		k := freshCompact()
		a, b := leaderboard.Compact(server.Open(t), k), leaderboard.Compact(server.Open(t), k)
		must(t, a.Load(t.Context(), noon, all(entry("old", 1, noon))))
		broken := errors.New("the query failed")
		begun, failed := make(chan struct{}), make(chan error, 1)
		go func() {
			failed <- a.Load(t.Context(), noon, func(yield func(leaderboard.Entry, error) bool) {
				close(begun)
				time.Sleep(time.Second)
				yield(leaderboard.Entry{}, broken)
			})
		}()
		<-begun
		must(t, b.Load(t.Context(), noon, all(entry("new", 2, noon))))
		if err := <-failed; !errors.Is(err, broken) {
			t.Errorf("Load: %v, want %v", err, broken)
		}
		wantTop(t, b, noon, "new 2")
	})
}

func TestCompact_LoadFailsAfterSnapshotRestart(t *testing.T) {
	server := redistest.Server(t)
	db := redistest.Open(t, server.URL)
	k := freshCompact()
	b := leaderboard.Compact(db, k)
	err := b.Load(t.Context(), noon, func(yield func(leaderboard.Entry, error) bool) {
		yield(entry("eve", 1, noon), nil)
		reply, err := db.Do(t.Context(), keyspace.Cmd{Name: "HGETALL", Key: k.State.Key}).Items()
		must(t, err)
		server.RestartEmpty()
		back := redistest.Open(t, server.URL)
		var args []string
		for _, r := range reply {
			args = append(args, r.Str)
		}
		must(t, back.Do(t.Context(), keyspace.Cmd{Name: "HSET", Key: k.State.Key, Args: args}).Err)
		for db.Ping(t.Context()) != nil {
			if t.Context().Err() != nil {
				t.Fatal("the server did not restart")
			}
		}
	})
	if !errors.Is(err, leaderboard.ErrEmptied) {
		t.Errorf("Load: %v, want %v", err, leaderboard.ErrEmptied)
	}
}

// A load whose Redis is lost cannot record its end. If Redis returns with the load still recorded, other loads must not
// wait until its silence is long enough.
func TestCompact_LoadEndedInOutageBlocksNoOthers(t *testing.T) {
	server := redistest.Server(t, "appendonly yes", "appendfsync always")
	db := redistest.Open(t, server.URL)
	k := freshCompact()
	b := leaderboard.Compact(db, k)
	err := b.Load(t.Context(), noon, func(yield func(leaderboard.Entry, error) bool) {
		server.Kill()
		yield(entry("eve", 1, noon), nil)
	})
	if !errors.Is(err, redis.ErrUnavailable) {
		t.Fatalf("Load: %v, want %v", err, redis.ErrUnavailable)
	}
	server.Restart()
	for db.Ping(t.Context()) != nil {
		if t.Context().Err() != nil {
			t.Fatal("the server did not restart")
		}
	}
	noted := func() int64 {
		n, err := db.Do(t.Context(), keyspace.Cmd{Name: "HEXISTS", Key: k.State.Key, Args: []string{"load"}}).Int()
		must(t, err)
		return n
	}
	if noted() == 0 {
		t.Fatal("the load is no longer recorded: nothing was tested")
	}
	_, err = b.Sweep(t.Context(), noon)
	must(t, err)
	if noted() == 1 {
		t.Error("the ended load still blocks others")
	}
}
