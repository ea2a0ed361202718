package keyspace_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

type takeKeys struct {
	From keyspace.Counter
	To   keyspace.Hash
	Log  keyspace.Key
}

type takeArgs struct {
	Amount int64
	Field  string
	Dry    bool
	Rate   float64
	Grade  grade
}

const takeLua = `
if ARGV[3] == '1' then return {KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2], ARGV[4], ARGV[5]} end
redis.call('DECRBY', KEYS[1], ARGV[1])
redis.call('HINCRBY', KEYS[2], ARGV[2], ARGV[1])
redis.call('PEXPIRE', KEYS[1], 1000000)
redis.call('PEXPIRE', KEYS[2], 1000000)
return {'done'}`

var take = keyspace.DefScript[takeKeys, takeArgs](takeLua, keyspace.Reply.Texts, vCount.Family, vHash.Family, vList.Family)

func TestScript_TypedKeysAndArguments(t *testing.T) {
	db, ctx := redistest.OpenConfig(t, redistest.Shared(t)), t.Context()
	n, m := keyspace.Int{N: 5}, keyspace.Int{N: 6}
	keys := takeKeys{vCount.At(n, one), vHash.At(n, two), vList.At(n, three).Key}
	got, err := take.Run(ctx, db, keys, takeArgs{7, "f", true, 0.25, 1})
	prefix := strings.TrimSuffix(db.Physical(keyspace.Key{}), ":")
	want := []string{prefix + ":count:{5}:one", prefix + ":hash:{5}:two", prefix + ":list:{5}:three", "7", "f", "0.25", "B"}
	if !slices.Equal(got, want) || err != nil {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	var b keyspace.Batch
	done := take.RunIn(&b, keys, takeArgs{Amount: 7, Field: "f"})
	if err := b.Run(ctx, db); err != nil || fmt.Sprint(done.Value()) != "[done]" {
		t.Errorf("in a batch: %v, %v", done.Value(), err)
	}
	if v, err := keys.From.Get(ctx, db); v != -7 || err != nil {
		t.Errorf("it ran: %d, %v", v, err)
	}
	for _, c := range []struct {
		keys takeKeys
		args takeArgs
		want string
	}{
		{takeKeys{vCount.At(n, one), vHash.At(m, two), vList.At(n, three).Key}, takeArgs{}, "must share a hash tag"},
		{takeKeys{vCount.At(n, one), vHash.At(n, two), vSet.At(n, three).Key}, takeArgs{},
			`KEYS[3] of a script is "set:{5}:three", not a key of list:{{n}}:{c}`},
		{takeKeys{Log: keys.Log, From: keys.From}, takeArgs{}, `KEYS[2] of a script is "", not a key of hash:{{n}}:{c}`},
		{keys, takeArgs{Grade: -1}, "ARGV[5] of a script, Grade, has no text: below all grades"},
	} {
		_, err := take.Run(ctx, db, c.keys, c.args)
		if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, keyspace.ErrCrossSlot) != strings.Contains(c.want, "hash tag") {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
	if v, err := keys.From.Get(ctx, db); v != -7 || err != nil {
		t.Errorf("a refused script ran: %d, %v", v, err)
	}
}

func TestDefScript_MismatchPanics(t *testing.T) {
	untagged := keyspace.Def1[keyspace.Int](keyspace.New("test"), "loose:{n}", keyspace.CounterKind(), keyspace.Expire(time.Hour), doc)
	type two struct{ A, B keyspace.Counter }
	for want, make := range map[string]func(){
		"name that is not a word":   func() { keyspace.DefFunction[struct{}, struct{}]("a b", keyspace.Reply.Int) },
		`function "f" has 1 fam`:    func() { keyspace.DefFunction[two, struct{}]("f", keyspace.Reply.Int, vCount.Family) },
		"has 1 families":            func() { keyspace.DefScript[two, struct{}]("", keyspace.Reply.Int, vCount.Family) },
		"not a struct with as many": func() { keyspace.DefScript[int, struct{}]("", keyspace.Reply.Int, vCount.Family) },
		"share no hash tag":         func() { keyspace.DefScript[two, struct{}]("", keyspace.Reply.Int, vCount.Family, untagged.Family) },
		"game:moves:{{game}}":       func() { keyspace.DefScript[two, struct{}]("", keyspace.Reply.Int, movesKey.Family, mailBoxes.Family) },
		"not an exported key":       func() { keyspace.DefScript[struct{ A string }, struct{}]("", keyspace.Reply.Int, vCount.Family) },
		"the field a, which":        func() { keyspace.DefScript[struct{ a keyspace.Key }, struct{}]("", keyspace.Reply.Int, vCount.Family) },
		"has invalid arguments: ":   func() { keyspace.DefScript[struct{}, struct{ A []int }]("", keyspace.Reply.Int) },
		"invalid arguments: int is": func() { keyspace.DefScript[struct{}, int]("", keyspace.Reply.Int) },
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, want) {
					t.Errorf("got the panic %q, want %q", got, want)
				}
			}()
			make()
		}()
	}
}

var (
	scanned = keyspace.New("scanned")
	ids     = keyspace.Def1[GameID](scanned, "scan:id:{id}", keyspace.CounterKind(), keyspace.Expire(time.Hour), doc)
	texts   = keyspace.Def2[keyspace.Text, colour](scanned, "scan:text:{text}:{c}", keyspace.CounterKind(), keyspace.Expire(time.Hour), doc)
	threes  = keyspace.Def3[keyspace.Int, keyspace.Text, colour](scanned, "scan:three:{n}:{{text}}:{c}", keyspace.CounterKind(),
		keyspace.Expire(time.Hour), doc)
	mailBoxes = keyspace.Def1[keyspace.Hashed](scanned, "scan:mail:{{mail}}", keyspace.CounterKind(), keyspace.Expire(time.Hour), doc)
)

// all returns the sorted values of a loop over a family.
func all[T any](loop func(func(T, error) bool)) []string {
	var got []string
	for v, err := range loop {
		if err != nil {
			got = append(got, "error: "+err.Error())
		} else {
			got = append(got, fmt.Sprint(v))
		}
	}
	slices.Sort(got)
	return got
}

func TestAll_ScansKeysWithArguments(t *testing.T) {
	for _, e := range []redistest.Engine{redistest.SharedEngines(t)[0], redistest.SharedEngines(t)[2], redistest.SharedEngines(t)[4]} {
		t.Run(e.Name, func(t *testing.T) {
			db, ctx := e.Open(t), t.Context()
			if got := all(ids.All(ctx, db)); len(got) != 0 {
				t.Errorf("an empty Redis has %q", got)
			}
			var b keyspace.Batch
			for n := range int64(30) {
				b.Do(ids.At(GameID{keyspace.Int{N: n - 5}}).AddCmd(n))
			}
			long := strings.Repeat("long", 20)
			for _, s := range []string{"", "a:b", long} {
				b.Do(texts.At(keyspace.Text{S: s}, two).AddCmd(1))
			}
			b.Do(threes.At(keyspace.Int{N: 3}, keyspace.Text{S: "{x}"}, one).AddCmd(1))
			b.Do(mailBoxes.At(keyspace.Hashed{S: "ann@example.org"}).AddCmd(1))
			if err := b.Run(ctx, db); err != nil {
				t.Fatal(err)
			}
			sum := int64(0)
			for id, err := range ids.All(ctx, db) {
				if err != nil {
					t.Fatal(err)
				}
				v, _ := ids.At(id).Get(ctx, db)
				sum += v
			}
			if sum != 29*30/2 {
				t.Errorf("the sum over all ids is %d, want %d", sum, 29*30/2)
			}
			n := 0
			for range ids.All(ctx, db) {
				if n++; n == 7 {
					break
				}
			}
			if n != 7 {
				t.Errorf("a loop that ends after 7 saw %d", n)
			}
			if got := fmt.Sprint(all(texts.All(ctx, db))); !strings.HasPrefix(got, "[error: keyspace: scan:text:{text}:{c}: argument 1, ") ||
				!strings.HasSuffix(got, "too long for a key {{a:b} two} {{} two}]") {
				t.Errorf("got %s", got)
			}
			if got := fmt.Sprint(all(texts.Keys(ctx, db))); strings.Count(got, "scan:text:") != 3 {
				t.Errorf("got %s, want three keys", got)
			}
			if got := fmt.Sprint(all(threes.All(ctx, db)), all(threes.Keys(ctx, db))); got != "[{{3} {{x}} one}] [scan:three:3:{%7bx%7d}:one]" {
				t.Errorf("got %s", got)
			}
			if got := fmt.Sprint(all(mailBoxes.All(ctx, db))); !strings.Contains(got, "keyspace.Hashed has no method ReadSegment") {
				t.Errorf("got %s", got)
			}
			for h, err := range mailBoxes.Keys(ctx, db) {
				if v, _ := h.Get(ctx, db); v != 1 || err != nil || h.Key != mailBoxes.At(keyspace.Hashed{S: "ann@example.org"}).Key {
					t.Errorf("%s: %d, %v", h, v, err)
				}
			}
			db.Close()
			if got := fmt.Sprint(all(ids.All(ctx, db))); !strings.Contains(got, "error: ") {
				t.Errorf("a Redis that is away yields %s", got)
			}
		})
	}
}

func TestAll_ForeignArgumentIsError(t *testing.T) {
	s := redistest.Server(t)
	db := redistest.Open(t, s.URL)
	if _, err := s.Do("SET", "stoa:scan:id:007", "1"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Do("SET", "stoa:scan:id:99999999999999999999", "1"); err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(all(ids.All(t.Context(), db)))
	for _, want := range []string{`scan:id:{id}: argument 1, "007": the program would write it differently`, "value out of range"} {
		if !strings.Contains(got, want) {
			t.Errorf("got %s, want %q", got, want)
		}
	}
}

type moveKeys struct {
	Waiting keyspace.List
	Players keyspace.Set
}

type moveArgs struct {
	Most int // the largest number of players at once
	Life time.Duration
}

// In a program, the script is a separate file with a header that documents its arguments.
const moveLua = `
local seated = 0
while redis.call('SCARD', KEYS[2]) < tonumber(ARGV[1]) do
	local user = redis.call('LPOP', KEYS[1])
	if not user then break end
	seated = seated + redis.call('SADD', KEYS[2], user)
end
redis.call('PEXPIRE', KEYS[2], math.floor(ARGV[2] / 1e6))
return seated`

var seat = keyspace.DefScript[moveKeys, moveArgs](moveLua, keyspace.Reply.Int, waitingKey.Family, playersKey.Family)

func ExampleDefScript() {
	ctx, db := context.Background(), embedded()
	defer db.Close()
	waitingKey.At(chess).Push(ctx, db, "ann", "bob", "eve")

	tx := keyspace.Atomic(chess)
	show(seat.Run(ctx, db, moveKeys{waitingKey.In(tx), playersKey.In(tx)}, moveArgs{Most: 2, Life: time.Hour}))
	show(waitingKey.At(chess).Range(ctx, db, 0, -1))

	other := playersKey.At(GameID{keyspace.Int{N: 8}})
	_, err := seat.Run(ctx, db, moveKeys{waitingKey.In(tx), other}, moveArgs{})
	show(err)
	// Output:
	// 2 <nil>
	// [eve] <nil>
	// keyspace: the keys of one transaction or script must share a hash tag: [game:waiting:{7} game:players:{8}]
}

// The embedded server has no functions. So this example only compiles; the tests of package redis run functions.
func ExampleDefFunction() {
	ctx, db := context.Background(), embedded()
	defer db.Close()
	const library = `#!lua name=game
redis.register_function('seat', function(KEYS, ARGV) ` + moveLua + ` end)`
	show(db.LoadFunctions(ctx, library))

	seat := keyspace.DefFunction[moveKeys, moveArgs]("seat", keyspace.Reply.Int, waitingKey.Family, playersKey.Family)
	tx := keyspace.Atomic(chess)
	show(seat.Run(ctx, db, moveKeys{waitingKey.In(tx), playersKey.In(tx)}, moveArgs{Most: 2, Life: time.Hour}))
}

func ExampleF1_All() {
	ctx, db := context.Background(), embedded()
	defer db.Close()
	movesKey.At(chess).Set(ctx, db, 3)
	movesKey.At(GameID{keyspace.Int{N: 8}}).Set(ctx, db, 5)
	titleKey.At(chess).Set(ctx, db, "Chess")

	for game, err := range movesKey.All(ctx, db) {
		if err != nil {
			fmt.Println(err)
			break
		}
		moves, _ := movesKey.At(game).Get(ctx, db)
		fmt.Println(game.N, moves)
	}
	// Unordered output:
	// 7 3
	// 8 5
}

func ExampleF2_All() {
	ctx, db := context.Background(), embedded()
	defer db.Close()
	texts.At(keyspace.Text{S: "Ann & Bob"}, two).Set(ctx, db, 1)
	for args, err := range texts.All(ctx, db) {
		show(args.A.S, args.B, err)
	}
	for key, err := range texts.Keys(ctx, db) {
		show(key, err)
	}
	// Output:
	// Ann & Bob two <nil>
	// scan:text:Ann%20&%20Bob:two <nil>
}
