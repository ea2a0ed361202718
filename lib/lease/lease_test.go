package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// life is the life of leases in tests on real servers.
const life = time.Second

var (
	schema = keyspace.New("leases")
	leases = keyspace.Def1[keyspace.Int](schema, "lease:{{n}}", keyspace.BytesOf("token nonce owner"), keyspace.Lease(time.Minute),
		keyspace.Doc{Purpose: "who holds it"})
	fences = keyspace.Def1[keyspace.Int](schema, "lease:{{n}}:fence", keyspace.CounterKind(), keyspace.Forever("tokens must rise"),
		keyspace.Doc{Purpose: "the last token given"})
	mortal = keyspace.Def1[keyspace.Int](schema, "lease:{{n}}:brief", keyspace.CounterKind(), keyspace.Expire(time.Hour),
		keyspace.Doc{Purpose: "the last token given, of leases that come and go"})

	names atomic.Int64
)

// fresh returns keys that no other test uses.
func fresh() Keys {
	n := keyspace.Int{N: names.Add(1)}
	return Keys{leases.At(n), fences.At(n)}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// giveBack releases a lease, even on a machine that stalls for longer than Release waits.
func giveBack(ctx context.Context, t *testing.T, h *Held) {
	t.Helper()
	eventually.NoError(t, "the release", func() error { return h.Release(ctx) })
}

type testCase struct {
	name string
	test func(*testing.T, *redis.DB, *Leases)
}

// cases do not depend on the speed of the machine.
var cases = []testCase{
	{"one holds it, and another after its release", testExclusive},
	{"only its own holder renews and releases it", testOwn},
	{"a dead holder's lease is free after its life", testTakeOver},
	{"tokens rise, also when the fence was lost", testTokens},
	{"a fence may expire", testMortalFence},
	{"what the function returns ends the run and the lease", testReturns},
	{"a context that ends releases the lease", testContextEnds},
	{"a waiting run ends with its context", testWaitingEnds},
	{"a panic of the function releases the lease", testPanic},
}

func TestLease(t *testing.T) {
	for _, engine := range redistest.Engines(t) {
		if engine.Name == "embedded" {
			continue // it runs in a bubble
		}
		t.Run(engine.Name, func(t *testing.T) {
			t.Parallel()
			db := engine.Open(t)
			t.Run("cases", func(t *testing.T) {
				for _, c := range cases {
					t.Run(c.name, func(t *testing.T) {
						t.Parallel()
						c.test(t, db, New(db))
					})
				}
			})
			redistest.KeysDeclared(t, db, schema)
		})
	}
}

func TestLeaseInVirtualTime(t *testing.T) {
	for _, c := range append([]testCase{
		{"a run begins as soon as a dead holder's lease ends", testHeirInTime},
		{"a renewed lease lives on", testRenewed},
		{"of many processes one at a time runs", testOneAtATime},
		{"a lease that was taken away cancels the function and is taken again", testLost},
		{"a run within a run survives the loss of the outer", testNested},
	}, cases...) {
		t.Run(c.name, func(t *testing.T) {
			redistest.Bubble(t, func(t *testing.T) {
				db := redistest.Open(t, "embedded")
				c.test(t, db, New(db))
				redistest.KeysDeclared(t, db, schema)
			})
		})
	}
}

func testExclusive(t *testing.T, db *redis.DB, l *Leases) {
	k := fresh()
	if h, ok, err := l.Holder(t.Context(), k); ok || err != nil {
		t.Errorf("Holder of a free lease = %+v %v %v", h, ok, err)
	}
	a, err := l.Acquire(t.Context(), k, "node a", time.Minute)
	must(t, err)
	for _, owner := range []string{"node b", "node a"} {
		if _, err := l.Acquire(t.Context(), k, owner, time.Minute); !errors.Is(err, ErrHeld) || !strings.Contains(err.Error(), "node a") {
			t.Errorf("Acquire for %s: %v, want %v by node a", owner, err, ErrHeld)
		}
	}
	h, ok, err := l.Holder(t.Context(), k)
	if err != nil || !ok || h.Owner != "node a" || h.Token != a.Token || h.Left <= 50*time.Second || h.Left > time.Minute {
		t.Errorf("Holder = %+v %v %v, want node a with token %d for a minute", h, ok, err, a.Token)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	giveBack(ended, t, a)
	b, err := l.Acquire(t.Context(), k, "node b", time.Minute)
	must(t, err)
	if b.Token <= a.Token {
		t.Errorf("token %d after %d", b.Token, a.Token)
	}
}

func testOwn(t *testing.T, db *redis.DB, l *Leases) {
	k := fresh()
	a, err := l.Acquire(t.Context(), k, "twin", time.Minute)
	must(t, err)
	giveBack(t.Context(), t, a)
	b, err := l.Acquire(t.Context(), k, "twin", 40*time.Second)
	must(t, err)
	if err := a.Renew(t.Context()); !errors.Is(err, ErrLost) {
		t.Errorf("renewing another's lease: %v, want %v", err, ErrLost)
	}
	giveBack(t.Context(), t, a)
	if h, ok, err := l.Holder(t.Context(), k); !ok || err != nil || h.Token != b.Token || h.Left > 40*time.Second {
		t.Errorf("after another's renewal and release: %+v %v %v", h, ok, err)
	}
	must(t, db.Do(t.Context(), keyspace.Cmd{Name: "PEXPIRE", Key: k.Lease.Key, Args: []string{"20000"}}).Err)
	must(t, b.Renew(t.Context()))
	if h, ok, err := l.Holder(t.Context(), k); !ok || err != nil || h.Token != b.Token || h.Left <= 20*time.Second || h.Left > 40*time.Second {
		t.Errorf("after its own renewal: %+v %v %v, want some 40 s", h, ok, err)
	}
}

func testTakeOver(t *testing.T, db *redis.DB, l *Leases) {
	k := fresh()
	dead, err := l.Acquire(t.Context(), k, "dead", life)
	must(t, err)
	must(t, l.Run(t.Context(), k, "heir", life, func(_ context.Context, token int64) error {
		if token <= dead.Token {
			t.Errorf("token %d after %d", token, dead.Token)
		}
		if time.Now().Before(dead.Until()) {
			t.Error("taken over before the holder had to be done")
		}
		return nil
	}))
}

func testHeirInTime(t *testing.T, db *redis.DB, l *Leases) {
	k := fresh()
	_, err := l.Acquire(t.Context(), k, "dead", life)
	must(t, err)
	began := time.Now()
	must(t, l.Run(t.Context(), k, "heir", life, func(context.Context, int64) error { return nil }))
	// The embedded server expires a key up to 50 ms late.
	if now := time.Now(); now.Before(began.Add(life-life/marginDivisor)) || now.After(began.Add(life+100*time.Millisecond)) {
		t.Errorf("the take-over took %s, want %s", now.Sub(began), life)
	}
}

func testRenewed(t *testing.T, db *redis.DB, l *Leases) {
	k := fresh()
	must(t, l.Run(t.Context(), k, "long", life, func(ctx context.Context, token int64) error {
		wait(ctx, 20*life)
		h, ok, err := l.Holder(ctx, k)
		if ctx.Err() != nil || err != nil || !ok || h.Token != token {
			t.Errorf("after twenty lives: %+v %v %v, and %v", h, ok, err, ctx.Err())
		}
		return nil
	}))
}

func testTokens(t *testing.T, db *redis.DB, l *Leases) {
	k := fresh()
	var last int64
	for i := range 20 {
		h, err := l.Acquire(t.Context(), k, "a", life)
		must(t, err)
		if h.Token <= last {
			t.Fatalf("token %d after %d", h.Token, last)
		}
		last = h.Token
		if i == 10 { // simulates FLUSHALL
			must(t, k.Lease.Delete(t.Context(), db))
			must(t, db.Do(t.Context(), keyspace.Cmd{Name: "DEL", Key: k.Fence.Key}).Err)
			eventually.True(t, "the clock to pass the tokens", func() bool { return time.Now().UnixMicro() > last })
		}
		giveBack(t.Context(), t, h)
	}
	if n, err := k.Fence.Get(t.Context(), db); n != last || err != nil {
		t.Errorf("the fence is %d (%v), want %d", n, err, last)
	}
	// If the clock of the next holder is behind, its token is still greater.
	ahead := time.Now().Add(time.Hour).UnixMicro()
	must(t, db.Do(t.Context(), keyspace.Cmd{Name: "SET", Key: k.Fence.Key, Args: []string{fmt.Sprint(ahead)}}).Err)
	h, err := l.Acquire(t.Context(), k, "a", life)
	must(t, err)
	if h.Token != ahead+1 {
		t.Errorf("token %d after %d", h.Token, ahead)
	}
}

func testMortalFence(t *testing.T, db *redis.DB, l *Leases) {
	n := keyspace.Int{N: names.Add(1)}
	k := Keys{leases.At(n), mortal.At(n)}
	_, err := l.Acquire(t.Context(), k, "a", life)
	must(t, err)
	if ms, err := db.Do(t.Context(), keyspace.Cmd{Name: "PTTL", Key: k.Fence.Key}).Int(); err != nil || ms < 3_500_000 {
		t.Errorf("the fence lives %d ms (%v), want an hour", ms, err)
	}
}

func testOneAtATime(t *testing.T, db *redis.DB, l *Leases) {
	k := fresh()
	var running, turns atomic.Int64
	var mu sync.Mutex
	var tokens []int64
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			err := l.Run(t.Context(), k, fmt.Sprint("p", i), life, func(ctx context.Context, token int64) error {
				if n := running.Add(1); n != 1 {
					t.Errorf("%d run at once", n)
				}
				defer running.Add(-1)
				mu.Lock()
				tokens = append(tokens, token)
				mu.Unlock()
				turns.Add(1)
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if turns.Load() != 4 || !slices.IsSorted(tokens) {
		t.Errorf("%d turns with tokens %v, want 4 that rise", turns.Load(), tokens)
	}
}

func testReturns(t *testing.T, db *redis.DB, l *Leases) {
	k := fresh()
	boom := errors.New("boom")
	if err := l.Run(t.Context(), k, "a", time.Minute, func(context.Context, int64) error { return boom }); err != boom {
		t.Errorf("Run: %v, want %v", err, boom)
	}
	if h, ok, err := l.Holder(t.Context(), k); ok || err != nil {
		t.Errorf("still held: %+v (%v)", h, err)
	}
	for _, wrong := range []time.Duration{minLife - 1, time.Minute + 1} {
		err := l.Run(t.Context(), k, "a", wrong, func(context.Context, int64) error { return nil })
		if _, err2 := l.Acquire(t.Context(), k, "a", wrong); !errors.Is(err, ErrLife) || !errors.Is(err2, ErrLife) {
			t.Errorf("a life of %s: %v and %v, want %v", wrong, err, err2, ErrLife)
		}
	}
	must(t, db.Do(t.Context(), keyspace.Cmd{Name: "SET", Key: k.Fence.Key, Args: []string{"no number"}}).Err)
	var refusal redis.ServerError
	if err := l.Run(t.Context(), k, "a", life, func(context.Context, int64) error { return nil }); !errors.As(err, &refusal) {
		t.Errorf("a broken fence: %v, want the server's error", err)
	}
	must(t, db.Do(t.Context(), keyspace.Cmd{Name: "DEL", Key: k.Fence.Key}).Err)
}

func testLost(t *testing.T, db *redis.DB, l *Leases) {
	k := fresh()
	var tokens []int64
	err := l.Run(t.Context(), k, "a", life, func(ctx context.Context, token int64) error {
		if tokens = append(tokens, token); len(tokens) == 2 {
			return nil
		}
		must(t, k.Lease.Delete(t.Context(), db))
		began := time.Now()
		<-ctx.Done()
		if took := time.Since(began); took != life/renewalsPerLife {
			t.Errorf("the loss is noticed after %s, want %s: with the first renewal", took, life/renewalsPerLife)
		}
		if cause := context.Cause(ctx); cause != ErrLost {
			t.Errorf("cause %v, want %v", cause, ErrLost)
		}
		return errors.New("whatever")
	})
	if err != nil || len(tokens) != 2 || tokens[1] <= tokens[0] {
		t.Errorf("Run: %v with tokens %v, want two that rise", err, tokens)
	}
}

func testContextEnds(t *testing.T, db *redis.DB, l *Leases) {
	k := fresh()
	why := errors.New("shutting down")
	ctx, cancel := context.WithCancelCause(t.Context())
	done := errors.New("done in good order")
	err := l.Run(ctx, k, "a", time.Minute, func(ctx context.Context, _ int64) error {
		cancel(why)
		<-ctx.Done()
		if cause := context.Cause(ctx); cause != why {
			t.Errorf("cause %v, want %v", cause, why)
		}
		return done
	})
	if err != done {
		t.Errorf("Run: %v, want %v", err, done)
	}
	if h, ok, err := l.Holder(t.Context(), k); ok || err != nil {
		t.Errorf("still held: %+v (%v)", h, err)
	}
}

func testWaitingEnds(t *testing.T, db *redis.DB, l *Leases) {
	k := fresh()
	_, err := l.Acquire(t.Context(), k, "a", time.Minute)
	must(t, err)
	why := errors.New("shutting down")
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error)
	go func() {
		ended <- l.Run(ctx, k, "b", time.Minute, func(context.Context, int64) error {
			t.Error("ran while another held the lease")
			return nil
		})
	}()
	cancel(why)
	if err := <-ended; !errors.Is(err, why) {
		t.Errorf("Run: %v, want %v", err, why)
	}
}

func testPanic(t *testing.T, db *redis.DB, l *Leases) {
	k := fresh()
	func() {
		defer func() {
			if p := recover(); p != "boom" {
				t.Errorf("recovered %v, want boom", p)
			}
		}()
		_ = l.Run(t.Context(), k, "a", time.Minute, func(context.Context, int64) error { panic("boom") })
	}()
	if h, ok, err := l.Holder(t.Context(), k); ok || err != nil {
		t.Errorf("still held: %+v (%v)", h, err)
	}
}

func testNested(t *testing.T, db *redis.DB, l *Leases) {
	outer, inner := fresh(), fresh()
	turns := 0
	must(t, l.Run(t.Context(), outer, "a", life, func(ctx context.Context, _ int64) error {
		if turns++; turns == 2 {
			return nil
		}
		must(t, outer.Lease.Delete(t.Context(), db))
		done := errors.New("inner done")
		err := l.Run(ctx, inner, "a", time.Minute, func(ctx context.Context, _ int64) error {
			<-ctx.Done()
			return done
		})
		if err != done {
			t.Errorf("the inner run: %v, want %v", err, done)
		}
		if h, ok, err := l.Holder(t.Context(), inner); ok || err != nil {
			t.Errorf("the inner lease is still held: %+v (%v)", h, err)
		}
		return nil
	}))
}

// resource is protected by a lease: it refuses former tokens.
type resource struct {
	mu      sync.Mutex
	highest int64
	writes  map[int64]int
	refused int
}

func (r *resource) write(token int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if token < r.highest {
		r.refused++
		return
	}
	r.highest = token
	r.writes[token]++
}

func (r *resource) turns() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.writes)
}

// Two processes compete for a lease while the server is killed, restarts empty and is flushed. Each loss starts a new
// turn with a greater token, so that a process with a former token cannot write.
func TestTokens_RiseThroughKillsAndFlushes(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		memory := redistest.InMemory(t)
		k := fresh()
		res := &resource{writes: map[int64]int{}}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var mu sync.Mutex
		owner := map[int64]string{} // by token
		for _, name := range []string{"a", "b"} {
			l := New(memory.Open(t))
			wg.Go(func() {
				err := l.Run(ctx, k, name, life, func(ctx context.Context, token int64) error {
					mu.Lock()
					if other, taken := owner[token]; taken {
						t.Errorf("token %d was given to %s and to %s", token, other, name)
					}
					owner[token] = name
					mu.Unlock()
					for ctx.Err() == nil {
						res.write(token)
						wait(ctx, 2*time.Millisecond)
					}
					return nil
				})
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
		}
		turns := 0
		next := func(what string) {
			t.Helper()
			if time.Sleep(3 * life); res.turns() <= turns {
				t.Errorf("%s: %d turns, want more than %d", what, res.turns(), turns)
			}
			turns = res.turns()
		}
		next("at first")
		for range 10 {
			memory.FlushAll()
			next("after FLUSHALL")
			memory.Kill()
			time.Sleep(life / 2)
			memory.RestartEmpty()
			next("after a kill")
		}
		cancel()
		wg.Wait()
		t.Logf("%d turns, %d writes of former holders refused", len(res.writes), res.refused)
		if res.refused == 0 {
			t.Error("no former holder tried to write, so the test had no effect")
		}
	})
}

func TestRun_StopsBeforeLeaseExpires(t *testing.T) {
	for name, leave := range map[string]func(*redistest.Wire){"refuses": (*redistest.Wire).Refuse, "is silent": (*redistest.Wire).BlackHole} {
		t.Run(name, func(t *testing.T) {
			redistest.Bubble(t, func(t *testing.T) {
				wire := redistest.InMemory(t).Wire()
				turns := 0
				must(t, New(redistest.OpenConfig(t, wire.Config())).Run(t.Context(), fresh(), "a", life, func(ctx context.Context, _ int64) error {
					if turns++; turns == 2 {
						return nil
					}
					began := time.Now()
					leave(wire)
					<-ctx.Done()
					if took := time.Since(began); took != life-life/marginDivisor {
						t.Errorf("the run ended after %s, want %s: when the life ends, less the margin", took, life-life/marginDivisor)
					}
					if context.Cause(ctx) != ErrLost {
						t.Errorf("cause %v, want %v", context.Cause(ctx), ErrLost)
					}
					wire.Heal()
					return ctx.Err()
				}))
				if turns != 2 {
					t.Errorf("%d turns, want 2", turns)
				}
			})
		})
	}
}

func TestRun_SurvivesOneFailedRenewal(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		memory := redistest.InMemory(t)
		l := New(memory.Open(t))
		k := fresh()
		must(t, l.Run(t.Context(), k, "a", life, func(ctx context.Context, token int64) error {
			memory.Kill()
			time.Sleep(life/renewalsPerLife + life/renewalsPerLife/8) // the first renewal has failed
			memory.Restart()
			time.Sleep(5 * life)
			h, ok, err := l.Holder(ctx, k)
			if err != nil || !ok || h.Token != token {
				t.Errorf("five lives later: %+v %v %v, want the same holder", h, ok, err)
			}
			return context.Cause(ctx)
		}))
	})
}

// A bubble ends only after all goroutines in it have ended.
func TestRun_LeavesNoGoroutines(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		db := redistest.Open(t, "embedded")
		k := fresh()
		must(t, New(db).Run(t.Context(), k, "a", life, func(context.Context, int64) error { return nil }))
		ctx, cancel := context.WithCancel(t.Context())
		_ = New(db).Run(ctx, k, "a", life, func(ctx context.Context, _ int64) error {
			must(t, k.Lease.Delete(t.Context(), db))
			<-ctx.Done()
			cancel()
			return nil
		})
	})
}

func TestAcquire_ReplyOfOtherKindIsError(t *testing.T) {
	number := func(n int64) keyspace.Reply { return keyspace.Reply{Kind: keyspace.IntReply, N: n} }
	for name, c := range map[string]struct {
		answer keyspace.Reply
		want   error
	}{
		"a number":                   {number(1), keyspace.ErrReply},
		"an empty list":              {keyspace.Reply{Kind: keyspace.ListReply}, keyspace.ErrReply},
		"two items":                  {keyspace.Reply{Kind: keyspace.ListReply, List: []keyspace.Reply{number(1), number(1)}}, keyspace.ErrReply},
		"a refusal without a holder": {keyspace.Reply{Kind: keyspace.ListReply, List: []keyspace.Reply{number(0)}}, keyspace.ErrReply},
		"an error": {keyspace.Reply{Kind: keyspace.ErrorReply, Err: redis.ServerError("ERR another")},
			redis.ServerError("ERR another")},
	} {
		t.Run(name, func(t *testing.T) {
			l := New(redistest.Answering(t, c.answer))
			if held, err := l.Acquire(t.Context(), fresh(), "a", life); held != nil || !errors.Is(err, c.want) {
				t.Errorf("Acquire: %v, %v; want %v", held, err, c.want)
			}
			if err := l.Run(t.Context(), fresh(), "a", life, func(context.Context, int64) error {
				return errors.New("it ran")
			}); !errors.Is(err, c.want) {
				t.Errorf("Run: %v, want %v", err, c.want)
			}
			if name != "a number" { // the same reply answers both commands of Holder
				if h, ok, err := l.Holder(t.Context(), fresh()); ok || !errors.Is(err, c.want) {
					t.Errorf("Holder: %+v, %v, %v; want %v", h, ok, err, c.want)
				}
			}
		})
	}
}

func TestRun_ContextEndsWhileRedisUnavailable(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		memory := redistest.InMemory(t)
		l := New(memory.Open(t))
		held, err := l.Acquire(t.Context(), fresh(), "a", life)
		must(t, err)
		memory.Kill()
		if err := held.Release(t.Context()); !errors.Is(err, redis.ErrUnavailable) {
			t.Errorf("Release: %v, want %v", err, redis.ErrUnavailable)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*life)
		defer cancel()
		err = l.Run(ctx, fresh(), "a", life, func(context.Context, int64) error { return errors.New("it ran") })
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, redis.ErrUnavailable) {
			t.Errorf("Run: %v, want %v and %v", err, context.DeadlineExceeded, redis.ErrUnavailable)
		}
	})
}
