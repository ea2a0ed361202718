package ratelimit

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

var (
	schema  = keyspace.New("limits")
	perUser = keyspace.Def1[keyspace.Int](schema, "limit:user:{n}", keyspace.CounterKind(), keyspace.UpTo(time.Hour),
		keyspace.Doc{Purpose: "calls of a user in a window"})

	names atomic.Int64
)

// fresh returns a key that no other test uses; no two of them share a slot.
func fresh() keyspace.Counter { return perUser.At(keyspace.Int{N: names.Add(1)}) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func allow(t testing.TB, l *Limiter, asks ...Ask) Result {
	t.Helper()
	r, err := l.AllowAll(t.Context(), asks)
	must(t, err)
	return r
}

func count(t testing.TB, db *redis.DB, key keyspace.Counter) int {
	t.Helper()
	n, err := key.Get(t.Context(), db)
	must(t, err)
	return int(n)
}

// wantResult compares everything except Reset, which must be in (0, window].
func wantResult(t testing.TB, got Result, allowed bool, lim Limit, remaining int) {
	t.Helper()
	if want := (Result{allowed, lim.Max, remaining, got.Reset}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got.Reset <= 0 || got.Reset > lim.Window {
		t.Errorf("the window of %s ends in %s", lim.Window, got.Reset)
	}
}

func TestLimiter(t *testing.T) {
	for _, engine := range redistest.Engines(t) {
		t.Run(engine.Name, func(t *testing.T) {
			db := engine.Open(t)
			for _, c := range []struct {
				name string
				test func(*testing.T, *redis.DB, *Limiter)
			}{
				{"a window holds Max calls and says what is left", testWindow},
				{"a window ends and another begins", testWindowEnds},
				{"of many calls at once exactly Max are allowed", testConcurrent},
				{"a refused call is not counted", testRefusedNotCounted},
				{"a counter without a life gets one", testHeals},
				{"a limit that allows nothing refuses and leaves nothing", testZero},
				{"all limits count or none does", testAll},
				{"the tightest of several is the answer", testTightest},
				{"of many calls at once on several limits exactly as many are counted as allowed", testConcurrentAll},
				{"a give-back goes neither below zero nor into another window", testGiveBack},
				{"an error of the server is told and gives back", testServerError},
				{"the process counts as the scripts do", testTwin},
			} {
				t.Run(c.name, func(t *testing.T) {
					l := New(db)
					l.patience = 10 * time.Second // a busy machine is not an outage here
					c.test(t, db, l)
				})
			}
			redistest.KeysDeclared(t, db, schema)
		})
	}
}

func testWindow(t *testing.T, db *redis.DB, l *Limiter) {
	lim, key := Limit{3, time.Minute}, fresh()
	for left := 2; left >= 0; left-- {
		wantResult(t, allow(t, l, Ask{key, lim}), true, lim, left)
	}
	wantResult(t, allow(t, l, Ask{key, lim}), false, lim, 0)
	wantResult(t, allow(t, l, Ask{fresh(), lim}), true, lim, 2)
	tighter := Limit{1, time.Minute}
	wantResult(t, allow(t, l, Ask{key, tighter}), false, tighter, 0)
	if r := allow(t, l); !r.Allowed {
		t.Error("no limit at all refused")
	}
}

func testWindowEnds(t *testing.T, db *redis.DB, l *Limiter) {
	lim := Limit{1, 200 * time.Millisecond}
	var key keyspace.Counter
	var began time.Time
	var refused Result
	eventually.True(t, "a second request within the window", func() bool { // a machine that stalls may send it later
		key = fresh()
		allow(t, l, Ask{key, lim})
		began = time.Now()
		refused = allow(t, l, Ask{key, lim})
		return !refused.Allowed
	})
	wantResult(t, refused, false, lim, 0)
	var next Result
	eventually.True(t, "the window's end", func() bool {
		next = allow(t, l, Ask{key, lim})
		return next.Allowed
	})
	wantResult(t, next, true, lim, 0)
	// The clock of the embedded server has a resolution of 50 ms.
	if end := began.Add(refused.Reset); time.Now().Add(60 * time.Millisecond).Before(end) {
		t.Errorf("the window ended %s before it should", time.Until(end))
	}
}

func testConcurrent(t *testing.T, db *redis.DB, l *Limiter) {
	lim, key := Limit{17, time.Minute}, fresh()
	var allowed atomic.Int64
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			if r, err := l.Allow(t.Context(), key, lim); err != nil {
				t.Error(err)
			} else if r.Allowed {
				allowed.Add(1)
			}
		})
	}
	wg.Wait()
	if allowed.Load() != 17 || count(t, db, key) != 17 {
		t.Errorf("%d allowed and %d counted, want 17", allowed.Load(), count(t, db, key))
	}
}

func testRefusedNotCounted(t *testing.T, db *redis.DB, l *Limiter) {
	key := fresh()
	for range 5 {
		allow(t, l, Ask{key, Limit{2, time.Minute}})
	}
	wider := Limit{4, time.Minute}
	wantResult(t, allow(t, l, Ask{key, wider}), true, wider, 1)
}

func testHeals(t *testing.T, db *redis.DB, l *Limiter) {
	lim := Limit{2, time.Minute}
	for _, stored := range []int{1, 2} { // allowed, refused
		for _, args := range [][]string{{}, {"EX", "3000"}} { // no TTL, a TTL that is too long
			key := fresh()
			must(t, db.Do(t.Context(), keyspace.Cmd{Name: "SET", Key: key.Key, Args: append([]string{strconv.Itoa(stored)}, args...)}).Err)
			wantResult(t, allow(t, l, Ask{key, lim}), stored < 2, lim, 0)
			if ms, err := db.Do(t.Context(), keyspace.Cmd{Name: "PTTL", Key: key.Key}).Int(); err != nil || ms <= 0 || ms > 60_000 {
				t.Errorf("after %d %v the counter lives %d ms (%v), want a minute", stored, args, ms, err)
			}
		}
	}
}

func testZero(t *testing.T, db *redis.DB, l *Limiter) {
	lim, key := Limit{0, time.Minute}, fresh()
	wantResult(t, allow(t, l, Ask{key, lim}), false, lim, 0)
	if n, err := db.Do(t.Context(), keyspace.Cmd{Name: "EXISTS", Key: key.Key}).Int(); n != 0 || err != nil {
		t.Errorf("EXISTS = %d %v, want 0", n, err)
	}
}

func testAll(t *testing.T, db *redis.DB, l *Limiter) {
	lim, once := Limit{5, time.Minute}, Limit{1, time.Minute}
	a, b, c := fresh(), fresh(), fresh()
	if r := allow(t, l, Ask{a, lim}, Ask{b, once}, Ask{c, lim}); !r.Allowed {
		t.Fatalf("%+v", r)
	}
	wantResult(t, allow(t, l, Ask{a, lim}, Ask{b, once}, Ask{c, lim}), false, once, 0)
	for i, key := range []keyspace.Counter{a, b, c} {
		if n := count(t, db, key); n != 1 {
			t.Errorf("counter %d is %d, want 1", i, n)
		}
	}
	twice := fresh()
	two := Limit{2, time.Minute}
	wantResult(t, allow(t, l, Ask{twice, two}, Ask{twice, two}), true, two, 0)
	three := Limit{3, time.Minute}
	wantResult(t, allow(t, l, Ask{twice, three}, Ask{twice, three}), false, three, 0)
	if n := count(t, db, twice); n != 2 {
		t.Errorf("a key named twice and refused has %d, want 2", n)
	}
}

func testTightest(t *testing.T, db *redis.DB, l *Limiter) {
	few, many, long := Limit{2, time.Minute}, Limit{9, time.Minute}, Limit{2, time.Hour}
	wantResult(t, allow(t, l, Ask{fresh(), many}, Ask{fresh(), few}, Ask{fresh(), many}), true, few, 1)
	wantResult(t, allow(t, l, Ask{fresh(), few}, Ask{fresh(), long}), true, long, 1)

	full, fuller := fresh(), fresh()
	for range 2 {
		allow(t, l, Ask{full, few}, Ask{fuller, long})
	}
	if r := allow(t, l, Ask{full, few}, Ask{fuller, long}, Ask{fresh(), Limit{1, time.Minute}}); r.Allowed || r.Reset <= time.Minute {
		t.Errorf("got %+v, want the refusal that lasts longest", r)
	}
}

func testConcurrentAll(t *testing.T, db *redis.DB, l *Limiter) {
	wide, narrow := Limit{30, time.Minute}, Limit{10, time.Minute}
	a, b, c := fresh(), fresh(), fresh()
	var allowed [2]atomic.Int64
	var wg sync.WaitGroup
	for i := range 60 {
		wg.Go(func() {
			asks := [2][]Ask{{{a, wide}, {b, narrow}}, {{c, narrow}, {a, wide}}}[i%2]
			if r, err := l.AllowAll(t.Context(), asks); err != nil {
				t.Error(err)
			} else if r.Allowed {
				allowed[i%2].Add(1)
			}
		})
	}
	wg.Wait()
	x, y := int(allowed[0].Load()), int(allowed[1].Load())
	if x > 10 || y > 10 || x+y == 0 {
		t.Errorf("%d and %d allowed, want some and at most 10 each", x, y)
	}
	if got, want := [3]int{count(t, db, a), count(t, db, b), count(t, db, c)}, [3]int{x + y, x, y}; got != want {
		t.Errorf("counted %v, want %v", got, want)
	}
}

func testGiveBack(t *testing.T, db *redis.DB, l *Limiter) {
	for _, c := range []struct {
		name, stored, life, left string
		want                     int
	}{
		{"its own window", "2", "30000", "40000", 1},
		{"a count of zero", "0", "30000", "40000", 0},
		{"a later window", "1", "50000", "40000", 1},
	} {
		key := fresh()
		must(t, db.Do(t.Context(), keyspace.Cmd{Name: "SET", Key: key.Key, Args: []string{c.stored, "PX", c.life}}).Err)
		must(t, giveback.Run(t.Context(), db, []keyspace.Key{key.Key}, c.left).Err)
		if n := count(t, db, key); n != c.want {
			t.Errorf("%s: the counter is %d, want %d", c.name, n, c.want)
		}
	}
	gone := fresh()
	must(t, giveback.Run(t.Context(), db, []keyspace.Key{gone.Key}, "40000").Err)
	if n, err := db.Do(t.Context(), keyspace.Cmd{Name: "EXISTS", Key: gone.Key}).Int(); n != 0 || err != nil {
		t.Errorf("a window that had ended is back (%v)", err)
	}
	// A call that took longer than the window gives nothing back.
	lim, key := Limit{1, time.Minute}, fresh()
	places, err := l.takeAll(t.Context(), []Ask{{key, lim}})
	must(t, err)
	l.giveBack(t.Context(), places, time.Minute)
	if n := count(t, db, key); n != 1 {
		t.Errorf("a give-back after a window's time left %d, want 1", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l.giveBack(ctx, places, time.Second)
	if n := count(t, db, key); n != 0 {
		t.Errorf("a give-back for a caller who left counts %d, want 0", n)
	}
}

func testServerError(t *testing.T, db *redis.DB, l *Limiter) {
	lim, good, bad := Limit{5, time.Minute}, fresh(), fresh()
	// ErrType would refuse a plain command before it is sent.
	must(t, redis.NewScript("return redis.call('HSET', KEYS[1], 'f', 'v')").Run(t.Context(), db, []keyspace.Key{bad.Key}).Err)
	_, err := l.AllowAll(t.Context(), []Ask{{good, lim}, {bad, lim}})
	var refusal redis.ServerError
	if !errors.As(err, &refusal) {
		t.Errorf("got %v, want the server's error", err)
	}
	if n := count(t, db, good); n != 0 {
		t.Errorf("the other counter is %d, want 0", n)
	}
	must(t, db.Do(t.Context(), keyspace.Cmd{Name: "DEL", Key: bad.Key}).Err)
}

func testTwin(t *testing.T, db *redis.DB, l *Limiter) {
	rapid.Check(t, func(rt *rapid.T) {
		twin := &local{max: 100}
		keys := []keyspace.Counter{fresh(), fresh()}
		var places []place
		for range rapid.IntRange(1, 20).Draw(rt, "steps") {
			if len(places) > 0 && rapid.IntRange(0, 2).Draw(rt, "give back") == 0 {
				p := rapid.SampledFrom(places).Draw(rt, "place")
				twin.giveBack(p.local)
				p.local = window{}
				l.giveBack(t.Context(), []place{p}, 0)
				continue
			}
			key := rapid.SampledFrom(keys).Draw(rt, "key")
			lim := Limit{rapid.IntRange(0, 4).Draw(rt, "max"), time.Minute}
			got, err := l.takeAll(t.Context(), []Ask{{key, lim}})
			must(t, err)
			want, w := twin.count(key.String(), lim, time.Now())
			if got[0].Allowed {
				got[0].local = w
				places = append(places, got[0])
			}
			if g := got[0].Result; g.Allowed != want.Allowed || g.Remaining != want.Remaining || (g.Reset-want.Reset).Abs() > 10*time.Second {
				// the reply may have been late
				rt.Fatalf("the script returned %+v, the process %+v", g, want)
			}
		}
	})
}

func TestLimiter_InvalidLimitIsError(t *testing.T) {
	l := New(redistest.Open(t, "embedded"))
	for _, w := range []time.Duration{0, -time.Second, time.Microsecond, time.Hour + time.Millisecond} {
		if _, err := l.Allow(t.Context(), fresh(), Limit{1, w}); !errors.Is(err, ErrLimit) {
			t.Errorf("a window of %s: %v, want %v", w, err, ErrLimit)
		}
	}
}

func TestLimiter_EndedContextCountsNothing(t *testing.T) {
	db := redistest.Open(t, "embedded")
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	key := fresh()
	if _, err := New(db).Allow(ctx, key, Limit{1, time.Minute}); !errors.Is(err, why) {
		t.Errorf("got %v, want %v", err, why)
	}
	if n := count(t, db, key); n != 0 {
		t.Errorf("counted %d, want 0", n)
	}
}

func TestLimiter_CountsLocallyWhileRedisUnavailable(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		memory := redistest.InMemory(t)
		db := memory.Open(t)
		l := New(db)
		lim, a, b := Limit{7, time.Minute}, fresh(), fresh()
		allow(t, l, Ask{a, lim})
		memory.Kill()

		var allowed atomic.Int64
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if r, err := l.AllowAll(t.Context(), []Ask{{a, lim}, {b, Limit{100, time.Minute}}}); err != nil {
					t.Error(err)
				} else if r.Allowed {
					allowed.Add(1)
				}
			})
		}
		wg.Wait()
		if n := allowed.Load(); n != 7 {
			t.Errorf("%d allowed without redis, want 7", n)
		}
		wantResult(t, allow(t, l, Ask{b, Limit{100, time.Minute}}), true, Limit{100, time.Minute}, 92) // the refused call was given back

		memory.RestartEmpty()
		eventually.True(t, "redis to decide", func() bool { return allow(t, l, Ask{a, lim}).Allowed })
		if n := count(t, db, a); n != 1 {
			t.Errorf("redis counts %d after its return, want 1", n)
		}
	})
}

func TestLimiter_SilentRedisDelaysOneCall(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		wire := redistest.InMemory(t).Wire()
		db := redistest.OpenConfig(t, wire.Config())
		l := New(db)
		lim, key := Limit{1000, minBlockWindow - time.Second}, fresh() // each call sends a request
		allow(t, l, Ask{key, lim})
		wire.BlackHole()
		began := time.Now()
		first := allow(t, l, Ask{key, lim})
		if waited := time.Since(began); !first.Allowed || waited < patience || waited > patience+patience/8 {
			t.Errorf("the first call took %s, want %s", waited, patience)
		}
		// One call per retryEvery sends a request; a hundred calls must not.
		began = time.Now()
		for range 100 {
			allow(t, l, Ask{key, lim})
		}
		if waited := time.Since(began); waited > patience+patience/8 {
			t.Errorf("a hundred calls took %s, want %s at most", waited, patience)
		}
		wire.Heal()
		eventually.True(t, "redis to decide", func() bool { return allow(t, l, Ask{key, lim}).Allowed && l.silent.Load() == 0 })
		before := count(t, db, key)
		allow(t, l, Ask{key, lim})
		if n := count(t, db, key); n != before+1 {
			t.Errorf("redis counts %d after its return, want %d", n, before+1)
		}
	})
}

// A bubble ends only after all goroutines in it have ended.
func TestLimiter_LeavesNoGoroutines(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		memory := redistest.InMemory(t)
		l, key := New(memory.Open(t)), fresh()
		memory.Kill()
		for range 100 {
			allow(t, l, Ask{key, Limit{1, time.Minute}})
		}
	})
}

// The last fraction of a millisecond of a key is 0 in Redis.
func TestRefused_ResetIsNeverZero(t *testing.T) {
	for _, r := range []Result{{}, {Reset: time.Second}} {
		if got := refused(r); got.Reset < time.Millisecond || got.Reset < r.Reset {
			t.Errorf("%+v became %+v", r, got)
		}
	}
	if got := refused(Result{Allowed: true}); got.Reset != 0 {
		t.Errorf("got %+v", got)
	}
}
