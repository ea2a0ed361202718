// Package conformance contains the tests of the behaviour that the packages of this module need from every kind of
// Redis and every client. Package redis runs it over its engines, and an implementation of [redis.Conn] runs it over
// its clients.
//
//	func TestConn(t *testing.T) {
//		db, err := redis.Wrap(myConn(redistest.Server(t).Addr), redis.WrapConfig{})
//		…
//		conformance.Run(t, db)
//	}
package conformance

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// Run tests db, which must be empty, for conformance. A cluster must have three masters.
func Run(t *testing.T, db *redis.DB) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, *redis.DB)
	}{
		{"handles read what they wrote", testHandles},
		{"commands keep their shapes", testShapes},
		{"keys die in time", testExpiry},
		{"what writes gives the declared life", testLives},
		{"a command for another type is refused", testOtherType},
		{"an error reply is a ServerError and no outage", testServerError},
		{"keys of one command share a tag", testCrossSlot},
		{"a pipeline answers in order and fails one by one", testPipeline},
		{"a thousand commands and ten thousand", testLongPipeline},
		{"an unknown script is sent whole, once", testScripts},
		{"every owner gets a library of functions", testFunctions},
		{"a context ends a command", testContext},
		{"messages reach their subscribers", testPubSub},
		{"a typed channel carries its type", testPubSubTyped},
		{"one of two subscribers may leave", testPubSubShared},
		{"SCAN finds what is under the prefix and nothing else", testScan},
		{"each owner tells of its own keys", testOwners},
		{"the fingerprint stays", testFingerprint},
		{"a command without a key goes to any server", testKeyless},
		{"every command went to the owner of its slot at once", testNoRedirects},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, db) })
	}
	redistest.KeysDeclared(t, db, keys)
}

// Brief sends a command, a pipeline and a script, and receives a message that it publishes: for tests of a connection,
// rather than of a server. It can run several times.
func Brief(t *testing.T, db *redis.DB) {
	testHandles(t, db)
	testPipeline(t, db)
	testScripts(t, db)
	testPubSub(t, db)
}

func n(i int) keyspace.Int { return keyspace.Int{N: int64(i)} }

// must fails the test if r is an error, and returns it.
func must(t *testing.T, r keyspace.Reply) keyspace.Reply {
	t.Helper()
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	return r
}

func texts(t *testing.T, r keyspace.Reply) []string {
	t.Helper()
	items, err := r.Items()
	if err != nil {
		t.Fatal(err)
	}
	got := make([]string, len(items))
	for i := range items {
		got[i], _, _ = items[i].Text()
	}
	return got
}

func testHandles(t *testing.T, db *redis.DB) {
	ctx := t.Context()
	v := value.At(n(1))
	if _, ok, err := v.Get(ctx, db); ok || err != nil {
		t.Errorf("Get of a missing key = %v, %v; want false, nil", ok, err)
	}
	want := "line\r\nbinary \x00\xff and " + strings.Repeat("long ", 5000)
	if err := v.SetFor(ctx, db, want, time.Minute); err != nil {
		t.Fatal(err)
	}
	if got, ok, err := v.Get(ctx, db); got != want || !ok || err != nil {
		t.Errorf("Get = %d bytes, %v, %v; want the %d written", len(got), ok, err, len(want))
	}
	if err := v.Delete(ctx, db); err != nil {
		t.Fatal(err)
	}
	if _, ok, _ := v.Get(ctx, db); ok {
		t.Error("Get after Delete found something")
	}
	c := counter.At(keyspace.Text{S: "of {braces}: 7*"})
	must(t, db.Do(ctx, keyspace.Cmd{Name: "INCRBY", Key: c.Key, Args: []string{"41"}}))
	if got, err := c.Get(ctx, db); got != 41 || err != nil {
		t.Errorf("counter = %d, %v; want 41", got, err)
	}
}

func testLives(t *testing.T, db *redis.DB) {
	ctx := t.Context()
	life := func(k keyspace.Key) int64 {
		ms, err := db.Do(ctx, keyspace.Cmd{Name: "PTTL", Key: k}).Int()
		if err != nil {
			t.Fatal(err)
		}
		return ms
	}
	shorten := func(k keyspace.Key) {
		must(t, db.Do(ctx, keyspace.Cmd{Name: "PEXPIRE", Key: k, Args: []string{"1800000"}}))
	}
	c, b, h, z, s, l, f := visits.At(n(1)), bits.At(n(5)), cart.At(n(1)), ranking.At(n(1)), members.At(n(1)), recent.At(n(1)), feed.At(n(1))
	for _, k := range []struct {
		key    keyspace.Key
		writes []keyspace.Cmd
	}{
		{c.Key, []keyspace.Cmd{c.AddCmd(2)}},
		{b.Key, []keyspace.Cmd{b.SetBitCmd(9)}},
		{h.Key, []keyspace.Cmd{h.SetCmd("a", "1"), h.AddCmd("a", 2)}},
		{z.Key, []keyspace.Cmd{z.SetCmd("a", 1.5), z.AddCmd("a", 2)}},
		{s.Key, []keyspace.Cmd{s.AddCmd("a", "b")}},
		{l.Key, []keyspace.Cmd{l.PushCmd("a", "b"), l.PushFrontCmd("c", "d")}},
		{f.Key, []keyspace.Cmd{f.AddCmd(10, "what", "a"), f.AddCmd(0, "what", "b")}},
	} {
		for i, cmd := range k.writes {
			if must(t, db.Do(ctx, cmd)); life(k.key) <= 1_800_000 {
				t.Errorf("write %d of %s: it lives %d ms", i, k.key, life(k.key))
			}
			shorten(k.key)
		}
	}
	window := hits.At(n(1)) // counted from the first
	for want := range int64(3) {
		if got, err := window.Add(ctx, db, 1); got != want+1 || err != nil {
			t.Errorf("Add = %d, %v", got, err)
		}
		if left := life(window.Key); left <= 0 || (left <= 1_800_000) != (want > 0) {
			t.Errorf("after %d: the window has %d ms", want+1, left)
		}
		shorten(window.Key)
	}
	forever := scores.At(n(5))
	if must(t, db.Do(ctx, forever.SetCmd("a", 1))); life(forever.Key) != -1 {
		t.Errorf("%s lives %d ms", forever, life(forever.Key))
	}
	for _, k := range []struct {
		cmd  keyspace.Cmd
		want string
	}{
		{h.GetCmd("a"), "3"}, {z.ScoreCmd("a"), "3.5"}, {z.LenCmd(), "1"}, {s.HasCmd("b"), "1"}, {s.LenCmd(), "2"}, {l.LenCmd(), "4"},
		{f.LenCmd(), "2"},
		{h.RemoveCmd("a", "x"), "1"}, {z.RemoveCmd("a", "x"), "1"}, {s.RemoveCmd("b", "x"), "1"},
	} {
		if got, _, err := db.Do(ctx, k.cmd).Text(); got != k.want || err != nil {
			t.Errorf("%s of %s = %q, %v, want %q", k.cmd.Name, k.cmd.Key, got, err, k.want)
		}
	}
	must(t, db.Do(ctx, forever.SetCmd("b", 2)))
	for _, k := range []struct {
		cmd  keyspace.Cmd
		want []string
	}{
		{l.RangeCmd(0, -1), []string{"d", "c", "a", "b"}}, {l.TrimCmd(0, 2), nil}, {l.PopCmd(2), []string{"d", "c"}},
		{s.AllCmd(), []string{"a"}}, {forever.TopCmd(1), []string{"b", "2"}}, {forever.TopCmd(0), nil},
	} {
		if k.want == nil {
			must(t, db.Do(ctx, k.cmd))
		} else if got := texts(t, db.Do(ctx, k.cmd)); !slices.Equal(got, k.want) {
			t.Errorf("%s of %s = %q, want %q", k.cmd.Name, k.cmd.Key, got, k.want)
		}
	}
	if items, err := db.Do(ctx, forever.TopCmd(0)).Items(); len(items) != 0 || err != nil {
		t.Errorf("the first zero members are %v, %v", items, err)
	}
	if items, err := db.Do(ctx, f.RangeCmd("-", "+", 1)).Items(); len(items) != 1 || err != nil {
		t.Errorf("the first entry is %v, %v", items, err)
	}
}

func testOtherType(t *testing.T, db *redis.DB) {
	c := visits.At(n(7))
	push := keyspace.Cmd{Name: "LPUSH", Key: c.Key, Args: []string{"x"}}
	replies := db.DoMulti(t.Context(), []keyspace.Cmd{push, c.AddCmd(1), {Name: "EXISTS", Key: c.Key}})
	if lone := db.Do(t.Context(), push).Err; !errors.Is(lone, keyspace.ErrType) || !errors.Is(replies[0].Err, keyspace.ErrType) {
		t.Errorf("got %v and %v, want %v", lone, replies[0].Err, keyspace.ErrType)
	}
	if got, err := c.Get(t.Context(), db); got != 1 || err != nil || replies[1].Err != nil {
		t.Errorf("the other command: %d, %v, %v", got, err, replies[1].Err)
	}
}

func testShapes(t *testing.T, db *redis.DB) {
	ctx := t.Context()
	b, h, z := bits.At(n(1)), fields.At(n(1)), scores.At(n(1))
	v, o := value.At(n(2)), other.At(n(2))
	replies := db.DoMulti(ctx, []keyspace.Cmd{
		b.SetBitBareCmd(9), b.SetBitBareCmd(9), b.RenewCmd(), b.GetCmd(),
		{Name: "HSET", Key: h.Key, Args: []string{"a", "1", "b", "2"}},
		{Name: "ZADD", Key: z.Key, Args: []string{"GT", "CH", "4503599627370497", "x", "7", "y"}},
		{Name: "ZADD", Key: z.Key, Args: []string{"GT", "CH", "3", "x"}},
		{Name: "ZREVRANGE", Key: z.Key, Args: []string{"0", "-1", "WITHSCORES"}},
		{Name: "ZSCORE", Key: z.Key, Args: []string{"y"}},
		{Name: "ZREVRANK", Key: z.Key, Args: []string{"nobody"}},
		v.SetCmd("V", time.Minute),
		{Name: "MGET", Key: v.Key, More: []keyspace.Key{o.Key, v.Key}},
		{Name: "SET", Key: v.Key, Args: []string{"W", "NX"}},
	})
	if err := keyspace.FirstErr(replies); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int64{0: 0, 1: 1, 2: 1, 4: 2, 5: 2, 6: 0} {
		if got, _ := replies[i].Int(); i != 3 && got != want {
			t.Errorf("reply %d = %d, want %d", i, got, want)
		}
	}
	if got, want := replies[3].Str, "\x00\x40"; got != want {
		t.Errorf("bitmap = %q, want %q", got, want)
	}
	if all, err := h.All(ctx, db); err != nil || len(all) != 2 || all["a"] != "1" || all["b"] != "2" {
		t.Errorf("HGETALL = %v, %v", all, err)
	}
	if got, want := texts(t, replies[7]), []string{"x", "4503599627370497", "y", "7"}; !slices.Equal(got, want) {
		t.Errorf("ZREVRANGE WITHSCORES = %q, want the flat list %q", got, want)
	}
	if f, ok, err := replies[8].Float(); f != 7 || !ok || err != nil {
		t.Errorf("ZSCORE = %v, %v, %v; want 7", f, ok, err)
	}
	if !replies[9].Nil() || !replies[12].Nil() {
		t.Errorf("ZREVRANK of a missing member, SET NX of an existing key = %v, %v; want nil replies", replies[9], replies[12])
	}
	if got := replies[11].List; len(got) != 3 || !got[0].Nil() && got[0].Str != "V" || !got[1].Nil() || got[2].Str != "V" {
		t.Errorf("MGET = %v, want V, nil, V", got)
	}
}

func testExpiry(t *testing.T, db *redis.DB) {
	ctx := t.Context()
	short, long := value.At(n(3)), value.At(n(4))
	began := time.Now()
	if err := errors.Join(short.SetFor(ctx, db, "x", 100*time.Millisecond), long.SetFor(ctx, db, "x", time.Minute)); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the key expires", func() bool {
		_, ok, err := short.Get(ctx, db)
		if err != nil {
			t.Fatal(err)
		}
		return !ok
	})
	if time.Now().Before(began.Add(40 * time.Millisecond)) {
		t.Errorf("a key with a life of 100 ms expired after %s", time.Since(began))
	}
	if _, ok, _ := long.Get(ctx, db); !ok {
		t.Error("a key with a life of a minute expired too")
	}
	if typ, ttl, err := db.TypeAndTTL(ctx, db.Physical(long.Key)); typ != "string" || ttl < 50*time.Second || ttl > time.Minute || err != nil {
		t.Errorf("TypeAndTTL = %q, %s, %v; want string and about a minute", typ, ttl, err)
	}
	if typ, ttl, err := db.TypeAndTTL(ctx, db.Physical(short.Key)); typ != "none" || ttl != 0 || err != nil {
		t.Errorf("TypeAndTTL of an expired key = %q, %s, %v; want none", typ, ttl, err)
	}
}

func testServerError(t *testing.T, db *redis.DB) {
	h := fields.At(n(5))
	must(t, db.Do(t.Context(), keyspace.Cmd{Name: "HSET", Key: h.Key, Args: []string{"a", "1"}}))
	for _, c := range []struct {
		cmd  keyspace.Cmd
		code string
	}{
		{keyspace.Cmd{Name: "GET", Key: h.Key}, "WRONGTYPE"},
		{keyspace.Cmd{Name: "NOSUCHCOMMAND", Key: h.Key}, "ERR"},
		{redis.NewScript("return redis.error_reply('MINE of my own')").Cmd([]keyspace.Key{h.Key}), "MINE"},
	} {
		err := db.Do(t.Context(), c.cmd).Err
		var server redis.ServerError
		if !errors.As(err, &server) || errors.Is(err, redis.ErrUnavailable) {
			t.Errorf("%.20s: %v (%T); want a ServerError and not ErrUnavailable", c.cmd.Name, err, err)
		}
		if got := server.Code(); got != c.code {
			t.Errorf("code of %q = %s, want %s", server, got, c.code)
		}
	}
}

func testCrossSlot(t *testing.T, db *redis.DB) {
	bad := keyspace.Cmd{Name: "MGET", Key: value.At(n(1)).Key, More: []keyspace.Key{value.At(n(2)).Key}}
	if err := db.Do(t.Context(), bad).Err; !errors.Is(err, redis.ErrCrossSlot) {
		t.Errorf("Do: %v, want ErrCrossSlot", err)
	}
	v := value.At(n(6))
	replies := db.DoMulti(t.Context(), []keyspace.Cmd{v.SetCmd("before", time.Minute), bad, {Name: "GET", Key: v.Key}})
	if !errors.Is(replies[1].Err, redis.ErrCrossSlot) || replies[2].Str != "before" {
		t.Errorf("DoMulti = %v; want ErrCrossSlot in the middle and the others executed", replies)
	}
}

func testPipeline(t *testing.T, db *redis.DB) {
	ctx := t.Context()
	if got := db.DoMulti(ctx, nil); len(got) != 0 {
		t.Errorf("DoMulti without commands = %v", got)
	}
	must(t, db.Do(ctx, keyspace.Cmd{Name: "HSET", Key: fields.At(n(7)).Key, Args: []string{"a", "1"}}))
	echo := redis.NewScript("return ARGV[1]")
	var cmds []keyspace.Cmd
	for i := range 200 {
		switch v := value.At(n(100 + i%20)); i % 5 {
		case 0:
			cmds = append(cmds, v.SetCmd(strconv.Itoa(i), time.Minute))
		case 1:
			cmds = append(cmds, keyspace.Cmd{Name: "GET", Key: value.At(n(100 + (i-1)%20)).Key})
		case 2:
			cmds = append(cmds, keyspace.Cmd{Name: "GET", Key: fields.At(n(7)).Key})
		case 3:
			cmds = append(cmds, echo.Cmd([]keyspace.Key{v.Key}, strconv.Itoa(i)))
		case 4:
			cmds = append(cmds, keyspace.Cmd{Name: "PING"}) // no key: any owner
		}
	}
	for i, r := range db.DoMulti(ctx, cmds) {
		got, want := r.Str, "OK"
		switch i % 5 {
		case 1:
			want = strconv.Itoa(i - 1) // the value that the previous command wrote
		case 2:
			if se, ok := errors.AsType[redis.ServerError](r.Err); !ok || se.Code() != "WRONGTYPE" {
				t.Errorf("reply %d: %v, want WRONGTYPE", i, r.Err)
			}
			continue
		case 3:
			want = strconv.Itoa(i)
		case 4:
			want = "PONG"
		}
		if got != want || r.Err != nil {
			t.Errorf("reply %d = %q, %v; want %q", i, got, r.Err, want)
		}
	}
}

func testLongPipeline(t *testing.T, db *redis.DB) {
	for _, size := range []int{1_000, 10_000} {
		cmds := make([]keyspace.Cmd, 0, size)
		for i := range size / 2 {
			v := value.At(n(i % 500))
			cmds = append(cmds, v.SetCmd(strconv.Itoa(i), time.Minute), keyspace.Cmd{Name: "GET", Key: v.Key})
		}
		for i, r := range db.DoMulti(t.Context(), cmds) {
			if want := strconv.Itoa(i / 2); r.Err != nil || i%2 == 1 && r.Str != want {
				t.Fatalf("reply %d of %d = %q, %v; want %q", i, size, r.Str, r.Err, want)
			}
		}
	}
}

func testScripts(t *testing.T, db *redis.DB) {
	ctx := t.Context()
	// No server has this script yet.
	src := "-- " + rand.Text() + "\nreturn {KEYS[1], redis.call('INCRBY', KEYS[2], ARGV[1])}"
	s := redis.NewScript(src)
	if s.Source() != src {
		t.Errorf("Source() = %q", s.Source())
	}
	v := value.At(n(8))
	for round := range 2 {
		var calls []redis.Call
		for i := range 30 {
			c := counter.At(keyspace.Text{S: "script" + strconv.Itoa(i)})
			calls = append(calls, redis.Call{Script: s, Keys: []keyspace.Key{c.Key, c.Key}, Args: []string{strconv.Itoa(i)}})
		}
		for i, r := range db.RunMulti(ctx, calls) {
			items, err := r.Items()
			if err != nil {
				t.Fatal(err)
			}
			if items[0].Str != db.Physical(calls[i].Keys[0]) || items[1].N != int64(i*(round+1)) {
				t.Errorf("round %d, call %d = %v; want its key and %d", round, i, items, i*(round+1))
			}
		}
	}
	// A server that has lost its scripts.
	if db.Mode() != "cluster" {
		must(t, db.Do(ctx, keyspace.Cmd{Name: "SCRIPT", Args: []string{"FLUSH"}}))
	}
	c := counter.At(keyspace.Text{S: "again"})
	if r := must(t, s.Run(ctx, db, []keyspace.Key{c.Key, c.Key}, "5")); r.List[1].N != 5 {
		t.Errorf("Run after SCRIPT FLUSH = %v, want 5, from one run", r)
	}
	if err := s.Run(ctx, db, []keyspace.Key{c.Key, v.Key}, "5").Err; !errors.Is(err, redis.ErrCrossSlot) {
		t.Errorf("Run with keys of two slots: %v, want ErrCrossSlot", err)
	}
	if r := must(t, redis.NewScript("return 7").Run(ctx, db, nil)); r.N != 7 {
		t.Errorf("a script without keys = %v, want 7", r)
	}
}

func testFunctions(t *testing.T, db *redis.DB) {
	ctx := t.Context()
	library := func(more string) string {
		return "#!lua name=conformance\nredis.register_function('conformance_add', function(keys, args) return {keys[1], redis.call('INCRBY', " +
			"keys[2], args[1] + " + more + ")} end)"
	}
	c := counter.At(keyspace.Text{S: "function"})
	var server redis.ServerError
	if _, err := none.Run(ctx, db, addKeys{c, c}, addArgs{}); !errors.As(err, &server) {
		t.Errorf("a function that no server has: %v, want the server's error", err)
	}
	if err := db.LoadFunctions(ctx, library("nonsense(")); !errors.As(err, &server) {
		t.Errorf("a library with an error: %v, want the server's error", err)
	}
	if db.Mode() == "embedded" { // it has no functions
		return
	}
	for _, more := range []string{"0", "1000"} { // the second replaces the first
		if err := db.LoadFunctions(ctx, library(more)); err != nil {
			t.Fatal(err)
		}
		for i := range 30 {
			c := counter.At(keyspace.Text{S: "function" + strconv.Itoa(i)})
			got, err := add.Run(ctx, db, addKeys{c, c}, addArgs{i})
			want := []string{db.Physical(c.Key), strconv.Itoa(i)}
			if more != "0" {
				want[1] = strconv.Itoa(2*i + 1000)
			}
			if !slices.Equal(got, want) || err != nil {
				t.Errorf("got %q, %v, want %q", got, err, want)
			}
		}
	}
	v := counter.At(keyspace.Text{S: "another slot"})
	if _, err := add.Run(ctx, db, addKeys{c, v}, addArgs{}); !errors.Is(err, keyspace.ErrCrossSlot) {
		t.Errorf("keys of two slots: %v, want ErrCrossSlot", err)
	}
}

func testContext(t *testing.T, db *redis.DB) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	cmd := keyspace.Cmd{Name: "GET", Key: value.At(n(9)).Key}
	for _, r := range append(db.DoMulti(gone, []keyspace.Cmd{cmd, cmd}), db.Do(gone, cmd)) {
		if !errors.Is(r.Err, context.Canceled) || errors.Is(r.Err, redis.ErrUnavailable) {
			t.Errorf("cancelled: %v; want context.Canceled and not ErrUnavailable", r.Err)
		}
	}
	for _, r := range append(db.DoMulti(late, []keyspace.Cmd{cmd, cmd}), db.Do(late, cmd)) {
		if !errors.Is(r.Err, context.DeadlineExceeded) || !errors.Is(r.Err, redis.ErrUnavailable) {
			t.Errorf("late: %v; want context.DeadlineExceeded under ErrUnavailable", r.Err)
		}
	}
	if err := db.Ping(t.Context()); err != nil {
		t.Errorf("Ping afterwards: %v", err)
	}
}

func testKeyless(t *testing.T, db *redis.DB) {
	for _, name := range []string{"PING", "DBSIZE", "TIME"} {
		lone := db.Do(t.Context(), keyspace.Cmd{Name: name})
		batch := db.DoMulti(t.Context(), []keyspace.Cmd{{Name: name}, value.At(n(12)).SetCmd("x", time.Minute), {Name: name}})
		for _, r := range []keyspace.Reply{lone, batch[0], batch[2]} {
			want := map[string]keyspace.ReplyKind{"PING": keyspace.TextReply, "DBSIZE": keyspace.IntReply, "TIME": keyspace.ListReply}[name]
			if r.Kind != want || name == "PING" && r.Str != "PONG" || name == "TIME" && len(r.List) != 2 {
				t.Errorf("%s: %+v", name, r)
			}
		}
	}
}

// The embedded server does not count its errors.
func testNoRedirects(t *testing.T, db *redis.DB) {
	servers, err := db.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range servers {
		if s.Err != nil || s.Fields["errorstat_MOVED"] != "" {
			t.Errorf("%s has sent commands elsewhere: %s, %v", s.Addr, s.Fields["errorstat_MOVED"], s.Err)
		}
	}
}

func testPubSub(t *testing.T, db *redis.DB) {
	a, b := redistest.Listen(t, db, news.At(n(1))), redistest.Listen(t, db, news.At(n(2)))
	if err := db.Publish(t.Context(), news.At(n(1)), "one"); err != nil {
		t.Fatal(err)
	}
	replies := db.DoMulti(t.Context(), []keyspace.Cmd{
		db.PublishCmd(news.At(n(2)), "two"),
		value.At(n(10)).SetCmd("beside it", time.Minute),
		db.PublishCmd(news.At(n(1)), "three"),
		db.PublishCmd(news.At(n(3)), "for nobody"),
	})
	if err := keyspace.FirstErr(replies); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"one", "three"} {
		if got := redistest.Wait(t, a.Got); got != want {
			t.Errorf("message %d = %q, want %q", i, got, want)
		}
	}
	if got := redistest.Wait(t, b.Got); got != "two" {
		t.Errorf("the other channel got %q, want two", got)
	}
	for i := range 500 {
		if err := db.Publish(t.Context(), news.At(n(1)), strconv.Itoa(i)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 500 {
		if got := redistest.Wait(t, a.Got); got != strconv.Itoa(i) {
			t.Fatalf("message %d = %q: out of order", i, got)
		}
	}
	for _, l := range []*redistest.Listener{a, b} {
		if err := l.Stop(); !errors.Is(err, context.Canceled) {
			t.Errorf("Subscribe returned %v, want context.Canceled", err)
		}
	}
}

func testPubSubTyped(t *testing.T, db *redis.DB) {
	l := redistest.Listen(t, db, prices.At().Channel)
	if err := prices.At().Publish(t.Context(), db, map[string]int{"tea": 3}); err != nil {
		t.Fatal(err)
	}
	cmd, err := prices.At().PublishCmd(db, map[string]int{"tea": 4})
	if err != nil || db.Do(t.Context(), cmd).Err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{3, 4} {
		if got, err := prices.At().Decode(redistest.Wait(t, l.Got)); err != nil || got["tea"] != want {
			t.Errorf("got %v, %v, want %d", got, err, want)
		}
	}
}

func testPubSubShared(t *testing.T, db *redis.DB) {
	ch := news.At(n(4))
	stays, leaves := redistest.Listen(t, db, ch), redistest.Listen(t, db, ch)
	leaves.Stop()
	if err := db.Publish(t.Context(), ch, "still here"); err != nil {
		t.Fatal(err)
	}
	if got := redistest.Wait(t, stays.Got); got != "still here" {
		t.Errorf("got %q", got)
	}
	stays.Stop()
	if db.Mode() == "cluster" {
		return // the reply counts the subscribers of one node
	}
	eventually.True(t, "the server forgets the subscription", func() bool {
		return must(t, db.Do(t.Context(), db.PublishCmd(ch, "anybody?"))).N == 0
	})
}

func testScan(t *testing.T, db *redis.DB) {
	ctx := t.Context()
	want := make(map[string]bool)
	var cmds []keyspace.Cmd
	for i := range 2500 {
		v := other.At(n(i))
		cmds = append(cmds, v.SetCmd("x", time.Minute))
		want[db.Physical(v.Key)] = true
	}
	if err := keyspace.FirstErr(db.DoMulti(ctx, cmds)); err != nil {
		t.Fatal(err)
	}
	err := db.Scan(ctx, func(physical string) error {
		if !strings.HasPrefix(physical, db.Physical(keyspace.Key{})) {
			t.Errorf("Scan found %q", physical)
		}
		delete(want, physical)
		return nil
	})
	if err != nil || len(want) != 0 {
		t.Errorf("Scan: %v, and missed %d keys", err, len(want))
	}
	stop := errors.New("stop")
	calls := 0
	if err := db.Scan(ctx, func(string) error { calls++; return stop }); err != stop || calls != 1 {
		t.Errorf("Scan with a failing fn = %v after %d calls; want its error after 1", err, calls)
	}
}

func testOwners(t *testing.T, db *redis.DB) {
	ctx := t.Context()
	var want []string
	for i := range 500 {
		k := value.At(n(i))
		want = append(want, db.Physical(k.Key))
		if err := k.SetFor(ctx, db, strconv.Itoa(i), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	owners, err := db.Owners(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if servers := map[string]int{"cluster": 3}[db.Mode()]; len(owners) != max(servers, 1) {
		t.Errorf("%d owners, want %d", len(owners), max(servers, 1))
	}
	values := db.Physical(keyspace.Key{}) + "value:"
	var got []string
	for _, o := range owners {
		defer o.Close()
		if o.Addr() == "" {
			t.Error("an owner has no address")
		}
		if took, err := o.Ping(ctx); err != nil || took <= 0 {
			t.Errorf("Ping: %s, %v", took, err)
		}
		var mine []string
		for cursor, again := uint64(0), true; again; again = cursor != 0 {
			page, next, err := o.Scan(ctx, cursor, values+"*", 100)
			if err != nil {
				t.Fatal(err)
			}
			mine, cursor = append(mine, page...), next
		}
		slices.Sort(mine)
		mine = slices.Compact(mine) // SCAN may return a key twice
		var cmds [][]string
		for _, k := range mine {
			cmds = append(cmds, []string{"GET", k}, []string{"LLEN", k})
		}
		for i, r := range o.Do(ctx, cmds...) {
			if k := mine[i/2]; i%2 == 0 && values+"{"+r.Str+"}" != k {
				t.Errorf("GET %s: %+v", k, r)
			} else if _, refused := r.Err.(redis.ServerError); i%2 == 1 && !refused {
				t.Errorf("LLEN %s: %+v, want an error of the server", k, r)
			}
		}
		got = append(got, mine...)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the owners returned %d keys, want %d, each once", len(got), len(want))
	}
}

func testFingerprint(t *testing.T, db *redis.DB) {
	a, err := db.Fingerprint(t.Context())
	b, err2 := db.Fingerprint(t.Context())
	c, err3 := db.KnownFingerprint(t.Context())
	if err := errors.Join(err, err2, err3); err != nil || a == "" || a != b || a != c {
		t.Errorf("fingerprints %q, %q and %q, %v; want the same", a, b, c, err)
	}
}
